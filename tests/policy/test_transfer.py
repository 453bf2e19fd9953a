"""results/transfer.py: one policy in our game and in the real one."""

import importlib.util
import json
from pathlib import Path

import jax
import pytest
from policy.made import make_policy
from scipy import stats

import maskless
from maskless.errors import MasklessError
from maskless.policy.artifact import change_policy

SCRIPT = Path(__file__).parents[2] / "results/transfer.py"
SIZE = "mazewalk-9x9"  # the smallest game that both have, with the shortest episodes


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("transfer", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("successes", "episodes"), [(0, 3), (3, 3), (7, 320), (150, 300)])
def test_the_intervals_are_wilson_s(script, successes, episodes):
    known = stats.binomtest(successes, episodes).proportion_ci(0.95, method="wilson")
    found = script.Share(successes, episodes).interval
    assert found == pytest.approx((known.low, known.high), abs=1e-6)


def test_the_interval_of_the_difference_is_newcombe_s(script):
    # The example of Newcombe (1998), method 10: 56/70 - 48/80.
    found = script.difference(script.Share(56, 70), script.Share(48, 80))
    assert found == pytest.approx((0.0524, 0.3339), abs=5e-5)
    verdicts = [
        script.judge({"successes": 250, "episodes": 300}, {"successes": n, "episodes": 300})
        for n in (250, 240, 220)
    ]
    assert [verdict["agree"] for verdict in verdicts] == [True, True, False]
    assert "differ: 83.3 % in JAX, 73.3 % in the real game" in verdicts[-1]["verdict"]


@pytest.fixture
def quick_compiler():
    """Three episodes are not worth a fast program."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compiler")
def test_one_command_plays_both_games_and_says_whether_they_agree(script, tmp_path, capsys):
    pytest.importorskip("minihack")
    policy = make_policy(tmp_path / "policy", env=maskless.make(SIZE), width=8)
    names = maskless.make(SIZE).action_names
    change_policy(policy, {"thresholds": [0.4] * len(names)})
    path = script.main([str(tmp_path), "--episodes", "3"])
    assert path == tmp_path / f"{SIZE}-predicted.json"
    told = json.loads(path.read_text())
    assert told["real"]["env"] == "gymnasium:MiniHack-MazeWalk-9x9-v0"
    for place in (told["ours"], told["real"]):
        assert place["episodes"] == 3
        assert 0 <= place["interval"][0] <= place["success_rate"] <= place["interval"][1] <= 1
        assert 1 <= place["length"] <= maskless.make(SIZE).episode_limit
    assert told["policy"]["thresholds"] == 0.4
    assert told["provenance"]["versions"]["nle"]
    said = capsys.readouterr().out
    assert "Verdict: the success rates" in said
    assert "above 0.4; no overrides" in said


def test_what_cannot_be_transferred_is_refused(script, tmp_path):
    folder = make_policy(tmp_path / "policy")
    with pytest.raises(MasklessError, match="trained on tower, which MiniHack does not have"):
        script.main([str(folder)])
    make_policy(tmp_path / "policy", env=maskless.make(SIZE), width=8, classifier=False)
    with pytest.raises(MasklessError, match="no trained classifier"):
        script.main([str(folder)])
    with pytest.raises(MasklessError, match="at least one episode"):
        script.main([str(folder), "--episodes", "0"])
