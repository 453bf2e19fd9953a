"""Does a policy that was trained in our NetHack succeed as often in the real one?

python results/transfer.py results/transfer                  # with results/transfer/policy
python results/transfer.py OUT --policy RUN --episodes 320

Plays one policy (a run's or an artifact's folder; trained on minihack-corridor-* or mazewalk-*) in
our environment and in the real MiniHack, where no oracle exists, under the masks it predicts, with
its thresholds and overrides, or by its clone (--masks clone). Writes OUT/ENV-MASKS.json: how often
each was solved, with 95 % intervals, and whether they agree. The real game takes about a second for
an episode on two cores.
"""

import argparse
import dataclasses
import math
import sys
import time
from pathlib import Path
from typing import Any

from rich.table import Table

from maskless.cli.common import ERR, OUT, ProgressBar
from maskless.errors import MasklessError
from maskless.evaluation.summary import RunEvaluation, evaluate
from maskless.files import output_folder, write_json
from maskless.policy.artifact import Artifact, find_policy, read_artifact
from maskless.provenance import provenance
from maskless.report.evaluation import masks_in_words

NORMAL = 1.959964
"""Of a standard normal number, 95 % lie within this of 0."""
REAL = {f"minihack-corridor-r{n}": f"MiniHack-Corridor-R{n}-v0" for n in (2, 3, 5)} | {
    f"mazewalk-{size}{ours}": f"MiniHack-MazeWalk-{theirs}{size}-v0"
    for size in ("9x9", "15x15", "45x19")
    for ours, theirs in (("", ""), ("-mapped", "Mapped-"))
}
"""Our environment -> the same game in MiniHack."""


@dataclasses.dataclass(frozen=True)
class Share:
    """How many of how many."""

    successes: int
    episodes: int

    @property
    def rate(self) -> float:
        return self.successes / self.episodes

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the rate: also right near 0 and 1."""
        n, p, z = self.episodes, self.rate, NORMAL
        middle = (p + z**2 / (2 * n)) / (1 + z**2 / n)
        half = z / (1 + z**2 / n) * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
        # At 0 and 1 the interval begins with the rate itself; rounding must not move it past.
        return max(0.0, min(p, middle - half)), min(1.0, max(p, middle + half))


def difference(a: Share, b: Share) -> tuple[float, float]:
    """Newcombe's 95 % interval of a's rate minus b's, made of their Wilson intervals.

    Stricter than asking whether the two intervals overlap, which they can do although the rates
    differ.
    """
    (a_low, a_high), (b_low, b_high) = a.interval, b.interval
    distance = a.rate - b.rate
    return (
        distance - math.hypot(a.rate - a_low, b_high - b.rate),
        distance + math.hypot(a_high - a.rate, b.rate - b_low),
    )


def play(
    policy: Path, env: str | None, title: str, arguments: argparse.Namespace
) -> tuple[RunEvaluation, float]:
    """Complete episodes in one environment (None: where it was trained, with the options of then),
    and the seconds they took."""
    began = time.monotonic()
    with ProgressBar(f"{title} (starting)", arguments.episodes, "episodes") as update:
        found = evaluate(
            policy,
            masks=(arguments.masks,),
            episodes=arguments.episodes,
            num_envs=min(arguments.envs, arguments.episodes),
            seed=arguments.seed,
            env=env,
            report=lambda done, _: update(done, title),
        )
    return found.runs[0], time.monotonic() - began


def describe(run: RunEvaluation, masks: str, env: str, seconds: float) -> dict[str, Any]:
    found = run.masks[masks]
    share = Share(round(found.success_rate * found.episodes), found.episodes)
    return {
        "env": env,
        "episodes": share.episodes,
        "successes": share.successes,
        "success_rate": share.rate,
        "interval": share.interval,
        "mean_return": found.mean_return,
        "return_interval": [found.low, found.high],
        "length": found.length,
        "fallback_rate": found.fallback_rate,
        "seconds": round(seconds, 1),
    }


def judge(ours: dict[str, Any], real: dict[str, Any]) -> dict[str, Any]:
    """Do the two success rates agree?"""
    a, b = (Share(x["successes"], x["episodes"]) for x in (ours, real))
    low, high = difference(a, b)
    agree = low <= 0.0 <= high
    words = (
        f"the success rates {'agree' if agree else 'differ'}: {100 * a.rate:.1f} % in JAX,"
        f" {100 * b.rate:.1f} % in the real game; difference {100 * (a.rate - b.rate):+.1f} points"
        f" (95 % interval {100 * low:+.1f} to {100 * high:+.1f})"
    )
    return {
        "difference": a.rate - b.rate,
        "difference_interval": [low, high],
        "agree": agree,
        "verdict": words,
    }


def transfer(arguments: argparse.Namespace) -> Path:
    """Plays, writes and prints; the file."""
    out = output_folder(arguments.out)
    policy = find_policy(arguments.policy or arguments.out)
    artifact = read_artifact(policy)
    ours = artifact.about["env"]
    if ours not in REAL:
        raise MasklessError(
            f"{policy} was trained on {ours}, which MiniHack does not have: use a policy of"
            f" {', '.join(REAL)}."
        )
    if arguments.episodes < 1 or arguments.envs < 1:
        raise MasklessError("Play at least one episode in at least one environment.")
    if arguments.masks == "predicted" and not artifact.classifier:
        raise MasklessError(f"{policy} has no trained classifier: play it with --masks none.")
    found: dict[str, Any] = {}
    real = f"gymnasium:{REAL[ours]}"
    for where, env in (("ours", None), ("real", real)):
        title = env or ours
        run, seconds = play(policy, env, title, arguments)
        found[where] = describe(run, arguments.masks, title, seconds)
    verdict = judge(found["ours"], found["real"])
    path = out / f"{ours}-{arguments.masks}.json"
    settings = {"masks": arguments.masks, "seed": arguments.seed, "envs": arguments.envs}
    about = {"policy": describe_policy(artifact, run), "settings": settings}
    write_json(path, about | found | verdict | {"provenance": provenance()})
    show(found, verdict, artifact, run)
    OUT.print(f"wrote {path}", soft_wrap=True)
    return path


def describe_policy(artifact: Artifact, run: RunEvaluation) -> dict[str, Any]:
    """Which policy it was."""
    about = artifact.about
    return {
        "env": about["env"],
        "condition": run.condition,
        "seed": run.seed,
        "net": about["net"],
        "weights_sha256": about["weights_sha256"],
        "trained_at": about.get("commit"),
        "thresholds": run.thresholds,
        "overrides": list(run.overrides),
    }


def show(
    found: dict[str, Any], verdict: dict[str, Any], artifact: Artifact, run: RunEvaluation
) -> None:
    table = Table()
    for column in ("", "solved", "95 % interval", "return", "length", "empty masks", "time"):
        table.add_column(column, justify="right" if column else "left")
    for name, place in found.items():
        low, high = place["interval"]
        table.add_row(
            f"{name}: {place['env']}",
            f"{place['successes']} of {place['episodes']} ({100 * place['success_rate']:.1f} %)",
            f"{100 * low:.1f} to {100 * high:.1f} %",
            f"{place['mean_return']:.2f}",
            f"{place['length']:.0f}",
            f"{100 * place['fallback_rate']:.2f} %",
            f"{place['seconds']:.0f} s",
        )
    OUT.print(table)
    if artifact.classifier:
        words = masks_in_words(run.thresholds, run.overrides)
        OUT.print(f"Predicted masks: {words}.", markup=False, soft_wrap=True)
    OUT.print(f"Verdict: {verdict['verdict']}.", soft_wrap=True)


def main(words: list[str] | None = None) -> Path:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path, metavar="OUT", help="folder for the result")
    parser.add_argument("--policy", type=Path, help="a run's folder or its policy; else OUT/policy")
    parser.add_argument("--episodes", type=int, default=320, help="in each of the two (320)")
    parser.add_argument("--envs", type=int, default=32, help="episodes at a time (32)")
    parser.add_argument("--masks", choices=("predicted", "clone", "none"), default="predicted")
    parser.add_argument("--seed", type=int, default=0, help="of levels and dice")
    return transfer(parser.parse_args(words))


if __name__ == "__main__":
    try:
        main()
    except MasklessError as error:
        ERR.print(f"transfer: {error}", markup=False, soft_wrap=True)
        sys.exit(2)
