"""The folder of a policy: policy.json and weights.safetensors, and no code. Read without JAX.

Both files are checked by hash before anything in them is believed, and every entry by its type.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np

from maskless.artifact.clocks import check_clocks
from maskless.artifact.fields import Field
from maskless.artifact.overrides import Override, check_overrides
from maskless.errors import MasklessError, require
from maskless.files import (
    Probability,
    Size,
    UnreadableError,
    check_finite_weights,
    check_inside,
    check_named,
    check_type,
    hash_of,
    parse_tensors,
    read_bytes,
    read_json,
)

FORMAT = 5
"""The newest layout. Format 1 had no `sha256` of policy.json itself; what is written is format 2,
3 where a network has options that older code would overlook, 4 where it has a student, or 5 where
that reads comparisons."""
ABOUT_FILE = "policy.json"
WEIGHTS_FILE = "weights.safetensors"
STUDENT, POLICY = "student", "policy"
"""In the entry "net", and in front of the names of weights: there is a student beside the network,
whose own weights then begin with "policy"."""
_LARGEST_WEIGHTS = 2**32  # bytes: a thousand million weights
_MOST_FIELDS = 10_000  # a network that reads so many is made in a second


def find_policy(path: Path | str) -> Path:
    """The artifact's folder: `path` itself, or `policy` inside the folder of a run, or of a
    training with a single run."""
    path = check_named(Path(path))
    for folder in (path, path / "policy"):
        if os.path.isfile(folder / ABOUT_FILE):
            return check_inside(path, folder)
    if not os.path.exists(path):
        raise MasklessError(f"There is no folder {path}.")
    inside = sorted(path.glob("*/*/policy/" + ABOUT_FILE))
    if len(inside) == 1:
        return check_inside(path, inside[0].parent)
    if inside:
        raise MasklessError(
            f"{path} holds several runs: name one of them, such as {inside[0].parents[1]}."
        )
    raise MasklessError(
        f"{path} has no policy: name a run's folder or its policy folder, which holds {ABOUT_FILE}"
        " (`maskless export RUN` makes one from a checkpoint)."
    )


@contextlib.contextmanager
def naming(folder: Path) -> Iterator[None]:
    """Says in every refusal which policy it is about."""
    try:
        yield
    except (MasklessError, TypeError) as error:
        reason = str(error).rstrip(".")
        raise MasklessError(f"The policy {folder} cannot be used: {reason}.") from error


def read_about(folder: Path) -> dict[str, Any]:
    """policy.json, with the hash it was written with."""
    try:
        about = read_json(folder / ABOUT_FILE)
    except UnreadableError as error:
        raise MasklessError(f"{ABOUT_FILE} cannot be read ({error.reason})") from error
    try:
        version = check_type(about, _Version)["format"]
    except MasklessError as error:
        raise MasklessError(
            f"{ABOUT_FILE} is damaged or not one of maskless ({str(error).rstrip('.')})"
        ) from error
    require(
        1 <= version <= FORMAT,
        f"a newer maskless wrote it (format {version}, this one reads up to {FORMAT}); update"
        " maskless",
    )
    hashed = version > 1 or "sha256" in about
    require(
        not hashed or about.get("sha256") == content_hash(about),
        f"{ABOUT_FILE} does not have the hash it was written with; to change a policy use"
        " `maskless override` or `maskless calibrate`",
    )
    check_type(about, _About)
    return about


class _Version(TypedDict):
    """What policy.json has held always, and will."""

    format: Size
    weights_sha256: str


class _About(TypedDict):
    """What policy.json holds: anyone can write one with a matching hash."""

    net: dict[str, Any]
    env: str
    action_names: list[str]
    observation: list[dict[str, Any]]
    threshold: Probability
    classifier: bool
    thresholds: NotRequired[list[Probability | None] | None]
    overrides: NotRequired[list[dict[str, Any]]]
    clone: NotRequired[bool]
    clock_fields: NotRequired[list[str]]


def check_about(content: dict[str, Any]) -> tuple[tuple[Field, ...], tuple[Override, ...]]:
    """The fields and the overrides, if all entries fit together."""
    about: _About = check_type(content, _About)
    names, thresholds = about["action_names"], about.get("thresholds")
    different = 0 < len(names) == len(set(names))
    require(different, "its action names are not a list of different names")
    fits = about["net"].get("num_actions") == len(names)
    require(fits, f"its network does not fit its {len(names)} actions")
    right = thresholds is None or len(thresholds) == len(names)
    require(right, "its thresholds are not one number between 0 and 1 for each action")
    some = 0 < len(about["observation"]) <= _MOST_FIELDS
    require(some, f"its observation has no field, or more than {_MOST_FIELDS:,}")
    fields = tuple(map(Field.from_json, about["observation"]))
    overrides = tuple(map(Override.from_json, about.get("overrides", [])))
    different = len({field.name for field in fields}) == len(fields)
    require(different, "two fields of its observation have the same name")
    check_overrides(overrides, names, fields)
    clocks = about.get("clock_fields", [])
    check_clocks(clocks, {field.name: field for field in fields})
    return fields, overrides


def read_weights(folder: Path, expected: str) -> dict[str, np.ndarray]:
    """The weights, all finite, from the file with the hash `expected`."""
    try:
        same = hash_of(folder / WEIGHTS_FILE, most=_LARGEST_WEIGHTS) == expected
        require(
            same,
            f"{WEIGHTS_FILE} does not have the hash that {ABOUT_FILE} names: it is damaged, cut"
            " off, or of another policy",
        )
        content = read_bytes(folder / WEIGHTS_FILE, most=_LARGEST_WEIGHTS)
    except UnreadableError as error:
        raise MasklessError(f"{WEIGHTS_FILE} cannot be read ({error.reason})") from error
    try:
        weights = parse_tensors(content)
    except MasklessError as error:
        raise MasklessError(f"{WEIGHTS_FILE}: {error}") from error
    check_finite_weights(weights)
    return weights


def check_weight(name: str, weights: Mapping[str, Any], shape: tuple[int, ...], dtype: Any) -> None:
    """Refuses weights without this array, or with another shape or type of it."""
    require(name in weights, f"its weights and its network differ in {name!r}")
    stored = weights[name]
    require(
        stored.shape == shape and stored.dtype == dtype,
        f"the weights {name!r} are {stored.dtype}{list(stored.shape)} and its network needs"
        f" {dtype}{list(shape)}",
    )


def content_hash(about: Mapping[str, Any]) -> str:
    """The hash of everything in policy.json but the hash itself."""
    content = {name: value for name, value in about.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
