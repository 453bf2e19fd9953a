"""Episodes under a memory of failures, and its control, step by step as computed by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from latch import CLONED, FORGETFUL, LIMIT, PARAMS, PREDICTED, HostLatch, Latch, Table

from maskless.envs.contract import check_contract
from maskless.envs.gymnasium.env import HostEnvironment
from maskless.errors import MasklessError
from maskless.evaluation.audit import audit_predictions
from maskless.evaluation.episodes import MASKS, MaskSource, mask_source
from maskless.evaluation.player import make_player
from maskless.evaluation.runs import EvaluatedRun, Runs
from maskless.evaluation.summary import default_masks, evaluate_runs
from maskless.policy.observations import fields_of
from maskless.policy.overrides import Override, Overruling
from maskless.report.audit import summary

EPISODES = 2
ENVS = 3
EXPECTED = {
    # (actions, steps stuck, steps without anything left of the mask)
    "predicted": (PREDICTED, 1, 5),
    "predicted-forgetful": (FORGETFUL, LIMIT - 2, 0),
    "clone": (CLONED, 2, 0),
    # The first is tried in vain; from then on it is a repetition.
    "clone-forgetful": ([0, 2] + [1] * (LIMIT - 2), LIMIT - 3, 0),
    "none": (FORGETFUL, LIMIT - 2, 0),
    # The only valid action of the last room works at the fifth try.
    "oracle": ([0, 2, 3] + [1] * 5, 4, 0),
}


def fold(accumulator, before, step):
    """The actions, by episode and time."""
    actions, excluded = accumulator
    envs = jnp.arange(ENVS)
    time = before.actor.now.observation[:, 4].astype(int)
    place = (envs, before.episode, time)
    return (
        actions.at[place].set(step.action, mode="drop"),
        excluded.at[place].set(step.excluded.sum(-1), mode="drop"),
    )


def blank():
    shape = (ENVS, EPISODES, LIMIT)
    return jnp.full(shape, -1), jnp.zeros(shape, int)


def host_latch(clock_fields=("observation[4]",)):
    env = HostEnvironment("gymnasium:latch:Latch-v0", workers=0)
    env.clock_fields = clock_fields
    return env


def play(player, source):
    state, accumulator = player.begin(0, EPISODES), blank()
    while not np.all(state.record.finished):
        state, accumulator = player.advance(PARAMS, state, source, 0.5, accumulator)
    return jax.device_get((state.record, *accumulator))


@pytest.fixture(scope="module", params=["jax", "gymnasium"])
def player(request):
    env = Latch() if request.param == "jax" else host_latch()
    with make_player(env, ENVS, Table(), greedy=True, fold=fold) as player:
        yield player


@pytest.mark.parametrize("masks", EXPECTED)
def test_the_actions_and_what_is_counted_are_those_computed_by_hand(player, masks):
    expected, stuck, fallbacks = EXPECTED[masks]
    record, actions, _ = play(player, mask_source(masks, 4))
    padded = np.array(expected + [-1] * (LIMIT - len(expected)))
    np.testing.assert_array_equal(actions, np.broadcast_to(padded, actions.shape))
    for found, value in (
        (record.stuck, stuck),
        (record.fallbacks, fallbacks),
        (record.lengths, len(expected)),
        (record.solved, len(expected) < LIMIT),
    ):
        np.testing.assert_array_equal(found, np.full((ENVS, EPISODES), value))


def test_every_environment_can_have_a_source_of_its_own(player):
    names = ("oracle", "predicted", "clone")
    sources = [mask_source(name, 4) for name in names]
    source = jax.tree.map(lambda *x: jnp.stack([jnp.asarray(each) for each in x]), *sources)
    assert source.corrected.shape == (3, 4)
    record, actions, _ = play(player, source)
    for env in range(ENVS):
        alone, by_itself, _ = play(player, sources[env])
        np.testing.assert_array_equal(actions[env], by_itself[env])
        same = jax.tree.map(lambda a, b: np.array_equal(a[env], b[env]), record, alone)  # noqa: B023
        assert jax.tree.all(same)


def test_a_fold_sees_what_was_left_out(player):
    _, _, excluded = play(player, mask_source("predicted", 4))
    # In each room: nothing, then one more with every try; all of them at the last try are none.
    found = excluded[0, 0, : len(PREDICTED)].tolist()
    assert found == [0, 0, 1, 0, 1, 2, 0, 1, 2, 3, 0]
    _, _, excluded = play(player, mask_source("predicted-forgetful", 4))
    assert excluded.sum() == 0


def test_one_action_from_the_oracle_and_memory_for_the_rest(player):
    source = MaskSource(jnp.arange(4) == 1, remembers=jnp.bool_(True))
    _, actions, _ = play(player, source)
    # b is predicted where it is not valid; the oracle's word saves that step in the second room.
    expected = [0, 2, 0, 1, 3, 1, 2, 0, 3, 1]
    assert actions[0, 0, : len(expected)].tolist() == expected


def test_a_rule_holds_under_memory_and_for_the_clone():
    env = Latch()
    rules = Overruling(
        (Override("b", "never", when="observation[3] > 0.5"),), env.action_names, fields_of(env)
    )
    with make_player(env, ENVS, Table(), greedy=True, fold=fold, overrule=rules) as player:
        _, predicted, _ = play(player, mask_source("predicted", 4))
        _, cloned, _ = play(player, mask_source("clone", 4))
        _, free, _ = play(player, mask_source("clone-forgetful", 4))
        _, none, _ = play(player, mask_source("none", 4))
    np.testing.assert_array_equal(predicted[0, 0], ([0, 1, 2, 0, 1, 3] + [2, 0, 3] * 5)[:LIMIT])
    np.testing.assert_array_equal(cloned[0, 0], ([0, 2, 1, 3] + [0, 2, 3] * 6)[:LIMIT])
    assert free[0, 0].tolist() == EXPECTED["clone-forgetful"][0]
    assert none[0, 0].tolist() == FORGETFUL


@pytest.mark.parametrize("env", [Latch(clock_fields=()), host_latch(())], ids=["jax", "gymnasium"])
def test_a_clock_that_nobody_has_named_hides_what_has_failed(env):
    with make_player(env, ENVS, Table(), greedy=True, fold=fold) as player:
        record, actions, _ = play(player, mask_source("predicted", 4))
    assert actions[0, 0].tolist() == FORGETFUL
    assert record.stuck.sum() == 0


def test_the_clocks_of_a_gymnasium_world_are_an_option_or_its_own():
    id = "gymnasium:latch:Latch-v0"
    option = HostEnvironment(id, workers=0, clock_fields="observation[4]")
    assert option.clock_fields == ("observation[4]",)
    assert HostEnvironment(id, workers=0).clock_fields == ()

    class Aware(HostLatch):
        clock_fields = ("observation[4]",)

    assert HostEnvironment.of(Aware, workers=0).clock_fields == ("observation[4]",)
    with pytest.raises(MasklessError, match="Unknown observation field 'time'"):
        HostEnvironment(id, workers=0, clock_fields=["time"])
    with pytest.raises(MasklessError, match="Unknown observation field 'time'"):
        check_contract(Latch(clock_fields=("time",)))


def test_the_audit_says_what_the_memory_and_the_clone_are_worth():
    """Drawn actions: the forgetful one repeats itself, and the exact shares are the player's."""
    env, params = Latch(), PARAMS
    run = EvaluatedRun(None, "latch", 0, 1, params, (0.5,) * 4, has_classifier=True, has_clone=True)
    runs = Runs(None, env, Table(), [run], env.id)
    audit = audit_predictions(runs, run, states=64, episodes=16, num_envs=16, examples=1)
    evaluation = evaluate_runs(runs, masks=MASKS, episodes=16, num_envs=16)
    found = evaluation.runs[0].masks
    assert list(found) == list(MASKS)
    assert audit.predicted_return == pytest.approx(found["predicted"].mean_return)
    assert audit.forgetful_return == pytest.approx(found["predicted-forgetful"].mean_return)
    assert audit.clone_return == pytest.approx(found["clone"].mean_return)
    assert audit.stuck == pytest.approx(found["predicted"].stuck_share)
    assert audit.forgetful_stuck == pytest.approx(found["predicted-forgetful"].stuck_share)
    assert audit.stuck < 0.15 < 0.4 < audit.forgetful_stuck
    assert "without the memory of failures" in summary(audit)
    assert f"By its clone, without masks: {audit.clone_return:.2f}." in summary(audit)
    # b is wrongly allowed in the second room, a in the third, where d is wrongly masked.
    assert set(audit.costs) == {"a", "b", "d"}
    assert default_masks(runs) == list(MASKS)  # with the controls
