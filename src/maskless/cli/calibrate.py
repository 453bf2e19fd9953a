"""`maskless calibrate`: a threshold for each action."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro
from rich.table import Table

from maskless.cli.common import OUT, ProgressBar

if TYPE_CHECKING:
    from maskless.evaluation.calibration import Calibration
    from maskless.policy.acting import Policy


@dataclasses.dataclass(frozen=True)
class Calibrate:
    """Choose a threshold for each action where the oracle is available, and store it in the policy.

    conformal: a valid action is masked with probability at most --alpha, for all actions at once
    with confidence 1 - --delta (docs/deployment.md says on which states). policy: as close to the
    oracle-masked policy as possible. Both are checked on fresh episodes.

    Example: maskless calibrate runs/craftax-classic-gru-1/masked-kl/seed-0 --alpha 0.01

    Example: maskless calibrate runs/craftax-classic-gru-1/masked-kl/seed-0 --mode policy --dry-run
    """

    run_folder: tyro.conf.Positional[Path]
    """Folder of a run with a policy, or of an artifact."""
    mode: Literal["conformal", "policy"] = "conformal"
    """What the thresholds are for."""
    alpha: float = 0.01
    """conformal: the bound on masking a valid action."""
    delta: float = 0.05
    """conformal: the probability that the calibration episodes mislead and the bound fails."""
    rare: Literal["allow", "keep"] = "allow"
    """conformal: an action valid in too few episodes for the bound is never masked, or keeps its
    threshold without a bound."""
    episodes: int = 2048
    """Episodes to choose with; three times as many more are played to check."""
    envs: int | None = None
    """Episodes that are under way at a time; None: 512, in Gymnasium environments 32."""
    seed: int = 0
    """Of levels and dice."""
    env: str | None = None
    """Calibrate in another environment, with the same observations and actions."""
    dry_run: bool = False
    """Show the thresholds, and leave the policy as it is."""

    def run(self) -> None:
        from maskless.errors import MasklessError
        from maskless.evaluation.calibration import CHECKS, calibrate, check_settings
        from maskless.evaluation.player import check_oracle, default_envs
        from maskless.evaluation.runs import environment_of
        from maskless.evaluation.sampling import ENVS, EpisodeSampler
        from maskless.policy.acting import load
        from maskless.policy.artifact import change_policy, find_policy

        check_settings(self.episodes, self.alpha, self.delta)
        if self.envs is not None and self.envs < 1:
            raise MasklessError(f"envs must be at least 1, not {self.envs}.")
        policy = load(self.run_folder)
        env = environment_of(self.run_folder, policy, self.env)
        check_oracle(env, "calibrate the policy in an environment that has masks, with --env")
        envs = self.envs or default_envs(env, ENVS)
        total = (1 + CHECKS) * self.episodes
        with (
            EpisodeSampler(policy, env, envs=min(envs, self.episodes)) as sampler,
            ProgressBar("playing (compiling first)", total, "episodes") as update,
        ):
            found = calibrate(
                sampler,
                mode=self.mode,
                episodes=self.episodes,
                alpha=self.alpha,
                delta=self.delta,
                rare=self.rare,
                seed=self.seed,
                report=update,
            )
        print_calibration(policy, found)
        if self.dry_run:
            OUT.print("dry run: the policy is as it was")
            return
        folder = find_policy(self.run_folder)
        record = found.to_json() | {"env": env.id}
        change_policy(folder, {"thresholds": list(found.thresholds), "calibration": record})
        OUT.print(f"stored the thresholds in {folder}", soft_wrap=True)


def print_calibration(policy: "Policy", found: "Calibration") -> None:
    """The thresholds and what they do, action by action."""
    table = Table(title="how often a valid action is masked, on fresh episodes")
    for column in ("action", "threshold", "valid in", "before", "after", "as deployed", ""):
        text = column in ("action", "")
        table.add_column(column, justify="left" if text else "right", no_wrap=not text)
    rates = [x.masked_rate() for x in (found.before, found.after, found.deployed)]
    for number, name in enumerate(policy.action_names):
        old, new = policy.artifact.thresholds[number], found.thresholds[number]
        table.add_row(
            name,
            f"{_threshold(old)} -> {_threshold(new)}",
            f"{found.episodes[number]:,} episodes",
            *(_percent(rate[number]) for rate in rates),
            _remark(found, number),
        )
    OUT.print(table)
    changes = [x.policy_change() for x in (found.before, found.after, found.deployed)]
    OUT.print(
        "distance from the oracle-masked policy (total variation): before"
        f" {changes[0]:.4f}, after {changes[1]:.4f}, as deployed {changes[2]:.4f}"
    )


def _remark(found: "Calibration", number: int) -> str:
    if found.mode != "conformal":
        return ""
    from maskless.evaluation.calibration import episodes_needed

    needed = episodes_needed(
        found.settings["alpha"], found.settings["delta"] / len(found.thresholds)
    )
    if found.episodes[number] >= needed:
        return ""
    outcome = "never masked" if found.guaranteed[number] else "threshold kept, no bound"
    return f"fewer than {needed} episodes: {outcome}"


def _threshold(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"


def _percent(rate: float) -> str:
    return "-" if rate != rate else f"{100 * rate:.2f} %"
