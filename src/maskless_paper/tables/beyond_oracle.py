"""RQ3: does a classifier help even where the oracle's masks are at hand?"""

from pathlib import Path

from maskless_paper import results
from maskless_paper.claims import paper
from maskless_paper.run import Result
from maskless_paper.studies import TABLE_ONE
from maskless_paper.tables import drawing
from maskless_paper.tables.drawing import Panel
from maskless_paper.tables.experiment import Experiment, Results
from maskless_paper.tables.table import RANGES, Table, percent, text

HEADER = (
    *("condition", "as trained", "oracle masks", "than `masked`", "episode length"),
    *("frames to 0.95", "paper: share of 2e8 to 1.0, length", "diamonds"),
)
NOTES = (
    RANGES,
    "as trained: under the masks of training (none for `unmasked`); length and diamonds (share of"
    " episodes) are of the same play. than `masked`: the return under the oracle's masks compared"
    " with that of `masked`; in doubt where the ranges overlap. frames to 0.95: until the training"
    " return, averaged over a million frames, was 0.95, in corridors, where 1 is the most.",
)


def tables(found: Results) -> list[Table]:
    return [_table(result) for result in found.values()]


def _table(result: Result) -> Table:
    config = result["config"]
    corridor = config["env"].startswith("corridor")
    theirs = (paper.SHARE_TO_ONE.get(config["net"], {}), paper.LENGTH.get(config["net"], {}))
    rows = []
    for name in results.conditions(result):
        masks = "none" if name.startswith("unmasked") else "oracle"
        diamonds = results.achievement(result, name, masks, "collect_diamond")
        rows.append(
            (
                f"`{name}`",
                text(results.returns(result, name, masks), ".2f"),
                text(results.returns(result, name, "oracle"), ".2f"),
                _compared(result, name),
                text(results.number(result, name, masks, "length"), ".0f"),
                frames_to(result, name) if corridor else "–",
                _paper(name, *theirs) if corridor else "–",
                percent(diamonds) if "craftax" in config["env"] else "–",
            )
        )
    where = f"{results.environment(result)}, {results.millions(result['frames'])} frames"
    notes = (result["stands_in"], *NOTES) if result["stands_in"] else NOTES
    return Table(f"{where}: with the oracle's help", HEADER, tuple(rows), notes)


def _compared(result: Result, name: str) -> str:
    mine = results.returns(result, name, "oracle")
    theirs = results.returns(result, "masked", "oracle")
    if name == "masked" or mine is None or theirs is None or theirs.mean <= 0:
        return "–"
    sure = mine.above(theirs) or theirs.above(mine)
    return f"{100 * (mine.mean / theirs.mean - 1):+.1f} %{'' if sure else ' (in doubt)'}"


def frames_to(result: Result, name: str, value: str = "0.95") -> str:
    """For people: when the training return reached a value, and in how many of the seeds."""
    seeds = [log["frames_to"][value] for log in results.logs(result, name)]
    known = [frames for frames in seeds if frames is not None]
    if not known:
        return "never"
    some = "" if len(known) == len(seeds) else f" ({len(known)} of {len(seeds)} seeds)"
    return results.millions(sum(known) / len(known)) + some


def _paper(name: str, shares: dict[str, float], lengths: dict[str, float]) -> str:
    share = f"{100 * shares[name]:.0f} %" if name in shares else "–"
    return f"{share}, {lengths[name]:.0f}" if name in lengths else "–"


def draw(found: Results, path: Path) -> None:
    drawing.draw_panels([Panel(result, "return", "return") for result in found.values()], path)


EXPERIMENT = Experiment(
    about="returns with the oracle's help, frames to a return of 1, episode length, diamonds",
    paper="RQ3, Table 1",
    studies=TABLE_ONE,
    tables=tables,
    draw=draw,
)
