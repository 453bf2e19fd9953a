"""Copies of a run's metrics for TensorBoard and Weights & Biases, both optional.

Give them to `RunLog(folder, sinks=[...])`. One number per action becomes one curve per action,
`name/action`. The x-axis is the number of frames (`frames` of the row; without it, `update`).
"""

import importlib
import secrets
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from maskless.errors import MasklessError
from maskless.training.log import Row


class TensorBoard:
    """Event files in `folder/tensorboard`: `tensorboard --logdir runs`.

    tensorboardX writes them in a thread: what is written is on the disk within `FLUSH_SECONDS`, and
    after `close`; its `flush` does not wait for that thread. A row is one event: `add_scalar` of
    each of its curves takes 100 µs and not 3.
    """

    FLUSH_SECONDS = 10.0

    def __init__(self, folder: Path, action_names: Sequence[str] = ()):
        self._action_names = action_names
        self._folder = Path(folder) / "tensorboard"
        self._tensorboardx = _optional("tensorboardX", "tensorboard")
        self._writer: Any = None

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:
            step = row["frames"] if "frames" in row else row["update"]
            if self._writer is None:
                self._writer = self._start(step)
            summary = self._tensorboardx.proto.summary_pb2.Summary()
            for name, number in curves(row, self._action_names):
                summary.value.add(tag=name, simple_value=number)
            self._writer.file_writer.add_summary(summary, step)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _start(self, step: int) -> Any:
        """A file for this session. TensorBoard forgets what earlier sessions wrote from `step` on:
        a resumed run does some updates again."""
        return self._tensorboardx.SummaryWriter(
            str(self._folder),
            purge_step=step,
            flush_secs=self.FLUSH_SECONDS,
            filename_suffix=f".{time.time_ns()}",  # two sessions may begin in one second
        )


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
        wandb = _optional("wandb", "wandb")
        folder = Path(folder)
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


def _optional(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MasklessError(
            f"{module} is not installed: run pip install 'maskless[{extra}]'."
        ) from error


def _wandb_id(folder: Path) -> str:
    """The same for every session of a run, so that W&B continues the run when we do."""
    path = folder / "wandb-id.txt"
    if not path.exists():
        path.write_text(secrets.token_hex(8))
    return path.read_text().strip()
