"""What `maskless bench` measures is the program that trains."""

import json

import jax
import pytest

from maskless import benchmark
from maskless.benchmark import Case
from maskless.benchmark.profiling import sum_up
from maskless.cli import main
from maskless.training.request import make_request

TEXT = """
  %fusion.7 = f32[4]{0} fusion(%a), kind=kLoop, metadata={op_name="jit(f)/while/body/network/dot"}
  %gemm_fusion_dot_3.clone.1 = f32[4] fusion(%a), metadata={op_name="jit(f)/learning/network/dot"}
  ROOT %add.2 = f32[4]{0} add(%a, %b), metadata={op_name="jit(f)/add"}
"""


def test_bench_measures_a_training_program(tmp_path, monkeypatch, capsys):
    request = make_request(
        "staircase", ("unmasked", "masked"), width=8, preset_name="cpu", frames=10**6,
        num_envs=16, rollout=16, minibatches=2, epochs=1,
    )  # fmt: skip
    tiny = Case("staircase", "mlp", 2, target=1, preset="cpu")
    monkeypatch.setattr(Case, "request", lambda case, precision: request)
    monkeypatch.setitem(benchmark.SUITES, "cpu", (tiny,))
    main(["bench", "--suite", "cpu", "--seconds", "0.1", "--out", str(tmp_path)])
    found = json.loads((tmp_path / "train-cpu.json").read_text())
    (result,) = found["results"]
    updates = 1e3 / result["milliseconds_per_update"]
    frames = request.config.frames_per_update * tiny.runs
    assert result["frames_per_second"] == pytest.approx(updates * frames, rel=1e-3)
    assert result["host_callbacks"] == 0
    assert result["finite"]
    assert result["memory_bytes"] > 2**14
    assert found["versions"]["jax"] == jax.__version__
    assert "staircase" in capsys.readouterr().out


def test_a_case_is_what_train_would_train():
    """With the paper's numbers, and as many runs of each condition."""
    config = Case("corridor-r5", "gru", 16).request("bfloat16").config
    assert (config.env, config.net, config.precision) == ("corridor-r5", "gru", "bfloat16")
    assert (config.conditions, config.seeds) == (benchmark.CONDITIONS, 4)
    assert config.ppo.rnd
    assert Case("staircase", "mlp", 2, preset="cpu").request("float32").config.width == 128


def test_kernels_belong_to_the_innermost_part():
    kernels = [("fusion_7", 2e6), ("gemm_fusion_dot_3_clone_1", 1e6), ("fusion_7", 2e6)]
    kernels += [("add_2", 5e5), ("nvjet_tst_64", 4e6), ("memcpy", 1e5)]
    found = sum_up(kernels, TEXT)
    assert {part: (x["milliseconds"], x["kernels"]) for part, x in found["parts"].items()} == {
        "network": (5.0, 3),
        "matrix products (library)": (4.0, 1),
        "other": (0.6, 2),
    }
    assert (found["busy_milliseconds"], found["kernels"]) == (pytest.approx(9.6), 6)
    assert [(x["kernel"], x["times"]) for x in found["longest"][:2]] == [
        ("fusion_7", 2),
        ("nvjet_tst_64", 1),
    ]
    assert found["longest"][0]["operation"].endswith("network/dot")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--suite", "tpu"], "tpu"),
        (["--only", "chess"], "chess"),
        (["--seconds", "0"], "above 0"),
        (["--precision", "float8"], "float8"),
    ],
)
def test_wrong_flags_get_one_sentence(flags, says, capsys, tmp_path):
    with pytest.raises(SystemExit) as stop:
        main(["bench", *flags, "--out", str(tmp_path)])
    assert stop.value.code == 2
    assert says in capsys.readouterr().err
