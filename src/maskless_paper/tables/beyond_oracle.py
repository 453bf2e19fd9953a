"""RQ3: does a classifier help even where the oracle's masks are at hand?"""

from pathlib import Path

from maskless_paper import reported, results
from maskless_paper.studies import TABLE_ONE
from maskless_paper.study_files import Result
from maskless_paper.tables import drawing
from maskless_paper.tables.drawing import Panel
from maskless_paper.tables.experiment import Experiment, Results
from maskless_paper.tables.table import Table, doubt, notes_of, percent, text

HEADER = (
    *("condition", "as trained", "oracle masks", "than `masked`", "episode length"),
    *("frames to 0.95", "paper: share of 2e8 to 1.0, length", "diamonds"),
)
NOTES = (
    "as trained: under the masks of training (none for `unmasked`); length and diamonds (share of"
    " episodes) are of the same play. than `masked`: the return under the oracle's masks compared"
    " with that of `masked`; in doubt where the ranges overlap. frames to 0.95: until the training"
    " return, averaged over a million frames, was 0.95, in corridors, where 1 is the most.",
)


def tables(studies: Results) -> list[Table]:
    return [_table(result) for result in studies.values()]


def _table(result: Result) -> Table:
    corridor = results.world(result) == "corridor"
    rows = []
    for name in results.conditions(result):
        masks = results.training_masks(name)
        diamonds = results.achievement(result, name, masks, "collect_diamond")
        rows.append(
            (
                f"`{name}`",
                text(results.returns(result, name, masks), ".2f"),
                text(results.returns(result, name, "oracle"), ".2f"),
                _compared(result, name),
                text(results.metric(result, name, masks, "length"), ".0f"),
                _frames_to(result, name) if corridor else "–",
                _reported(result["config"]["net"], name) if corridor else "–",
                "–" if corridor else percent(diamonds),
            )
        )
    notes = notes_of(result, *NOTES)
    return Table(
        f"{results.setting_and_frames(result)}: with the oracle's help", HEADER, tuple(rows), notes
    )


def _compared(result: Result, name: str) -> str:
    ours, masked = (results.returns(result, one, "oracle") for one in (name, "masked"))
    if name == "masked" or ours is None or masked is None or masked.mean <= 0:
        return "–"
    return f"{100 * (ours.mean / masked.mean - 1):+.1f} %{doubt(ours, masked)}"


def _frames_to(result: Result, name: str) -> str:
    """When the training return reached 0.95, and in how many of the seeds."""
    seeds = [log["frames_to"]["0.95"] for log in results.logs(result, name)]
    known = [frames for frames in seeds if frames is not None]
    if not known:
        return "never"
    some = "" if len(known) == len(seeds) else f" ({len(known)} of {len(seeds)} seeds)"
    return results.format_frames(sum(known) / len(known)) + some


def _reported(net: str, name: str) -> str:
    shares, lengths = reported.SHARE_TO_ONE.get(net, {}), reported.LENGTH.get(net, {})
    share = f"{100 * shares[name]:.0f} %" if name in shares else "–"
    return f"{share}, {lengths[name]:.0f}" if name in lengths else "–"


def draw(studies: Results, path: Path) -> None:
    drawing.draw_panels([Panel(result, "return", "return") for result in studies.values()], path)


EXPERIMENT = Experiment(
    about="returns with the oracle's help, frames to a return of 1, episode length, diamonds",
    paper="RQ3, Table 1",
    studies=TABLE_ONE,
    tables=tables,
    draw=draw,
)
