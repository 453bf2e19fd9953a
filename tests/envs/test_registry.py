import pytest

import maskless
from maskless import MasklessError


def test_every_id_makes_an_environment_of_that_id():
    for id in maskless.ids():
        env = maskless.make(id)
        assert env.id == id
        assert env.num_actions == len(set(env.action_names))
        assert env.rules in env.rule_sets


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: maskless.make("craftx"), "did you mean 'craftax'"),
        (lambda: maskless.make("craftax-clasic"), "did you mean 'craftax-classic'"),
        (lambda: maskless.make("chess"), "choose one of"),
        (lambda: maskless.make(3), "is a string"),
        (lambda: maskless.make("craftax", rules="exat"), "did you mean 'exact'"),
        (lambda: maskless.make("craftax", rule="exact"), "did you mean 'rules'"),
        (lambda: maskless.make("no_such_module:Tower"), "importable.module:ClassOrFunction"),
        (lambda: maskless.make("toys:NoSuchTower"), "importable.module:ClassOrFunction"),
        (lambda: maskless.make("toys:Lame"), "has no 'reset'"),
        (lambda: maskless.make("toys:Unfinished"), "has no 'observe', 'validity'"),
        (lambda: maskless.make("object:Tower"), "'Tower' was given as an object.* again"),
    ],
)
def test_bad_input_is_one_sentence_that_helps(call, says):
    with pytest.raises(MasklessError, match=says) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_your_own_environment_needs_no_registration():
    env = maskless.make("toys:Tower", episode_limit=7)
    assert (env.id, env.episode_limit) == ("tower", 7)


def test_registered_environments_are_listed_and_made(monkeypatch):
    from toys import Tower

    monkeypatch.setattr(maskless.envs.registry, "_REGISTRY", {})
    maskless.register("my-tower", Tower)
    assert maskless.ids() == ["my-tower"]
    assert maskless.make("my-tower", rules="wrong").rules == "wrong"


def test_an_environment_remembers_how_it_was_made():
    assert maskless.make("staircase", length=5).made_from == ("staircase", {"length": 5})
    env = maskless.make("corridor-r2", frozen_penalty=0.0)
    exact = env.with_rules("exact")
    assert exact.made_from == ("corridor-r2", {"frozen_penalty": 0.0, "rules": "exact"})
    assert maskless.make(exact.made_from[0], **exact.made_from[1]).rules == "exact"
    assert env.made_from == ("corridor-r2", {"frozen_penalty": 0.0})
    from toys import Tower

    assert Tower().made_from is None
