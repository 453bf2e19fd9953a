"""What a file may name: an environment that is here already, never code that would be imported.

Folders come from other people. An environment that a config.json or policy.json names is made when
it is one of `maskless.ids()` (built in, or registered by the running program) or an installed
environment of Gymnasium. Everything else is for the user to name, or to trust. See docs/trust.md.
"""

import inspect
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maskless.envs.base import Environment
from maskless.envs.registry import GYMNASIUM, built_in_factory, ids
from maskless.envs.resolve import OBJECT, as_environment
from maskless.errors import MasklessError
from maskless.files import check_type, printable

_WORD = re.compile(r"[\w+-]{1,64}", re.ASCII)
_WRITES_FILES = ("savedir", "save_ttyrec_every")
"""Options with which NetHack writes recordings anywhere."""
_MANY_WORKERS = max(32, 2 * (os.cpu_count() or 1))
"""Each is a process of hundreds of megabytes."""


def make_named_in_file(
    id: str, options: Mapping[str, Any], *, file: Path, trust: bool = False
) -> Environment:
    """The environment that `file` names. `trust`: whatever it is."""
    if not trust:
        refuse_code(id, options, file)
    _check_types(id, options, file)
    return as_environment(id, options)


def refuse_code(id: str, options: Mapping[str, Any], file: Path) -> None:
    """Refuses an environment that has to be imported because a file says so."""
    if not names_code(id, options):
        return
    shown = printable(id, 80)
    given = printable(", ".join(f"{name}={value!r}" for name, value in options.items()), 120)
    if id.startswith(GYMNASIUM) and ":" not in id.removeprefix(GYMNASIUM):
        what = (
            f"give the options ({given}) to {shown}, which could be made to write files or to"
            " start many processes"
        )
    else:
        module, _, name = id.removeprefix(GYMNASIUM).partition(":")
        what = f"import {printable(module, 80)!r} and call {printable(name, 80)}({given})"
    raise MasklessError(
        f"{file} would {what}: if you know it to be harmless, name it yourself (--env {shown}, in"
        " Python env=...) or add --trust (trust=True)."
    )


def names_code(id: str, options: Mapping[str, Any]) -> bool:
    """Whether making it would run more than what is installed as an environment."""
    if id in ids() or id.startswith(OBJECT) or ":" not in id:
        return False
    name = id.removeprefix(GYMNASIUM)
    return name == id or ":" in name or not all(map(_is_plain, options, options.values()))


def _is_plain(name: str, value: Any) -> bool:
    """Numbers, switches and single words: no paths, no modules, no structures, no crowds."""
    if name == "workers" and isinstance(value, int) and value > _MANY_WORKERS:
        return False
    word = isinstance(value, str) and _WORD.fullmatch(value) is not None
    return name not in _WRITES_FILES and (word or value is None or isinstance(value, int | float))


def _check_types(id: str, options: Mapping[str, Any], file: Path) -> None:
    """Options of a built-in environment as its parameters are declared."""
    factory = built_in_factory(id)
    if factory is None:
        return
    parameters = inspect.signature(factory, eval_str=True).parameters
    for name in options.keys() & parameters.keys():
        try:
            check_type(options[name], parameters[name].annotation)
        except MasklessError as error:
            raise MasklessError(f"{file}: the option {name!r} of {id}: {error}.") from error
