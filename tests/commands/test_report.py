"""`maskless report`: one page, from what the folders hold."""

import json
import re

import pytest

from maskless.commands.report import Report
from maskless.errors import MasklessError


def test_a_page_is_made_of_what_there_is(training, tmp_path, capsys):
    Report((training,), out=tmp_path / "deep" / "page.html").run()
    page = (tmp_path / "deep" / "page.html").read_text()
    assert "page.html" in capsys.readouterr().out
    for title in ("Curves", "Suppression", "Feature correlation", "Classifier", "Configuration"):
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


def test_what_is_no_training_is_refused(tmp_path):
    with pytest.raises(MasklessError, match="is not the folder of a training"):
        Report((tmp_path,)).run()
    with pytest.raises(MasklessError, match="at least one folder"):
        Report(()).run()
