"""What is trained: every study, as data. `plans.make_plan` makes a training of one, at a scale.

A *study* is one block of training: one environment and network, some conditions, some seeds.
"""

import dataclasses
from typing import Any, Literal

WorldName = Literal["classic", "full", "corridor"]

PAPER_CONDITIONS = ("unmasked", "masked", "masked-focal", "masked-kl")  # C2, C1, C3, C4
STRENGTHS = (0.1, 1, 5, 10, 20)
GAMMAS = (0, 1, 2, 5)
ENTROPIES = (0, 0.1, 1, 5)
"""Factors of the entropy bonus."""


@dataclasses.dataclass(frozen=True)
class World:
    """One of the paper's three games."""

    title: str
    env: str
    watched: tuple[str, ...]
    """Actions whose probabilities and features are logged, the paper's own example first."""
    frames: dict[str, int]
    """Of each run, by scale."""
    cpu_env: str = ""
    """What stands in at the scale `cpu`, where the game itself is not learned in minutes."""


WORLDS: dict[WorldName, World] = {
    "classic": World(
        "Craftax-Classic",
        "craftax-classic",
        watched=("make_stone_pickaxe", "make_iron_pickaxe", "place_furnace"),
        frames={"cpu": 500_000, "gpu": 100_000_000, "paper": 1_000_000_000},
    ),
    "corridor": World(
        "Corridor-R5 with RND",
        "corridor-r5",
        watched=("open_door", "kick"),
        frames={"cpu": 1_000_000, "gpu": 40_000_000, "paper": 200_000_000},
        cpu_env="corridor-r2",
    ),
    "full": World(
        "Craftax",
        "craftax",
        watched=("descend", "make_iron_pickaxe"),
        frames={"cpu": 200_000, "gpu": 100_000_000, "paper": 1_000_000_000},
    ),
}


@dataclasses.dataclass(frozen=True)
class Study:
    """One block of training, whatever its scale."""

    about: str
    world: WorldName
    net: str
    conditions: tuple[str, ...] = PAPER_CONDITIONS
    env_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    gpu_seeds: int = 2
    trained_with: str = ""
    """The study whose training this one is a part of, where many runs in one program cost little
    more than a few: on a GPU, unless it is something else there (`at_paper_scale`)."""
    at_paper_scale: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Fields that differ there: the paper's own network or world, too large for anything less."""


NETWORKS = {"mlp": "MLP", "gru": "GRU", "hybrid": "hybrid"}


def _table_one() -> dict[str, Study]:
    """The paper's Table 1: every game with every network."""
    return {
        f"{name}-{net}": Study(
            f"the four conditions on {world.title}, {network}",
            name,
            net,
            gpu_seeds=1 if name == "full" or net == "hybrid" else 2,
        )
        for name, world in WORLDS.items()
        for net, network in NETWORKS.items()
    }


STUDIES: dict[str, Study] = {
    **_table_one(),
    "classic-loop": Study(
        "ours on Craftax-Classic: mixed losses, and acting under predicted masks while training",
        "classic",
        "mlp",
        (
            "masked-mix",
            "masked-loop:predicted_share=0.1",
            "masked-loop",
            "masked-loop:predicted_share=0.5",
        ),
        trained_with="classic-mlp",
    ),
    "corridor-loop": Study(
        "ours on Corridor-R5, GRU with RND",
        "corridor",
        "gru",
        ("masked-tv", "masked-mix", "masked-loop", "masked-loop:predicted_share=0.5"),
        trained_with="corridor-gru",
    ),
    "full-loop": Study(
        "ours on Craftax, MLP",
        "full",
        "mlp",
        ("masked-loop:predicted_share=0.5",),
        gpu_seeds=1,
        trained_with="full-mlp",
    ),
    "predictor": Study(
        "a classifier with and without masks, lambda = 20",
        "full",
        "mlp",
        ("unmasked", "unmasked-kl:strength=20", "masked", "masked-kl:strength=20"),
        gpu_seeds=1,
        trained_with="full-mlp",
        at_paper_scale={"net": "hybrid"},
    ),
    "lambda": Study(
        "the weight of the classification loss",
        "classic",
        "mlp",
        tuple(f"masked-kl:strength={x}" for x in STRENGTHS),
        gpu_seeds=1,
        trained_with="control-losses",
        at_paper_scale={"world": "full", "net": "hybrid"},
    ),
    "gamma": Study(
        "the focal parameter, in both losses",
        "classic",
        "mlp",
        tuple(f"{name}:gamma={x}" for name in ("masked-focal", "masked-kl") for x in GAMMAS),
        gpu_seeds=1,
        trained_with="control-losses",
        at_paper_scale={"world": "full", "net": "hybrid"},
    ),
    "control-exact": Study(
        "the four conditions under masks without errors",
        "classic",
        "mlp",
        env_options={"rules": "exact"},
    ),
    "control-exact-full": Study(
        "Craftax under masks without errors",
        "full",
        "mlp",
        ("masked",),
        env_options={"rules": "exact"},
    ),
    "control-losses": Study(
        "the KL-balanced loss taken apart, cross-entropy, and a classifier that shapes nothing",
        "classic",
        "mlp",
        (
            "masked-tv",
            "masked-bce",
            "masked-kl:uniform_fallback=0",
            "masked-kl:literal=1",
            "masked-kl:detached=1",
            "masked-focal:detached=1",
        ),
        gpu_seeds=1,
    ),
    "control-frozen": Study(
        "Corridor-R5 without the penalty for steps in which no time passes",
        "corridor",
        "gru",
        ("unmasked", "masked", "masked-kl"),
        env_options={"frozen_penalty": 0.0},
    ),
    "control-entropy": Study(
        "unmasked, with more and less entropy bonus",
        "classic",
        "mlp",
        tuple(f"unmasked:entropy_factor={x}" for x in ENTROPIES),
        gpu_seeds=1,
        trained_with="control-losses",
    ),
}

TABLE_ONE = tuple(_table_one())
"""The studies of the paper's Table 1, and of most of its figures."""
