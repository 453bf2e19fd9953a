"""What is trained: every study, at every scale, as data.

    plan = make_plan("classic-mlp", "gpu")
    plan.config                              # what `maskless train` would be asked for

A *study* is one block of training: one environment and network, some conditions, some seeds. A
*plan* is a study at a scale: `smoke` (a toy, for tests), `cpu` (minutes on two cores), `gpu` (about
ten minutes on one H200) or `paper` (its full budget).
"""

import dataclasses
from typing import Any, Literal, get_args

from maskless.config import Config, preset
from maskless.envs import make
from maskless.errors import MasklessError, UnknownNameError
from maskless.hyperparameters import Hyperparameters
from maskless.nets import NETS

Scale = Literal["smoke", "cpu", "gpu", "paper"]
SCALES: tuple[Scale, ...] = get_args(Scale)
World = Literal["classic", "full", "corridor"]

PAPER_CONDITIONS = ("unmasked", "masked", "masked-focal", "masked-kl")  # C2, C1, C3, C4
STRENGTHS = (0.1, 1, 5, 10, 20)
GAMMAS = (0, 1, 2, 5)
ENTROPIES = (0, 0.1, 1, 5)
"""Factors of the entropy bonus."""


@dataclasses.dataclass(frozen=True)
class Study:
    """One block of training, whatever its scale."""

    about: str
    world: World
    net: str
    conditions: tuple[str, ...] = PAPER_CONDITIONS
    env_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    gpu_seeds: int = 2
    trained_with: str = ""
    """The study whose training this one is a part of, where many runs in one program cost little
    more than a few: on a GPU, unless it is something else there (`at_paper_scale`)."""
    at_paper_scale: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Fields that differ there: the paper's own network or world, too large for anything less."""


_TITLES: dict[World, str] = {
    "classic": "Craftax-Classic",
    "corridor": "Corridor-R5 with RND",
    "full": "Craftax",
}
_NETS = {"mlp": "MLP", "gru": "GRU", "hybrid": "hybrid"}


def _table_one() -> dict[str, Study]:
    """The paper's Table 1: every game with every network."""
    return {
        f"{world}-{net}": Study(
            f"the four conditions on {title}, {network}",
            world,
            net,
            gpu_seeds=1 if world == "full" or net == "hybrid" else 2,
        )
        for world, title in _TITLES.items()
        for net, network in _NETS.items()
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

_ENVIRONMENTS: dict[World, str] = {
    "classic": "craftax-classic",
    "full": "craftax",
    "corridor": "corridor-r5",
}
_WATCHED: dict[World, tuple[str, ...]] = {
    "classic": ("make_stone_pickaxe", "make_iron_pickaxe", "place_furnace"),
    "full": ("descend", "make_iron_pickaxe"),
    "corridor": ("open_door", "kick"),
}
_FRAMES: dict[World, dict[Scale, int]] = {
    "classic": {"cpu": 500_000, "gpu": 100_000_000, "paper": 1_000_000_000},
    "full": {"cpu": 200_000, "gpu": 100_000_000, "paper": 1_000_000_000},
    "corridor": {"cpu": 1_000_000, "gpu": 40_000_000, "paper": 200_000_000},
}
_BUDGETS: dict[Scale, tuple[float, ...]] = {
    "smoke": (0.5, 1.0),
    "cpu": (0.5, 1.0),
    "gpu": (0.25, 0.5, 1.0),
    "paper": (0.025, 0.1, 0.25, 0.5, 1.0),
}
_EPISODES: dict[Scale, int] = {"smoke": 1, "cpu": 2, "gpu": 1, "paper": 10}
_STEPS: dict[Scale, int] = {"smoke": 1024, "cpu": 2048, "gpu": 2048, "paper": 100_000}
"""Longer evaluations are cut off. They are steps, not seconds: a second run gives the same."""
_TOY = "a toy stands in: a narrow MLP for a moment on the staircase, without RND"
_TWO_ROOMS = "two rooms in place of five: five are not learned in minutes on a CPU"


@dataclasses.dataclass(frozen=True)
class Plan:
    """A study at a scale: what is trained, and how it is judged."""

    study: str
    scale: Scale
    about: str
    conditions: tuple[str, ...]
    """Of the study."""
    config: Config
    """Of the training, which may hold other studies' conditions too."""
    training: str
    """Plans with the same name here, at the same scale, are one training."""
    watched: tuple[str, ...]
    """Actions whose probabilities and features are followed."""
    budgets: tuple[float, ...]
    """Shares of the frames after which all runs are evaluated."""
    episodes: int
    """Complete episodes of every environment in an evaluation."""
    steps: int
    """An evaluation is cut off after so many."""
    stands_in: str
    """In what the training is not what the study is about; empty: it is."""


def make_plan(
    name: str,
    scale: Scale,
    *,
    seeds: int | None = None,
    frames: int | None = None,
    precision: str | None = None,
) -> Plan:
    """The plan of the study of this name. `seeds`, `frames`, `precision`: in place of the
    scale's own."""
    if name not in STUDIES:
        raise UnknownNameError("study", name, STUDIES)
    if scale not in SCALES:
        raise UnknownNameError("scale", scale, SCALES)
    study = STUDIES[name]
    if scale == "paper":
        study = dataclasses.replace(study, **study.at_paper_scale)
    two_rooms = study.world == "corridor" and scale == "cpu"
    training = _training(name, scale)
    config = _toy() if scale == "smoke" else _config(study, scale, _conditions(training, scale))
    if seeds is not None:
        config = dataclasses.replace(config, seeds=seeds)
    if frames is not None:
        if frames < config.frames_per_update:
            raise MasklessError(
                f"frames of {name} must be at least {config.frames_per_update:,}, one update."
            )
        config = dataclasses.replace(config, frames=frames)
    if precision is not None:
        config = dataclasses.replace(config, precision=precision)
    return Plan(
        study=name,
        scale=scale,
        about=study.about,
        conditions=study.conditions,
        config=config,
        training=training,
        watched=("descend",) if scale == "smoke" else _WATCHED[study.world],
        budgets=_BUDGETS[scale],
        episodes=_EPISODES[scale],
        steps=_STEPS[scale],
        stands_in=_TOY if scale == "smoke" else _TWO_ROOMS if two_rooms else "",
    )


def _training(name: str, scale: Scale) -> str:
    if scale == "smoke":
        return "toy"
    study = STUDIES[name]
    alone = scale == "cpu" or (scale == "paper" and study.at_paper_scale)
    return name if alone else study.trained_with or name


def _conditions(training: str, scale: Scale) -> tuple[str, ...]:
    """Of all studies that are one training."""
    members = [study for name, study in STUDIES.items() if _training(name, scale) == training]
    return tuple(dict.fromkeys(name for study in members for name in study.conditions))


def _config(study: Study, scale: Scale, conditions: tuple[str, ...]) -> Config:
    corridor = study.world == "corridor"
    env = "corridor-r2" if corridor and scale == "cpu" else _ENVIRONMENTS[study.world]
    net = NETS[study.net]
    ppo = preset(
        "cpu" if scale == "cpu" else "paper",
        net=net.default_hyperparameters,
        env=make(env).default_hyperparameters,
    )
    # Only the paper's own budget ends with a learning rate of zero: shorter runs are cut off where
    # the time is up, and their first half must be that of a run half as long.
    ppo = dataclasses.replace(ppo, anneal=scale == "paper")
    return Config(
        env=env,
        env_options={"rules": "paper"} | study.env_options,
        net=study.net,
        width=net.cpu_width if scale == "cpu" else None,
        conditions=conditions,
        seeds={"cpu": 1, "gpu": study.gpu_seeds, "paper": 4}[scale],
        frames=_FRAMES[study.world][scale],
        ppo=ppo,
    )


def _toy() -> Config:
    """All conditions of all studies in one program: compiling it takes longer than training it."""
    ppo = Hyperparameters(
        num_envs=16, rollout=16, minibatches=2, epochs=1, learning_rate=1e-3, anneal=False
    )
    return Config(
        env="staircase",
        env_options={"length": 4, "spare": 4},
        width=16,
        conditions=_conditions("toy", "smoke"),
        seeds=2,
        frames=4 * ppo.num_envs * ppo.rollout,
        ppo=ppo,
    )
