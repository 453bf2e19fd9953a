"""Numbers of benchmarks/methods.py and promise.py: the paper's games once more, annealed and with
three seeds, and worlds outside of the paper."""

from typing import Any

from maskless_paper.numbers.query import LOOP, Files, Number, listed, percent
from maskless_paper.results import SEEDS


def numbers(files: Files) -> dict[str, Number]:
    def each_seed() -> str:
        runs = files.read("worlds/taxi.json")["runs"]
        return listed(f"{_return(run, 'predicted'):.2f}" for run in runs)

    def masked(block: str) -> Number:
        return lambda: f"{_mean(_returns(files, block, 'masked', 'oracle')):.1f}"

    def kept(name: str) -> Number:
        return lambda: percent(_mean(_kept(files, name)))

    def kept_by_kl() -> str:
        kl, focal, loop = (_kept(files, name) for name in ("masked-kl", "masked-focal", LOOP))
        assert max(kl) < min(focal) < max(focal) < min(loop)  # the page says so
        return percent(_mean(kl))

    return {
        "taxi-predicted": each_seed,
        "annealed-paper-classic": masked("classic"),
        "annealed-prudent-classic": masked("classic-prudent"),
        "annealed-prudent-full": masked("full"),
        "annealed-kl-kept": kept_by_kl,
        "annealed-focal-kept": kept("masked-focal"),
        "annealed-loop-kept": kept(LOOP),
    }


def _returns(files: Files, block: str, name: str, masks: str) -> list[float]:
    """Of every seed of a condition, as PPO left it."""
    found = files.read(f"methods/{block}.json")
    assert found["config"]["ppo"]["anneal"]
    returns = [_return(run, masks) for run in found["runs"] if run["condition"] == name]
    assert len(returns) >= SEEDS
    return returns


def _kept(files: Files, name: str) -> list[float]:
    """What every seed keeps in Classic."""
    pairs = (_returns(files, "classic", name, masks) for masks in ("predicted", "oracle"))
    return [predicted / oracle for predicted, oracle in zip(*pairs, strict=True)]


def _return(run: dict[str, Any], masks: str) -> float:
    value: float = run["masks"][masks]["mean_return"]
    return value


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
