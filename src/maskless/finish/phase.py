"""The phase: one run after the other, rounds of playing and learning until there is no gain."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from maskless.envs import Environment
from maskless.errors import MasklessError
from maskless.finish import comparisons, learning
from maskless.finish.collecting import Collector, Quality, quality
from maskless.finish.memory import Memory
from maskless.nets import AnyNetwork
from maskless.nets.deployable import STUDENT_WIDTH, Deployable
from maskless.policy.networks import acting_net

FRAMES_A_ROUND = 8192
PASSES = 32
"""Over every state, on average, while it is among the newest."""
FIRST_STATES = 4096
"""Which the observations are normalised by."""
LAST_RATE = 0.03
"""What the learning rate falls to over the phase, as a share of the first."""
WINDOW = 6
"""Rounds that are compared with as many before them."""
LEAST_GAIN = 0.05
"""The end: when the policy moves by hardly less under the student than in the rounds before."""
PERFECT = 2e-3
"""The end, too: when the policy has moved by less in two rounds."""
HOST_ENVS = 32
CPU_ENVS = 96
ACCELERATED_ENVS = 1024
"""Where a step of many costs as much as one of few."""


@dataclasses.dataclass(frozen=True)
class Round:
    """What fresh states showed, before the student learned from them."""

    frames: int
    """Of this phase, so far."""
    seconds: float
    quality: Quality
    validity_loss: float
    """After learning from them."""
    clone_loss: float


@dataclasses.dataclass(frozen=True)
class Finished:
    """A run after the phase."""

    net: Deployable
    params: Any
    rounds: list[Round]

    def to_json(self) -> dict[str, Any]:
        """The log of the phase."""
        return {"rounds": [dataclasses.asdict(each) for each in self.rounds]}


Report = Callable[[int, int, Round], None]
"""Called after every round with the run's number and all frames so far."""


def finish(
    env: Environment,
    net: AnyNetwork,
    params: Sequence[Any],
    *,
    frames: int,
    seeds: Sequence[int],
    thresholds: Sequence[float] | None = None,
    num_envs: int | None = None,
    width: int = STUDENT_WIDTH,
    report: Report = lambda run, frames, last: None,
) -> list[Finished]:
    """A student for every run. `params`: of `net`, of each run; they stay as they are.

    `frames`: environment steps of each run, at most. `thresholds`: the probability above which an
    action is predicted valid. `num_envs`: environments that are played at a time.
    """
    if not env.has_masks:
        raise MasklessError(
            f"{env.id} has no action masks, so there are no labels to finish a policy with."
        )
    deployable = Deployable.of(acting_net(net), env.num_actions, width=width)
    inside_jax = CPU_ENVS if jax.default_backend() == "cpu" else ACCELERATED_ENVS
    envs = num_envs or (HOST_ENVS if env.runs_on_host else inside_jax)
    collector = Collector(env, deployable, envs)
    finished = []
    try:
        for number, (run, seed) in enumerate(zip(params, seeds, strict=True)):
            student = _Student(deployable, run, seed, thresholds[number] if thresholds else 0.5)
            while not student.done(frames):
                student.learn_from(collector, frames)
                report(number, number * frames + student.frames, student.rounds[-1])
            finished.append(Finished(deployable, student.params, student.rounds))
    finally:
        collector.close()
    return finished


class _Student:
    """One run's student while it learns."""

    def __init__(self, net: Deployable, policy_params: Any, seed: int, threshold: float):
        self.net, self.frames = net, 0
        self.rounds: list[Round] = []
        self._policy, self._seed, self._threshold = policy_params["params"], seed, threshold
        self._random = np.random.default_rng(seed)
        self._compared = 0
        """The frames when comparisons were last looked for."""
        self._memory: Memory | None = None
        self._started = time.monotonic()
        self._play: Any = None
        self._learned: Any = None

    @property
    def params(self) -> Any:
        """Those that act: the policy's, and the student's running average."""
        return {"params": {"policy": self._policy, "student": self._learned.average}}

    def done(self, frames: int) -> bool:
        """No frames are left, or the last rounds have brought no gain."""
        moved = [each.quality.moved for each in self.rounds]
        if len(moved) > 1 and max(moved[-2:]) < PERFECT:
            return True
        if len(moved) > 2 * WINDOW:
            before, now = np.mean(moved[-2 * WINDOW : -WINDOW]), np.mean(moved[-WINDOW:])
            if now > (1 - LEAST_GAIN) * before:
                return True
        return self.frames >= frames

    def learn_from(self, collector: Collector, budget: int) -> None:
        """One round of `budget` frames: play, measure, remember, learn."""
        first = self._memory is None
        if first:
            self._play = collector.begin(self._seed)
            self._learned = learning.untrained(self.net, self._play, self._seed)
        self._play, fresh = collector.collect(
            self.params,
            self._play,
            min(FRAMES_A_ROUND, budget - self.frames),
            self._threshold,
            by_oracle=first,
        )
        if self._memory is None:
            states = jax.tree.map(lambda x: x[:FIRST_STATES], fresh.labelled)
            self._learned = learning.normalise(self.net.student(), self._learned, states)
            self._memory = Memory(states)
        measured = quality(fresh, self._threshold)
        self._memory.add(fresh.labelled)
        if self.frames >= 2 * self._compared:  # now and then: what is rare is seen late
            states = self._memory.draw(self._random, (comparisons.STATES,))
            self._learned = learning.compare(self.net.student(), self._learned, states)
            self._compared = self.frames + len(fresh.labelled.valid)
        new = len(fresh.labelled.valid)
        steps = PASSES * new // learning.BATCH
        rate = learning.LEARNING_RATE * max(1.0 - self.frames / budget, LAST_RATE)
        self._learned, losses = learning.learn(
            self.net.student(), self._learned, self._memory, steps, self._random, rate=rate
        )
        self.frames += new
        seconds = time.monotonic() - self._started
        self.rounds.append(Round(self.frames, seconds, measured, *map(float, losses)))
