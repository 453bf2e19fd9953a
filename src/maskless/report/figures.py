"""What happened in training, as figures, from the rows of `metrics.jsonl` alone.

    run = Run("masked-kl", read_metrics(folder), config["action_names"])
    draw_all([run, ...], folder / "figures")

Runs with the same label are seeds of one condition: the line is their mean, the band their range.
Probabilities, which live on a log scale, have a geometric mean.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, MultipleLocator

from maskless.conditions import CONDITIONS
from maskless.errors import MasklessError, UnknownNameError
from maskless.report import style
from maskless.report.curves import Band, Run, band, final_means, low_middle_high

ALWAYS_TRACKED = ("descend", "open_door", "open")
"""The paper's critical actions (`open` is what the real NetHack calls it)."""

_WIDTH = 3.3  # inches: one column of a paper
_NO_DATA = "not enough data yet"
_MOST_ACTIONS = 200  # one below the other; an image has room for some 2,900
COLOURS = dict(zip(CONDITIONS, style.PALETTE, strict=False))
"""The first conditions of the table have colours of their own; the others take what is free."""
_KINDS = {"oracle masks": "oracle", "predicted masks": "predicted", "no masks": "none"}
_FIXED = COLOURS | {label: style.MASK_COLOURS[kind] for label, kind in _KINDS.items()}


def draw_all(runs: Sequence[Run], folder: Path) -> list[Path]:
    """All figures of these runs, as `folder`/NAME.png and .svg; returns the paths of the PNGs."""
    drawers: dict[str, Callable[[Sequence[Run], Path], None]] = {
        "returns": draw_returns,
        "valid_rate": draw_valid_rate,
        "probabilities": draw_probabilities,
        "correlation": draw_correlation,
    }
    if any(run.classifier for run in runs):
        drawers["classifier"] = draw_classifier
    for name, draw in drawers.items():
        draw(runs, folder / name)
    return [folder / f"{name}.png" for name in drawers]


def draw_returns(runs: Sequence[Run], path: Path) -> None:
    """The return of finished episodes."""
    _draw_scalar(runs, path, "return", "mean episode return")


def draw_valid_rate(runs: Sequence[Run], path: Path) -> None:
    """How often a valid action is selected."""
    _draw_scalar(runs, path, "valid_rate", "steps with a valid action", limits=(0, 1.03))


def draw_probabilities(
    runs: Sequence[Run], path: Path, actions: Sequence[str] | None = None
) -> None:
    """Rare actions: their probability where they are valid (under the policy that acted) and where
    they are not (under the raw softmax: a mask allows none there)."""
    drawn = [("probability_valid", "-"), ("raw_probability_invalid", ":")]

    def finish(axis: Any) -> None:
        uniform = 1 / len(runs[0].action_names)
        axis.axhline(uniform, color=style.GREY, linestyle=(0, (5, 2)), linewidth=0.9)
        axis.set_yscale("log")
        axis.set_ylim(top=1.5)
        axis.set_ylabel("probability")

    keys = [
        Line2D([], [], color=style.BLACK, linestyle="-", label="where valid"),
        Line2D([], [], color=style.BLACK, linestyle=":", label="where invalid"),
        Line2D([], [], color=style.GREY, linestyle=(0, (5, 2)), label="uniform"),
    ]
    _draw_actions(runs, path, actions, drawn, finish, keys, logarithmic=True)


def draw_correlation(runs: Sequence[Run], path: Path, actions: Sequence[str] | None = None) -> None:
    """Rare actions: how similar the features of valid states are to those of invalid ones."""
    drawn = [("feature_correlation", "-"), ("feature_cosine_with_bias", ":")]

    def finish(axis: Any) -> None:
        axis.axhline(0, color=style.BLACK, linewidth=0.6)
        axis.set_ylim(top=1.05)
        axis.set_ylabel("similarity")

    keys = [
        Line2D([], [], color=style.BLACK, linestyle="-", label="Pearson, means"),
        Line2D([], [], color=style.BLACK, linestyle=":", label="cosine with bias"),
    ]
    _draw_actions(runs, path, actions, drawn, finish, keys)


def draw_classifier(runs: Sequence[Run], path: Path) -> None:
    """Recall, precision and AUROC of every action at the end of training, the rarest on top."""
    runs = [run for run in runs if run.classifier]
    names = _action_names(runs)
    shares = _mean_shares(runs)
    order = np.argsort(shares, kind="stable")
    order = order[shares[order] > 0][:_MOST_ACTIONS]
    which = f"the {_MOST_ACTIONS} rarest actions" if len(order) == _MOST_ACTIONS else "per action"
    panels = {"recall": "classifier_recall", "precision": "classifier_precision"}
    panels["AUROC"] = "classifier_auroc"
    labels = list(dict.fromkeys(run.label for run in runs))
    late = {metric: [final_means(run, metric)[order] for run in runs] for metric in panels.values()}
    # Most is near 1; the axis begins at the tenth below the worst.
    worst = min((x for seeds in late.values() for x in np.ravel(seeds) if x == x), default=0.0)
    lowest = min(np.floor(10 * worst) / 10, 0.9)
    size = (_WIDTH, 1.0 + 0.14 * max(len(order), 4))
    with style.figure(path, ncols=len(panels), sharey=True, figsize=size) as (fig, axes):
        for axis, (title, metric) in zip(axes, panels.items(), strict=True):
            for number, label in enumerate(labels):
                seeds = [s for s, run in zip(late[metric], runs, strict=True) if run.label == label]
                low, middle, high = low_middle_high(np.stack(seeds))
                rows = np.arange(len(order)) + 0.5 * ((number + 0.5) / len(labels) - 0.5)
                axis.hlines(rows, low, high, color=colour_of(labels, label), linewidth=1.2)
                axis.plot(middle, rows, "o", color=colour_of(labels, label), markersize=2.5)
            axis.set_title(title)
            axis.set_xlim(lowest - 0.04, 1.04)
            axis.set_xticks([lowest, 1.0], [f"{lowest:g}", "1"])
            axis.xaxis.set_minor_locator(MultipleLocator(0.1))
            axis.grid(which="both", axis="x")
        axes[0].set_yticks(
            np.arange(len(order)),
            [f"{_readable(names[a])} ({_percent(shares[a])})" for a in order],
            fontsize=6.5,
        )
        axes[0].set_ylim(max(len(order), 1) - 0.5, -0.5)
        if not len(order):
            axes[1].text(0.5, 0.5, _NO_DATA, transform=axes[1].transAxes, ha="center")
        _legend(fig, legend_keys(labels, marker="o", ls=""), labels)
        fig.suptitle(f"{which} (share of states in which it is valid)", fontsize=7)


def tracked_actions(runs: Sequence[Run], most: int = 3) -> list[str]:
    """The paper's critical actions where they exist, then the rarest valid ones."""
    names, shares = _action_names(runs), _mean_shares(runs)
    never = {name for name, share in zip(names, shares, strict=True) if shares.any() and not share}
    tracked = [name for name in ALWAYS_TRACKED if name in names and name not in never]
    rarest = [names[a] for a in np.argsort(shares, kind="stable") if 0 < shares[a] < 1]
    tracked += [name for name in rarest if name not in tracked][: max(0, most - len(tracked))]
    return tracked or list(names[:1])


def _mean_shares(runs: Sequence[Run]) -> np.ndarray:
    """How often each action is valid, over all rows of all runs. [actions]"""
    blank = [0.0] * len(_action_names(runs))
    rows = [row["valid_share"] for run in runs for row in run.rows if row.get("valid_share")]
    return np.mean(np.array(rows or [blank], np.float64), axis=0)


def _draw_scalar(
    runs: Sequence[Run],
    path: Path,
    metric: str,
    title: str,
    limits: tuple[float, float] | None = None,
) -> None:
    _action_names(runs)
    with style.figure(path, figsize=(_WIDTH, 2.3)) as (fig, axis):
        labels = _plot(axis, runs, [(metric, "-")])
        axis.set_ylabel(title)
        if limits:
            axis.set_ylim(*limits)
        frames_axis(axis)
        _legend(fig, legend_keys(labels), labels)


def _draw_actions(
    runs: Sequence[Run],
    path: Path,
    actions: Sequence[str] | None,
    drawn: list[tuple[str, str]],
    finish: Callable[[Any], None],
    keys: list[Line2D],
    *,
    logarithmic: bool = False,
) -> None:
    """One panel per action, one below the other; `drawn` are metrics with their line styles."""
    names = _action_names(runs)
    actions = tracked_actions(runs) if actions is None else actions
    for name in actions:
        if name not in names:
            raise UnknownNameError("action", name, names)
    size = (_WIDTH, 1 + 1.4 * len(actions))
    with style.figure(path, nrows=len(actions), sharex=True, squeeze=False, figsize=size) as (
        fig,
        axes,
    ):
        labels: list[str] = []
        for axis, action in zip(axes[:, 0], actions, strict=True):
            labels = _plot(axis, runs, drawn, action, logarithmic=logarithmic)
            axis.set_title(_readable(action), loc="left")
            finish(axis)
        frames_axis(axes[-1, 0])
        texts = [str(key.get_label()) for key in keys]
        _legend(fig, legend_keys(labels) + keys, labels + texts)


def _plot(
    axis: Any,
    runs: Sequence[Run],
    drawn: list[tuple[str, str]],
    action: str | None = None,
    *,
    logarithmic: bool = False,
) -> list[str]:
    """Draws every condition; returns their labels."""
    labels = list(dict.fromkeys(run.label for run in runs))
    empty = True
    for number, label in enumerate(labels):
        seeds = [run for run in runs if run.label == label]
        colour = colour_of(labels, label)
        width = 1.2 + 0.4 * (len(labels) - 1 - number)  # equal lines show below one another
        for metric, line in drawn:
            curve = band(seeds, metric, action, logarithmic=logarithmic)
            empty &= not len(curve.frames)
            draw_band(axis, curve, colour, line, width if line == "-" else 1.0)
    if empty:
        axis.text(0.5, 0.5, _NO_DATA, transform=axis.transAxes, ha="center")
    return labels


def draw_band(axis: Any, curve: Band, colour: str, line: str = "-", width: float = 1.3) -> None:
    """The mean as a line, or a point where there is only one, and the range as a shade."""
    marker = "o" if len(curve.frames) == 1 else None
    axis.plot(curve.frames, curve.middle, line, color=colour, lw=width, marker=marker, ms=3)
    axis.fill_between(curve.frames, curve.low, curve.high, color=colour, alpha=0.18, lw=0)


def frames_axis(axis: Any) -> None:
    axis.set_xlim(left=0)
    axis.set_xlabel("frames")
    axis.xaxis.set_major_formatter(EngFormatter(sep=" "))


def legend_keys(labels: list[str], **line: Any) -> list[Line2D]:
    """The legend's line of each label, in its colour."""
    return [Line2D([], [], color=colour_of(labels, label), **line) for label in labels]


def _legend(fig: Any, handles: list[Line2D], texts: list[str]) -> None:
    texts = [style.label(text) for text in texts]
    columns = 3 if max(map(len, texts)) <= 13 else 2
    fig.legend(handles, texts, loc="outside lower center", ncols=columns, fontsize=7)


def colour_of(labels: list[str], label: str) -> str:
    """A condition always has the same colour, also with numbers of its own where no other of its
    kind is there; and so has a kind of masks. Other labels take what is left, and last of all what
    everybody reads as masked, unmasked or uniform."""
    taken = {name: _FIXED[name] for name in labels if name in _FIXED}
    for name in labels:
        usual = COLOURS.get(name.partition(":")[0])
        if usual is not None and usual not in taken.values():
            taken.setdefault(name, usual)
    if label in taken:
        return taken[label]
    others = [name for name in labels if name not in taken]
    last = (style.GREY, style.BLUE, style.VERMILION)
    order = [colour for colour in style.PALETTE if colour not in last] + list(last)
    free = [colour for colour in order if colour not in taken.values()] or [style.BLACK]
    return free[others.index(label) % len(free)]


def _action_names(runs: Sequence[Run]) -> list[str]:
    if not runs:
        raise MasklessError("There is no run to draw: name at least one run folder.")
    names = list(runs[0].action_names)
    if any(list(run.action_names) != names for run in runs):
        raise MasklessError(
            "Runs on environments with different actions do not fit into one figure: draw those of"
            " each environment apart."
        )
    return names


def _readable(action: str) -> str:
    return style.label(action.replace("_", " "))


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"
