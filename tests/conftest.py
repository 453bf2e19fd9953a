"""Annotations are checked, and what was compiled once is not compiled again."""

import contextlib
import os
from pathlib import Path

import jaxtyping
import pytest
import typechecks

from maskless import compilation_cache

typechecks.check()

# One cache for all workers and for the runs that follow, in the checkout (`make clean` empties it).
_FOLDER = compilation_cache.folder(Path(__file__).parents[1] / ".jax_cache")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_FOLDER))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.5")


@pytest.fixture
def wrong_shapes():
    """For tests of how wrong shapes are refused: by our own sentence, as without these checks."""
    with _unchecked():
        yield


@pytest.fixture
def long_play():
    """For whole trainings outside of JAX: to check every step again takes most of the time."""
    with _unchecked():
        yield


@contextlib.contextmanager
def _unchecked():
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


SLOW = {
    *("test_devices.py", "test_train.py", "test_host_program.py", "test_learning.py"),
    *(
        "test_minihack.py",
        "test_levels.py",
        "test_live.py",
        "test_random_play.py",
        "test_replay.py",
    ),
    *("test_sight.py", "test_upstream.py", "test_precision.py", "test_statements.py"),
    *(
        "test_readme.py",
        "test_transfer.py",
        "test_compact.py",
        "test_networks.py",
        "test_rivals.py",
    ),
}
"""Files that `make test-fast` leaves out: whole trainings, real games, paper-sized networks."""


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.name in SLOW:
            item.add_marker(pytest.mark.slow)
