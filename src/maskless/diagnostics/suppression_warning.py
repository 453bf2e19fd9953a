"""A warning that helps: which actions is a run without masks losing, since when, and what to do.

    watch = SuppressionWatch(env.action_names)
    notes = warning_lines(watch.update(row))     # after every row of metrics
    row["suppressed_since_frames"] = watch.since_frames
    suppressed_actions(rows, env.action_names)   # or of a finished run, from metrics.jsonl

Meant for runs that act without masks. Under a mask an invalid action is never tried, so that a low
probability where it is valid is what the policy has learned about it there.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from maskless.errors import MasklessError

TENTH = 0.1
"""An action counts as suppressed below this part of the uniform probability, where it is valid."""

MOSTLY_VALID = 0.5
"""An action that is valid in more than this share of states is judged where it works; a low
probability is then an opinion, not suppression."""

ADVICE = (
    "Invalid tries push them down everywhere. Train under masks with a classifier"
    " (--conditions masked-focal), or raise the entropy bonus."
)


@dataclasses.dataclass(frozen=True)
class SuppressedAction:
    """One finding; `dataclasses.asdict` gives what JSON can hold."""

    action: str
    since_frames: int
    """The frames at the first of the rows in which it has been below the limit without a break.
    Rows in which it was never valid do not count."""
    probability: float
    """Mean probability at valid states, in the last row that has one."""
    uniform: float
    """1 / number of actions."""
    valid_share: float
    """The share of states in which it was valid in that row."""

    @property
    def sentence(self) -> str:
        """For people."""
        ratio = self.uniform / self.probability if self.probability > 0 else None
        return (
            f"{self.action} is being suppressed: where it is valid"
            f" ({100 * self.valid_share:.2g} % of states) it has probability"
            f" {self.probability:.1e}, {f'{ratio:,.0f} times' if ratio else 'infinitely'} less than"
            f" uniform, since {self.since_frames:,} frames."
        )


class SuppressionWatch:
    """Follows one run, row by row of its metrics."""

    def __init__(self, action_names: Sequence[str]):
        self._names = tuple(action_names)
        self._suppressed: dict[str, SuppressedAction] = {}

    def update(self, row: Mapping[str, Any]) -> list[SuppressedAction]:
        """What is suppressed after this row of `metrics.jsonl`; the worst first."""
        uniform = 1 / len(self._names)
        columns = [self._per_action(row, name) for name in ("probability_valid", "valid_share")]
        for action, probability, share in zip(self._names, *columns, strict=True):
            if probability is None or probability != probability or share is None:
                continue  # never valid in this row: nothing is known
            if probability >= TENTH * uniform or share > MOSTLY_VALID:
                self._suppressed.pop(action, None)
                continue
            before = self._suppressed.get(action)
            since = before.since_frames if before else int(row["frames"])
            self._suppressed[action] = SuppressedAction(
                action, since, float(probability), uniform, float(share)
            )
        return sorted(self._suppressed.values(), key=lambda action: action.probability)

    @property
    def since_frames(self) -> list[float]:
        """Since when each action is suppressed, in the order of the names; NaN: it is not."""
        since = {name: float(action.since_frames) for name, action in self._suppressed.items()}
        return [since.get(name, float("nan")) for name in self._names]

    def _per_action(self, row: Mapping[str, Any], name: str) -> Sequence[float | None]:
        values = row.get(name)
        if values is None or len(values) != len(self._names):
            raise MasklessError(
                f"This row of metrics has no {name!r} for {len(self._names)} actions: use rows and"
                " action names of the same run."
            )
        return values


def suppressed_actions(
    rows: Iterable[Mapping[str, Any]], action_names: Sequence[str]
) -> list[SuppressedAction]:
    """What is suppressed at the end of these rows; the worst first."""
    watch, suppressed = SuppressionWatch(action_names), []
    for row in rows:
        suppressed = watch.update(row)
    return suppressed


def warning_lines(suppressed: Sequence[SuppressedAction], *, most: int = 3) -> list[str]:
    """For a display or a report: the worst `most` actions, how many more, what to do."""
    if not suppressed:
        return []
    lines = [action.sentence for action in suppressed[:most]]
    if more := [action.action for action in suppressed[most:]]:
        lines.append(f"{len(more)} more suppressed: {', '.join(more)}.")
    return [*lines, ADVICE]
