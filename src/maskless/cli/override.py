"""`maskless override`: rules that a person adds to a policy."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from maskless.cli.common import OUT
from maskless.errors import MasklessError, require

if TYPE_CHECKING:
    from maskless.policy import Override, Policy


@dataclasses.dataclass(frozen=True)
class OverrideCommand:
    """List, add or remove rules for single actions of a policy, without training it again.

    A rule is applied after the mask is predicted; of several rules for an action the last decides.

    Example: maskless override RUN list

    Example: maskless override RUN add --action descend --never --when "blstats[10] < 5" --dry-run

    Example: maskless override RUN add --action sleep --threshold 0.2

    Example: maskless override RUN remove --number 1
    """

    run_folder: tyro.conf.Positional[Path]
    """Folder of a run with a policy, or of an artifact."""
    what: tyro.conf.Positional[Literal["list", "add", "remove"]] = "list"
    """What to do."""
    action: str | None = None
    """add: the name of the action."""
    never: bool = False
    """add: it is never valid."""
    always: bool = False
    """add: it is always valid."""
    threshold: float | None = None
    """add: it is valid above this predicted probability."""
    when: str | None = None
    """add: only where this holds, FIELD[INDEX] OP NUMBER, such as "observation[3] > 0"."""
    number: int | None = None
    """remove: which rule, as `list` numbers them."""
    dry_run: bool = False
    """Play the policy, show what would have changed, and leave it as it is."""
    episodes: int = 256
    """Dry run: episodes to play; eight states of each are looked at."""
    seed: int = 0
    """Dry run: of levels and dice."""
    env: str | None = None
    """Dry run: play in another environment, with the same observations and actions."""
    trust: bool = False
    """Dry run: import the environment that the folder names, if it is neither built in
    nor Gymnasium's."""

    def run(self) -> None:
        from maskless.policy import change_policy, find_policy, load
        from maskless.policy.overrides import check_overrides

        policy = load(self.run_folder)
        self._check_flags()
        if self.what == "list":
            _print_rules(policy, policy.overrides)
            return
        rules = self._added(policy) if self.what == "add" else self._removed(policy)
        check_overrides(rules, policy.action_names, policy.fields)
        if self.dry_run:
            self._show_changes(policy, rules)
            return
        folder = find_policy(self.run_folder)
        change_policy(folder, {"overrides": [rule.to_json() for rule in rules]})
        _print_rules(policy, rules)
        OUT.print(f"stored in {folder}", soft_wrap=True)

    def _check_flags(self) -> None:
        given = (self.action, self.threshold, self.when, self.never or None, self.always or None)
        require(
            self.what == "add" or given == (None,) * len(given),
            "--action, --never, --always, --threshold and --when belong to `add`.",
        )
        require(self.what == "remove" or self.number is None, "--number belongs to `remove`.")
        played = self.what != "list" or not self.dry_run
        require(played, "--dry-run belongs to `add` and `remove`.")
        require(self.episodes >= 1, f"episodes must be at least 1, not {self.episodes}.")

    def _added(self, policy: "Policy") -> "list[Override]":
        from maskless.policy import Override

        effects = {"never": self.never, "always": self.always}
        effects["threshold"] = self.threshold is not None
        chosen = [name for name, given in effects.items() if given]
        if self.action is None or len(chosen) != 1:
            raise MasklessError(
                "A rule needs --action NAME and one of --never, --always and --threshold P."
            )
        return [*policy.overrides, Override(self.action, chosen[0], self.threshold, self.when)]

    def _removed(self, policy: "Policy") -> "list[Override]":
        if self.number is None or not 1 <= self.number <= len(policy.overrides):
            raise MasklessError(
                f"Say which rule to remove: --number 1 to {len(policy.overrides)}."
                if policy.overrides
                else "The policy has no overrides to remove."
            )
        return [rule for n, rule in enumerate(policy.overrides, 1) if n != self.number]

    def _show_changes(self, policy: "Policy", rules: "Sequence[Override]") -> None:
        import jax

        from maskless.evaluation.dry_run import dry_run
        from maskless.evaluation.player import default_envs
        from maskless.evaluation.runs import environment_of
        from maskless.evaluation.sampling import ENVS, EpisodeSampler
        from maskless.report.text import console_table, number

        env = environment_of(self.run_folder, policy, self.env, trust=self.trust)
        envs = min(default_envs(env, ENVS), self.episodes)
        with EpisodeSampler(policy, env, envs=envs) as player:
            played = player.play(jax.random.key(self.seed), self.episodes, masks="predicted")
        result = dry_run(policy, rules, played.states)
        unknown = [None] * len(policy.action_names)  # whether an oracle agrees, without one
        agreed = env.has_masks
        columns = (
            result.allowed,
            result.allowed_rightly if agreed else unknown,
            result.forbidden,
            result.forbidden_rightly if agreed else unknown,
        )
        rows = [
            [name, *(number(count, "{:,}") for count in counts)]
            for name, *counts in zip(policy.action_names, *columns, strict=True)
            if any(counts)
        ]
        title = f"what would change in {result.states:,} states the policy visits"
        header = ("action", "newly allowed", "oracle agrees", "newly masked", "oracle agrees")
        OUT.print(console_table(title, header, rows))
        OUT.print(
            f"{result.changed:,} masks change; fallbacks {result.fallbacks[0]:,} ->"
            f" {result.fallbacks[1]:,}; the policy moves by {result.policy_change:.4f} (total"
            " variation)"
        )
        OUT.print("dry run: the policy is as it was")


def _print_rules(policy: "Policy", rules: "Sequence[Override]") -> None:
    fields = ", ".join(f"{f.name} {f.dtype}{list(f.shape)}" for f in policy.fields)
    for line in (f"observes: {fields}", f"actions: {', '.join(policy.action_names)}"):
        OUT.print(line, markup=False, soft_wrap=True)
    for number, rule in enumerate(rules, 1):
        OUT.print(f"{number}. {rule}", markup=False, soft_wrap=True)
    if not rules:
        OUT.print("no overrides")
