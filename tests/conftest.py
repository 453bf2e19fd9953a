"""What is compiled once in a run of the tests, by any of its processes, is not compiled again."""

import os
import tempfile
from pathlib import Path

# Before JAX is imported; tests' own subprocesses inherit it. One folder for all workers of a run,
# which their common parent names, and nothing from earlier runs.
_FOLDER = Path(tempfile.gettempdir()) / f"maskless-compiled-{os.getuid()}-{os.getppid()}"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_FOLDER))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "1")
