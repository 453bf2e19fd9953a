"""Checkpoints of any pytree of arrays: a kill, a full disk or a damaged file loses no more than the
newest one.

    checkpoints.save(folder, update, state, identity={"env": "craftax", "seed": 0})
    update, state = checkpoints.restore(folder, jax.eval_shape(lambda: state), identity=...)

A checkpoint is a folder `update-000123` with `state.safetensors` (the arrays, by their path in the
pytree) and `checkpoint.json` (which run, which update, the hash of the arrays). It appears under
its name only when both are on the disk. Nothing in it is code.
"""

import contextlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import jax
import numpy as np
from jaxtyping import PyTree
from safetensors import SafetensorError
from safetensors.numpy import save_file

from maskless.errors import MasklessError
from maskless.files import (
    MissingError,
    Size,
    UnreadableError,
    check_finite_weights,
    hash_of,
    largest_file,
    parse_tensors,
    read_bytes,
    read_json,
    read_tensors,
)
from maskless.training.leaves import describe, from_stored, leaf_names, to_stored

FORMAT = 1
"""The version of the layout on the disk. Raise it when older code can no longer read it."""

STATE_FILE = "state.safetensors"
ABOUT_FILE = "checkpoint.json"
EXTRA_FILE = "extra.safetensors"
_NAME = re.compile(r"update-(\d{6,18})", re.ASCII)
_LARGEST_STATE = 2**40
_LARGEST_EXTRA = 2**30
_MISSING = object()


class _RefusedError(Exception):
    """A checkpoint that cannot be used; the message is the sentence for the user."""


def save(
    folder: Path,
    update: int,
    state: PyTree,
    *,
    identity: dict[str, Any],
    extra: Mapping[str, np.ndarray] | None = None,
    finite: str | None = None,
) -> Path:
    """Writes the state after `update`. The checkpoints that are there stay: where several runs go
    on together, remove old ones (`keep_newest`) when all of them have saved.

    `identity` (what JSON can hold) says which run this is; `restore` compares it. `extra`: arrays
    beside the state, for `read_extra`. `finite`: as in `restore`. If writing fails, everything that
    was there before stays.
    """
    if update < 0:
        raise MasklessError(f"update must be at least 0, not {update}.")
    folder = Path(folder)
    final = folder / f"update-{update:06d}"
    try:
        _check_part(state, finite)
    except MasklessError as error:
        raise MasklessError(
            f"The checkpoint {final} was not written: {error}. Try a lower learning rate; the"
            " checkpoints before it are kept."
        ) from error
    arrays, leaves = to_stored(state)
    about = {"format": FORMAT, "update": update, "identity": _as_json(identity), "leaves": leaves}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(folder)
        partial = folder / f".{final.name}.partial"
        _write(partial, arrays, about, dict(extra or {}))
        if final.exists():  # a folder cannot be replaced in one step, only moved aside before
            _discard(final)
        os.rename(partial, final)
        _flush_to_disk(folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(folder / f".{final.name}.partial", ignore_errors=True)
        reason = getattr(error, "strerror", None) or str(error)
        raise MasklessError(
            f"Cannot write the checkpoint {final} ({reason}): make room or choose another folder;"
            " the checkpoints before it are kept."
        ) from error
    return final


def keep_newest(folder: Path, update: int, keep: int) -> None:
    """Removes all but the newest `keep` checkpoints up to `update`, and those of later updates (see
    `discard_after`)."""
    if keep < 1:
        raise MasklessError(f"keep must be at least 1, not {keep}.")
    discard_after(folder, update)
    for number in updates(folder)[:-keep]:
        _discard(Path(folder) / f"update-{number:06d}")


def updates(folder: Path) -> list[int]:
    """The updates there are checkpoints of, oldest first; none when there is no such folder."""
    try:
        names = [path.name for path in Path(folder).iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise MasklessError(f"Cannot read the folder {folder} ({error.strerror}).") from error
    return sorted(int(found[1]) for name in names if (found := _NAME.fullmatch(name)))


def newest_common(folders: Sequence[Path]) -> list[int]:
    """The updates that all folders have a checkpoint of, newest first: where a program of many
    runs can continue (a kill may fall between the saves of two of them)."""
    found = [set(updates(folder)) for folder in folders]
    return sorted(set.intersection(*found), reverse=True) if found else []


def restore(
    folder: Path,
    like: PyTree,
    *,
    identity: dict[str, Any],
    update: int | None = None,
    part: bool = False,
    finite: str | None = None,
    warn: Callable[[str], None] = warnings.warn,
) -> tuple[int, PyTree]:
    """The newest good checkpoint, or the one of `update`: its update and its state.

    `like` is the state's structure, shapes and dtypes (`jax.eval_shape` of what makes it). The
    leaves are NumPy arrays, equal bit for bit to what was saved; typed PRNG keys are JAX's.
    `part`: it is a part of the state only, and the rest of the checkpoint is not looked at.
    `finite`: the part, such as "params", in which there must be neither NaN nor infinity.
    A damaged or foreign checkpoint is told to `warn` in one sentence and the one before is used.
    """
    folder = Path(folder)
    wanted = sorted(updates(folder), reverse=True) if update is None else [update]
    if not wanted:
        raise MasklessError(f"There is no checkpoint in {folder}.")
    refusals = []
    for number in wanted:
        try:
            place = folder / f"update-{number:06d}"
            state = _read(place, number, like, identity, part)
            _refuse_part(place, state, finite)
        except _RefusedError as error:
            refusals.append(str(error))
            continue
        for refusal in refusals:
            warn(f"{refusal} Continuing from update {number}.")
        return number, state
    more = " The older ones were refused too." if refusals[1:] else ""
    raise MasklessError(refusals[0] + more)


def discard_after(folder: Path, update: int) -> None:
    """Removes the checkpoints of later updates. Call it when resuming from `update`: they were
    refused, or belong to a past that is given up, and must not count as the newest ones."""
    for number in updates(folder):
        if number > update:
            _discard(Path(folder) / f"update-{number:06d}")


def read_extra(folder: Path, update: int) -> dict[str, np.ndarray]:
    """What was given to `save` beside the state; nothing if that was nothing."""
    path = Path(folder) / f"update-{update:06d}"
    try:
        about = _read_about(path)
        if "extra_sha256" not in about:
            return {}
        if hash_of(path / EXTRA_FILE, most=_LARGEST_EXTRA) != about["extra_sha256"]:
            raise MasklessError(_damaged(path, f"{EXTRA_FILE} does not have its hash"))
        return parse_tensors(read_bytes(path / EXTRA_FILE, most=_LARGEST_EXTRA))
    except _RefusedError as error:
        raise MasklessError(str(error)) from error


def _write(
    partial: Path,
    arrays: dict[str, np.ndarray],
    about: dict[str, Any],
    extra: dict[str, np.ndarray],
) -> None:
    partial.mkdir()
    files = [STATE_FILE, ABOUT_FILE]
    about["sha256"] = _write_arrays(partial / STATE_FILE, arrays)
    if extra:
        files.append(EXTRA_FILE)
        about["extra_sha256"] = _write_arrays(partial / EXTRA_FILE, extra)
    (partial / ABOUT_FILE).write_text(json.dumps(about, indent=1) + "\n")
    # Without this, a crash of the machine could leave the name without the content.
    for path in (*(partial / name for name in files), partial):
        _flush_to_disk(path)


def _write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> str:
    """The hash of the file, which whoever may look into its folder can read."""
    save_file(arrays, path)
    path.chmod(path.parent.stat().st_mode & 0o666)
    return hash_of(path, most=_LARGEST_STATE)


def _read(path: Path, update: int, like: PyTree, identity: dict[str, Any], part: bool) -> PyTree:
    """The state of one checkpoint, or `_RefusedError`. A newer format is an error at once: going on
    from an older checkpoint would throw away good work."""
    about = _read_about(path)
    if about["format"] > FORMAT:
        raise MasklessError(
            f"The checkpoint {path} was written by a newer maskless (format {about['format']},"
            f" this one reads {FORMAT}): update maskless."
        )
    if about["format"] != FORMAT or about["update"] != update:
        raise _RefusedError(_damaged(path, f"{ABOUT_FILE} contradicts its folder"))
    if other := _differences(about["identity"], _as_json(identity)):
        raise _RefusedError(f"The checkpoint {path} is of another run: {'; '.join(other[:3])}.")
    expected = describe(like)
    stored = {
        name: about["leaves"][name] for name in about["leaves"] if not part or name in expected
    }
    if misfit := _misfit(stored, expected):
        raise _RefusedError(f"The checkpoint {path} does not fit this program: {misfit}.")
    try:
        most = _largest_state(about["leaves"])
        if hash_of(path / STATE_FILE, most=most) != about["sha256"]:
            raise _RefusedError(
                _damaged(path, f"{STATE_FILE} does not have the hash it was saved with")
            )
        names = leaf_names(like)
        arrays = read_tensors(path / STATE_FILE, names, most=most)
        leaves = [from_stored(arrays.pop(name), about["leaves"][name]) for name in names]
    except UnreadableError as error:
        raise _RefusedError(_damaged(path, f"{STATE_FILE}: {error.reason}")) from error
    except (MasklessError, KeyError, TypeError, ValueError) as error:
        raise _RefusedError(_damaged(path, f"{STATE_FILE}: {str(error).rstrip('.')}")) from error
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _check_part(state: PyTree, part: str | None) -> None:
    """Refuses a part of the state in which a number is not finite."""
    if part is None:
        return
    numbers = dict(zip(leaf_names(state), jax.tree.leaves(state), strict=True))
    check_finite_weights({x: numbers[x] for x in numbers if x.split("/")[0] == part})


def _refuse_part(path: Path, state: PyTree, part: str | None) -> None:
    try:
        _check_part(state, part)
    except MasklessError as error:
        raise _RefusedError(f"The checkpoint {path} cannot be used: {error}.") from error


class _Leaf(TypedDict):
    shape: list[Size]
    dtype: str
    key_implementation: NotRequired[str]


class _About(TypedDict):
    """What checkpoint.json holds."""

    format: Size
    update: Size
    identity: dict[str, Any]
    leaves: dict[str, _Leaf]
    sha256: str
    extra_sha256: NotRequired[str]


def _read_about(path: Path) -> _About:
    try:
        return read_json(path / ABOUT_FILE, _About)
    except MissingError as error:
        raise _RefusedError(
            f"There is no checkpoint {path}, or a part of it is missing."
        ) from error
    except UnreadableError as error:
        raise _RefusedError(_damaged(path, f"{ABOUT_FILE}: {error.reason}")) from error


def _largest_state(leaves: dict[str, _Leaf]) -> int:
    """Bytes that the arrays of these leaves take at most. (A key of JAX is 16 bytes or fewer.)"""
    sizes = []
    for leaf in leaves.values():
        try:
            dtype = np.dtype(leaf["dtype"])
        except TypeError:  # a key of JAX
            dtype = np.dtype("complex128")
        sizes.append((leaf["shape"], dtype))
    return min(largest_file(sizes), _LARGEST_STATE)


def _as_json(identity: dict[str, Any]) -> dict[str, Any]:
    try:
        return json.loads(json.dumps(identity))
    except (TypeError, ValueError) as error:
        raise MasklessError(f"A run's identity must be what JSON can hold ({error}).") from error


def _damaged(path: Path, why: str) -> str:
    return f"The checkpoint {path} is damaged ({why})."


def _differences(theirs: Any, ours: Any, name: str = "") -> list[str]:
    """What two identities disagree about, as sentences: "seed is 1 there and 0 here"."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return [
            difference
            for key in sorted({*theirs, *ours})
            for difference in _differences(
                theirs.get(key, _MISSING), ours.get(key, _MISSING), f"{name}.{key}" if name else key
            )
        ]
    there, here = (
        "missing" if x is _MISSING else json.dumps(x, sort_keys=True) for x in (theirs, ours)
    )
    if there == here:
        return []
    return [f"{name or 'the identity'} is {there[:80]} there and {here[:80]} here"]


def _misfit(stored: Mapping[str, _Leaf], expected: dict[str, dict[str, Any]]) -> str | None:
    """The first difference between the leaves of a checkpoint and those of the program."""
    for name in sorted(expected.keys() | stored.keys()):
        if name not in stored:
            return f"it lacks {name!r}"
        if name not in expected:
            return f"it has {name!r}, which this program does not"
        for what in ("shape", "dtype"):
            theirs = stored[name][what]
            if theirs != expected[name][what]:
                return f"the {what} of {name!r} is {theirs} there and {expected[name][what]} here"
    return None


def _flush_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _discard(path: Path) -> None:
    """Removes a checkpoint: first its name, so that a kill never leaves a part of it under it."""
    hidden = path.with_name(f".{path.name}.discarded")
    shutil.rmtree(hidden, ignore_errors=True)
    try:
        os.rename(path, hidden)
    except OSError:
        return  # one checkpoint too many does no harm
    shutil.rmtree(hidden, ignore_errors=True)


def _remove_leftovers(folder: Path) -> None:
    """What earlier saves that were killed left behind, or a stranger has put there: a link would
    stay in the way."""
    for path in folder.glob(".update-*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()
