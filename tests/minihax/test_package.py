"""The game stands by itself: it imports JAX, NumPy and jaxtyping, and nothing of maskless."""

import subprocess
import sys

import minihax


def test_importing_the_game_imports_neither_the_library_nor_what_only_it_needs():
    script = (
        "import sys; before = set(sys.modules); import minihax;"
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    paths = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=paths
    )
    imported = set(run.stdout.split())
    assert {"minihax", "jax", "numpy", "jaxtyping"} <= imported
    assert not imported & {"maskless", "flax", "optax", "rich", "gymnasium", "craftax"}


def test_the_public_names():
    assert set(minihax.__all__) == {
        "IDS", "Corridor", "Observation", "from_nle", "make_corridor",
    }  # fmt: skip
    assert all(hasattr(minihax, name) for name in minihax.__all__)
    example = [line for line in minihax.__doc__.splitlines() if line.startswith("    ")]
    assert len(example) == 5
    assert minihax.make_corridor(minihax.IDS[0]).id == minihax.IDS[0]
