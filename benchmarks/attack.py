"""Attacks every reader of our files with damaged and hostile ones, and counts what comes of it.

    python benchmarks/attack.py --cases 10000 --workers 2 --out results/attack.json

A case is a copy of a small training, as it was trained or finished, with one file damaged (bytes,
structure, arrays), replaced by something that is no file, naming code to import, or a link to
another's file; and one reader. Each must end in success or in one sentence, within ten seconds and
a gigabyte, write nothing outside of the folder, and import nothing that a file names. Readers run
in long-lived processes.
"""

import argparse
import collections
import contextlib
import copy
import dataclasses
import functools
import hashlib
import io
import json
import math
import multiprocessing as mp
import multiprocessing.connection
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

RUN = Path(__file__).parents[1] / "tests" / "data" / "old-run"
HANG_SECONDS, GIVE_UP_SECONDS, LARGEST_MEMORY = 10.0, 600.0, 2**30
PER_WORKER = 1000  # then a new process: what was compiled stays in memory
_BASE_MEMORY = 500 * 2**20
"""Of a command that has imported JAX. What a long-lived process has compiled for the cases before
is not counted."""
MODULE = "stranger_module"
"""A module that can be imported and says so."""

_OF_RUN = "masked/seed-0"
FILES = {
    "config.json": "config.json",
    "run config.json": f"{_OF_RUN}/config.json",
    "metrics.jsonl": f"{_OF_RUN}/metrics.jsonl",
    "evaluation.json": f"{_OF_RUN}/evaluation.json",
    "audit.json": f"{_OF_RUN}/audit.json",
    "policy.json": f"{_OF_RUN}/policy/policy.json",
    "weights.safetensors": f"{_OF_RUN}/policy/weights.safetensors",
    "checkpoint.json": f"{_OF_RUN}/checkpoints/update-000002/checkpoint.json",
    "state.safetensors": f"{_OF_RUN}/checkpoints/update-000002/state.safetensors",
    "extra.safetensors": f"{_OF_RUN}/checkpoints/update-000002/extra.safetensors",
    "finish.json": f"{_OF_RUN}/finish.json",
    ".lock": ".lock",
    ".saved": ".saved",
}
FINISHED = 0.3
"""This part of the cases is about a training whose policies have students."""
NAMES = (
    *(
        "<script>alert(1)</script>",
        "../../outside/x",
        "/etc/passwd",
        "a[/b]",
        "[bold]x",
        "$\\frac{$",
    ),
    *(
        "\x1b[2J\x1b]0;x\x07",
        "\u202eevil",
        "x" * 10_000,
        "\x00",
        "\ud800",
        "",
        "a\nb",
        "%s{0}",
        ".",
    ),
)
EXPRESSIONS = (
    *("observation[1 2]", "observation[,]", "x" + " " * 50_000 + "]", "observation[" + "9" * 5000),
    *("observation[" + "9" * 5000 + "]", "observation[0] > " + "9" * 5000, "\u0663[\u0663] > 1"),
    *(" " * 50_000 + "[0] > 1", "observation[0] > 1e999", "observation[0] > -inf", "masked:"),
    *("masked:strength=1e999", "masked:strength=nan", "masked-kl:tau=1,tau=2", "unmasked:x=../y"),
)
"""What rules, clocks and conditions are read by."""
STRANGE: tuple[Any, ...] = (
    *(None, True, -1, 0, 3, 0.5, 10**9, 2**63, 2**70, 10**400, 1e39, 1e308, float("nan")),
    *(float("inf"), [], {}, [[]], [None], ["x"], {"x": 1}, *NAMES, *EXPRESSIONS),
)


@dataclasses.dataclass(frozen=True)
class Case:
    """What was done to which file, and who reads it."""

    number: int
    finished: bool
    file: str
    damage: str
    reader: str


@dataclasses.dataclass(frozen=True)
class Outcome:
    """`kind`: success, sentence, traceback, outside or import."""

    case: Case
    kind: str
    detail: str
    seconds: float
    cpu_seconds: float
    memory: int

    @property
    def hangs(self) -> bool:
        """Waiting in vain, or working for too long. (A busy machine is not a reader's fault.)"""
        return self.kind == "hang" or self.cpu_seconds > HANG_SECONDS


# What is done to a file.


def of_bytes(path: Path, dice: random.Random) -> None:
    """Cut off, with a hole, with more, with other bytes, or another beginning."""
    content = path.read_bytes()
    place = dice.randrange(len(content) + 1)
    kind = dice.randrange(6)
    changed = bytearray(content)
    for _ in range(dice.randrange(1, 9)):
        if changed:
            changed[dice.randrange(len(changed))] = dice.randrange(256)
    path.write_bytes(
        (
            content[:place],
            content[:place] + content[place + dice.randrange(1, 50) :],
            content[:place] + dice.randbytes(dice.randrange(1, 50)) + content[place:],
            bytes(changed),
            b"\xef\xbb\xbf" + content,
            dice.choice((b"", b"\0" * 1000, b"[" * 100_000, b'{"a":' * 50_000, b"[]", b"null")),
        )[kind]
    )


def of_structure(path: Path, dice: random.Random) -> None:
    """One to three entries replaced, removed or added; with the right hash where there is one."""
    if path.suffix == ".safetensors":
        of_arrays(path, dice)
        return
    if not path.suffix:  # no JSON, and of no structure
        of_bytes(path, dice)
        return
    lines = path.suffix == ".jsonl"
    text = path.read_text()
    parts = [json.loads(line) for line in text.splitlines()] if lines else [json.loads(text)]
    number = dice.randrange(len(parts))
    for _ in range(dice.randrange(1, 4)):
        parts[number] = _changed(parts[number], dice)
    if path.name == "policy.json" and dice.random() < 0.9 and isinstance(parts[0], dict):
        parts[0] = _sealed(parts[0])
    path.write_text("".join(json.dumps(part) + "\n" for part in parts))


def _changed(value: Any, dice: random.Random) -> Any:
    if not isinstance(value, dict | list) or not value or dice.random() < 0.1:
        return copy.deepcopy(dice.choice(STRANGE))  # it may be changed in turn
    place = dice.choice(list(value) if isinstance(value, dict) else range(len(value)))
    chance = dice.random()
    if chance < 0.1:
        del value[place]
    elif chance < 0.2 and isinstance(value, dict):
        value[dice.choice(NAMES)] = value.pop(place)
    else:
        value[place] = _changed(value[place], dice)
    return value


def _sealed(about: dict[str, Any]) -> dict[str, Any]:
    content = {name: value for name, value in about.items() if name != "sha256"}
    whole = json.dumps(content, sort_keys=True).encode("utf-8", "surrogatepass")
    return content | {"sha256": hashlib.sha256(whole).hexdigest()}


def of_arrays(path: Path, dice: random.Random) -> None:
    """Other numbers, shapes, types or headers, with the right hash in the file beside it."""
    import numpy as np
    from safetensors.numpy import load_file, save

    arrays = load_file(path)
    name = dice.choice([n for n in arrays if arrays[n].size] or list(arrays))
    array = arrays[name]
    spoilt = array.astype(np.float32).copy()
    spoilt.flat[dice.randrange(max(array.size, 1))] = dice.choice((np.nan, np.inf, -np.inf, 3e38))
    kind = dice.randrange(6)
    if kind == 0:
        del arrays[name]
    else:
        key = name if kind < 5 else dice.choice(NAMES[:10])
        others = (array.astype(np.float64), array.reshape(-1), np.zeros(0, np.float32))
        chosen = (spoilt, spoilt, *others)[min(kind - 1, 4)]
        arrays[key] = np.ascontiguousarray(chosen)
        if dice.random() < 0.2:
            arrays[key] = np.full((), np.nan)  # no axis at all
        elif dice.random() < 0.2:
            arrays[key] = np.concatenate([np.atleast_1d(chosen)] * 2)  # a longer one
    content = save(arrays)
    if dice.random() < 0.2:  # a header that promises something else
        length = dice.choice((0, 2**22, 2**40, 2**63))
        content = length.to_bytes(8, "little") + content[8:]
    path.write_bytes(content)
    beside = path.with_name("policy.json" if "weights" in path.name else "checkpoint.json")
    about = json.loads(beside.read_text())
    fields = {"weights.safetensors": "weights_sha256", "extra.safetensors": "extra_sha256"}
    field = fields.get(path.name, "sha256")
    about[field] = hashlib.sha256(content).hexdigest()
    beside.write_text(json.dumps(_sealed(about) if field == "weights_sha256" else about))


def of_kind(path: Path, dice: random.Random) -> None:
    """Something that is no file in its place, or a terabyte of nothing."""
    path.unlink()
    place: dict[str, Callable[[], object]] = {
        "folder": lambda: path.mkdir(),
        "fifo": lambda: os.mkfifo(path),
        "zeros without end": lambda: path.symlink_to("/dev/zero"),
        "a terminal": lambda: path.symlink_to("/dev/tty"),
        "itself": lambda: path.symlink_to(path.name),
        "nothing": lambda: path.symlink_to("nowhere"),
        "missing": lambda: None,
        "crowd": lambda: path.write_bytes(b'[%s{"":0}]' % (b'{"":0},' * (2**22 // 7 - 2))),
        "long line": lambda: path.write_bytes(b'{"update":1,"x":[%s0]}\n' % (b"1.5," * 2**22)),
        "terabyte": lambda: _of_nothing(path, 2**40),
        "gigabyte": lambda: _of_nothing(path, 2**30),
    }
    place[dice.choice(list(place))]()


def _of_nothing(path: Path, size: int) -> None:
    path.touch()
    os.truncate(path, size)


def of_code(path: Path, dice: random.Random) -> None:
    """Every file that can name an environment names code, or options that write."""
    marker = str(_marker(_root(path)))
    env, options = dice.choice(
        (
            ("os:system", {"command": f"touch {marker}"}),
            (f"{MODULE}:Environment", {}),
            (f"gymnasium:{MODULE}:Env-v0", {}),
            ("gymnasium:CartPole-v1", {"render_mode": f"../{MODULE}"}),
            (f"{MODULE}.{MODULE}:x", {"x": 1}),
            ("http.server:test", {}),
            ("builtins:exec", {"source": f"open({marker!r}, 'w')"}),
            ("staircase", {"length": dice.choice((10**18, -1, "x", 2.5, None, [], 10**400))}),
            (dice.choice(NAMES), {dice.choice(NAMES): dice.choice(NAMES)}),
        )
    )
    root = _root(path)
    for config in [root / "config.json", *root.glob("*/*/config.json")]:
        about = json.loads(config.read_text())
        about["config"] |= {"env": env, "env_options": options}
        config.write_text(json.dumps(about))
    for policy in root.glob("*/*/policy/policy.json"):
        policy.write_text(json.dumps(_sealed(json.loads(policy.read_text()) | {"env": env})))
        if dice.random() < 0.5:
            shutil.copy(root / _OF_RUN / "config.json", policy.parent)


def of_links(path: Path, dice: random.Random) -> None:
    """Links, where we write, to what is somebody else's."""
    root, place = _root(path), _root(path) / _OF_RUN
    precious = root.parent / "outside" / "precious.svg"
    for name in (".report.html.partial", "report.html", ".policy.json.partial", "finish.json"):
        for folder in (root, place, place / "policy"):
            with contextlib.suppress(OSError):
                (folder / name).symlink_to(precious)
    links = (
        place / "metrics.jsonl",
        place / "figures",
        root / "figures",
        place / "checkpoints",
        place / "policy",
        place,
        root / "masked",
        place / "wandb-id.txt",
    )
    chosen = dice.choice(links)
    outside = root.parent / "outside"
    if chosen.is_dir():
        shutil.copytree(chosen, outside / "copied", dirs_exist_ok=True)
        shutil.rmtree(chosen)
        chosen.symlink_to(outside / "copied")
    else:
        chosen.unlink(missing_ok=True)
        chosen.symlink_to(precious if chosen.suffix else outside)
    figures = place / "figures"
    if not figures.exists():
        figures.mkdir(exist_ok=True)
        (figures / "audit_errors.svg").symlink_to(precious)


def of_time(path: Path, dice: random.Random) -> None:
    """Checkpoints of another update, before, at or beyond the end."""
    update = dice.choice((0, 1, 3, 4, 5, 999_999, 10**6, 2**40, 2**61, 2**63, 10**17))
    for saved in _root(path).glob("*/*/checkpoints/update-*"):
        about = json.loads((saved / "checkpoint.json").read_text()) | {"update": update}
        (saved / "checkpoint.json").write_text(json.dumps(about))
        saved.rename(saved.with_name(f"update-{update:06d}"))
    if dice.random() < 0.3:  # what a kill leaves is in the way of the next save
        for place in _root(path).glob("*/*/checkpoints"):
            (place / ".update-000004.partial").symlink_to(_root(path).parent / "outside")


DAMAGES: dict[str, tuple[Callable[[Path, random.Random], None], float]] = {
    "bytes": (of_bytes, 6),
    "structure": (of_structure, 12),
    "kind": (of_kind, 3),
    "code": (of_code, 2),
    "links": (of_links, 1),
    "time": (of_time, 0.5),
}
"""What is done, and how often."""


# Who reads it.


def act(root: Path) -> None:
    """Actions, which must not come from weights that are not finite."""
    import jax
    import numpy as np

    import maskless

    policy = maskless.load(root / _OF_RUN)
    weights = [np.asarray(x) for x in jax.tree.leaves(policy.params)]
    if not all(np.isfinite(x).all() for x in weights):
        raise AssertionError("weights that are not finite were loaded")
    zeros = {f.name: np.zeros(f.shape, f.dtype) for f in policy.fields}
    observation = zeros if len(zeros) > 1 else next(iter(zeros.values()))
    policy.act(observation, policy.initial_carry(), masks="none", greedy=True)


def load_all(root: Path) -> None:
    """What `eval`, `audit`, `finish` and `export` read before they play."""
    from maskless.evaluation.runs import load_runs, stale_artifact_warnings

    stale_artifact_warnings(load_runs(root, warn=_quiet).runs)


def act_in_numpy(root: Path) -> None:
    """The same without JAX."""
    import numpy as np

    from maskless import runtime

    policy = runtime.load(root / _OF_RUN)
    zeros = {f.name: np.zeros(f.shape, f.dtype) for f in policy.fields}
    policy.act(zeros, policy.initial_carry(), masks="none", greedy=True)


def load_artifact(root: Path) -> None:
    from maskless.evaluation.runs import load_runs

    load_runs(root / _OF_RUN / "policy", warn=_quiet)


def resume(root: Path) -> None:
    """What `train --resume` reads before it trains."""
    from maskless.training import folder as folders
    from maskless.training.log import RunLog, read_run
    from maskless.training.request import request_again

    config = folders.read_config(root)
    request = request_again(config, file=root / folders.CONFIG_FILE)
    program = _program(json.dumps(config.to_json()), request)
    done = folders.restore(config, program, root, _quiet)[0]
    folders.warn_of_differences(config, program, root, _quiet)
    for place in folders.run_folders(config, root):
        with RunLog(place) as log:
            log.truncate_after(done)
        read_run(place, request.env.num_actions)


_programs: dict[str, Any] = {}


def _program(name: str, request: Any) -> Any:
    """Traced once for a configuration: most cases damage something else."""
    from maskless.training.session import make_program

    if name not in _programs:
        program = make_program(request)
        program.like = functools.cache(program.like)  # type: ignore[method-assign]
        _programs[name] = program
    return _programs[name]


def tables(root: Path) -> None:
    """What `report` and `eval` make of an evaluation."""
    from maskless.cli.common import OUT
    from maskless.evaluation.summary import read_evaluation
    from maskless.report.evaluation import headlines, print_evaluation

    if (evaluation := read_evaluation(root / _OF_RUN)) is not None:
        print_evaluation(evaluation, OUT)
        headlines(evaluation.runs)


def finish(root: Path) -> None:
    """What `finish` locks and reads before it plays and learns."""
    from maskless.evaluation.runs import load_runs
    from maskless.training import lock
    from maskless.training.folder import find_runs, training_of

    find_runs(root / _OF_RUN)
    with lock.writing(training_of(root / _OF_RUN), _quiet):
        load_runs(root, finished=False, warn=_quiet)


def metrics(root: Path) -> None:
    from maskless.training.log import columns

    columns(root / _OF_RUN / "metrics.jsonl")


def command(*arguments: str, at: str = "") -> Callable[[Path], None]:
    """A command as a user types it; RUN stands for the folder."""

    def run(root: Path) -> None:
        from maskless.cli import main

        place = str(root / at)
        main([place if word == "RUN" else word for word in arguments])

    return run


READERS: dict[str, tuple[Callable[[Path], None], float]] = {
    "act": (act, 6),
    "act in NumPy": (act_in_numpy, 2),
    "load": (load_all, 6),
    "load artifact": (load_artifact, 3),
    "resume": (resume, 4),
    "tables": (tables, 3),
    "columns": (metrics, 1),
    "override list": (command("override", "RUN", "list", at=_OF_RUN), 1),
    "override add": (
        command("override", "RUN", "add", "--action", "kick", "--never", at=_OF_RUN),
        1,
    ),
    "export": (command("export", "RUN", at=_OF_RUN), 1),
    "report": (command("report", "RUN"), 0.3),
    "eval": (command("eval", "RUN", "--episodes", "1", "--envs", "1"), 0.3),
    "calibrate": (command("calibrate", "RUN", "--episodes", "1", "--dry-run", at=_OF_RUN), 0.1),
    "finish": (finish, 1),
    "train": (command("train", "--resume", "RUN", "--tensorboard"), 0.2),
    "audit": (command("audit", "RUN", "--states", "1", "--episodes", "1", at=_OF_RUN), 0.1),
}
"""Who reads, and how often; those that draw or compile seldom."""
_READERS_OF = {
    "config.json": ("load", "resume", "eval", "report", "finish", "train"),
    "run config.json": ("report", "load artifact", "load"),
    "metrics.jsonl": ("resume", "columns", "report", "train"),
    "evaluation.json": ("tables", "report"),
    "audit.json": ("report",),
    "finish.json": ("report", "load", "finish"),
    ".lock": ("finish",),
    ".saved": ("resume", "load", "train"),
    "extra.safetensors": ("resume", "load", "train"),
    "policy.json": (
        *("act", "act in NumPy", "load artifact", "load", "override list", "override add"),
        "export",
    ),
    "weights.safetensors": ("act", "act in NumPy", "load artifact", "override add", "export"),
    "checkpoint.json": ("load", "resume", "eval", "train"),
    "state.safetensors": ("load", "resume", "eval", "train"),
}


_SELDOM = {"audit.json": 1, "finish.json": 1, ".lock": 1, ".saved": 1, "extra.safetensors": 3}


def make_case(number: int, seed: int) -> tuple[Case, random.Random]:
    """The same number and seed always give the same case."""
    dice = random.Random(f"{seed} {number}")
    damage = dice.choices(list(DAMAGES), [weight for _, weight in DAMAGES.values()])[0]
    # Little is read of some, or by drawing a report only.
    share = [_SELDOM.get(name, 8) for name in FILES]
    file = dice.choices(list(FILES), share)[0]
    finished = dice.random() < FINISHED
    whole = damage in ("code", "links")
    if damage == "time":
        file = "checkpoint.json"
    readers = list(READERS) if whole else list(_READERS_OF[file])
    reader = dice.choices(readers, [READERS[name][1] for name in readers])[0]
    return Case(number, finished, file, damage, reader), dice


# One case, in this process.


def prepare(folder: Path, *, trains: bool = False) -> Path:
    """The training that is copied for each case, with everything that there can be in it; and the
    same with students. `trains`: it can be gone on with, too, which takes a while to prepare."""
    from maskless.training import lock
    from maskless.training.folder import SAVED_FILE

    base = folder / "base"
    shutil.copytree(RUN, base)
    metrics = _metrics_of_an_update(base) if trains else {"episodes": [[[0.0] * 4] * 2]}
    evaluation = json.loads((base / "evaluation.json").read_text())
    for number, run in enumerate(evaluation["runs"]):
        place = base / run["condition"] / f"seed-{run['seed']}"
        (place / "evaluation.json").write_text(json.dumps(evaluation | {"runs": [run]}))
        (place / "audit.json").write_text(json.dumps({"summary": "3 of 9 are wrong."}))
        (place / "finish.json").write_text(json.dumps({"rounds": []}))
        _add_extra(place / "checkpoints" / "update-000002", metrics, number)
        _add_rules(place / "policy" / "policy.json")
    (base / SAVED_FILE).write_text("All runs have saved.\n")
    (base / lock.LOCK_FILE).write_text('{"pid": 1, "host": "here", "since": "now"}\n')
    for leaf in base.rglob("*"):
        leaf.chmod(0o755 if leaf.is_dir() else 0o644)
    shutil.copytree(base, folder / "finished")
    _finish(folder / "finished")
    return base


def _add_rules(path: Path) -> None:
    """What a person, a calibration and an environment may add to a policy."""
    about = json.loads(path.read_text())
    rule = {"action": "kick", "effect": "never", "threshold": None, "when": "observation[3] > 0.5"}
    about |= {"overrides": [rule], "clock_fields": ["observation[0]"], "calibration": {"alpha": 1}}
    about["thresholds"] = [0.5, None, *[0.25] * (len(about["action_names"]) - 2)]
    path.write_text(json.dumps(_sealed(about)))


def _metrics_of_an_update(root: Path) -> dict[str, Any]:
    """[1, runs, ...] each."""
    from maskless.training import folder as folders
    from maskless.training.request import request_again
    from maskless.training.session import make_program

    program = make_program(request_again(folders.read_config(root)))
    return program.advance(program.start(), 1)[1]


def _add_extra(checkpoint: Path, metrics: dict[str, Any], run: int) -> None:
    """Metrics that no line of the log holds yet."""
    import numpy as np
    from safetensors.numpy import save

    of_run = {name: np.asarray(x)[:, run].astype(np.float64) for name, x in metrics.items()}
    content = save({name: np.ascontiguousarray(x) for name, x in of_run.items()})
    (checkpoint / "extra.safetensors").write_bytes(content)
    about = json.loads((checkpoint / "checkpoint.json").read_text())
    about["extra_sha256"] = hashlib.sha256(content).hexdigest()
    (checkpoint / "checkpoint.json").write_text(json.dumps(about))


def _finish(root: Path) -> None:
    """Students that have learned nothing."""
    import jax
    import jax.numpy as jnp

    from maskless.evaluation.runs import load_runs
    from maskless.finish import Finished, save_finished
    from maskless.nets.deployable import Deployable
    from maskless.policy.networks import acting_net

    trained = load_runs(root, warn=_quiet)
    net = Deployable.of(acting_net(trained.net), trained.env.num_actions, width=8)
    observation = jax.tree.map(
        lambda x: jnp.zeros((1, 1, *x.shape), x.dtype), trained.env.observation_shapes
    )
    params = net.init(jax.random.key(0), net.initial_carry(1), observation, jnp.ones((1, 1), bool))
    for run in trained.runs:
        assert run.folder is not None
        save_finished(run.folder, trained.env, Finished(net, params, []), run.name)


def _root(path: Path) -> Path:
    return next(parent for parent in path.parents if parent.name == "run")


def _marker(root: Path) -> Path:
    return root.parent.parent / "imported"


def try_case(case: Case, dice: random.Random, folder: Path) -> Outcome:
    """`folder`: with `base` and `finished` in it, and room for one case."""
    place = folder / "case"
    shutil.rmtree(place, ignore_errors=True)
    root, outside = place / "run", place / "outside"
    shutil.copytree(folder / ("finished" if case.finished else "base"), root)
    outside.mkdir()
    (outside / "precious.svg").write_text("<svg>secret</svg>")
    DAMAGES[case.damage][0](root / FILES[case.file], dice)
    before, modules = _content(place, root), set(sys.modules)
    used = _start_of_peak()
    started, cpu = time.monotonic(), time.process_time()
    kind, detail = _read(case.reader, root)
    seconds, cpu = time.monotonic() - started, time.process_time() - cpu
    if _marker(root).exists() or any(MODULE in name for name in set(sys.modules) - modules):
        _marker(root).unlink(missing_ok=True)
        kind, detail = "import", f"after {kind}: {detail}"
    elif _content(place, root) != before:
        kind, detail = "outside", f"after {kind}: {detail}"
    elif kind == "success" and _published(root):
        kind, detail = "outside", "somebody else's file was embedded in the page"
    memory = _memory("VmHWM") - used + min(used, _BASE_MEMORY)
    return Outcome(case, kind, detail, seconds, cpu, memory)


def _start_of_peak() -> int:
    """What the process uses now; from now on its peak is this case's."""
    with contextlib.suppress(OSError):  # Linux only
        Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def _memory(which: str) -> int:
    """Bytes of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(f"{which}:")).split()[1])


def _content(place: Path, root: Path) -> dict[str, tuple[int, int]]:
    """Everything beside the folder: sizes and times."""
    return {
        str(path): (status.st_size, status.st_mtime_ns)
        for path in [*place.rglob("*"), place, Path.cwd(), *Path.cwd().iterdir()]
        if not path.is_relative_to(root) and path.name != "__pycache__"
        for status in [path.lstat()]
    }


def _published(root: Path) -> bool:
    page = root / "report.html"
    return page.is_file() and not page.is_symlink() and b"PHN2Zz5zZWNyZXQ" in page.read_bytes()


def _read(reader: str, root: Path) -> tuple[str, str]:
    from maskless import MasklessError

    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            READERS[reader][0](root)
    except MasklessError as error:
        return "sentence", str(error)
    except SystemExit as error:
        said = out.getvalue()
        if "\x1b]0" in said or "\u202e" in said:
            return "traceback", f"hostile characters were printed: {said!r}"
        return (
            ("sentence", said) if error.code == 2 else ("traceback", f"exit {error.code}: {said}")
        )
    except BaseException:
        return "traceback", traceback.format_exc()
    return "success", ""


def _quiet(sentence: str) -> None:
    """Warnings of readers."""


# Many cases, in processes.


def work(pipe: Any, seed: int, folder: Path) -> None:
    """A worker: gets numbers, gives outcomes."""
    # What was compiled in one process is not compiled again in the next.
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder / "compiled")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    own = Path(tempfile.mkdtemp(dir=folder))
    here = own / "here"
    here.mkdir()
    (here / f"{MODULE}.py").write_text(f"open({str(own / 'imported')!r}, 'w').close()\n")
    os.chdir(here)
    sys.path.append(str(here))  # an import would succeed, and leave its mark
    sys.dont_write_bytecode = True
    for base in ("base", "finished"):
        shutil.copytree(folder / base, own / base)
        for reader in ("load", "act", "train"):  # imports and compiles: not a part of any case
            (own / "case").mkdir(exist_ok=True)
            shutil.copytree(own / base, own / "case" / "run", dirs_exist_ok=True)
            kind, detail = _read(reader, own / "case" / "run")
            assert kind == "success", detail
    pipe.send(None)
    while (number := pipe.recv()) is not None:
        pipe.send(try_case(*make_case(number, seed), own))


class Worker:
    """One process, replaced when it hangs or has grown old."""

    def __init__(self, seed: int, folder: Path):
        self._seed, self._folder = seed, folder
        self._start()

    def _start(self) -> None:
        context = mp.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(theirs, self._seed, self._folder))
        self._process.start()
        theirs.close()
        self.case: Case | None = None
        self.done = -1
        self.since = self._active = time.monotonic()
        self._used: list[str] = []

    def give(self, number: int) -> None:
        self.case, self.since = make_case(number, self._seed)[0], time.monotonic()
        self.pipe.send(number)

    def take(self) -> Outcome | None:
        """What it has to say; None: it is ready for a case."""
        try:
            outcome = self.pipe.recv()
        except EOFError:
            if self.done < 0:
                raise SystemExit("a worker cannot read what is not damaged") from None
            return self.replace("traceback", "the process died")
        self.case, self.done = None, self.done + 1
        return outcome

    def replace(self, kind: str, detail: str) -> Outcome | None:
        case, seconds = self.case, time.monotonic() - self.since
        self.stop()
        self._start()
        return Outcome(case, kind, detail, seconds, 0.0, 0) if case else None

    def hangs(self) -> bool:
        """Whether it has neither done nor wanted to do anything for ten seconds, or never ends."""
        if self.case is None:
            return False
        stat = Path(f"/proc/{self._process.pid}/stat").read_text()  # Linux only
        state, *numbers = stat.rpartition(")")[2].split()
        now, used = time.monotonic(), numbers[10:12]
        if state == "R" or used != self._used:
            self._used, self._active = used, now
        return now - max(self._active, self.since) > HANG_SECONDS or (
            now - self.since > GIVE_UP_SECONDS
        )

    def stop(self) -> None:
        self._process.kill()
        self._process.join()
        self.pipe.close()


def attack(
    cases: range,
    seed: int,
    workers: int,
    say: Callable[[str], None],
    *,
    seconds: float = math.inf,
) -> list[Outcome]:
    """The outcomes of these cases; of the first ones, when time is over before."""
    ends = time.monotonic() + seconds
    waiting = list(reversed(cases))
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, trains=True)
        team = [Worker(seed, folder) for _ in range(workers)]
        while len(outcomes) < len(cases) and time.monotonic() < ends:
            ready = mp.connection.wait([worker.pipe for worker in team], timeout=1.0)
            for worker in team:
                outcome = None
                if worker.pipe in ready:
                    outcome = worker.take()
                elif worker.hangs():
                    outcome = worker.replace("hang", "it waits for ever")
                else:
                    continue
                if outcome is not None:
                    outcomes.append(outcome)
                    if outcome.hangs or outcome.kind not in ("success", "sentence"):
                        say(str(outcome))
                    if len(outcomes) % 100 == 0:
                        say(f"{len(outcomes)} of {len(cases)}: {dict(count(outcomes))}")
                if worker.done >= PER_WORKER:
                    worker.replace("", "")
                elif waiting and worker.done >= 0 and worker.case is None:
                    worker.give(waiting.pop())
        for worker in team:
            worker.stop()
    return outcomes


def count(outcomes: list[Outcome]) -> collections.Counter[str]:
    counts = collections.Counter(outcome.kind for outcome in outcomes)
    counts["hang"] = sum(outcome.hangs for outcome in outcomes)
    return counts


def summarise(outcomes: list[Outcome], seed: int) -> dict[str, Any]:
    """For the JSON: counts in all and for each file and reader, and every failure."""
    by = functools.partial(_counts_by, outcomes)
    largest = max(outcomes, key=lambda outcome: outcome.memory)
    bad = [o for o in outcomes if o.kind not in ("success", "sentence") or o.hangs]
    return {
        "first": min((outcome.case.number for outcome in outcomes), default=None),
        "cases": len(outcomes),
        "seed": seed,
        "outcomes": dict(count(outcomes)),
        "peak_memory_bytes": largest.memory,
        "peak_memory_first_at": dataclasses.asdict(largest.case),
        "longest_seconds": round(max(outcome.seconds for outcome in outcomes), 1),
        "longest_cpu_seconds": round(max(outcome.cpu_seconds for outcome in outcomes), 1),
        "by_training": by(lambda case: "finished" if case.finished else "trained"),
        "by_file": by(lambda case: case.file),
        "by_damage": by(lambda case: case.damage),
        "by_reader": by(lambda case: case.reader),
        "failures": [dataclasses.asdict(outcome) for outcome in bad[:200]],
    }


def _counts_by(outcomes: list[Outcome], key: Callable[[Case], str]) -> dict[str, dict[str, int]]:
    groups: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for outcome in outcomes:
        groups[key(outcome.case)][outcome.kind] += 1
    return {name: dict(groups[name]) for name in sorted(groups)}


def main() -> None:
    from maskless.files import write_json
    from maskless.provenance import provenance

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=math.inf, help="no longer than this")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    started, made_with = time.monotonic(), provenance()
    cases = range(arguments.first, arguments.first + arguments.cases)
    outcomes = attack(
        cases,
        arguments.seed,
        arguments.workers,
        lambda line: print(line, flush=True),
        seconds=60 * arguments.minutes,
    )
    found = summarise(outcomes, arguments.seed)
    found["seconds"] = round(time.monotonic() - started)
    print(json.dumps(found, indent=1)[:20_000])
    if arguments.out is not None:
        write_json(arguments.out, found | {"provenance": made_with})
    failed = bool(found["failures"]) or found["peak_memory_bytes"] > LARGEST_MEMORY
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
