"""Writes everything that is made from the committed results: python results/tables.py

results/claims.json and docs/claims.md, the paper's claims, judged; the tables in README.md and
in pages of docs/, each between two comments, `<!-- NAME -->` and `<!-- /NAME -->`; the numbers in
their sentences, `<!--n NAME-->89 %<!--/n-->`; and the figures in results/figures. Nothing is
computed but from results/.
"""

import collections
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from maskless.conditions import CONDITIONS
from maskless_paper import methods, prose, results
from maskless_paper.claims.page import claims_page, summary
from maskless_paper.claims.verdicts import judge_all
from maskless_paper.numbers import Files, numbers
from maskless_paper.study_files import read_studies
from maskless_paper.tables import EXPERIMENTS, controls, deployment
from maskless_paper.tables.table import Table

RESULTS = Path(__file__).parent
ROOT = RESULTS.parent
README = ROOT / "README.md"
TEMPLATES = (
    *("findings", "performance", "training", "craftax-validity", "prior-work", "methods"),
    *("trust", "gymnasium"),
)
"""Pages of docs/ with something in them that is made from results."""
PAGES = [ROOT / "docs" / f"{name}.md" for name in TEMPLATES]
STUDIES = read_studies(RESULTS / "studies")
SMALL = read_studies(RESULTS / "small")
"""At the scale `cpu`: controls that were not run on a GPU yet, and what they are compared with."""


def read(path: str) -> Any:
    return json.loads((RESULTS / path).read_text())


NUMBERS = numbers(Files(STUDIES, SMALL, read))
"""Of sentences, by name."""
MINUS = "\N{MINUS SIGN}"
NOT_SHOWN = ("table-masks", "beyond-oracle")
"""Experiments whose figures no page links: their tables say the same."""


def worlds() -> str:
    """A finished policy in Classic (benchmarks/methods.py), and on worlds that nobody tuned for
    (benchmarks/promise.py): means over seeds."""
    header = (
        *("world", "seeds, frames", "random", "oracle masks", "predicted masks"),
        *("the clone, no masks", "the policy, no masks"),
        "of the way from random to the oracle: predicted, clone",
        "invalid steps: predicted, clone",
        "predicted, without the memory",
    )
    rows = [_of_classic("classic-prudent", "prudent"), _of_classic("classic", "paper")]
    for path in sorted((RESULTS / "worlds").glob("*.json")):
        row = json.loads(path.read_text())
        if "config" in row:  # and not a peer's
            finish = max(row["finish_frames"])
            rows.append((path.stem, *_finished(row, row["runs"], finish, row["random"])))
    return Table("", header, tuple(rows)).markdown()


def _of_classic(block: str, rules: str) -> tuple[str, ...]:
    row = read(f"methods/{block}.json")
    random = next(r for r in read("random-classic.json")["rows"] if r["rules"] == rules)
    finish = max(rounds[-1]["frames"] for rounds in row["finish_rounds"])
    name = f"Craftax-Classic, {rules} masks".replace("paper", "the paper's")
    return name, *_finished(row, row["finished"], finish, random["mean"])


def _finished(
    row: dict[str, Any], runs: list[dict[str, Any]], finish: int, random: float
) -> tuple[str, ...]:
    """What finished policies return in a world."""

    def mean(masks: str, number: str = "mean_return") -> float:
        return sum(run["masks"][masks][number] for run in runs) / len(runs)

    def listed(numbers: dict[str, str]) -> str:
        return ", ".join(numbers.values())

    ways = [name for name in ("predicted", "clone") if name in runs[0]["masks"]]
    learned = mean("oracle") - random
    shares = {name: f"{100 * (mean(name) - random) / learned:.1f} %" for name in ways}
    invalid = {name: f"{100 * mean(name, 'invalid_share'):.2f} %" for name in ways}
    returns = [
        f"{mean(name):.2f}" if name in runs[0]["masks"] else "not played"
        for name in ("oracle", "predicted", "clone", "none")
    ]
    frames = f"{len(runs)}, {row['config']['frames']:,} + {finish:,}"
    cells = (frames, f"{random:.2f}", *returns, listed(shares), listed(invalid))
    forgetful = f"{mean('predicted-forgetful'):.2f}"
    return tuple(cell.replace("-", MINUS) for cell in (*cells, forgetful))


METHODS = {
    "classic": ("classic",),
    "classic-prudent": ("classic-prudent",),
    "corridor": ("corridor",),
    "packing": ("packing",),
    "2048": ("2048",),
}
"""Worlds of the study `methods`, and its files (benchmarks/methods.py)."""


def method_blocks() -> dict[str, list[Any]]:
    return {name: [read(f"methods/{f}.json") for f in files] for name, files in METHODS.items()}


def methods_of(world: str) -> Callable[[], str]:
    """Every method in a world, the best setting of each."""
    return lambda: methods.table(*method_blocks()[world]).markdown()


def trust() -> str:
    """What the attack, the kills and the soak found."""
    rows = [
        _attack(),
        _kills("SIGKILL at random moments", "kill.json"),
        _kills("SIGKILL while policies are written", "kill-exporting.json"),
        *(_soak(name, phase) for name, phase in read("soak/soak.json")["phases"].items()),
    ]
    return "\n".join(["| what | found |", "|---|---|", *rows])


def _attack() -> str:
    parts = [json.loads(path.read_text()) for path in sorted((RESULTS / "attack").glob("*.json"))]
    counts = sum((collections.Counter(part["outcomes"]) for part in parts), collections.Counter())
    bad = sum(counts[name] for name in ("traceback", "hang", "outside", "import"))
    peak = max(part["peak_memory_bytes"] for part in parts) / 2**20
    slowest = max(part["longest_cpu_seconds"] for part in parts)
    return (
        f"| damaged and hostile files | {sum(part['cases'] for part in parts):,} cases:"
        f" {counts['sentence']:,} sentences, {counts['success']:,} successes, {bad} of anything"
        f" else; at most {peak:.0f} MiB and {slowest:.1f} s of work |"
    )


def _kills(title: str, path: str) -> str:
    found = read(path)
    return (
        f"| {title} | {found['kills']} kills of {found['trainings']} trainings, each resumed:"
        f" {len(found['different'])} differ in a bit |"
    )


def _soak(name: str, phase: dict[str, Any]) -> str:
    (before, after), *counts = (phase["summary"][what] for what in ("memory", "threads", "files"))
    same = ", ".join(
        f"{what} {first:g} -> {last:g}"
        for what, (first, last) in zip(("threads", "files"), counts, strict=True)
    )
    minutes = f"{phase['seconds'] / 60:.0f} minutes"
    amount = (
        f"{phase['decisions']:,} decisions"
        if "decisions" in phase
        else f"{minutes}, {phase['frames']:,} frames of each run"
    )
    return f"| {name}: {amount} | {before:.0f} -> {after:.0f} MiB, {same} |"


def validity() -> str:
    """How often each rule set disagrees with the game."""
    lines = [
        "| game | rules | works but is masked | does nothing but is allowed | errors |",
        "|---|---|---|---|---|",
    ]
    for game in ("craftax-classic", "craftax", "corridor-r5", "minihack-corridor-r5"):
        result = read(f"validity/{game}/validity.json")
        checked = result["states"] * len(result["effective"])
        for name in ("paper", "exact"):
            rules = result["rules"][name]
            masked = sum(rules["effective_but_masked"].values())
            dead = sum(rules["dead_but_valid"].values())
            share = 100 * (masked + dead) / checked
            lines.append(
                f"| `{game}` | {name} | {masked:,} | {dead:,} | {share:.1f} % of {checked:,} |"
            )
    return "\n".join(lines)


def speed() -> str:
    """Steps per second with masks and fresh levels, and ratios measured in the same run."""
    lines = [
        "| game | device | environments | steps/s | in the same run |",
        "|---|---|---|---|---|",
    ]
    for device, paths in {
        "2 CPU cores": ("envs-cpu.json", "envs-cpu.json"),
        "H200": ("envs-h200-classic.json", "envs-h200-full.json"),
    }.items():
        for game, path in zip(("craftax-classic", "craftax"), paths, strict=True):
            result = read(f"bench/{path}")["results"][game]
            envs = result["environments"]
            steps = 1e3 * envs / result["ms_per_step"]["pool"]
            lines.append(
                f"| `{game}` | {device} | {envs:,} | {steps:,.0f} |"
                f" {result['optimistic / pool']:.1f} x optimistic resets,"
                f" {result['auto-reset / pool']:.0f} x auto-reset;"
                f" masks {100 * (result['masks / step'] - 1):+.0f} % |"
            )
    for device, path in {"2 CPU cores": "corridor-cpu.json", "H200": "corridor-h200.json"}.items():
        for row in read(f"bench/{path}")["steps_per_second"]:
            if row["game"] in ("minihack-corridor-r5", "corridor-r5"):
                real = f"{row['ratio']:.0f} x one real NLE process; " if row["ratio"] else ""
                lines.append(
                    f"| `{row['game']}` | {device} | {row['envs']:,} | {row['play']:,.0f} |"
                    f" {real}{row['levels']:,.0f} levels/s |"
                )
    return "\n".join(lines)


def training_speed() -> str:
    """Frames per second of whole trainings on one H200."""
    header = ("environment", "network", "runs", "frames/s", "wanted", "ms per update", "memory")
    rows = [
        (
            f"`{row['env']}`",
            row["net"],
            str(row["runs"]),
            f"{row['frames_per_second']:,}",
            f"{row['target']:,}{'' if row['frames_per_second'] >= row['target'] else ' (not met)'}",
            f"{row['milliseconds_per_update']:.0f}",
            f"{row['memory_bytes'] / 2**30:.1f} GiB",
            f"{row['ratio']:.1f} x" if "ratio" in row else "–",
        )
        for row in read("bench/train-gpu.json")["results"]
    ]
    return Table("", (*header, "upstream's step alone"), tuple(rows)).markdown()


def training_parts() -> str:
    """Where the time of one update goes."""
    parts = {
        "environment": "environment",
        "new levels": "new levels",
        "network": "acting",
        "learning": "learning",
        "matrix products (library)": "cuBLAS products",
        "novelty": "RND",
        "diagnostics": "diagnostics",
        "other": "other",
    }
    rows = []
    for row in read("bench/train-gpu.json")["results"]:
        found = row["profile"]["parts"]
        kernels = sum(part["kernels"] for part in found.values())
        times = (f"{found[name]['milliseconds']:.0f}" if name in found else "–" for name in parts)
        what = f"`{row['env']}`, {row['net']}"
        rows.append((what, str(row["runs"]), *times, f"{kernels:,}"))
    return Table("", ("program", "runs", *parts.values(), "kernels"), tuple(rows)).markdown()


def floors() -> str:
    """The arithmetic of one update, and how long an H200 would need for it at least."""
    counted = read("bench/floors.json")
    header = ("program", "runs", "TFLOP", *(f"ms in {name}" for name in counted["teraflops"]))
    rows = [
        (
            f"`{row['env']}`, {row['net']}",
            str(row["runs"]),
            f"{row['teraflop']:.0f}",
            *(f"{1e3 * row['teraflop'] / speed:.0f}" for speed in counted["teraflops"].values()),
        )
        for row in counted["results"]
    ]
    return Table("", header, tuple(rows)).markdown()


def corridor_progress() -> str:
    """What became of an update of 16 corridor runs."""
    header = (
        "commit",
        "our kernels",
        "ms per update",
        "frames/s",
        "learning",
        "acting",
        "products",
    )
    rows = [
        (
            run["commit"],
            ", ".join(run["kernels"]) or "none",
            f"{run['milliseconds_per_update']:.0f}",
            f"{run['frames_per_second']:,}",
            *(
                f"{run['parts'][part]['milliseconds']:.0f}"
                for part in ("learning", "network", "matrix products (library)")
            ),
        )
        for run in read("bench/corridor-progress.json")
    ]
    return Table("", header, tuple(rows)).markdown()


def precision() -> str:
    """Returns while training, in bfloat16 with straight steps and in plain float32."""
    runs = {"fast": read("learner-fast.json"), "plain": read("learner-classic.json")}
    stops = [3_276_800, 6_553_600, 13_107_200, 19_660_800]

    def mean(name: str, condition: str, frames: int) -> str:
        """Of the 50 updates before, of each seed."""
        found = []
        for log in runs[name]["logs"]:
            if log["condition"] == condition:
                rows = [row for row in log["rows"] if frames - 3_276_800 < row["frames"] <= frames]
                found.append(sum(row["return"] for row in rows) / len(rows))
        return _each(found, digits=2)

    header = ("condition", "frames", "bfloat16, straight step", "float32, upstream's step")
    rows = [
        (f"`{c}`", f"{stop / 1e6:.1f} M", mean("fast", c, stop), mean("plain", c, stop))
        for c in ("unmasked", "masked")
        for stop in stops
    ]
    return Table("", header, tuple(rows)).markdown()


def corridor_lambda() -> str:
    """What becomes of Corridor-R5 with other numbers."""
    result = read("corridor-lambda.json")
    stops = [4e6, 8e6, 12e6, 20e6, 30e6]
    header = ("weight of RND", "penalty", "lambda", *(f"{stop / 1e6:.0f} M" for stop in stops))
    rows = []
    for number, (weight, penalty, gae_lambda) in enumerate(result["variants"]):
        near = [min(result["rows"], key=lambda r, s=stop: abs(r["frames"] - s)) for stop in stops]
        numbers = (f"{weight:g}", f"{penalty:g}".replace("-", MINUS), f"{gae_lambda:g}")
        rows.append((*numbers, *(_each([row["return"][number]], digits=2) for row in near)))
    return Table("", header, tuple(rows)).markdown()


DEPLOYED = {
    "craftax-classic, MLP": ("classic-mlp", "classic-loop"),
    "corridor-r5, GRU with RND": ("corridor-gru", "corridor-loop"),
    "craftax, MLP": ("full-mlp", "full-loop"),
}


def deployed() -> str:
    """Returns with and without masks at the last budget: whole episodes in 1024 environments."""
    header = ("condition", "oracle masks", "predicted masks", "no masks", "kept when predicted")
    rows: list[tuple[str, ...]] = []
    for game, names in DEPLOYED.items():
        found = [STUDIES[name] for name in names if name in STUDIES]
        if not found:
            continue
        frames = results.format_frames(results.budgets(found[0])[-1])
        rows.append((f"**{game}**, {frames} frames", "", "", "", ""))
        for result in found:
            for name in results.conditions(result):
                if name not in (*CONDITIONS, "masked-loop:predicted_share=0.5"):
                    continue  # findings.md has all variants
                cells = {m: results.returns(result, name, m) for m in ("oracle", "none")}
                learned = results.has_classifier(name)
                predicted = results.returns(result, name, "predicted") if learned else None
                kept = results.retained(result, name) if learned else None
                rows.append(
                    (
                        f"`{name}`",
                        _seeds(cells["oracle"]),
                        _seeds(predicted),
                        _seeds(cells["none"]),
                        "–" if kept is None else f"{100 * kept.middle:.0f} %",
                    )
                )
    return Table("", header, tuple(rows)).markdown()


def _seeds(cell: results.Cell | None) -> str:
    """Every seed's mean: two digits for a game whose best return is 1."""
    if cell is None:
        return "–"
    return _each(list(cell.values), digits=2 if abs(max(cell.values)) < 1.5 else 1)


def early() -> str:
    """What is kept after the first million frames, on two cores."""
    found = read("early/evaluation.json")["conditions"]
    rows = []
    for name, masks in found.items():
        oracle, predicted = (masks[kind] for kind in ("oracle", "predicted"))
        ends = [_mean_and_ends(x) for x in (oracle, predicted)]
        rows.append((f"`{name}`", *ends, f"{100 * predicted['mean'] / oracle['mean']:.0f} %"))
    return Table(
        "", ("condition", "oracle masks", "predicted masks", "kept"), tuple(rows)
    ).markdown()


def exact() -> str:
    """The return under right masks and under the paper's."""
    found = {name: STUDIES[name] for name in ("control-exact-full", "full-mlp")}
    return controls.tables(found)[0].markdown()


def exact_classic() -> str:
    """The same in the first frames of Classic, on two cores."""
    rows = []
    for rules in ("paper", "exact"):
        found = read(f"exact-classic/{rules}.json")["conditions"]
        for name, masks in found.items():
            oracle, predicted, none = (masks.get(m) for m in ("oracle", "predicted", "none"))
            learned = results.has_classifier(name)
            kept = f"{100 * predicted['mean'] / oracle['mean']:.0f} %" if learned else "–"
            cells = (oracle, predicted if learned else None, none)
            rows.append((f"`{name}`", rules, *(_mean_and_ends(cell) for cell in cells), kept))
    header = ("condition", "rules", "oracle masks", "predicted masks", "no masks", "kept")
    return Table("", header, tuple(rows)).markdown()


def _mean_and_ends(found: dict[str, float] | None) -> str:
    """Of several seeds, as `maskless eval` writes it."""
    if found is None:
        return "–"
    ends = (f"{found[name]:.1f}".replace("-", MINUS) for name in ("mean", "lowest", "highest"))
    return "{} ({} to {})".format(*ends)


def corridor_success() -> str:
    """What predicted masks cost in the corridor: fewer successes, or penalties on the way."""
    header = ("condition", "solved: oracle", "predicted", "return: oracle", "predicted")
    rows = []
    for study in ("corridor-gru", "corridor-loop"):
        result = STUDIES[study]
        for name in results.conditions(result):
            if not results.has_classifier(name):
                continue
            solved = [
                results.metric(result, name, m, "success_rate") for m in ("oracle", "predicted")
            ]
            mean = [results.returns(result, name, m) for m in ("oracle", "predicted")]
            tried = [
                entry["invalid_share"] * entry["length"]
                for entry in results.evaluations(result, name, "predicted")
            ]
            recall = [
                results.final(result, name, "classifier_recall", action)
                for action in result["watched"]
            ]
            rows.append(
                (
                    f"`{name}`",
                    *(
                        ", ".join(f"{100 * x:.0f} %" for x in c.values) if c else "–"
                        for c in solved
                    ),
                    *(_seeds(cell) for cell in mean),
                    _each(tried),
                    *(_each(list(cell.values), digits=2) if cell else "–" for cell in recall),
                )
            )
    more = ("invalid actions in an episode", "recall of open_door", "of kick")
    return Table("", (*header, *more), tuple(rows)).markdown()


def descend_lost() -> str:
    """What the classifiers know of the action that matters most in the full game."""
    result = STUDIES["full-mlp"]
    header = ("condition", "frames", "π(descend) where valid", "without the mask", "recall")
    rows = []
    for name in ("masked-focal", "masked-kl"):
        for frames in results.budgets(result):
            probability, alone, recall = (
                results.final(result, name, metric, "descend", until=frames)
                for metric in ("probability_valid", "raw_probability_valid", "classifier_recall")
            )
            reached = (
                results.achievement(result, name, masks, "enter_dungeon", frames)
                for masks in ("oracle", "predicted")
            )
            rows.append(
                (
                    f"`{name}`",
                    results.format_frames(frames),
                    *(_of_seeds(cell, lambda x: f"{x:.1g}") for cell in (probability, alone)),
                    *(_of_seeds(cell, lambda x: f"{100 * x:.0f} %") for cell in (recall, *reached)),
                )
            )
    more = ("reach the dungeon: oracle masks", "predicted masks")
    return Table("", (*header, *more), tuple(rows)).markdown()


def _of_seeds(cell: results.Cell | None, form: Callable[[float], str]) -> str:
    """Every seed's number."""
    return "–" if cell is None else ", ".join(form(x) for x in cell.values).replace("e-0", "e-")


def _each(returns: list[float], digits: int = 1) -> str:
    """Every seed's mean."""
    rounded = [round(value, digits) + 0.0 for value in returns]  # no zero is negative
    return ", ".join(f"{value:.{digits}f}" for value in rounded).replace("-", MINUS)


def claims() -> str:
    """How many checks have which answer, in one line."""
    return summary(judge_all(STUDIES))


def experiment(name: str) -> Callable[[], str]:
    """All tables of an experiment, from the studies that there are."""

    def make() -> str:
        one = EXPERIMENTS[name]
        studies = one.select(name, STUDIES)
        if not studies:
            return f"*Not run yet: `maskless reproduce {name} --scale gpu`.*"
        return _pages(one.tables(studies)) + _figure(name)

    return make


def control(study: str) -> Callable[[], str]:
    """One control, and what it is compared with."""

    def make() -> str:
        found = _compared(study)
        if study not in found:
            command = f"maskless reproduce controls --scale gpu --studies {study}"
            return f"*Not run yet: `{command}`.*"
        return _pages(controls.tables(found)) + _figure(f"controls/{study}")

    return make


def _compared(study: str) -> dict[str, Any]:
    """A control and its baseline, both of the larger scale that the control was run at."""
    known = STUDIES if study in STUDIES else SMALL
    return {name: known[name] for name in (study, controls.BASELINES[study]) if name in known}


def order() -> str:
    """Which loss keeps most under predicted masks, at every budget of every game."""
    studies = EXPERIMENTS["deployment"].select("deployment", STUDIES)
    groups = deployment.by_world(studies).items()
    tables = [deployment.order_table(world, group) for world, group in groups]
    shown = [table for table in tables if table.rows]
    if not shown:
        return "*Not run yet: `maskless reproduce deployment --scale gpu`.*"
    return _pages(shown) + _figure("deployment")


def what_was_run() -> str:
    """Every study: how long, how fast, on what."""
    header = ("study", "environment, network", "runs", "frames of each", "frames/s", "on", "commit")
    rows = []
    for name, result in STUDIES.items():
        if "config" not in result:
            continue
        last = result["sessions"][-1]
        runs = len(result["config"]["conditions"]) * result["config"]["seeds"]
        whole = (
            "" if result["complete"] else f" of {results.format_frames(result['planned_frames'])}"
        )
        rows.append(
            (
                f"`{name}`",
                results.setting(result),
                str(runs),
                results.format_frames(result["frames"]) + whole,
                f"{last['frames_per_second']:,}" if last["frames_per_second"] else "–",
                f"{last['device']}, {result['seconds'] / 60:.0f} min",
                str(last["commit"]),
            )
        )
    return Table("", header, tuple(rows)).markdown() if rows else "*Nothing yet.*"


def _pages(tables: list[Table]) -> str:
    """Without headings: the page around it has its own."""
    parts = []
    for table in tables:
        notes = f"\n\n*{' '.join(table.notes)}*" if table.notes else ""
        parts.append(f"**{table.title}**\n\n{table.markdown()}{notes}")
    return "\n\n".join(parts)


def _figure(name: str) -> str:
    """A picture that `draw` makes. The theory has a folder of them, and a page of its own."""
    return "" if name in ("theory", *NOT_SHOWN) else f"\n\n![{name}](results/figures/{name}.png)"


PLACES: dict[str, Callable[[], str]] = {
    "validity": validity,
    "worlds": worlds,
    "trust": trust,
    "methods": lambda: methods.overview(method_blocks()).markdown(),
    **{f"methods-{world.replace('2048', 'two')}": methods_of(world) for world in METHODS},
    "speed": speed,
    "training-speed": training_speed,
    "training-parts": training_parts,
    "floors": floors,
    "corridor-progress": corridor_progress,
    "precision": precision,
    "corridor-lambda": corridor_lambda,
    "deployment": deployed,
    "early": early,
    "exact": exact,
    "exact-classic": exact_classic,
    "corridor-success": corridor_success,
    "descend-lost": descend_lost,
    "claims": claims,
    "order": order,
    "what-was-run": what_was_run,
    **{f"table-{name.removeprefix('table-')}": experiment(name) for name in EXPERIMENTS},
    **{study: control(study) for study in controls.BASELINES},
}


def fill(text: str, to_root: str = "") -> str:
    """`text` with everything between its comments made anew. `to_root`: the way from its folder
    to the repository's."""
    for name in dict.fromkeys(re.findall(r"<!-- ([a-z-]+) -->", text)):
        if name not in PLACES:
            raise SystemExit(f"Nothing is known that could be put between <!-- {name} -->.")
        made = PLACES[name]().replace("](results/", f"]({to_root}results/")
        pattern = rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)"
        text = re.sub(pattern, lambda m, made=made: f"{m[1]}{made}\n{m[2]}", text, flags=re.DOTALL)
    return prose.fill(text, NUMBERS)


def texts() -> dict[Path, str]:
    """Every file of text that is made from the results, and what it should hold."""
    judged = judge_all(STUDIES)
    claims = json.dumps([claim.to_json() for claim in judged], indent=1, ensure_ascii=False)
    return {
        RESULTS / "claims.json": claims + "\n",
        ROOT / "docs" / "claims.md": claims_page(judged),
        README: fill(README.read_text()),
        **{page: fill(page.read_text(), to_root="../") for page in PAGES},
    }


def draw(folder: Path) -> None:
    """The figures of all experiments whose studies there are, as PNG."""
    for name, one in EXPERIMENTS.items():
        studies = one.select(name, STUDIES)
        if studies and one.draw is not None and name not in NOT_SHOWN:
            folder.mkdir(exist_ok=True)
            one.draw(studies, folder / name)
    for study in SMALL.keys() & controls.BASELINES:
        if study not in STUDIES:
            controls.draw(_compared(study), folder / "controls")
    methods.draw(method_blocks(), folder / "methods")
    for vector in folder.rglob("*.svg"):
        vector.unlink()  # large, and nothing links to them


if __name__ == "__main__":
    draw(RESULTS / "figures")
    for path, content in texts().items():
        path.write_text(content)
