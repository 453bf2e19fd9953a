"""`maskless audit`: predicted masks beside true ones, where the policy acts."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maskless.cli.audit import Audit
from maskless.errors import MasklessError
from maskless.evaluation.audit import Cost, audit_predictions
from maskless.evaluation.runs import load_runs
from maskless.report.audit import describe_examples, save_audit, summary


@pytest.fixture(scope="module")
def trained(training):
    return load_runs(training)


@pytest.fixture(scope="module")
def audit(trained):
    return audit_predictions(
        trained, trained.runs[2], states=200, episodes=16, num_envs=8, examples=3
    )


def test_every_prediction_is_counted_once(audit):
    tally = audit.tally
    total = sum(
        getattr(tally, name)
        for name in ("allowed_valid", "allowed_invalid", "masked_valid", "masked_invalid")
    )
    assert audit.states == 256  # 200, rounded up to 16 steps of 8 environments
    np.testing.assert_array_equal(total, audit.states)
    np.testing.assert_array_equal(tally.scores_in.sum(0), audit.states)
    np.testing.assert_array_equal(tally.valid_in.sum(0), tally.allowed_valid + tally.masked_valid)
    # The interactions of the staircase work nowhere.
    assert (tally.valid_in.sum(0)[3:] == 0).all()
    assert 0 < tally.total_variation <= audit.states


def test_the_worst_states_are_what_the_policy_and_the_environment_say_they_are(audit, trained):
    worst, env, run = audit.worst, trained.env, audit.run
    assert len(worst.kl) == 3
    assert (np.diff(worst.kl) <= 0).all()
    np.testing.assert_array_equal(jax.vmap(env.validity)(worst.state), worst.valid)
    np.testing.assert_array_equal(jax.vmap(env.observe)(worst.state), worst.observation)
    _, heads = trained.net.apply(
        jax.tree.map(jnp.asarray, run.params),
        (),
        jnp.asarray(worst.observation)[None],
        jnp.zeros((1, len(worst.kl)), bool),
    )
    probability = np.asarray(jax.nn.sigmoid(heads.validity[0]))
    np.testing.assert_allclose(worst.probability, probability, atol=1e-5)
    for number in range(3):
        logits = np.asarray(heads.logits[0, number], np.float64)
        soft = []
        for mask in (worst.valid[number], probability[number] > 0.5):
            scores = np.exp(logits - 20.0 * ~mask)
            soft.append(scores / scores.sum())
        kl = np.sum(soft[0] * np.log(soft[0] / soft[1]))
        assert worst.kl[number] == pytest.approx(kl, rel=1e-3)


def test_only_actions_with_errors_cost_something(audit, trained):
    wrong = {n for n, errors in zip(audit.action_names, audit.errors, strict=True) if errors}
    assert set(audit.costs) == wrong != set()
    assert audit.episodes == 16
    assert audit.oracle_return > audit.predicted_return or wrong


def test_a_cost_is_named_where_it_is_more_than_chance(audit):
    for lost, named in ((1.1, False), (1.3, True)):
        found = dataclasses.replace(audit, costs={"left": Cost(lost, 0.6)})
        assert ("Errors about left cost most: 1.30 ± 0.60" in summary(found)) == named


def test_the_page_and_the_file_tell_what_was_found(audit, trained, tmp_path):
    written = save_audit(audit, trained.env, tmp_path)
    assert [path.name for path in written] == ["audit.json", "audit.html"]
    told = json.loads(written[0].read_text())
    assert told["confusion"]["masked_valid"]["descend"] == audit.tally.masked_valid[2]
    assert told["return_lost"].keys() == audit.costs.keys()
    page = written[1].read_text()
    assert page.count("data:image/svg+xml;base64,") == 3
    example = describe_examples(audit, trained.env)[0]
    assert example["pictures"]["corridor"] in page.replace("&gt;", ">")
    assert "observation [6]: numbers that are not 0, by position" in page
    assert sorted(path.name for path in (tmp_path / "figures").glob("*.png")) == [
        "audit_calibration.png",
        "audit_costs.png",
        "audit_errors.png",
    ]


def test_a_run_without_a_classifier_is_refused(training):
    with pytest.raises(MasklessError, match="trained without a classifier"):
        Audit(training / "unmasked" / "seed-0").run()
    with pytest.raises(MasklessError, match="states must be"):
        Audit(training, states=0).run()
