"""The policy artifact: a folder with policy.json and weights.safetensors, and no code in it.

policy.json says which network the weights belong to, what it observes, which actions it has, and
how its mask is made (`thresholds`, `overrides`). Both files are checked by hash before anything in
them is believed.
"""

import contextlib
import dataclasses
import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from flax.traverse_util import flatten_dict, unflatten_dict
from jaxtyping import PyTree
from safetensors import SafetensorError

from maskless.errors import MasklessError, require
from maskless.files import output_folder, write_json
from maskless.policy.networks import acting_net, describe_net, restore_net
from maskless.policy.observations import Field, PolicyEnvironment, fields_of
from maskless.policy.overrides import Override, check_overrides
from maskless.provenance import provenance

FORMAT = 3
"""The newest layout. Format 1 had no `sha256` of policy.json itself; what is written is format 2,
or 3 where a network has options that older code would overlook."""
ABOUT_FILE = "policy.json"
WEIGHTS_FILE = "weights.safetensors"


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
    about: dict[str, Any]
    """policy.json as it is, or will be."""


def describe_policy(
    net: Any,
    params: PyTree,
    env: PolicyEnvironment,
    *,
    threshold: float = 0.5,
    classifier: bool = True,
) -> Artifact:
    """The artifact of a network that was trained in `env`, in memory.

    `threshold`: valid is what has a predicted probability above it. `classifier`: whether the
    validity head was trained.
    """
    names, fields = tuple(env.action_names), tuple(fields_of(env))
    entry = describe_net(net, len(names))
    about = {
        # Options would be overlooked by what reads format 2, and the network be another one.
        "format": 3 if "options" in entry else 2,
        "net": entry,
        "env": env.id,
        "action_names": list(names),
        "observation": [field.to_json() for field in fields],
        "threshold": threshold,
        "classifier": classifier,
    }
    thresholds = (threshold,) * len(names)
    params = {"params": params["params"]}
    return Artifact(acting_net(net), params, names, fields, thresholds, (), classifier, about)


def save_policy(
    folder: Path | str, net: Any, params: PyTree, env: PolicyEnvironment, **options: Any
) -> Path:
    """Writes the policy of a network; the arguments are those of `describe_policy`."""
    return write_artifact(describe_policy(net, params, env, **options), folder)


def write_artifact(artifact: Artifact, folder: Path | str) -> Path:
    """Writes an artifact, in place of one that may be there. If writing fails, what was there
    before stays."""
    flat = flatten_dict(artifact.params["params"], sep="/")
    weights = safetensors.numpy.save({name: np.asarray(x) for name, x in flat.items()})
    about = artifact.about | {
        "overrides": [rule.to_json() for rule in artifact.overrides],
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
    }
    about["thresholds"] = list(artifact.thresholds)
    if set(artifact.thresholds) == {about["threshold"]}:
        del about["thresholds"]
    if "versions" not in about:  # made in this process, not read from a file
        about |= provenance()
    folder = Path(folder)
    output_folder(folder.parent)
    partial = folder.with_name(f".{folder.name}.partial")
    discarded = folder.with_name(f".{folder.name}.discarded")
    for leftover in (partial, discarded):
        shutil.rmtree(leftover, ignore_errors=True)
    try:
        partial.mkdir()
        (partial / WEIGHTS_FILE).write_bytes(weights)
        write_json(partial / ABOUT_FILE, _sealed(about))
        if folder.exists():  # a folder cannot be replaced in one step, only moved aside before
            os.rename(folder, discarded)
        os.rename(partial, folder)
    except OSError as error:
        if discarded.exists():
            os.rename(discarded, folder)
        shutil.rmtree(partial, ignore_errors=True)
        raise MasklessError(
            f"Cannot write the policy {folder} ({error.strerror}): make room or choose another"
            " folder; what was there before is kept."
        ) from error
    shutil.rmtree(discarded, ignore_errors=True)
    return folder


def change_policy(path: Path | str, changes: Mapping[str, Any]) -> None:
    """Replaces entries of policy.json (thresholds, overrides, calibration); the weights stay.

    Nothing is written unless the result can be loaded.
    """
    folder = find_policy(path)
    with _naming(folder):
        about = _read_about(folder) | dict(changes)
        _read_weights(folder, about["weights_sha256"])
        _check_about(about)
    write_json(folder / ABOUT_FILE, _sealed(about | {"format": max(about["format"], 2)}))


def find_policy(path: Path | str) -> Path:
    """The artifact's folder: `path` itself, or `policy` inside the folder of a run, or of a
    training with a single run."""
    path = Path(path)
    for folder in (path, path / "policy"):
        if (folder / ABOUT_FILE).is_file():
            return folder
    if not path.exists():
        raise MasklessError(f"There is no folder {path}.")
    inside = sorted(path.glob("*/*/policy/" + ABOUT_FILE))
    if len(inside) == 1:
        return inside[0].parent
    if inside:
        raise MasklessError(
            f"{path} holds several runs: name one of them, such as {inside[0].parents[1]}."
        )
    raise MasklessError(
        f"{path} has no policy: name a run's folder or its policy folder, which holds {ABOUT_FILE}"
        " (`maskless export RUN` makes one from a checkpoint)."
    )


def read_artifact(path: Path | str, net: Any = None, encoder: Any = None) -> Artifact:
    """The artifact in a folder or a run. Refuses in one sentence what is not whole.

    `net`, `encoder`: of a policy whose network or encoder is a class of the user's own.
    """
    folder = find_policy(path)
    with _naming(folder):
        about = _read_about(folder)
        fields, overrides = _check_about(about)
        names = tuple(about["action_names"])
        weights = _read_weights(folder, about["weights_sha256"])
        restored = restore_net(about["net"], len(names), fields, weights, net, encoder)
    return Artifact(
        net=restored,
        params={"params": unflatten_dict(weights, sep="/")},
        action_names=names,
        fields=fields,
        thresholds=tuple(about.get("thresholds") or [about["threshold"]] * len(names)),
        overrides=overrides,
        classifier=about["classifier"],
        about=about,
    )


@contextlib.contextmanager
def _naming(folder: Path) -> Iterator[None]:
    """Says in every refusal which policy it is about."""
    try:
        yield
    except (MasklessError, TypeError) as error:
        reason = str(error).rstrip(".")
        raise MasklessError(f"The policy {folder} cannot be used: {reason}.") from error


def _hash_of(about: Mapping[str, Any]) -> str:
    content = {name: value for name, value in about.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _sealed(about: Mapping[str, Any]) -> dict[str, Any]:
    """With the hash of everything else in it."""
    return dict(about) | {"sha256": _hash_of(about)}


def _read_about(folder: Path) -> dict[str, Any]:
    try:
        about = json.loads((folder / ABOUT_FILE).read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise MasklessError(f"{ABOUT_FILE} cannot be read ({error})") from error
    version: Any = about.get("format") if isinstance(about, dict) else None
    ours = type(version) is int and version >= 1 and "weights_sha256" in about
    require(ours, f"{ABOUT_FILE} is damaged or not one of maskless")
    require(
        version <= FORMAT,
        f"a newer maskless wrote it (format {version}, this one reads up to {FORMAT}); update"
        " maskless",
    )
    hashed = version > 1 or "sha256" in about
    require(
        not hashed or about.get("sha256") == _hash_of(about),
        f"{ABOUT_FILE} does not have the hash it was written with; to change a policy use"
        " `maskless override` or `maskless calibrate`",
    )
    return about


def _check_about(about: dict[str, Any]) -> tuple[tuple[Field, ...], tuple[Override, ...]]:
    """The fields and the overrides, if every entry is there and of the right kind: anyone can write
    a file with a matching hash."""
    names: Any = about.get("action_names")
    different = isinstance(names, list) and all(isinstance(name, str) for name in names)
    different = different and 0 < len(names) == len(set(names))
    require(different, "its action names are not a list of different names")
    net, thresholds = about.get("net"), about.get("thresholds")
    fits = isinstance(net, dict) and net.get("num_actions") == len(names)
    require(fits, f"its network does not fit its {len(names)} actions")
    said = isinstance(about.get("classifier"), bool)
    require(said, "it does not say whether its classifier was trained")
    require(isinstance(about["weights_sha256"], str), "the hash of its weights is no hash")
    require(_is_probability(about.get("threshold")), "its threshold is not between 0 and 1")
    right = thresholds is None or (
        isinstance(thresholds, list)
        and len(thresholds) == len(names)
        and all(t is None or _is_probability(t) for t in thresholds)
    )
    require(right, "its thresholds are not one number between 0 and 1 for each action")
    lists: Any = about.get("observation"), about.get("overrides", [])
    both = all(isinstance(entries, list) for entries in lists)
    require(both, "its observation and its overrides must be lists")
    fields = tuple(map(Field.from_json, lists[0]))
    overrides = tuple(map(Override.from_json, lists[1]))
    different = len({field.name for field in fields}) == len(fields)
    require(different, "two fields of its observation have the same name")
    check_overrides(overrides, names, fields)
    return fields, overrides


def _read_weights(folder: Path, expected: str) -> dict[str, np.ndarray]:
    try:
        content = (folder / WEIGHTS_FILE).read_bytes()
    except OSError as error:
        raise MasklessError(f"{WEIGHTS_FILE} cannot be read ({error.strerror})") from error
    require(
        hashlib.sha256(content).hexdigest() == expected,
        f"{WEIGHTS_FILE} does not have the hash that {ABOUT_FILE} names: it is damaged, cut off,"
        " or of another policy",
    )
    try:
        return safetensors.numpy.load(content)
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise MasklessError(f"{WEIGHTS_FILE} is no safetensors file ({error})") from error


def _is_probability(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and 0.0 <= value <= 1.0
