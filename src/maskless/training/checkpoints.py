"""Checkpoints of any pytree of arrays: a kill, a full disk or a damaged file loses no more than the
newest one.

    checkpoints.save(folder, update, state, identity={"env": "craftax", "seed": 0})
    update, state = checkpoints.restore(folder, jax.eval_shape(lambda: state), identity=...)

A checkpoint is a folder `update-000123` with `state.safetensors` (the arrays, by their path in the
pytree) and `checkpoint.json` (which run, which update, the hash of the arrays). It appears under
its name only when both are on the disk. Nothing in it is code.
"""

import hashlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from maskless.errors import MasklessError
from maskless.training.leaves import describe, from_stored, leaf_names, to_stored

FORMAT = 1
"""The version of the layout on the disk. Raise it when older code can no longer read it."""

STATE_FILE = "state.safetensors"
ABOUT_FILE = "checkpoint.json"
_NAME = re.compile(r"update-(\d{6,})")
_MISSING = object()


class _RefusedError(Exception):
    """A checkpoint that cannot be used; the message is the sentence for the user."""


def save(
    folder: Path, update: int, state: PyTree, *, identity: dict[str, Any], keep: int = 2
) -> Path:
    """Writes the state after `update`; then removes all but the newest `keep` checkpoints up to it,
    and those of later updates (see `discard_after`).

    `identity` (what JSON can hold) says which run this is; `restore` compares it. If writing
    fails, everything that was there before stays.
    """
    if update < 0 or keep < 1:
        raise MasklessError(f"update must be at least 0 and keep at least 1: {update}, {keep}.")
    folder = Path(folder)
    final = folder / f"update-{update:06d}"
    arrays, leaves = to_stored(state)
    about = {"format": FORMAT, "update": update, "identity": _as_json(identity), "leaves": leaves}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(folder)
        partial = folder / f".{final.name}.partial"
        _write(partial, arrays, about)
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
    _keep_newest(folder, update, keep)
    return final


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
    warn: Callable[[str], None] = warnings.warn,
) -> tuple[int, PyTree]:
    """The newest good checkpoint, or the one of `update`: its update and its state.

    `like` is the state's structure, shapes and dtypes (`jax.eval_shape` of what makes it). The
    leaves are NumPy arrays, equal bit for bit to what was saved; typed PRNG keys are JAX's.
    `part`: it is a part of the state only, and the rest of the checkpoint is not looked at.
    A damaged or foreign checkpoint is told to `warn` in one sentence and the one before is used.
    """
    folder = Path(folder)
    wanted = sorted(updates(folder), reverse=True) if update is None else [update]
    if not wanted:
        raise MasklessError(f"There is no checkpoint in {folder}.")
    refusals = []
    for number in wanted:
        try:
            state = _read(folder / f"update-{number:06d}", number, like, identity, part)
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


def _write(partial: Path, arrays: dict[str, np.ndarray], about: dict[str, Any]) -> None:
    partial.mkdir()
    save_file(arrays, partial / STATE_FILE)
    about["sha256"] = _hash(partial / STATE_FILE)
    (partial / ABOUT_FILE).write_text(json.dumps(about, indent=1) + "\n")
    # Without this, a crash of the machine could leave the name without the content.
    for path in (partial / STATE_FILE, partial / ABOUT_FILE, partial):
        _flush_to_disk(path)


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
        if _hash(path / STATE_FILE) != about["sha256"]:
            raise _RefusedError(
                _damaged(path, f"{STATE_FILE} does not have the hash it was saved with")
            )
        arrays = load_file(path / STATE_FILE)
        leaves = [from_stored(arrays.pop(name), about["leaves"][name]) for name in leaf_names(like)]
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise _RefusedError(_damaged(path, f"{STATE_FILE}: {error}")) from error
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _read_about(path: Path) -> dict[str, Any]:
    try:
        about = json.loads((path / ABOUT_FILE).read_text("utf-8"))
    except FileNotFoundError as error:
        raise _RefusedError(
            f"There is no checkpoint {path}, or a part of it is missing."
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise _RefusedError(_damaged(path, f"{ABOUT_FILE}: {error}")) from error
    kinds = {"format": int, "update": int, "identity": dict, "leaves": dict, "sha256": str}
    for name, kind in kinds.items():
        if not isinstance(about, dict) or not isinstance(about.get(name), kind):
            raise _RefusedError(_damaged(path, f"{ABOUT_FILE} lacks {name!r}"))
    return about


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


def _misfit(stored: dict[str, Any], expected: dict[str, dict[str, Any]]) -> str | None:
    """The first difference between the leaves of a checkpoint and those of the program."""
    for name in sorted(expected.keys() | stored.keys()):
        if name not in stored:
            return f"it lacks {name!r}"
        if name not in expected:
            return f"it has {name!r}, which this program does not"
        for what in ("shape", "dtype"):
            theirs = stored[name].get(what) if isinstance(stored[name], dict) else None
            if theirs != expected[name][what]:
                return f"the {what} of {name!r} is {theirs} there and {expected[name][what]} here"
    return None


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _keep_newest(folder: Path, update: int, keep: int) -> None:
    discard_after(folder, update)
    for number in updates(folder)[:-keep]:
        _discard(folder / f"update-{number:06d}")


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
    """What earlier saves that were killed left behind."""
    for path in folder.glob(".update-*"):
        shutil.rmtree(path, ignore_errors=True)
