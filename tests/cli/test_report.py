"""`maskless report`: one page, from what the folders hold."""

import base64
import json
import re
import shutil

import pytest

from maskless.cli.report import Report
from maskless.errors import MasklessError
from maskless.evaluation.summary import Evaluation, RunEvaluation, Summary


def test_a_page_is_made_of_what_there_is(training, tmp_path, capsys):
    Report((training,), out=tmp_path / "deep" / "page.html").run()
    page = (tmp_path / "deep" / "page.html").read_text()
    assert "page.html" in capsys.readouterr().out
    titles = ("Returns", "Suppression and feature correlation", "Classifier", "Configuration")
    for title in titles:
        assert re.search(f"<h2 id=[^>]*>{title}</h2>", page)
    assert "masked-focal" in page
    assert "Hyperparameters of PPO" in page
    assert "descend is being suppressed: where it is valid (10 % of states)" in page
    assert "<td>256</td><td>-5.50</td><td>0.02</td><td>0.001</td><td>–</td>" in page
    figures = {path.stem for path in (tmp_path / "deep" / "figures").glob("*.svg")}
    assert {"returns", "valid_rate", "probabilities", "correlation", "classifier"} <= figures
    assert page.count("data:image/svg+xml;base64,") == len(figures)
    check_self_contained(page)


def check_self_contained(page):
    """No network, no scripts; made for small and dark screens too."""
    addresses = re.findall(r'(?:src|href)="([^"]{1,30})', page)
    assert addresses
    assert all(text.startswith(("data:image/", "#")) for text in addresses)
    assert "<script" not in page
    assert 'name="viewport"' in page
    assert "prefers-color-scheme: dark" in page


def test_the_same_condition_of_two_trainings_is_told_apart(training, tmp_path):
    other = tmp_path / "other" / "masked-focal" / "seed-0"
    other.mkdir(parents=True)
    run = training / "masked-focal" / "seed-0"
    for name in ("config.json", "metrics.jsonl"):
        (other / name).write_text((run / name).read_text())
    about = json.loads((training / "config.json").read_text())
    about["config"] |= {"conditions": ["masked-focal"], "seeds": 1}
    (tmp_path / "other" / "config.json").write_text(json.dumps(about))
    Report((run, tmp_path / "other"), out=tmp_path / "page.html").run()
    page = (tmp_path / "page.html").read_text()
    assert "tiny masked-focal" in page
    assert "other masked-focal" in page


def test_evaluation_and_audit_are_shown_where_they_exist(training, tmp_path):
    run = tmp_path / "copy" / "masked-focal" / "seed-0"
    shutil.copytree(training / "masked-focal" / "seed-0", run)
    masks = {
        name: Summary(8, mean, 0.1, mean - 0.2, mean + 0.2, 5.0, 1.0, 1.0, 0.0, 0.25, 0.5, 0.125)
        for name, mean in (("oracle", 4.0), ("predicted", 3.0), ("none", 1.0))
    }
    found = [RunEvaluation(run, "masked-focal", 0, 7, True, masks)]
    how = {"masks": list(masks), "episodes": 8, "num_envs": 8, "greedy": False, "seed": 0}
    Evaluation(run, "staircase", ("descend",), how, found).save()
    (run / "audit.json").write_text(json.dumps({"summary": "5 of 9 are wrong."}))
    (run / "figures").mkdir()
    (run / "figures" / "audit_errors.svg").write_text("<svg/>")
    Report((run,)).run()
    page = (run / "report.html").read_text()
    assert "under predicted masks it keeps 75 % of what it earns" in page
    row = ("3.00 ± 0.10", "2.80 to 3.20", "–", "75", "67", "100.0")
    assert "".join(f"<td>{cell}</td>" for cell in row) in page
    assert "masked-focal, seed 0: 5 of 9 are wrong." in page
    assert base64.b64encode(b"<svg/>").decode() in page
    assert 'href="./audit.html"' in page


def test_what_is_no_training_is_refused(tmp_path):
    with pytest.raises(MasklessError, match="is not the folder of a training"):
        Report((tmp_path,)).run()
    with pytest.raises(MasklessError, match="at least one folder"):
        Report(()).run()
