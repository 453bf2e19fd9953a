"""Checkpoints come back bit for bit or are refused in a sentence; no failure loses older ones."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import namedtuple
from pathlib import Path

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from flax import struct
from safetensors import safe_open

from maskless import MasklessError
from maskless.training import checkpoints

RUN = {"env": "tower", "condition": "masked", "seed": 0, "net": {"width": 512}}
DTYPES = (
    *(bool, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64),
    *(np.float16, np.float32, np.float64, np.complex64, np.complex128),
    *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4),
)
SHAPES = ((), (0,), (3,), (0, 4), (2, 0, 3), (5, 1, 2), (2, 3, 4, 5))


@struct.dataclass
class Learner:
    params: dict
    moments: tuple
    key: jax.Array


Moments = namedtuple("Moments", "mu nu")


def learner(seed=0, width=3):
    rng = np.random.default_rng(seed)
    kernel = jnp.asarray(rng.standard_normal((width, 4), np.float32))
    return Learner(
        params={"dense": {"kernel": kernel, "bias": np.zeros(4, np.float32)}},
        moments=(Moments(mu=kernel * 2, nu=jnp.int32(seed)), None),
        key=jax.random.split(jax.random.key(seed), 3),
    )


def as_bytes(leaf):
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf).tobytes()


def assert_same(left, right):
    assert jax.tree.structure(left) == jax.tree.structure(right)
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert as_bytes(a) == as_bytes(b)


def silent(sentence):
    raise AssertionError(f"unexpected warning: {sentence}")


def restore(folder, like, warn=silent, **options):
    return checkpoints.restore(folder, like, identity=RUN, warn=warn, **options)


def test_a_learner_comes_back_from_its_abstract_shape(tmp_path):
    state = learner()
    path = checkpoints.save(tmp_path / "run/checkpoints", 7, state, identity=RUN)
    assert path.name == "update-000007"
    like = jax.eval_shape(learner)
    update, back = restore(tmp_path / "run/checkpoints", like)
    assert update == 7
    assert_same(back, state)
    draw = jax.vmap(jax.random.uniform)
    np.testing.assert_array_equal(draw(back.key), draw(state.key))
    about = json.loads((path / "checkpoint.json").read_text())
    assert set(about["leaves"]) == {
        *("params/dense/kernel", "params/dense/bias", "moments/0/mu", "moments/0/nu", "key")
    }


def test_all_dtypes_and_shapes_with_any_bits(tmp_path):
    """Random bits: NaN payloads, -0.0, denormals, extreme integers."""
    rng = np.random.default_rng(0)
    state = {}
    for dtype in map(np.dtype, DTYPES):
        for shape in SHAPES:
            bits = rng.integers(0, 256, (int(np.prod(shape)), dtype.itemsize), np.uint8)
            if dtype.kind == "b":
                bits %= 2
            if dtype == ml_dtypes.int4:
                bits %= 8
            state[f"{dtype}{shape}"] = bits.reshape(-1).view(dtype).reshape(shape)
    checkpoints.save(tmp_path, 0, state, identity=RUN)
    assert_same(restore(tmp_path, state)[1], state)


def test_special_floats_survive_jax_arrays_too(tmp_path):
    bits = np.array([0x7FC00001, 0xFFC12345, 0x80000000, 1, 0x80000001, 0x7F800000], np.uint32)
    state = [bits.view(np.float32), jax.device_put(bits.view(np.float32))]
    checkpoints.save(tmp_path, 0, state, identity=RUN)
    for leaf in restore(tmp_path, state)[1]:
        np.testing.assert_array_equal(leaf.view(np.uint32), bits)


@pytest.mark.parametrize("implementation", ["threefry2x32", "rbg"])
def test_keys_of_every_kind(tmp_path, implementation):
    keys = jax.random.split(jax.random.key(0, impl=implementation), (2, 3))
    state = {"one": jax.random.key(0, impl=implementation), "many": keys, "none": keys[:0]}
    checkpoints.save(tmp_path, 0, state, identity=RUN)
    assert_same(restore(tmp_path, state)[1], state)


@pytest.mark.parametrize(
    ("least", "most", "stored"),
    [
        *((0, 63, "U8"), (0, 255, "U8"), (-1, 127, "I8"), (-1, 128, "I16"), (0, 256, "U16")),
        *((-129, 0, "I16"), (0, 65536, "U32"), (-(2**31), 2**31 - 1, "I32")),
        *((0, 2**32, "I64"), (-(2**63), 2**63 - 1, "I64")),
    ],
)
def test_integers_take_the_least_room(tmp_path, least, most, stored):
    state = {"map": np.array([[least, 0, most]], np.int64)}
    path = checkpoints.save(tmp_path, 0, state, identity=RUN)
    with safe_open(path / "state.safetensors", "np") as file:
        assert file.get_slice("map").get_dtype() == stored
    assert_same(restore(tmp_path, state)[1], state)


def test_arrays_in_any_memory_order(tmp_path):
    grid = np.arange(24, dtype=np.float32).reshape(4, 6)
    state = [grid.T, grid[:, ::2], grid[::-1], np.float32(3), grid.astype(">f4")]
    checkpoints.save(tmp_path, 0, state, identity=RUN)
    for back, was in zip(restore(tmp_path, state)[1], state, strict=True):
        assert back.dtype == was.dtype
        np.testing.assert_array_equal(back, was)


def test_the_same_state_gives_the_same_file(tmp_path):
    one = checkpoints.save(tmp_path / "a", 1, learner(), identity=RUN)
    two = checkpoints.save(tmp_path / "b", 1, learner(), identity=RUN)
    for name in ("state.safetensors", "checkpoint.json"):
        assert (one / name).read_bytes() == (two / name).read_bytes()


def test_what_is_not_an_array_is_refused(tmp_path):
    bad = ({"a": 3}, {"a": "text"}, {"a": np.array([None])}, {"a/b": np.ones(1), "a": {"b": 1}})
    for state in bad:
        with pytest.raises(MasklessError, match=r"'a|path 'a/b'"):
            checkpoints.save(tmp_path, 0, state, identity=RUN)
    with pytest.raises(MasklessError, match="JSON"):
        checkpoints.save(tmp_path, 0, learner(), identity={"seed": np.int64(0)})
    assert checkpoints.updates(tmp_path) == []


def test_the_last_ones_are_kept_and_leftovers_removed(tmp_path):
    (tmp_path / ".update-000001.partial").mkdir()
    (tmp_path / ".update-000005.partial").symlink_to(tmp_path)  # rmtree leaves links
    (tmp_path / "notes.txt").write_text("mine")
    for update in (1, 5, 9, 1_000_000):
        checkpoints.save(tmp_path, update, learner(update), identity=RUN)
        checkpoints.keep_newest(tmp_path, update, 3)
    assert checkpoints.updates(tmp_path) == [5, 9, 1_000_000]
    assert not list(tmp_path.glob(".*"))
    assert (tmp_path / "notes.txt").exists()
    for update in (5, 9, 1_000_000):
        assert_same(restore(tmp_path, learner(), update=update)[1], learner(update))


def test_a_past_that_was_given_up_does_not_come_back(tmp_path):
    for update in (1, 2, 3, 4):
        checkpoints.save(tmp_path, update, learner(update), identity=RUN)
    checkpoints.discard_after(tmp_path, 3)
    assert checkpoints.updates(tmp_path) == [1, 2, 3]
    checkpoints.save(tmp_path, 2, learner(20), identity=RUN)
    checkpoints.keep_newest(tmp_path, 2, 9)
    assert checkpoints.updates(tmp_path) == [1, 2]
    assert_same(restore(tmp_path, learner())[1], learner(20))


def test_where_many_runs_can_continue(tmp_path):
    for run, saved in {"a": (1, 2, 3), "b": (1, 2), "c": (0, 1, 2)}.items():
        for update in saved:
            checkpoints.save(tmp_path / run, update, learner(), identity=RUN)
    assert checkpoints.newest_common([tmp_path / run for run in "abc"]) == [2, 1]
    assert checkpoints.newest_common([tmp_path / "a", tmp_path / "missing"]) == []
    assert checkpoints.newest_common([]) == []


# ---- refused


@pytest.fixture
def two(tmp_path):
    """A folder with good checkpoints 1 and 2; the tests damage 2."""
    for update in (1, 2):
        checkpoints.save(tmp_path, update, learner(update), identity=RUN)
    return tmp_path


def edit(path, change):
    about = json.loads((path / "checkpoint.json").read_text())
    change(about)
    (path / "checkpoint.json").write_text(json.dumps(about))


def truncate(path):
    os.truncate(path / "state.safetensors", 100)


def flip(path):
    content = bytearray((path / "state.safetensors").read_bytes())
    content[-1] ^= 1
    (path / "state.safetensors").write_bytes(content)


DAMAGE = {
    "truncated": (truncate, "damaged"),
    "bit-flipped": (flip, "damaged.*hash"),
    "without arrays": (lambda path: (path / "state.safetensors").unlink(), "damaged"),
    "without json": (lambda path: (path / "checkpoint.json").unlink(), "missing"),
    "half json": (lambda path: os.truncate(path / "checkpoint.json", 50), "damaged"),
    "wrong json": (lambda path: (path / "checkpoint.json").write_text("[]"), "must be object"),
    "renamed": (lambda path: edit(path, lambda x: x.update(update=3)), "contradicts"),
    "a file": (lambda path: (shutil.rmtree(path), path.write_text("")), "damaged"),
    "foreign": (
        lambda path: edit(path, lambda x: x["identity"].update(seed=1, net={"width": 512, "x": 1})),
        r"of another run: net.x is 1 there and missing here; seed is 1 there and 0 here",
    ),
    "missing leaf": (
        lambda path: edit(path, lambda x: x["leaves"].pop("params/dense/bias")),
        "does not fit this program: it lacks 'params/dense/bias'",
    ),
    "one leaf too many": (
        lambda path: edit(path, lambda x: x["leaves"].update(extra={"shape": [], "dtype": "bool"})),
        "it has 'extra'",
    ),
    "wrong shape": (
        lambda path: edit(path, lambda x: x["leaves"]["key"].update(shape=[4])),
        r"the shape of 'key' is \[4\] there and \[3\] here",
    ),
    "wrong dtype": (
        lambda path: edit(path, lambda x: x["leaves"]["key"].update(dtype="key<rbg>")),
        r"the dtype of 'key' is key<rbg> there and key<fry> here",
    ),
    "wrong key": (
        lambda path: edit(path, lambda x: x["leaves"]["key"].update(key_implementation="rbg")),
        "damaged",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_refused_checkpoint_is_told_and_the_one_before_used(two, kind):
    damage, sentence = DAMAGE[kind]
    damage(two / "update-000002")
    told = []
    update, state = restore(two, learner(), warn=told.append)
    assert update == 1
    assert_same(state, learner(1))
    with pytest.raises(MasklessError, match=sentence) as error:
        restore(two, learner(), update=2)
    assert told == [f"{error.value} Continuing from update 1."]
    assert "\n" not in told[0]
    shutil.rmtree(two / "update-000001")
    with pytest.raises(MasklessError, match=sentence):
        restore(two, learner())


def test_weights_that_are_not_finite_are_not_saved(two):
    bad = learner()
    bad.params["dense"]["bias"][1] = np.nan
    with pytest.raises(MasklessError, match=r"was not written: 1 of the 4 weights .*bias'.* kept"):
        checkpoints.save(two, 3, bad, identity=RUN, finite="params")
    assert checkpoints.updates(two) == [1, 2]
    checkpoints.save(two, 3, bad, identity=RUN, finite="moments")


def test_the_program_changed_in_between(two):
    with pytest.raises(MasklessError, match=r"mu' is \[3, 4\] there and \[5, 4\] here.*older"):
        restore(two, learner(width=5))


def test_newer_checkpoints_are_not_passed_over(two):
    edit(two / "update-000002", lambda x: x.update(format=2))
    with pytest.raises(MasklessError, match=r"newer maskless .format 2.*: update"):
        restore(two, learner())


def test_nothing_to_restore(tmp_path):
    with pytest.raises(MasklessError, match="no checkpoint in"):
        restore(tmp_path / "nowhere", learner())
    with pytest.raises(MasklessError, match="no checkpoint"):
        restore(tmp_path, learner(), update=4)


def test_random_damage_never_gives_a_wrong_state(two):
    """200 checkpoints with some bytes changed, cut or inserted: the right state or a sentence."""
    rng = random.Random(0)
    newest = two / "update-000002"
    good = {path.name: path.read_bytes() for path in newest.iterdir()}
    outcomes = set()
    for _ in range(200):
        name = rng.choice(list(good))
        (newest / name).write_bytes(_damaged(rng, good[name]))
        told = []
        try:
            update, state = restore(two, learner(), warn=told.append)
        except MasklessError as error:
            outcomes.add(str(error)[-16:])
        else:
            assert_same(state, learner(update))
            assert len(told) == (update == 1)
            outcomes.add(update)
        (newest / name).write_bytes(good[name])
    # 2: such as a space in the JSON; the sentence: the digit of the format itself
    assert {1} < outcomes <= {1, 2, "update maskless."}
    assert restore(two, learner())[0] == 2


def _damaged(rng, content):
    content = bytearray(content)
    kind = rng.choice(("flip", "cut", "insert", "overwrite"))
    where = rng.randrange(len(content))
    if kind == "flip":
        content[where] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        del content[where : where + rng.choice((1, 10, 10_000))]
    elif kind == "insert":
        content[where:where] = rng.randbytes(rng.choice((1, 20)))
    else:
        content[where : where + 8] = rng.randbytes(8)
    return bytes(content)


# ---- the machine fails


def run_python(script, *arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        **options,
    )


SAVE_FOREVER = """
    # Children are forked from one process that has imported everything: a kill every few
    # milliseconds instead of every second.
    import os, sys, itertools
    import numpy as np
    from maskless.training import checkpoints

    for line in sys.stdin:
        start = int(line)
        child = os.fork()
        if child == 0:
            for update in itertools.count(start):
                grid = np.full((300, 300), update, np.float32)
                state = {"count": np.full(200_000, update), "grid": grid}
                checkpoints.save(sys.argv[1], update, state, identity={"run": 1})
                checkpoints.keep_newest(sys.argv[1], update, 2)
        print(child, flush=True)
        os.waitpid(child, 0)
        print("dead", flush=True)
"""


def test_kills_at_any_moment_leave_something_to_restore(tmp_path):
    like = {"count": np.zeros(200_000, int), "grid": np.zeros((300, 300), np.float32)}
    rng = random.Random(1)
    newest, seen_leftovers = 0, 0
    parent = run_python(SAVE_FOREVER, tmp_path, stdin=subprocess.PIPE)
    try:
        for _ in range(30):
            parent.stdin.write(f"{newest + 1}\n")
            parent.stdin.flush()
            child = int(parent.stdout.readline())
            while checkpoints.updates(tmp_path)[-1:] <= [newest]:
                time.sleep(0.001)
            time.sleep(rng.uniform(0, 0.05))
            os.kill(child, signal.SIGKILL)
            assert parent.stdout.readline() == "dead\n"
            seen_leftovers += bool(list(tmp_path.glob(".*")))
            update, state = checkpoints.restore(tmp_path, like, identity={"run": 1}, warn=silent)
            assert update > newest
            assert (state["count"] == update).all()
            assert (state["grid"] == update).all()
            newest = update
    finally:
        parent.kill()
        parent.communicate()
    assert seen_leftovers  # some kills did fall into a save


FULL_DISK = """
    import resource, sys
    import numpy as np
    from maskless.errors import MasklessError
    from maskless.training import checkpoints

    state = {"a": np.random.rand(100_000)}
    checkpoints.save(sys.argv[1], 1, state, identity={})
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
    try:
        checkpoints.save(sys.argv[1], 2, state, identity={})
    except MasklessError as error:
        print(error)
"""


@pytest.mark.parametrize("room", [0, 1000, 400_000])
def test_a_full_disk_keeps_what_was_there(tmp_path, room):
    out, err = run_python(FULL_DISK, tmp_path, room).communicate(timeout=60)
    assert "Cannot write the checkpoint" in out, err
    assert "File too large" in out
    assert out.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["update-000001"]
    like = {"a": np.zeros(100_000)}
    assert checkpoints.restore(tmp_path, like, identity={}, warn=silent)[0] == 1


@pytest.fixture
def nobody():
    """Root may write anywhere, so these tests become somebody else for a moment."""
    folder = Path(tempfile.mkdtemp())  # outside pytest's folder, which is closed to others
    folder.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
        yield folder
        os.seteuid(0)
    else:
        yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_read_only_folder(nobody):
    checkpoints.save(nobody, 1, learner(1), identity=RUN)
    nobody.chmod(0o555)
    with pytest.raises(MasklessError, match=r"Cannot write the checkpoint.*Permission denied"):
        checkpoints.save(nobody, 2, learner(2), identity=RUN)
    assert restore(nobody, learner())[0] == 1
    nobody.chmod(0)
    with pytest.raises(MasklessError, match=r"Cannot read the folder.*Permission denied"):
        restore(nobody, learner())


def test_a_file_in_the_way(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(MasklessError, match=r"Cannot write the checkpoint.*Not a directory"):
        checkpoints.save(tmp_path / "file/checkpoints", 2, learner(2), identity=RUN)
