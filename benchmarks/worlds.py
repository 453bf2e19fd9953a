"""Worlds that the paper does not have, to try the promise on: a job shop for Gymnasium, 2048 and a
packing line in JAX. In each of them the mask is a function of the observation.

    maskless train --env worlds:Game2048 --frames 1e6           # in this folder
    maskless train --env gymnasium:worlds:JobShop-v0 --frames 3e5
"""

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Bool, Int, PRNGKeyArray

import maskless

JOBS, OPERATIONS, MACHINES = 6, 4, 5


class JobShop(gymnasium.Env):
    """A flexible job shop: start the next operation of a job on a machine, or wait.

    31 actions: (job, machine), and waiting until the next operation ends. Starting takes no time;
    the reward is minus the time that passes, in tens. What is invalid changes nothing and costs
    0.1: a job that runs or is done, a machine that runs, or one that cannot do the operation.
    """

    action_names = (
        *(f"job {job} on machine {machine}" for job in range(JOBS) for machine in range(MACHINES)),
        "wait",
    )
    action_space = spaces.Discrete(JOBS * MACHINES + 1)
    observation_space = spaces.Dict(
        {
            "able": spaces.MultiBinary((JOBS, MACHINES)),  # by the job's next operation
            "hours": spaces.Box(0, 1, (JOBS, MACHINES)),  # it would take there, in tens
            "idle_job": spaces.MultiBinary(JOBS),
            "idle_machine": spaces.MultiBinary(MACHINES),
            "left": spaces.Box(0, OPERATIONS, (JOBS,)),  # operations not begun
            "busy": spaces.Box(0, 1, (MACHINES,)),  # hours until it is idle, in tens
        }
    )

    def reset(
        self, *, seed: int | None = None, options: dict | None = None
    ) -> tuple[dict[str, np.ndarray], dict]:
        super().reset(seed=seed)
        shape = (JOBS, OPERATIONS, MACHINES)
        self._hours = self.np_random.integers(1, 10, shape)
        able = self.np_random.random(shape) < 0.4
        able[
            np.arange(JOBS)[:, None],
            np.arange(OPERATIONS),
            self.np_random.integers(MACHINES, size=(JOBS, OPERATIONS)),
        ] = True
        self._able = able
        self._begun = np.zeros(JOBS, int)
        self._job_on = np.full(MACHINES, -1)
        self._busy = np.zeros(MACHINES, int)
        self._steps = 0
        return self._look(), {}

    def step(self, action: int) -> tuple[dict[str, np.ndarray], float, bool, bool, dict]:
        self._steps += 1
        reward = -0.1
        if self.action_masks()[action]:
            if action == JOBS * MACHINES:
                passed = self._busy[self._busy > 0].min()
                self._busy = np.maximum(self._busy - passed, 0)
                self._job_on[self._busy == 0] = -1
                reward = -passed / 10
            else:
                job, machine = divmod(int(action), MACHINES)
                self._busy[machine] = self._hours[job, self._begun[job], machine]
                self._job_on[machine] = job
                self._begun[job] += 1
                reward = 0.0
        over = bool((self._begun == OPERATIONS).all() and (self._busy == 0).all())
        return self._look(), float(reward), over, self._steps >= 200, {}

    def action_masks(self) -> Bool[np.ndarray, " 31"]:
        """True = valid."""
        able, _ = self._next()
        idle_machine = self._busy == 0
        start = able & self._idle_jobs()[:, None] & idle_machine
        wait = not idle_machine.all()
        valid = np.append(start.ravel(), wait)
        return valid if valid.any() else np.append(valid[:-1], True)  # the last state of all

    def _idle_jobs(self) -> Bool[np.ndarray, " jobs"]:
        return ~np.isin(np.arange(JOBS), self._job_on) & (self._begun < OPERATIONS)

    def _next(self) -> tuple[np.ndarray, np.ndarray]:
        """Of each job's next operation: the machines that can do it, and its hours there."""
        left = (self._begun < OPERATIONS)[:, None]
        number = np.minimum(self._begun, OPERATIONS - 1)
        jobs = np.arange(JOBS)
        able = self._able[jobs, number] & left
        return able, self._hours[jobs, number] * able

    def _look(self) -> dict[str, np.ndarray]:
        able, hours = self._next()
        return {
            "able": able.astype(np.int8),
            "hours": (hours / 10).astype(np.float32),
            "idle_job": self._idle_jobs().astype(np.int8),
            "idle_machine": (self._busy == 0).astype(np.int8),
            "left": (OPERATIONS - self._begun).astype(np.float32),
            "busy": (self._busy / 10).astype(np.float32),
        }


if "JobShop-v0" not in gymnasium.registry:
    gymnasium.register("JobShop-v0", entry_point="worlds:JobShop")


class Game2048(maskless.Environment):
    """2048 on a 4 x 4 board: tiles slide, equal ones merge, a new one appears. A direction is valid
    when it moves something. The reward is the sum of the merged tiles' exponents, in tenths."""

    id, action_names, episode_limit = "2048", ("left", "up", "right", "down"), 1000

    def reset(self, key: PRNGKeyArray, params: Any = None) -> Any:
        one, two = jax.random.split(key)
        state = (_add_tile(two, _add_tile(one, jnp.zeros((4, 4), jnp.int32))), jnp.int32(0))
        return self.observe(state), state

    def step(self, key: PRNGKeyArray, state: Any, action: Any, params: Any = None) -> Any:
        board, time = state
        moved, reward = _slide(board, action)
        changed = jnp.any(moved != board)
        board = jnp.where(changed, _add_tile(key, moved), board)
        state = (board, time + 1)
        truncated = time + 1 >= self.episode_limit
        done = ~jnp.any(self.validity(state)) | truncated
        reward = jnp.where(changed, reward / 10, -0.1)
        return self.observe(state), state, reward, done, {"truncated": truncated}

    def observe(self, state: Any) -> Array:
        return jax.nn.one_hot(state[0], 16).reshape(-1)

    def validity(self, state: Any, params: Any = None) -> Bool[Array, " 4"]:
        boards = jax.vmap(lambda action: _slide(state[0], action)[0])(jnp.arange(4))
        return jnp.any(boards != state[0], axis=(1, 2))

    def effect_view(self, state: Any) -> Any:
        return state[0]


def _slide(board: Int[Array, "4 4"], action: Any) -> tuple[Int[Array, "4 4"], Array]:
    """The board after a move (no new tile yet), and the sum of the exponents that merged."""
    turns = [lambda x, k=k: jnp.rot90(x, k) for k in range(4)]
    backs = [lambda x, k=k: jnp.rot90(x, -k) for k in range(4)]
    rows, rewards = jax.vmap(_slide_row)(jax.lax.switch(action, turns, board))
    return jax.lax.switch(action, backs, rows), rewards.sum()


def _slide_row(row: Int[Array, " 4"]) -> tuple[Int[Array, " 4"], Array]:
    """One row to the left, by the rules: a merged tile does not merge again."""
    row = row[jnp.argsort(row == 0, stable=True)]
    merged, reward, taken = jnp.zeros(5, jnp.int32), jnp.int32(0), jnp.bool_(False)
    place = jnp.int32(0)
    for i in range(4):
        tile = row[i]
        after = row[i + 1] if i < 3 else jnp.int32(0)
        joins = ~taken & (tile > 0) & (tile == after)
        write = ~taken & (tile > 0)
        merged = merged.at[jnp.where(write, place, 4)].set(jnp.where(joins, tile + 1, tile))
        reward = reward + joins * (tile + 1)
        place = place + write
        taken = joins
    return merged[:4], reward


def _add_tile(key: PRNGKeyArray, board: Int[Array, "4 4"]) -> Int[Array, "4 4"]:
    place_key, value_key = jax.random.split(key)
    logits = jnp.where(board.reshape(-1) == 0, 0.0, -jnp.inf)
    place = jax.random.categorical(place_key, logits)
    value = jnp.where(jax.random.uniform(value_key) < 0.9, 1, 2)
    return board.reshape(-1).at[place].set(value).reshape(4, 4)


class Packing(maskless.Environment):
    """Parcels come one by one and go into one of eight crates of capacity 100, or all crates are
    sent off (at a price) and come back empty. A crate is valid when the parcel fits, sending when
    something is in a crate. Reward: the parcel's size in hundreds; sending costs 2."""

    id, episode_limit, crates, capacity = "packing", 200, 8, 100
    action_names = (*(f"crate {n}" for n in range(8)), "send")

    def reset(self, key: PRNGKeyArray, params: Any = None) -> Any:
        state = (jnp.zeros(self.crates, jnp.int32), self._parcel(key), jnp.int32(0))
        return self.observe(state), state

    def step(self, key: PRNGKeyArray, state: Any, action: Any, params: Any = None) -> Any:
        levels, parcel, time = state
        valid = self.validity(state)[action]
        sends = action == self.crates
        packed = levels.at[jnp.minimum(action, self.crates - 1)].add(jnp.where(sends, 0, parcel))
        after = jnp.where(sends, jnp.zeros_like(levels), packed)
        reward = jnp.where(valid, jnp.where(sends, -2.0, parcel / 100), -0.1)
        levels = jnp.where(valid, after, levels)
        parcel = jnp.where(valid & ~sends, self._parcel(key), parcel)
        state = (levels, parcel, time + 1)
        done = time + 1 >= self.episode_limit
        return self.observe(state), state, reward, done, {"truncated": done}

    def _parcel(self, key: PRNGKeyArray) -> Int[Array, ""]:
        return jax.random.randint(key, (), 10, 70)

    def observe(self, state: Any) -> dict[str, Array]:
        levels, parcel, _ = state
        return {"levels": levels.astype(jnp.float32), "parcel": parcel.astype(jnp.float32)[None]}

    def validity(self, state: Any, params: Any = None) -> Bool[Array, " 9"]:
        levels, parcel, _ = state
        return jnp.append(levels + parcel <= self.capacity, jnp.any(levels > 0))

    def effect_view(self, state: Any) -> Any:
        return state[:2]
