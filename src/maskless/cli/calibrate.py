"""`maskless calibrate`: a threshold for each action."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from maskless.cli.common import OUT, ProgressBar
from maskless.errors import require

if TYPE_CHECKING:
    from maskless.evaluation.calibration import Calibration
    from maskless.policy import Policy


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
    rare: Literal["allow", "keep"] = "keep"
    """conformal: an action valid in too few episodes for the bound keeps its threshold, without a
    bound, or is never masked (allow)."""
    episodes: int = 2048
    """Episodes to choose with; three times as many more are played to check."""
    envs: int | None = None
    """Episodes that are under way at a time; None: 512, in Gymnasium environments 32."""
    seed: int = 0
    """Of levels and dice."""
    env: str | None = None
    """Calibrate in another environment, with the same observations and actions."""
    on_invalid: str | None = None
    """What an invalid action brings in a Gymnasium environment that raises at it: noop, end or
    penalty=-0.1."""
    trust: bool = False
    """Import the environment that the folder names, if it is neither built in nor Gymnasium's."""
    dry_run: bool = False
    """Show the thresholds, and leave the policy as it is."""
    force: bool = False
    """Store the thresholds also where the check on fresh episodes calls them worse."""

    def run(self) -> None:
        from maskless.evaluation.calibration import CHECKS, calibrate, check_settings
        from maskless.evaluation.player import check_oracle, default_envs, refusing
        from maskless.evaluation.runs import environment_of
        from maskless.evaluation.sampling import ENVS, EpisodeSampler
        from maskless.files import check_writable
        from maskless.policy import change_policy, find_policy, load

        check_settings(self.episodes, self.alpha, self.delta)
        require(self.envs is None or self.envs >= 1, f"envs must be at least 1, not {self.envs}.")
        policy = load(self.run_folder)
        env = environment_of(self.run_folder, policy, self.env, trust=self.trust)
        folder = find_policy(self.run_folder)
        if not self.dry_run:
            check_writable(folder)
        env = refusing(env, self.on_invalid)
        check_oracle(env, "calibrate the policy in an environment that has masks, with --env")
        envs = self.envs or default_envs(env, ENVS)
        total = (1 + CHECKS) * self.episodes
        with (
            EpisodeSampler(policy, env, envs=min(envs, self.episodes)) as sampler,
            ProgressBar("playing (compiling first)", total, "episodes") as update,
        ):
            calibration = calibrate(
                sampler,
                mode=self.mode,
                episodes=self.episodes,
                alpha=self.alpha,
                delta=self.delta,
                rare=self.rare,
                seed=self.seed,
                report=update,
            )
        stored = not self.dry_run and (self.force or not calibration.is_worse)
        if stored:  # before the table: what reads it may close the pipe before its end
            record = calibration.to_json() | {"env": env.id}
            changes = {"thresholds": list(calibration.thresholds), "calibration": record}
            change_policy(folder, changes)
        print_calibration(policy, calibration)
        if stored:
            OUT.print(f"stored the thresholds in {folder}", soft_wrap=True)
        elif self.dry_run:
            OUT.print("dry run: the policy is as it was")
        else:
            OUT.print(
                "On fresh episodes the new thresholds are worse than the old ones, so the policy is"
                " as it was; --force stores them all the same.",
                soft_wrap=True,
            )


def print_calibration(policy: "Policy", calibration: "Calibration") -> None:
    """The thresholds and what they do, action by action."""
    from maskless.report.text import console_table, number, percent

    samples = (calibration.before, calibration.after, calibration.deployed)
    rates = [sample.masked_rate() for sample in samples]
    rows = []
    for action, name in enumerate(policy.action_names):
        thresholds = policy.artifact.thresholds[action], calibration.thresholds[action]
        rows.append(
            [
                name,
                " -> ".join("none" if t is None else f"{t:.3g}" for t in thresholds),
                f"{calibration.episodes[action]:,} episodes",
                *(percent(rate[action], digits=2) for rate in rates),
                _remark(calibration, action),
            ]
        )
    title = "how often a valid action is masked, on fresh episodes (%, · = never)"
    header = ("action", "threshold", "valid in", "before", "after", "as deployed", "")
    table = console_table(title, header, rows)
    OUT.print(table)
    if any(row[-1] for row in rows):
        OUT.print(
            f"too few: the bound needs {_needed(calibration)} episodes in which an action is valid;"
            " with fewer it keeps its threshold, or is never masked.",
            soft_wrap=True,
        )
    before, after, deployed = (number(sample.policy_change(), "{:.4f}") for sample in samples)
    OUT.print(
        "distance from the oracle-masked policy (total variation): before"
        f" {before}, after {after}, as deployed {deployed}"
    )


def _remark(calibration: "Calibration", action: int) -> str:
    """Why an action has the threshold it has, when there were too few episodes for the bound."""
    if calibration.mode != "conformal" or calibration.episodes[action] >= _needed(calibration):
        return ""
    return "too few: never" if calibration.guaranteed[action] else "too few: kept"


def _needed(calibration: "Calibration") -> int:
    """Episodes in which an action must be valid for the bound."""
    from maskless.evaluation.calibration import episodes_needed

    settings = calibration.settings
    return episodes_needed(settings["alpha"], settings["delta"] / len(calibration.thresholds))
