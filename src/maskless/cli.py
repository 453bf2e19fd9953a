"""The `maskless` command. Each subcommand is a dataclass: its fields are the flags."""

import dataclasses
import itertools
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from maskless.errors import MasklessError

OUT = Console()
ERR = Console(stderr=True)


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
        key, reset_key = jax.random.split(jax.random.key(self.seed))
        state = jax.jit(env.reset)(reset_key)[1]
        pictures = env.render(state)
        if not pictures:
            raise MasklessError(f"{env.id} has no view for the terminal.")
        for title, picture in pictures.items():
            OUT.rule(title)
            OUT.print(picture)
        game = itertools.islice(_random_game(env, key, state), self.steps)
        for number, (action, reward, done, after) in enumerate(game, start=1):
            time.sleep(self.delay)
            OUT.rule(f"step {number}: {action}, reward {reward:g}{', the end' * done}")
            OUT.print(next(iter(env.render(after).values())))

    def _list(self) -> None:
        import maskless

        table = Table(box=SIMPLE_HEAD, caption="* default", caption_justify="left")
        for column in ("id", "actions", "observation", "episode limit", "mask rules"):
            table.add_column(column, no_wrap=column != "observation")
        for id in maskless.ids():
            env = maskless.make(id)
            rules = ", ".join(f"{r}*" if r == env.rules else r for r in env.rule_sets)
            table.add_row(
                id, str(env.num_actions), _shapes(env), f"{env.episode_limit:,} steps", rules
            )
        OUT.print(table)


@dataclasses.dataclass(frozen=True)
class Validity:
    """Audit the masks of an environment: step every action beside a no-op and compare.

    Example: maskless validity craftax-classic --states 5000
    """

    env: tyro.conf.Positional[str]
    """An id from `maskless envs`, or your own as importable.module:ClassOrFunction."""
    states: int = 20_000
    """How many states to measure; half of them synthetic where the environment offers that."""
    draws: int = 16
    """Random outcomes tried at most where an action that should work did nothing."""
    seed: int = 0
    """Seed of play, synthetic states and outcomes."""
    out: Path | None = None
    """Folder for validity.json and the figure; default runs/validity/ENV."""

    def run(self) -> None:
        import maskless
        from maskless.diagnostics.validity import audit, check_size
        from maskless.report.files import output_folder, provenance
        from maskless.report.validity import print_audit, save_audit

        check_size(self.states, self.draws)
        env = maskless.make(self.env)
        folder = output_folder(self.out or Path("runs/validity") / self.env.replace(":", "-"))
        started = time.monotonic()
        with ProgressBar(f"auditing {env.id} (compiling first)", self.states, "states") as update:
            result = audit(
                env, states=self.states, seed=self.seed, draws=self.draws, progress=update
            )
        seconds = time.monotonic() - started
        print_audit(result, OUT)
        run = {"seed": self.seed, "draws": self.draws, "seconds": round(seconds, 1)}
        for path in save_audit(result, folder, provenance() | run):
            OUT.print(f"wrote {path}", soft_wrap=True)


@dataclasses.dataclass(frozen=True)
class Demo:
    """Show the main thing in a few minutes: what the paper's masks get wrong in Craftax-Classic.

    Example: maskless demo
    """

    states: int = 4096
    """How many states to measure."""
    out: Path = Path("runs/demo")
    """Folder for the results."""

    def run(self) -> None:
        OUT.print(
            "Which actions can change the world? Every action of every state is played beside a"
            " no-op, with the same dice, and compared with two sets of masks: the [bold]paper[/]'s"
            " listing, and our [bold]exact[/] rules.\n"
        )
        Validity(env="craftax-classic", states=self.states, out=self.out).run()
        OUT.print("\nThe full game: maskless validity craftax     Everything: maskless --help")


Command = (
    Annotated[Demo, tyro.conf.subcommand("demo")]
    | Annotated[Envs, tyro.conf.subcommand("envs")]
    | Annotated[Validity, tyro.conf.subcommand("validity")]
)


def main(arguments: list[str] | None = None) -> None:
    """Entry point. A user's mistake is one sentence and exit code 2, never a traceback."""
    command: Any = tyro.cli(
        Command,
        prog="maskless",
        description="Train with action masks, deploy without them.",
        args=arguments,
    )
    sys.path.append(str(Path.cwd()))  # so that "my_module:MyEnvironment" is found
    try:
        command.run()
    except MasklessError as error:
        ERR.print(f"[bold red]maskless:[/] {escape(str(error))}", soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        ERR.print("maskless: interrupted, nothing more was written.")
        sys.exit(130)


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
    """The observation's shape and type, found without making a world."""
    import jax

    observation, _ = jax.eval_shape(env.reset, jax.random.key(0))
    parts = []
    for path, leaf in jax.tree.leaves_with_path(observation):
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        parts.append(f"{name} {leaf.dtype}{list(leaf.shape)}".replace("[]", "").strip())
    return ", ".join(parts)


class ProgressBar:
    """A bar with rate and time left on stderr; calling it moves it."""

    def __init__(self, title: str, total: int, unit: str):
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,}/{task.total:,} " + unit),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=ERR,
        )
        self._task = self._bar.add_task(title, total=total, rate="")
        self._total = total
        self._first: tuple[float, int] | None = None

    def __enter__(self) -> Any:
        self._bar.start()
        return self._update

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def _update(self, done: int, what: str) -> None:
        # The rate counts from the first report: what lies before it is compiling.
        now = time.monotonic()
        if self._first is None:
            self._first = (now, done)
        elapsed, progressed = now - self._first[0], done - self._first[1]
        rate = f"{progressed / elapsed:,.0f}/s" if elapsed > 0 and progressed else ""
        self._bar.update(self._task, completed=min(done, self._total), rate=rate, description=what)


if __name__ == "__main__":
    main()
