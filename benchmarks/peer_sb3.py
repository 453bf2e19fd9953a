"""sb3-contrib's MaskablePPO, with its defaults, on the job shop of `worlds.py`: what our numbers
are compared with. It needs PyTorch, so it has an environment of its own:

    python -m venv /tmp/sb3 && /tmp/sb3/bin/pip install sb3-contrib jaxtyping . && cd benchmarks
    /tmp/sb3/bin/python peer_sb3.py --frames 200000 --seeds 3
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

RESULT = Path(__file__).parents[1] / "results" / "worlds" / "sb3-job-shop.json"
EPISODES = 512


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=200_000)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    runs = [train(seed, arguments.frames) for seed in range(arguments.seeds)]
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps({"frames": arguments.frames, "runs": runs} | versions(), indent=1))
    print(json.dumps(runs, indent=1))


def train(seed: int, frames: int) -> dict[str, float]:
    """One agent, played under the oracle's masks and without masks."""
    import torch
    from sb3_contrib import MaskablePPO
    from worlds import JobShop

    torch.set_num_threads(1)
    started = time.monotonic()
    agent = MaskablePPO("MultiInputPolicy", JobShop(), seed=seed).learn(frames)
    seconds = time.monotonic() - started
    return {
        "seed": seed,
        "seconds": seconds,
        "frames_per_second": frames / seconds,
        "oracle": play(agent, JobShop(), masked=True),
        "none": play(agent, JobShop(), masked=False, episodes=EPISODES // 8),
    }


def play(agent: Any, env: Any, *, masked: bool, episodes: int = EPISODES) -> float:
    """The mean return of complete episodes, sampled actions."""
    returns = []
    for episode in range(episodes):
        observation, over, total = env.reset(seed=10_000 + episode)[0], False, 0.0
        while not over:
            masks = env.action_masks() if masked else np.ones(env.action_space.n, bool)
            action, _ = agent.predict(observation, action_masks=masks, deterministic=False)
            observation, reward, terminated, truncated, _ = env.step(int(action))
            total, over = total + reward, terminated or truncated
        returns.append(total)
    return float(np.mean(returns))


def versions() -> dict[str, str]:
    import sb3_contrib
    import torch

    return {"sb3_contrib": sb3_contrib.__version__, "torch": torch.__version__}


if __name__ == "__main__":
    main()
