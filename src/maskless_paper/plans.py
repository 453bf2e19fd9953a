"""A plan: a study at a scale, with everything that its training and evaluation need.

plan = make_plan("classic-mlp", "gpu")
plan.config                              # what `maskless train` would be asked for
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, get_args

from maskless.config import Config
from maskless.envs import make
from maskless.errors import MasklessError, UnknownNameError
from maskless.hyperparameters import Hyperparameters
from maskless.nets import NETS
from maskless.presets import preset
from maskless_paper.studies import NETWORKS, STUDIES, WORLDS, Study

Scale = Literal["smoke", "cpu", "gpu", "paper"]
"""`smoke`: a toy, for tests; `cpu`: minutes on two cores; `gpu`: about ten minutes on one H200;
`paper`: its full budget."""
SCALES: tuple[Scale, ...] = get_args(Scale)

_BUDGETS: dict[Scale, tuple[float, ...]] = {
    "smoke": (0.5, 1.0),
    "cpu": (0.5, 1.0),
    "gpu": (0.25, 0.5, 1.0),
    "paper": (0.025, 0.1, 0.25, 0.5, 1.0),
}
_EPISODES: dict[Scale, int] = {"smoke": 1, "cpu": 2, "gpu": 1, "paper": 10}
_STEPS: dict[Scale, int] = {"smoke": 1024, "cpu": 2048, "gpu": 2048, "paper": 100_000}
"""A limit in steps, not in seconds: a second run gives the same numbers."""
_SEEDS: dict[str, int] = {"cpu": 1, "paper": 4}
"""On a GPU every study has its own number."""
ENVIRONMENTS, LAMBDA = 1024, 0.8
"""Of the paper's table. In corridors our lambda of GAE is another (docs/training.md)."""
_TOY = "a toy stands in: a narrow MLP for a moment on the staircase, without RND"
_TWO_ROOMS = "two rooms in place of five: five are not learned in minutes on a CPU"


@dataclasses.dataclass(frozen=True)
class Plan:
    """A study at a scale: what is trained, and how it is evaluated."""

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
    """Actions whose probabilities and features are logged in the result."""
    budgets: tuple[float, ...]
    """Shares of the frames after which all runs are evaluated."""
    episodes: int
    """Complete episodes of every environment in an evaluation."""
    steps: int
    """An evaluation is cut off after so many."""
    stands_in: str
    """In what the training is smaller than the paper's, or another; empty: in nothing."""


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
    study = study_at(name, scale)
    training = _training(name, scale)
    config = _toy() if scale == "smoke" else _config(study, scale, _conditions(training, scale))
    if frames is not None and frames < config.frames_per_update:
        raise MasklessError(
            f"frames of {name} must be at least {config.frames_per_update:,}, one update."
        )
    changes = {"seeds": seeds, "frames": frames, "precision": precision}
    given: dict[str, Any] = {field: value for field, value in changes.items() if value is not None}
    config = dataclasses.replace(config, **given)
    return Plan(
        study=name,
        scale=scale,
        about=study.about,
        conditions=study.conditions,
        config=config,
        training=training,
        watched=("descend",) if scale == "smoke" else WORLDS[study.world].watched,
        budgets=_BUDGETS[scale],
        episodes=_EPISODES[scale],
        steps=_STEPS[scale],
        stands_in=_TOY
        if scale == "smoke"
        else "; ".join(differences(name, config.to_json(), config.frames)),
    )


def differences(name: str, config: Mapping[str, Any], frames: int) -> list[str]:
    """In what a training with this configuration (as in its JSON) and so many frames is smaller
    than the paper's study, or another. Empty: in nothing that the paper says."""
    ours, paper, ppo = STUDIES[name], study_at(name, "paper"), config["ppo"]
    world = WORLDS[paper.world]
    found = []
    if config["env"] == world.cpu_env:
        found.append(_TWO_ROOMS)
    elif config["env"] != world.env:
        found.append(f"{WORLDS[ours.world].title} in place of {world.title}")
    if config["net"] != paper.net:
        found.append(f"{NETWORKS[config['net']]} in place of the {NETWORKS[paper.net]}")
    elif config["width"] is not None:
        found.append(f"the {NETWORKS[paper.net]} is {config['width']} wide")
    share = frames / world.frames["paper"]
    if share < 0.99:
        found.append(f"{100 * share:.2g} % of the paper's frames")
    if config["seeds"] < _SEEDS["paper"]:
        found.append(f"{config['seeds']} of {_SEEDS['paper']} seeds")
    if not ppo["anneal"]:
        found.append("a constant learning rate where the paper anneals it")
    if ppo["num_envs"] != ENVIRONMENTS:
        found.append(f"{ppo['num_envs']} of {ENVIRONMENTS:,} environments")
    if ppo["rnd"]:
        found.append(f"λ of GAE {ppo['gae_lambda']:g} instead of {LAMBDA:g}, and our RND")
    if config["precision"] != "float32":
        found.append(config["precision"])
    return found


def study_at(name: str, scale: Scale) -> Study:
    """The study of this name, with what differs at this scale."""
    if name not in STUDIES:
        raise UnknownNameError("study", name, STUDIES)
    if scale not in SCALES:
        raise UnknownNameError("scale", scale, SCALES)
    study = STUDIES[name]
    return dataclasses.replace(study, **study.at_paper_scale) if scale == "paper" else study


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
    world, net = WORLDS[study.world], NETS[study.net]
    env = world.cpu_env if scale == "cpu" and world.cpu_env else world.env
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
        seeds=_SEEDS.get(scale, study.gpu_seeds),
        frames=world.frames[scale],
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
