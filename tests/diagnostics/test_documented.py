"""docs/metrics.md explains every metric that the diagnostics emit, and none that they do not."""

import re
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp

from maskless.config import Config, Hyperparameters
from maskless.diagnostics import bank, classifier, correlation, suppression
from maskless.nets import Heads
from maskless.training.program import Program
from maskless.training.request import request_again

from diagnostics import slow
from toys import Tower

DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"


def documented():
    """By section: the names in the first column of its table."""
    sections = {}
    for section in DOCS.read_text().split("\n## ")[1:]:
        title, *lines = section.splitlines()
        cells = [line.split("|")[1] for line in lines if line.startswith("| `")]
        sections[title] = re.findall(r"`(\w+)`", " ".join(cells))
    return sections


def test_every_diagnostic_is_explained_once():
    rollout = slow.random_rollouts("masked", updates=1)[0]
    arrays = {name: jnp.asarray(value) for name, value in vars(rollout).items()}
    rollout = SimpleNamespace(**arrays)
    actions = slow.ACTIONS
    _, suppressed = jax.eval_shape(
        lambda: suppression.measure(
            suppression.init(actions),
            rollout.policy_logits,
            applied=rollout.applied,
            valid=rollout.valid,
            actions=rollout.actions,
            update=1,
        )
    )
    _, correlated = jax.eval_shape(
        lambda: correlation.measure(
            correlation.init(actions, 5, 9), rollout.features, rollout.hidden, rollout.valid
        )
    )
    classified = jax.eval_shape(
        lambda: classifier.measure(rollout.validity_logits, rollout.valid, rollout.policy_logits)
    )
    net = SimpleNamespace(
        initial_carry=lambda batch: (),
        apply=lambda params, carry, obs, reset: (carry, params),
    )
    heads = Heads(*[jnp.zeros((1, 2, actions))] * 4)
    probed = jax.eval_shape(
        lambda: bank.measure(net, heads, bank.Bank(jnp.zeros(2), jnp.ones((2, actions), bool)))
    )
    docs = documented()
    assert sorted(docs["Probed states"]) == sorted(probed)
    assert sorted(docs["Suppression"]) == sorted([*suppressed, "suppressed_since_frames"])
    assert sorted(docs["Features"]) == sorted(correlated)
    assert sorted(docs["Classifier"]) == sorted(classified)
    for value in (suppressed | correlated | classified | probed).values():
        assert value.shape in ((), (actions,))


def test_everything_the_learner_logs_is_explained():
    ppo = Hyperparameters(num_envs=4, rollout=4, minibatches=2, epochs=1, rnd=True)
    config = Config(env="tower", net="gru", width=8, frames=16, ppo=ppo)
    program = Program(request_again(config, env=Tower()))
    state = program.like()
    one = jax.tree.map(lambda x: x[0], program.conditions)
    _, metrics = jax.eval_shape(program.learner.update, state, one, {})
    docs = documented()
    own = {*docs["Progress"], *docs["Learning"]} - {"update", "frames", "seconds"}
    explained = {name for section in docs.values() for name in section}
    assert set(metrics) <= explained
    assert own <= set(metrics)


def test_names_are_unique():
    """In `metrics.jsonl`; an evaluation is a file of its own, and has some of the same names."""
    logged = [names for section, names in documented().items() if section != "Evaluation"]
    names = [name for section in logged for name in section]
    assert len(names) == len(set(names)) > 40
