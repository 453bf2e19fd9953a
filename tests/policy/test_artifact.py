"""Artifacts on the disk: whole ones load, all others are refused in a sentence."""

import json
import random
import shutil

import numpy as np
import pytest
import safetensors.numpy
from policy.made import make_policy

from maskless import runtime
from maskless.errors import MasklessError
from maskless.nets import MLP
from maskless.policy import artifact
from maskless.policy.artifact import change_policy, read_artifact


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return make_policy(tmp_path_factory.mktemp("original") / "policy", width=4)


@pytest.fixture
def folder(original, tmp_path):
    shutil.copytree(original, tmp_path / "policy")
    return tmp_path / "policy"


def edit(folder, seal=True, **changes):
    """Changes policy.json, with or without the hash that belongs to it."""
    about = json.loads((folder / "policy.json").read_text()) | changes
    about = artifact._sealed(about) if seal else about
    (folder / "policy.json").write_text(json.dumps(about))


def test_what_was_saved_is_read(folder):
    found = read_artifact(folder)
    assert found.action_names == ("wait", "climb", "jump", "rest", "gamble")
    assert [(f.name, f.shape, f.dtype) for f in found.fields] == [("observation", (3,), "int32")]
    assert found.thresholds == (0.5,) * 5
    assert found.classifier
    assert not found.overrides
    assert found.net == MLP(num_actions=5, width=4)
    assert read_artifact(folder.parent).about == found.about


def test_saving_again_replaces_the_whole_artifact(folder):
    make_policy(folder, "gru", width=4)
    assert type(read_artifact(folder).net).__name__ == "GRU"
    assert sorted(path.name for path in folder.parent.iterdir()) == ["policy"]


def test_a_failed_save_keeps_what_was_there(folder, monkeypatch):
    rename = artifact.os.rename

    def full(source, target):
        if source.name.endswith(".partial"):
            raise OSError(28, "No space left on device")
        rename(source, target)

    before = (folder / "policy.json").read_text()
    monkeypatch.setattr(artifact.os, "rename", full)
    with pytest.raises(MasklessError, match="No space left"):
        make_policy(folder, "gru", width=4)
    assert (folder / "policy.json").read_text() == before
    assert sorted(path.name for path in folder.parent.iterdir()) == ["policy"]
    read_artifact(folder)


def test_format_1_is_still_read(folder):
    about = json.loads((folder / "policy.json").read_text())
    for name in ("sha256", "overrides"):
        del about[name]
    about["observation"][0]["name"] = ""
    (folder / "policy.json").write_text(json.dumps(about | {"format": 1}))
    assert read_artifact(folder).fields[0].name == "observation"
    change_policy(folder, {"thresholds": [0.25] * 5})
    assert read_artifact(folder).thresholds == (0.25,) * 5


def test_a_change_that_could_not_be_loaded_is_not_written(folder):
    before = (folder / "policy.json").read_text()
    with pytest.raises(MasklessError, match="one number between 0 and 1 for each action"):
        change_policy(folder, {"thresholds": [0.5]})
    assert (folder / "policy.json").read_text() == before


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"format": 99}, "a newer maskless wrote it"),
        ({"weights_sha256": "0" * 64}, "does not have the hash that policy.json names"),
        (
            {"net": {"name": "gru", "num_actions": 5, "encoder": "flat", "width": 4}},
            "network needs",
        ),
        ({"net": {"name": "mlp", "num_actions": 5, "encoder": "flat", "width": 10**9}}, "width"),
        ({"action_names": ["wait", "climb"]}, "does not fit its 2 actions"),
        ({"observation": [{"name": "x", "shape": [2**27], "dtype": "int8"}]}, "no weights read"),
        ({"threshold": float("nan")}, "threshold is not a finite number"),
        ({"threshold": 1.5}, "'threshold' must be float <= 1.0"),
        ({"overrides": [{"action": "fly"}]}, "An override is not an entry"),
        ({"observation": []}, "its observation has no field"),
        ({"clock_fields": ["observation[1 2]"]}, "A clock is a field"),
    ],
)
def test_edited_artifacts_are_refused_even_when_hashed_again(folder, changes, sentence):
    edit(folder, **changes)
    with pytest.raises(MasklessError, match=sentence):
        read_artifact(folder)


def test_edits_without_the_hash_are_refused(folder):
    edit(folder, seal=False, threshold=0.4)
    with pytest.raises(MasklessError, match="use `maskless override`"):
        read_artifact(folder)


def test_truncated_foreign_and_missing_files(folder, tmp_path):
    weights = (folder / "weights.safetensors").read_bytes()
    (folder / "weights.safetensors").write_bytes(weights[:-100])
    with pytest.raises(MasklessError, match="cut off"):
        read_artifact(folder)
    (folder / "weights.safetensors").unlink()
    with pytest.raises(MasklessError, match=r"weights.safetensors cannot be read"):
        read_artifact(folder)
    (folder / "policy.json").write_text('{"format": 1, "made_by": "somebody else"}')
    with pytest.raises(MasklessError, match="not one of maskless"):
        read_artifact(folder)
    with pytest.raises(MasklessError, match="There is no folder"):
        read_artifact(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(MasklessError, match="has no policy"):
        read_artifact(tmp_path / "empty")


def test_foreign_weights_are_refused(folder):
    """Of the right names but other types or shapes, with both hashes right."""
    weights = safetensors.numpy.load_file(folder / "weights.safetensors")
    name = next(iter(weights))
    for other in (weights[name].astype(np.float64), np.zeros((7, 7), np.float32)):
        content = safetensors.numpy.save(weights | {name: other})
        (folder / "weights.safetensors").write_bytes(content)
        edit(folder, weights_sha256=artifact.hashlib.sha256(content).hexdigest())
        with pytest.raises(MasklessError, match="its network needs"):
            read_artifact(folder)


def damaged_bytes(content, dice):
    """Cut off, with a hole, with other bytes, or with something more at the end."""
    kind = dice.randrange(4)
    place = dice.randrange(len(content))
    if kind == 0:
        return content[:place]
    if kind == 1:
        return content[:place] + content[place + dice.randrange(1, 9) :]
    if kind == 2:
        return content + dice.randbytes(dice.randrange(1, 9))
    changed = bytearray(content)
    for _ in range(dice.randrange(1, 9)):
        changed[dice.randrange(len(changed))] = dice.randrange(256)
    return bytes(changed)


STRANGE = [None, True, -1, 0, 3, 2**70, 1e400, float("nan"), "", "x" * 50, [], {}, [[]], [None]]


def damaged_entry(value, dice):
    """One entry somewhere inside replaced by something strange, or removed."""
    if isinstance(value, dict | list) and value and dice.random() < 0.8:
        place = dice.choice(list(value) if isinstance(value, dict) else range(len(value)))
        if dice.random() < 0.2:
            del value[place]
        else:
            value[place] = damaged_entry(value[place], dice)
        return value
    return dice.choice(STRANGE)


def refusal_of(folder):
    """What the loader says; None when it loads. Any other error than ours is the test's failure.
    The NumPy runtime loads and refuses the same."""
    says = []
    for read in (read_artifact, runtime.load):
        try:
            read(folder)
            says.append(None)
        except MasklessError as error:
            says.append(str(error))
    assert (says[0] is None) == (says[1] is None), says
    return says[0]


def test_a_thousand_damaged_artifacts_are_refused_or_whole(folder):
    """Random damage to either file, and random entries in a policy.json with a right hash."""
    dice = random.Random(0)
    rule = {"action": "jump", "effect": "threshold", "threshold": 0.1, "when": "observation[1] > 0"}
    edit(folder, overrides=[rule], thresholds=[0.5, None, 0.5, 0.5, 0.5])
    files = {name: (folder / name).read_bytes() for name in ("policy.json", "weights.safetensors")}
    whole = 0
    for number in range(1000):
        name = ("policy.json", "weights.safetensors", "policy.json")[number % 3]
        if number % 3 < 2:
            content = damaged_bytes(files[name], dice)
        else:
            about = damaged_entry(json.loads(files[name]), dice)
            sealed = artifact._sealed(about) if isinstance(about, dict) else about
            content = json.dumps(sealed).encode()
        (folder / name).write_bytes(content)
        refusal = refusal_of(folder)
        if refusal is None:
            # Byte damage never goes unnoticed; an edit with a right hash may change nothing
            # that matters, such as the versions.
            assert number % 3 == 2 or json.loads(content) == json.loads(files[name])
            whole += 1
        else:
            assert refusal.endswith(".")
        (folder / name).write_bytes(files[name])
    assert whole < 300
