"""Makes tests/data/policies: artifacts of other versions, with what they answered there.

    PYTHONPATH=src:tests python tests/policy/elsewhere.py     # with another Python and JAX

`tests/policy/test_elsewhere.py` loads them wherever the tests run.
"""

import json
import platform
import sys
from pathlib import Path

import jax
import numpy as np
from policy.made import make_policy, tower_observations

import maskless

STEPS, BATCH = 5, 4
FOLDER = Path(__file__).parents[1] / "data" / "policies"


def answers(policy, observations):
    """Action, log-probability and predicted mask of every step, for the same keys."""
    carry, found = policy.initial_carry(BATCH), []
    for step, observation in enumerate(observations):
        key = jax.random.key(step)
        # Those that are in the repository were made before there was a memory of failures.
        how = {"masks": "predicted", "memory": False}
        action, carry, info = policy.act(observation, carry, key, **how)
        answer = {"action": action, "mask": info.mask}
        found.append({name: np.asarray(value).tolist() for name, value in answer.items()})
    return found, jax.tree.map(lambda x: np.asarray(x, np.float64).tolist(), carry.network)


def main() -> None:
    for name in ("mlp", "gru"):
        folder = make_policy(FOLDER / name, name, width=8)
        observations = tower_observations(STEPS * BATCH).reshape(STEPS, BATCH, -1)
        found, carry = answers(maskless.load(folder), observations)
        record = {
            "python": platform.python_version(),
            "jax": jax.__version__,
            "platform": sys.platform,
            "steps": found,
            "carry": carry,
        }
        (FOLDER / f"{name}.json").write_text(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
