"""Makes tests/data/minihack, a small part of a folder of recordings, for machines without it.

python tests/parity/make_extract.py ../shared/data/minihack
"""

import shutil
import sys
from pathlib import Path

import numpy as np

LEVELS, MAZES, FRAGMENTS = 60, 30, 30
TARGET = Path(__file__).resolve().parents[1] / "data/minihack"


def main(source: Path) -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    for name in ("corridor_stats.json", "mazewalk_stats.json", "README.md"):
        shutil.copyfile(source / name, TARGET / name)
    _save("corridor_levels", _levels(dict(np.load(source / "corridor_levels.npz"))))
    mazes = dict(np.load(source / "mazewalk_levels.npz"))
    _save("mazewalk_levels", {name: array[:MAZES] for name, array in mazes.items()})
    _save("golden_trajectories", _fragments(dict(np.load(source / "golden_trajectories.npz"))))
    cases = "sight_cases/golden_trajectories.npz"
    (TARGET / cases).parent.mkdir(exist_ok=True)
    shutil.copyfile(source / cases, TARGET / cases)


def _levels(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The first levels; rooms and boulders are lists of rows that begin with the level."""
    kept = {}
    for name, array in data.items():
        listed = name.endswith(("_rooms", "_boulders"))
        kept[name] = array[array[:, 0] < LEVELS] if listed else array[:LEVELS]
    return kept


def _fragments(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Fragments from all over the recording, so that all games and policies are in."""
    total = len(data["frag_env"])
    chosen = np.linspace(0, total - 1, FRAGMENTS).astype(int)
    number = np.full(total, -1)
    number[chosen] = np.arange(FRAGMENTS)
    steps = np.isin(data["step_frag"], chosen)
    kept = {}
    for name, array in data.items():
        if name.startswith("frag_"):
            kept[name] = array[chosen]
        elif name.startswith(("gdiff_", "tdiff_")):
            kept[name] = array[np.isin(data[name[:5] + "_frag"], chosen)]
        elif name == "boulders":
            kept[name] = array[np.isin(array[:, 0], chosen)]
        elif name == "messages":
            kept[name] = array
        else:
            kept[name] = array[steps]
    lengths = kept["frag_nsteps"].astype(int)
    kept["frag_start"] = (np.cumsum(lengths) - lengths).astype(data["frag_start"].dtype)
    for name in ("step_frag", "gdiff_frag", "tdiff_frag"):
        kept[name] = number[kept[name]].astype(data[name].dtype)
    kept["boulders"][:, 0] = number[kept["boulders"][:, 0]]
    return kept


def _save(name: str, arrays: dict[str, np.ndarray]) -> None:
    np.savez_compressed(TARGET / f"{name}.npz", **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
