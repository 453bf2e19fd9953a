"""The policy artifact: a folder with policy.json and weights.safetensors, and no code in it.

policy.json says which network the weights belong to, what it observes, which actions it has, and
how its mask is made (`thresholds`, `overrides`). Both files are checked by hash before anything in
them is believed.
"""

import dataclasses
import functools
import hashlib
import json
import math
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy
from flax.traverse_util import flatten_dict, unflatten_dict
from jaxtyping import Array, PRNGKeyArray, PyTree
from safetensors import SafetensorError

from maskless.envs.base import Environment
from maskless.errors import MasklessError
from maskless.files import output_folder, write_json
from maskless.nets import NETS, Network, make_net
from maskless.policy.observations import Field, fields_of, rebuild
from maskless.policy.overrides import Override, check_overrides
from maskless.provenance import provenance

FORMAT = 2
"""The version of the layout. Raise it when older code can no longer read it. Format 1 had no
`sha256` of policy.json itself."""
ABOUT_FILE = "policy.json"
WEIGHTS_FILE = "weights.safetensors"


@dataclasses.dataclass(frozen=True)
class Artifact:
    """What is in the folder, checked."""

    net: Network
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
    """policy.json as it is."""


def save_policy(
    folder: Path,
    net: Network,
    params: Any,
    env: Environment,
    *,
    threshold: float = 0.5,
    classifier: bool = True,
) -> Path:
    """Writes an artifact, in place of one that may be there. `classifier`: whether the validity
    head was trained. If writing fails, what was there before stays."""
    flat = flatten_dict(params["params"], sep="/")
    weights = safetensors.numpy.save({name: np.asarray(x) for name, x in flat.items()})
    about = {
        "format": FORMAT,
        "net": {
            "name": type(net).__name__.lower(),
            "num_actions": net.num_actions,
            "encoder": net.encoder.name,
            "width": net.width,
        },
        "env": env.id,
        "action_names": list(env.action_names),
        "observation": [field.to_json() for field in fields_of(env)],
        "threshold": threshold,
        "classifier": classifier,
        "overrides": [],
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
        **provenance(),
    }
    return _write(Path(folder), weights, about)


def _write(folder: Path, weights: bytes, about: dict[str, Any]) -> Path:
    """Puts the artifact in its place as a whole."""
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


def copy_policy(path: Path, folder: Path) -> Path:
    """Writes a checked copy of an artifact, in place of one that may be there."""
    source = find_policy(path)
    about = read_artifact(source).about
    return _write(Path(folder), (source / WEIGHTS_FILE).read_bytes(), about)


def change_policy(path: Path, changes: Mapping[str, Any]) -> None:
    """Replaces entries of policy.json (thresholds, overrides, calibration); the weights stay.

    Nothing is written unless the result can be loaded.
    """
    folder = find_policy(path)
    about = read_artifact(folder).about | dict(changes)
    _check_about(folder, about)
    write_json(folder / ABOUT_FILE, _sealed(about | {"format": FORMAT}))


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


def read_artifact(path: Path | str) -> Artifact:
    """The artifact in a folder or a run. Refuses in one sentence what is not whole."""
    folder = find_policy(path)
    about = _read_about(folder)
    fields, overrides = _check_about(folder, about)
    weights = _read_weights(folder, about["weights_sha256"])
    net = _make_net(folder, about, fields, weights)
    _check_weights(folder, weights, _expected_weights(net, fields))
    params = {"params": unflatten_dict(weights, sep="/")}
    names = tuple(about["action_names"])
    return Artifact(
        net=net,
        params=params,
        action_names=names,
        fields=fields,
        thresholds=tuple(about.get("thresholds") or [about["threshold"]] * len(names)),
        overrides=overrides,
        classifier=about["classifier"],
        about=about,
    )


def _refuse(folder: Path, why: str) -> MasklessError:
    return MasklessError(f"The policy {folder} cannot be used: {why}.")


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
        raise _refuse(folder, f"{ABOUT_FILE} cannot be read ({error})") from error
    version: Any = about.get("format") if isinstance(about, dict) else None
    if not _is_int(version) or version < 1 or "weights_sha256" not in about:
        raise _refuse(folder, f"{ABOUT_FILE} is damaged or not one of maskless")
    if version > FORMAT:
        raise _refuse(
            folder,
            f"a newer maskless wrote it (format {version}, this one reads up to {FORMAT}); update"
            " maskless",
        )
    if (version > 1 or "sha256" in about) and about.get("sha256") != _hash_of(about):
        raise _refuse(
            folder,
            f"{ABOUT_FILE} does not have the hash it was written with; to change a policy use"
            " `maskless override` or `maskless calibrate`",
        )
    return about


def _check_about(
    folder: Path, about: dict[str, Any]
) -> tuple[tuple[Field, ...], tuple[Override, ...]]:
    """Refuses entries that are missing or not what they should be: a hash can be forged."""
    names = about.get("action_names")
    net = about.get("net")
    if not _is_list_of(names, str) or not names or len(set(names)) < len(names):
        raise _refuse(folder, "its action names are not a list of different names")
    if not isinstance(net, dict) or net.get("num_actions") != len(names):
        raise _refuse(folder, f"its network does not fit its {len(names)} actions")
    if not isinstance(about.get("classifier"), bool):
        raise _refuse(folder, "it does not say whether its classifier was trained")
    if not isinstance(about["weights_sha256"], str):
        raise _refuse(folder, "the hash of its weights is no hash")
    if not _is_probability(about.get("threshold")):
        raise _refuse(folder, "its threshold is not between 0 and 1")
    thresholds = about.get("thresholds")
    if thresholds is not None and not (
        isinstance(thresholds, list)
        and len(thresholds) == len(names)
        and all(t is None or _is_probability(t) for t in thresholds)
    ):
        raise _refuse(folder, "its thresholds are not one number between 0 and 1 for each action")
    try:
        fields = tuple(Field.from_json(entry) for entry in _list(about.get("observation")))
        overrides = tuple(Override.from_json(x) for x in _list(about.get("overrides", [])))
        if len({field.name for field in fields}) < len(fields):
            raise MasklessError("two fields of its observation have the same name")
        check_overrides(overrides, names, fields)
    except (MasklessError, TypeError) as error:
        raise _refuse(folder, str(error).rstrip(".")) from error
    return fields, overrides


def _read_weights(folder: Path, expected: str) -> dict[str, np.ndarray]:
    path = folder / WEIGHTS_FILE
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _refuse(folder, f"{WEIGHTS_FILE} cannot be read ({error.strerror})") from error
    if hashlib.sha256(content).hexdigest() != expected:
        raise _refuse(
            folder,
            f"{WEIGHTS_FILE} does not have the hash that {ABOUT_FILE} names: it is damaged, cut"
            " off, or of another policy",
        )
    try:
        return safetensors.numpy.load(content)
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise _refuse(folder, f"{WEIGHTS_FILE} is no safetensors file ({error})") from error


def _make_net(
    folder: Path,
    about: dict[str, Any],
    fields: tuple[Field, ...],
    weights: dict[str, np.ndarray],
) -> Network:
    """The network that policy.json names. Its sizes must be seen in the weights before anything of
    that size is made."""
    entry = about["net"]
    name, encoder, width = entry.get("name"), entry.get("encoder"), entry.get("width")
    if not isinstance(name, str) or not isinstance(encoder, str) or not _is_int(width):
        raise _refuse(folder, f"its network is not one of {', '.join(NETS)} with a width")
    sizes = {size for array in weights.values() for size in array.shape}
    if width not in sizes:
        raise _refuse(folder, f"no weights have the width {width} of its network")
    inputs = sum(math.prod(field.shape) for field in fields)
    if encoder == "flat" and inputs not in sizes:
        raise _refuse(folder, f"no weights read the {inputs} numbers of its observation")
    try:
        return make_net(name, num_actions=len(about["action_names"]), encoder=encoder, width=width)
    except MasklessError as error:
        raise _refuse(folder, str(error).rstrip(".")) from error


@functools.lru_cache(maxsize=8)
def _expected_weights(
    net: Network, fields: tuple[Field, ...]
) -> dict[str, jax.ShapeDtypeStruct] | str:
    """Shape and type of all weights of the network; a sentence when it cannot read such fields."""
    leaves = [jax.ShapeDtypeStruct((1, 1, *field.shape), field.dtype) for field in fields]

    def init(key: PRNGKeyArray, leaves: list[Array]) -> Any:
        observation = rebuild(net.encoder, fields, leaves)
        return net.init(key, net.initial_carry(1), observation, jnp.ones((1, 1), bool))

    try:
        shapes = jax.eval_shape(init, jax.random.key(0), leaves)
    except MasklessError as error:
        return str(error)
    return flatten_dict(shapes["params"], sep="/")


def _check_weights(
    folder: Path,
    weights: dict[str, np.ndarray],
    expected: dict[str, jax.ShapeDtypeStruct] | str,
) -> None:
    if isinstance(expected, str):
        raise _refuse(folder, expected.rstrip("."))
    for name in sorted(expected.keys() | weights.keys()):
        if name not in weights or name not in expected:
            raise _refuse(folder, f"its weights and its network differ in {name!r}")
        want, have = expected[name], weights[name]
        if want.shape != have.shape or want.dtype != have.dtype:
            raise _refuse(
                folder,
                f"the weights {name!r} are {have.dtype}{list(have.shape)} and its network needs"
                f" {want.dtype}{list(want.shape)}",
            )


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_probability(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and 0.0 <= value <= 1.0


def _is_list_of(value: Any, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(entry, kind) for entry in value)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise MasklessError("its observation and its overrides must be lists.")
    return value
