"""`maskless envs`: the list of environments, and a look at one."""

import dataclasses
import itertools
import time
from collections.abc import Iterator
from typing import Any, Literal

import tyro
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from maskless.cli.common import OUT
from maskless.errors import MasklessError

GAMES = {
    "craftax, craftax-classic": "gather, build and fight in a 2-D world: upstream's Craftax",
    "corridor-r2, -r3, -r5": "rooms joined by corridors, as the paper simplified NetHack's",
    "minihack-corridor-*": "the same in the real game's rules (NetHack 3.6.6)",
    "mazewalk-*": "mazes of NetHack; -mapped: the map is known",
    "staircase": "the paper's Figure 1: walk 40 cells, then descend; learned in seconds",
    "gymnasium:ID": "any of Gymnasium's with discrete actions, such as gymnasium:Taxi-v3",
    "module:Name": "a class or function of your own, for JAX or for Gymnasium",
}
"""What can be trained in."""


@dataclasses.dataclass(frozen=True)
class Envs:
    """List the environments, or show a game in the terminal.

    Example: maskless envs

    Example: maskless envs show minihack-corridor-r3 --steps 40
    """

    action: tyro.conf.Positional[Literal["list", "show"]] = "list"
    """What to do: list all environments, or show one."""
    env: tyro.conf.Positional[str] = ""
    """show: the id of the environment."""
    steps: int = 20
    """show: how many random valid actions to play."""
    seed: int = 0
    """show: which level, and which game."""
    delay: float = 0.0
    """show: seconds to wait between steps."""

    def run(self) -> None:
        if self.action == "show":
            self._show()
        else:
            self._list()

    def _show(self) -> None:
        import jax

        import maskless

        env = maskless.make(self.env)
        if type(env).render is maskless.Environment.render:
            raise MasklessError(f"{env.id} has no view for the terminal.")
        key, reset_key = jax.random.split(jax.random.key(self.seed))
        state = jax.jit(env.reset)(reset_key)[1]
        for title, picture in env.render(state).items():
            OUT.rule(title)
            OUT.print(picture)
        game = itertools.islice(_random_game(env, key, state), self.steps)
        for number, (action, reward, done, after) in enumerate(game, start=1):
            time.sleep(self.delay)
            OUT.rule(f"step {number}: {action}, reward {reward:g}{', the end' * done}")
            OUT.print(next(iter(env.render(after).values())))

    def _list(self) -> None:
        import maskless

        wide = OUT.width >= 110
        table = Table(box=SIMPLE_HEAD, caption="* default", caption_justify="left")
        columns = ["id", "actions", "episode limit", "mask rules"] + ["observation"] * wide
        for column in columns:
            table.add_column(column, no_wrap=column != "observation")
        for id in maskless.ids():
            env = maskless.make(id)
            rules = ", ".join(f"{r}*" if r == env.rules else r for r in env.rule_sets)
            limit = f"{env.episode_limit:,} steps"
            shapes = [_shapes(env)] if wide else []
            table.add_row(id, str(env.num_actions), limit, rules, *shapes)
        OUT.print(table)
        games = Table(box=None, show_header=False, padding=(0, 2, 0, 1))
        games.add_column(no_wrap=True)
        for name, about in GAMES.items():
            games.add_row(Text(name), Text(about))
        OUT.print(games)
        if not wide:
            OUT.print("\n With room for 110 columns, observations are listed too.", style="dim")


def _random_game(env: Any, key: Any, state: Any) -> Iterator[tuple[str, float, bool, Any]]:
    """Plays valid actions at random until the episode ends."""
    import jax
    import jax.numpy as jnp

    @jax.jit
    def play(key: Any, state: Any) -> Any:
        action_key, step_key = jax.random.split(key)
        action = jax.random.categorical(action_key, jnp.where(env.validity(state), 0.0, -jnp.inf))
        _, state, reward, done, _ = env.step(step_key, state, action)
        return action, reward, done, state

    done = False
    while not done:
        key, step_key = jax.random.split(key)
        action, reward, done, state = play(step_key, state)
        yield env.action_names[int(action)], float(reward), bool(done), state


def _shapes(env: Any) -> str:
    """The observation's fields, found without making a world."""
    from maskless.policy.observations import WHOLE, fields_of

    shapes = [(f.name, f"{f.dtype}{list(f.shape)}".replace("[]", "")) for f in fields_of(env)]
    return ", ".join(shape if name == WHOLE else f"{name} {shape}" for name, shape in shapes)
