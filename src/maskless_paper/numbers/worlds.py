"""Numbers of worlds outside of the paper (benchmarks/promise.py)."""

from maskless_paper.numbers.query import Files, Number, listed


def numbers(files: Files) -> dict[str, Number]:
    def each_seed() -> str:
        runs = files.read("worlds/taxi.json")["runs"]
        return listed(f"{run['masks']['predicted']['mean_return']:.2f}" for run in runs)

    return {"taxi-predicted": each_seed}
