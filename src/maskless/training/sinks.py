"""Copies of a run's metrics for TensorBoard and Weights & Biases, both optional.

Give them to `RunLog(folder, sinks=[...])`. One number per action becomes one curve per action,
`name/action`. The x-axis is the number of frames (`frames` of the row; without it, `update`).
"""

import contextlib
import importlib
import math
import secrets
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from maskless.errors import MasklessError, require
from maskless.files import MissingError, check_inside, read_bytes, write_text
from maskless.training.log import Row


class TensorBoard:
    """Event files in `folder/tensorboard`: `tensorboard --logdir runs`.

    They are written in this thread, and are on the disk when `FLUSH_SECONDS` have passed at the
    next rows, and after `close`. (That of tensorboardX's own `SummaryWriter` dies when the disk is
    full, and who writes then waits for it for ever.) A row is one event: `add_scalar` of each of
    its curves takes 100 µs and not 3.
    """

    FLUSH_SECONDS = 10.0

    def __init__(self, folder: Path, action_names: Sequence[str] = ()):
        self._action_names = action_names
        self._folder = check_inside(Path(folder), Path(folder) / "tensorboard")
        optional("tensorboardX")
        self._files = optional("tensorboardX.event_file_writer")
        self._events = optional("tensorboardX.proto.event_pb2")
        self._writer: Any = None
        self._flushed = -math.inf

    def write(self, rows: Sequence[Row]) -> None:
        with self._failing_in_words():
            for row in rows:
                step = row["frames"] if "frames" in row else row["update"]
                if self._writer is None:
                    self._writer = self._start(step)
                event = self._event(step)
                for name, number in curves(row, self._action_names):
                    event.summary.value.add(tag=name, simple_value=number)
                self._writer.write_event(event)
            if self._writer is not None and time.monotonic() - self._flushed > self.FLUSH_SECONDS:
                self._writer.flush()
                self._flushed = time.monotonic()

    def close(self) -> None:
        if self._writer is not None:
            with self._failing_in_words():
                self._writer.close()

    def _start(self, step: int) -> Any:
        """A file for this session. TensorBoard forgets what earlier sessions wrote from `step` on:
        a resumed run does some updates again."""
        self._folder.mkdir(parents=True, exist_ok=True)
        # Two sessions may begin in one second.
        writer = self._files.EventsWriter(str(self._folder / "events"), f".{time.time_ns()}")
        start = self._event(step)
        start.session_log.status = self._events.SessionLog.START
        writer.write_event(start)
        return writer

    def _event(self, step: int) -> Any:
        return self._events.Event(step=int(step), wall_time=time.time())

    @contextlib.contextmanager
    def _failing_in_words(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._writer = None  # nothing more is tried
            raise MasklessError(
                f"Cannot write {self._folder} ({error.strerror}): make room, or go on without"
                " --tensorboard."
            ) from error


class WandB:
    """One W&B run per run folder, grouped by program. `WANDB_MODE=offline` needs no account;
    `wandb sync` sends it later."""

    def __init__(
        self,
        folder: Path,
        *,
        program: str,
        name: str,
        config: dict[str, Any] | None = None,
        action_names: Sequence[str] = (),
    ):
        """`program`: the name of the program's folder; `name`: of the run, as in
        "masked-kl/seed-0"; `config`: what W&B shows as the run's settings."""
        wandb = optional("wandb")
        folder = Path(folder)
        check_inside(folder, folder / "wandb")
        self._action_names = action_names
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._run = wandb.init(
                project="maskless",
                group=program,
                name=f"{program}/{name}",
                id=_wandb_id(folder),
                resume="allow",
                reinit="create_new",  # many runs live in one process
                config=config,
                dir=str(folder),
                settings=wandb.Settings(silent=True, console="off"),
            )
        except (wandb.Error, OSError) as error:
            raise MasklessError(
                f"W&B does not start ({str(error).rstrip('.')}): log in with `wandb login` or set"
                " WANDB_MODE=offline."
            ) from error
        self._run.define_metric("*", step_metric="frames")

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._run.log(dict(curves({"frames": row["update"], **row}, self._action_names)))

    def close(self) -> None:
        self._run.finish()


def curves(row: Row, action_names: Sequence[str]) -> Iterator[tuple[str, float]]:
    """The numbers of a row, each under a name of its own; nothing for null and texts."""
    for name, value in row.items():
        if isinstance(value, list):
            named = action_names if len(action_names) == len(value) else range(len(value))
            parts = [(f"{name}/{action}", x) for action, x in zip(named, value, strict=True)]
        else:
            parts = [(name, value)]
        yield from ((part, x) for part, x in parts if isinstance(x, (int, float)))


def optional(module: str) -> Any:
    """The module, or a sentence that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MasklessError(f"{module} is not installed: run pip install {module}.") from error


def _wandb_id(folder: Path) -> str:
    """The same for every session of a run, so that W&B continues the run when we do."""
    path = folder / "wandb-id.txt"
    try:
        name = read_bytes(path, most=100).decode("ascii", "replace").strip()
    except MissingError:
        name = secrets.token_hex(8)
        write_text(path, name)
    require(name.isalnum(), f"{path} holds no id of W&B: delete it to begin a new run there.")
    return name
