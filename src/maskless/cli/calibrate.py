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
        from maskless.evaluation.calibration import CHECKS, calibrate, check_settings
        from maskless.evaluation.player import check_oracle, default_envs
        from maskless.evaluation.runs import environment_of
        from maskless.evaluation.sampling import ENVS, EpisodeSampler
        from maskless.policy import change_policy, find_policy, load

        check_settings(self.episodes, self.alpha, self.delta)
        require(self.envs is None or self.envs >= 1, f"envs must be at least 1, not {self.envs}.")
        policy = load(self.run_folder)
        env = environment_of(self.run_folder, policy, self.env)
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
        print_calibration(policy, calibration)
        if self.dry_run:
            OUT.print("dry run: the policy is as it was")
            return
        folder = find_policy(self.run_folder)
        record = calibration.to_json() | {"env": env.id}
        change_policy(folder, {"thresholds": list(calibration.thresholds), "calibration": record})
        OUT.print(f"stored the thresholds in {folder}", soft_wrap=True)


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
    table.columns[-1].justify, table.columns[-1].no_wrap = "left", False
    OUT.print(table)
    before, after, deployed = (number(sample.policy_change(), "{:.4f}") for sample in samples)
    OUT.print(
        "distance from the oracle-masked policy (total variation): before"
        f" {before}, after {after}, as deployed {deployed}"
    )


def _remark(calibration: "Calibration", action: int) -> str:
    """Why an action has the threshold it has, when there were too few episodes for the bound."""
    from maskless.evaluation.calibration import episodes_needed

    if calibration.mode != "conformal":
        return ""
    settings = calibration.settings
    needed = episodes_needed(settings["alpha"], settings["delta"] / len(calibration.thresholds))
    if calibration.episodes[action] >= needed:
        return ""
    outcome = "never masked" if calibration.guaranteed[action] else "threshold kept, no bound"
    return f"fewer than {needed} episodes: {outcome}"
