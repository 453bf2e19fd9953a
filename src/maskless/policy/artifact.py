"""The policy artifact: a folder with policy.json and weights.safetensors, and no code in it.

policy.json says which network the weights belong to, what it observes, which actions it has, and
how its mask is made (`thresholds`, `overrides`). Both files are checked by hash before anything in
them is believed.
"""

import dataclasses
import glob
import hashlib
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from flax.traverse_util import flatten_dict, unflatten_dict
from jaxtyping import PyTree

from maskless.artifact.clocks import check_clocks
from maskless.artifact.fields import Field
from maskless.artifact.folder import (
    ABOUT_FILE,
    STUDENT,
    WEIGHTS_FILE,
    check_about,
    content_hash,
    find_policy,
    naming,
    read_about,
    read_weights,
)
from maskless.artifact.overrides import Override
from maskless.errors import MasklessError
from maskless.files import as_json, check_finite_weights, output_folder, write_bytes, write_json
from maskless.policy.networks import acting_net, describe_net, restore_net
from maskless.policy.observations import PolicyEnvironment, fields_of
from maskless.provenance import provenance


@dataclasses.dataclass(frozen=True)
class Artifact:
    """A policy as data: what is in the folder, checked, or what will be."""

    net: Any
    """A network of ours, or a Flax module that follows the same contract (`maskless.nets.base`)."""
    params: PyTree
    action_names: tuple[str, ...]
    fields: tuple[Field, ...]
    """What is observed, in the order in which the network reads it."""
    thresholds: tuple[float | None, ...]
    """For each action, the probability above which it is predicted valid; None: it always is."""
    overrides: tuple[Override, ...]
    classifier: bool
    """Whether the validity head was trained."""
    clone: bool
    """Whether there is a cloned head, which acts without any mask, and it was trained."""
    about: dict[str, Any]
    """policy.json as it is, or will be."""

    @property
    def clock_fields(self) -> tuple[str, ...]:
        """Fields of the observation that change by themselves: the memory of failures leaves them
        out."""
        return tuple(self.about.get("clock_fields", ()))


def describe_policy(
    net: Any,
    params: PyTree,
    env: PolicyEnvironment,
    *,
    threshold: float = 0.5,
    classifier: bool = True,
    clone: bool = False,
) -> Artifact:
    """The artifact of a network that was trained in `env`, in memory.

    `threshold`: valid is what has a predicted probability above it. `classifier`, `clone`: whether
    the validity head and the cloned head were trained.
    """
    names, fields = tuple(env.action_names), tuple(fields_of(env))
    entry = describe_net(net, len(names))
    about = {
        # Options would be overlooked by what reads format 2, and the network be another one.
        "format": _format(entry),
        "net": entry,
        "env": env.id,
        "action_names": list(names),
        "observation": [field.to_json() for field in fields],
        "threshold": threshold,
        "classifier": classifier,
    }
    if clone:  # left out otherwise, as in artifacts from before there were clones
        about["clone"] = True
    clocks = list(getattr(env, "clock_fields", ()))
    if clocks:
        check_clocks(clocks, {field.name: field for field in fields})
        about["clock_fields"] = clocks
    thresholds = (threshold,) * len(names)
    params = {"params": params["params"]}
    return Artifact(
        acting_net(net), params, names, fields, thresholds, (), classifier, clone, about
    )


def _format(net: Mapping[str, Any]) -> int:
    """The oldest one that says all of this network."""
    if STUDENT in net:
        return 5 if "comparisons" in net[STUDENT] else 4
    return 3 if "options" in net else 2


def save_policy(
    folder: Path | str, net: Any, params: PyTree, env: PolicyEnvironment, **options: Any
) -> Path:
    """Writes the policy of a network; the arguments are those of `describe_policy`."""
    return write_artifact(describe_policy(net, params, env, **options), folder)


def write_artifact(artifact: Artifact, folder: Path | str) -> Path:
    """Writes an artifact, in place of one that may be there. If writing fails, what was there
    before stays."""
    folder = Path(folder)
    about, weights = contents(artifact)
    try:
        check_finite_weights(weights)
    except MasklessError as error:
        raise MasklessError(
            f"The policy {folder} was not written: {error}; train with a lower learning rate."
        ) from error
    content = safetensors.numpy.save(weights)
    about["weights_sha256"] = hashlib.sha256(content).hexdigest()
    if "versions" not in about:  # made in this process, not read from a file
        about |= provenance()
    output_folder(folder.parent)
    _replace_folder(folder, {WEIGHTS_FILE: content, ABOUT_FILE: as_json(_sealed(about))})
    return folder


def contents(artifact: Artifact) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The entries of policy.json, without hashes and versions if it is new; and the weights."""
    flat = flatten_dict(artifact.params["params"], sep="/")
    weights = {name: np.asarray(x) for name, x in flat.items()}
    about = artifact.about | {
        "overrides": [rule.to_json() for rule in artifact.overrides],
        "thresholds": list(artifact.thresholds),
    }
    if set(artifact.thresholds) == {about["threshold"]}:
        del about["thresholds"]
    return about, weights


def _replace_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """A folder with these files, in place of one that may be there."""
    for kind in ("partial", "discarded"):  # what kills have left
        for leftover in folder.parent.glob(f".{glob.escape(folder.name)}.*{kind}"):
            shutil.rmtree(leftover, ignore_errors=True)
    own = f".{folder.name}.{secrets.token_hex(4)}"
    partial, discarded = (folder.with_name(f"{own}.{kind}") for kind in ("partial", "discarded"))
    try:
        partial.mkdir()
        for name, content in files.items():
            write_bytes(partial / name, content)
        if folder.exists():  # a folder cannot be replaced in one step, only moved aside before
            os.rename(folder, discarded)
        os.rename(partial, folder)
    except (OSError, MasklessError) as error:
        if discarded.exists():
            os.rename(discarded, folder)
        shutil.rmtree(partial, ignore_errors=True)
        reason = getattr(error, "strerror", None) or str(error).rstrip(".")
        raise MasklessError(
            f"Cannot write the policy {folder} ({reason}): make room or choose another"
            " folder; what was there before is kept."
        ) from error
    shutil.rmtree(discarded, ignore_errors=True)


def change_policy(path: Path | str, changes: Mapping[str, Any]) -> None:
    """Replaces entries of policy.json (thresholds, overrides, calibration); the weights stay.

    Nothing is written unless the result can be loaded.
    """
    folder = find_policy(path)
    with naming(folder):
        about = read_about(folder) | dict(changes)
        read_weights(folder, about["weights_sha256"])
        check_about(about)
    write_json(folder / ABOUT_FILE, _sealed(about | {"format": max(about["format"], 2)}))


def read_artifact(path: Path | str, net: Any = None, encoder: Any = None) -> Artifact:
    """The artifact in a folder or a run. Refuses in one sentence what is not whole.

    `net`, `encoder`: of a policy whose network or encoder is a class of the user's own.
    """
    folder = find_policy(path)
    with naming(folder):
        about = read_about(folder)
        fields, overrides = check_about(about)
        names = tuple(about["action_names"])
        weights = read_weights(folder, about["weights_sha256"])
        restored = restore_net(about["net"], len(names), fields, weights, net, encoder)
    return Artifact(
        net=restored,
        params={"params": unflatten_dict(weights, sep="/")},
        action_names=names,
        fields=fields,
        thresholds=tuple(about.get("thresholds") or [about["threshold"]] * len(names)),
        overrides=overrides,
        classifier=about["classifier"],
        clone=about.get("clone", False),
        about=about,
    )


def _sealed(about: Mapping[str, Any]) -> dict[str, Any]:
    """With the hash of everything else in it."""
    return dict(about) | {"sha256": content_hash(about)}
