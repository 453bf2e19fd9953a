"""`maskless validity`: are the masks of an environment right?"""

import dataclasses
import time
from pathlib import Path

import tyro

from maskless.cli.common import OUT, ProgressBar, env_options


@dataclasses.dataclass(frozen=True)
class Validity:
    """Audit the masks of an environment: step every action beside a no-op and compare.

    Example: maskless validity craftax-classic --states 5000
    """

    env: tyro.conf.Positional[str]
    """An id from `maskless envs`, or your own as importable.module:ClassOrFunction."""
    env_options: tuple[str, ...] = ()
    """Options of the environment, such as frozen_penalty=0."""
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
        from maskless.envs.mask_audit import audit, check_size
        from maskless.files import output_folder, slug
        from maskless.provenance import provenance
        from maskless.report.validity import print_audit, save_audit

        check_size(self.states, self.draws)
        env = maskless.make(self.env, **env_options(self.env_options))
        folder = output_folder(self.out or Path("runs/validity") / slug(self.env))
        started = time.monotonic()
        with ProgressBar(f"auditing {env.id} (compiling first)", self.states, "states") as update:
            result = audit(
                env, states=self.states, seed=self.seed, draws=self.draws, progress=update
            )
        seconds = time.monotonic() - started
        run = {"seed": self.seed, "draws": self.draws, "seconds": round(seconds, 1)}
        # Written first: what reads the table may close the pipe before its end.
        written = save_audit(result, folder, provenance() | run)
        print_audit(result, OUT)
        for path in written:
            OUT.print(f"wrote {path}", soft_wrap=True)
