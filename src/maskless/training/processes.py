"""More than one process: all run the same program on the devices of all; the first one writes.

What a process computes on the devices it computes together with the others, so all of them must do
the same things in the same order. What may differ between them is agreed on here.
"""

import contextlib
import os
import signal
import sys
import threading
import traceback
import zlib
from collections.abc import Iterator

import jax
import numpy as np
from jax.experimental import multihost_utils

from maskless.errors import MasklessError
from maskless.training.signals import write_to_stderr

CONNECT_SECONDS = 300.0
"""How long processes wait for each other at the beginning."""
END_SECONDS = 30
"""How long they wait for each other at the end."""


@contextlib.contextmanager
def connected(
    coordinator: str | None = None, processes: int | None = None, process: int | None = None
) -> Iterator[None]:
    """Inside, this process is one of many that train together; enter it before JAX does anything.

    `coordinator`: host:port of process 0, a free port that the others can reach. In a cluster that
    JAX knows (Slurm, Open MPI, Kubernetes, TPU) nothing needs to be given.
    """
    _connect(coordinator, processes, process)
    try:
        yield
    except MasklessError:
        raise  # all processes have failed together, and end together
    except BaseException as error:
        _leave(error)


def _connect(coordinator: str | None, processes: int | None, process: int | None) -> None:
    _check(coordinator, processes, process)
    # We take SIGTERM ourselves: see `StopRequest`.
    jax.config.update("jax_enable_preemption_service", False)
    # JAX aborts the process, with a stack trace, when its own time is up. So ours is up before.
    watchdog = threading.Timer(CONNECT_SECONDS, _give_up, [coordinator])
    watchdog.daemon = True
    watchdog.start()
    # Python would take note of Ctrl-C only when all others are there.
    usual = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        jax.distributed.initialize(
            coordinator,
            processes,
            process,
            initialization_timeout=int(CONNECT_SECONDS) + 60,
            shutdown_timeout_seconds=END_SECONDS,
        )
    except (ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise MasklessError(
            f"The processes cannot be connected ({reason}): give --coordinator HOST:PORT (of"
            " process 0, with a free port), --processes N and --process 0 to N-1."
        ) from error
    finally:
        watchdog.cancel()
        signal.signal(signal.SIGINT, usual)


def is_first() -> bool:
    """Whether this process is the one that writes."""
    return jax.process_index() == 0


def agree(*flags: bool) -> tuple[bool, ...]:
    """For each flag, whether any process raises it. All processes must ask."""
    if jax.process_count() == 1:
        return flags
    raised = multihost_utils.process_allgather(np.array(flags, np.int32))
    return tuple(bool(flag) for flag in raised.any(axis=0))


def number_of_first(number: int) -> int:
    """The number that the first process has. All processes must ask."""
    if jax.process_count() == 1:
        return number
    return int(multihost_utils.broadcast_one_to_all(np.int32(number)))


def is_same(text: str) -> bool:
    """Whether all processes have the same text. All processes must ask."""
    if jax.process_count() == 1:
        return True
    every = multihost_utils.process_allgather(np.uint32(zlib.crc32(text.encode())))
    return len(set(every.ravel().tolist())) == 1


@contextlib.contextmanager
def failing_together() -> Iterator[None]:
    """What fails inside in one process ends all of them: the others would wait for it in vain.
    Nothing inside may need the other processes."""
    try:
        yield
    except Exception:
        agree(True)
        raise
    if agree(False)[0]:
        raise MasklessError("Another process of this training failed: its own output says why.")


def _check(coordinator: str | None, processes: int | None, process: int | None) -> None:
    if coordinator is not None and not coordinator.rpartition(":")[2].isdigit():
        raise MasklessError(f"--coordinator is HOST:PORT, not {coordinator!r}.")
    if processes is not None and processes < 1:
        raise MasklessError(f"--processes must be at least 1, not {processes}.")
    if process is not None and not 0 <= process < (processes or process + 1):
        raise MasklessError(
            f"--process is the number of this process, from 0 to --processes - 1, not {process}."
        )


def _give_up(coordinator: str | None) -> None:
    write_to_stderr(
        f"the processes did not find each other{f' at {coordinator}' if coordinator else ''} within"
        f" {CONNECT_SECONDS:.0f} seconds: start all of them, each with its own --process, and check"
        " that the first can be reached there."
    )
    os._exit(2)  # the main thread is inside JAX and does not come back


def _leave(error: BaseException) -> None:
    """Ends this process alone and at once: at the usual end JAX would wait for the others, who
    wait for this one."""
    if isinstance(error, KeyboardInterrupt):
        write_to_stderr("interrupted, nothing more was written.")
    elif isinstance(error, jax.errors.JaxRuntimeError) or "Gloo" in str(error):
        write_to_stderr(
            f"computing with the other processes failed ({str(error).splitlines()[0]}). If one of"
            " them was lost, start all again with --resume."
        )
    else:
        traceback.print_exception(error)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(130 if isinstance(error, KeyboardInterrupt) else 2)
