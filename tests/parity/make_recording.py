"""Records fresh play of the real Corridor games, in the format of the shared recordings.

    python tests/parity/make_recording.py FOLDER --seed 700000 --episodes 40
    MASKLESS_MINIHACK_DATA=FOLDER python -m pytest tests/parity

So many episodes for each game and policy, every one on a level of its own. An episode is recorded
to its last step but one: the real environment returns no screen for the one that ends the game.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # to run as a script

from minihax.level.terrain import RECORDED_CHARACTERS

from parity.live_game import LiveGame, live_game
from parity.policies import Curious, Explorer, Uniform
from parity.recordings import ROOMS_BY_ENV

POLICIES = {policy.__name__: policy for policy in (Uniform, Explorer, Curious)}
_CHARACTERS = {terrain: ord(character) for character, terrain in RECORDED_CHARACTERS.items()}
_LOOK = np.array([_CHARACTERS.get(code, ord("-")) for code in range(max(_CHARACTERS) + 1)])
"""The recorded character of each terrain code; corners are recorded as '-'."""

_TYPES: dict[str, Any] = {
    **dict.fromkeys(("frag_env", "frag_x0", "frag_y0", "frag_truemap", "action"), np.uint8),
    **dict.fromkeys(("x0", "y0", "x1", "y1", "tdiff_y", "tdiff_x", "tdiff_ch"), np.uint8),
    **dict.fromkeys(("frag_glyphs0", "frag_glyphcrop0", "glyphs_crop", "gdiff_glyph"), np.int16),
    **dict.fromkeys(("t0", "t1", "msg_id", "step_frag", "frag_nsteps"), np.int16),
    **dict.fromkeys(("gdiff_frag", "gdiff_step", "tdiff_frag", "tdiff_step"), np.int16),
    **dict.fromkeys(("gdiff_y", "gdiff_x", "chars_crop", "colors_crop"), np.uint8),
    **dict.fromkeys(("prompt_before", "prompt_after", "done", "truncated"), np.bool_),
    **dict.fromkeys(("obs_is_prequit",), np.bool_),
    **dict.fromkeys(("frag_seed", "frag_start", "frag_blstats0", "blstats"), np.int32),
    **dict.fromkeys(("boulders",), np.int32),
    **dict.fromkeys(("frag_mode", "messages"), np.str_),
    **dict.fromkeys(("reward",), np.float32),
    **dict.fromkeys(("end_status",), np.int8),
}


class Recording:
    """The arrays of a recording while they grow, as lists of rows."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Any]] = {name: [] for name in _TYPES}
        self.messages: dict[str, int] = {}

    def add(self, prefix: str = "", **values: Any) -> None:
        for name, value in values.items():
            self.rows[prefix + name].append(value)

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.rows["messages"] = list(self.messages)
        arrays = {name: np.array(rows, _TYPES[name]) for name, rows in self.rows.items()}
        arrays["boulders"] = arrays["boulders"].reshape(-1, 3)  # also when there are none
        np.savez_compressed(folder / "golden_trajectories.npz", **arrays)

    def play(self, game: LiveGame, env: int, seed: int, policy: Any, limit: int) -> None:
        """Adds one episode, unless its first step ends it."""
        fragment, first = len(self.rows["frag_env"]), len(self.rows["action"])
        seen = game.reset(seed)
        terrain, boulders = game.true_map()
        stones = np.argwhere(boulders)
        blstats = seen["blstats"][:27]
        start = {"glyphs0": seen["glyphs"], "glyphcrop0": seen["glyphs_crop"], "blstats0": blstats}
        start |= {"env": env, "seed": seed, "mode": type(policy).__name__, "start": first}
        start |= {"truemap": _LOOK[terrain], "x0": blstats[0] + 1, "y0": blstats[1]}
        prompt = False
        for step in range(limit):
            x, y, turn = blstats[0] + 1, blstats[1], blstats[20]
            action = int(policy(terrain, boulders, np.array([y, x]), prompt))
            after, reward, done, _, info = game.step(action)
            if done:
                break
            now, boulders = game.true_map()
            self._changes(fragment, step, seen["glyphs"], after["glyphs"], terrain, now)
            text = bytes(after["message"]).split(b"\0")[0].decode()
            blstats, before = after["blstats"][:27], prompt
            prompt = text == "In what direction? "
            self.add("step_", frag=fragment)
            self.add(action=action, x0=x, y0=y, x1=blstats[0] + 1, y1=blstats[1], t0=turn)
            self.add(t1=blstats[20], prompt_before=before, prompt_after=prompt, reward=reward)
            self.add(msg_id=self.messages.setdefault(text, len(self.messages)), blstats=blstats)
            self.add(done=False, truncated=False, end_status=int(info["end_status"]))
            self.add(obs_is_prequit=False)
            self.add(**{name: after[name] for name in ("glyphs_crop", "chars_crop", "colors_crop")})
            terrain, seen = now, after
        steps = len(self.rows["action"]) - first
        if steps:
            self.add("frag_", **start, nsteps=steps)
            self.rows["boulders"] += [(fragment, x, y) for y, x in stones]

    def _changes(
        self,
        fragment: int,
        step: int,
        screen: np.ndarray,
        new_screen: np.ndarray,
        terrain: np.ndarray,
        new_terrain: np.ndarray,
    ) -> None:
        """The squares of the screen and of the true map that this step changed."""
        for y, x in np.argwhere(screen != new_screen):
            self.add("gdiff_", frag=fragment, step=step, y=y, x=x, glyph=new_screen[y, x])
        for y, x in np.argwhere(terrain != new_terrain):
            self.add("tdiff_", frag=fragment, step=step, y=y, x=x, ch=_LOOK[new_terrain[y, x]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=700_000, help="of the first level")
    parser.add_argument("--episodes", type=int, default=40, help="for each game and policy")
    parser.add_argument("--steps", type=int, default=200, help="at most, of an episode")
    parser.add_argument("--games", nargs="+", choices=ROOMS_BY_ENV, default=list(ROOMS_BY_ENV))
    parser.add_argument("--policies", nargs="+", choices=POLICIES, default=list(POLICIES))
    options = parser.parse_args()
    recording, seed = Recording(), options.seed
    for name in options.games:
        env = list(ROOMS_BY_ENV).index(name)
        with live_game(f"MiniHack-Corridor-{name}-v0") as game:
            for policy in options.policies:
                for _ in range(options.episodes):
                    recording.play(game, env, seed, POLICIES[policy](seed), options.steps)
                    seed += 1
    recording.save(options.folder)
    counts = (len(recording.rows[name]) for name in ("frag_env", "action"))
    print("{} episodes, {} steps".format(*counts))


if __name__ == "__main__":
    main()
