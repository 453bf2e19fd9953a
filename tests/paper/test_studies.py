"""Everything that is named exists, and everything that is planned can be trained."""

import dataclasses

import pytest

from maskless import config
from maskless.errors import MasklessError
from maskless.nets import NETS
from maskless.presets import preset
from maskless_paper.claims.claims import CLAIMS
from maskless_paper.plans import SCALES, make_plan
from maskless_paper.studies import STUDIES
from maskless_paper.study_files import read_result
from maskless_paper.tables import EXPERIMENTS


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", STUDIES)
def test_every_plan_can_be_trained(name, scale):
    plan = make_plan(name, scale)
    config.check(plan.config)
    assert set(plan.conditions) <= set(plan.config.conditions)
    assert plan.budgets[-1] == 1.0
    # Only the paper's own scale is the paper's, and in corridors not even that.
    assert bool(plan.stands_in) == (scale != "paper" or STUDIES[name].world == "corridor")


def test_the_paper_s_scale_is_the_paper_s():
    plan = make_plan("full-hybrid", "paper")
    assert (plan.config.frames, plan.config.seeds) == (1_000_000_000, 4)
    assert plan.episodes * plan.config.ppo.num_envs == 10_240
    assert plan.config.ppo == preset("paper", net=NETS["hybrid"].default_hyperparameters)
    corridor = make_plan("corridor-gru", "paper").config
    assert (corridor.env, corridor.frames, corridor.ppo.rnd) == ("corridor-r5", 200_000_000, True)
    sweep = make_plan("lambda", "paper").config
    assert (sweep.env, sweep.net) == ("craftax", "hybrid")


def test_the_gpu_scale_is_the_same_but_shorter():
    for name in STUDIES:
        paper, gpu = (make_plan(name, scale).config for scale in ("paper", "gpu"))
        if (paper.env, paper.net) == (gpu.env, gpu.net):
            constant = dataclasses.replace(paper.ppo, anneal=False)
            same = dataclasses.replace(paper, seeds=gpu.seeds, frames=gpu.frames, ppo=constant)
            assert set(paper.conditions) <= set(gpu.conditions)
            assert gpu == dataclasses.replace(same, conditions=gpu.conditions)


def test_on_a_gpu_studies_of_one_game_and_network_are_one_training():
    for scale, one in (("gpu", True), ("paper", True), ("cpu", False)):
        plans = [make_plan(name, scale) for name in ("classic-mlp", "classic-loop")]
        assert (plans[0].training == plans[1].training) == one
        assert (plans[0].config == plans[1].config) == one
    assert plans[0].config.conditions == plans[0].conditions
    sweeps = [make_plan(name, "gpu") for name in ("control-losses", "lambda", "gamma")]
    assert sweeps[0].config == sweeps[1].config == sweeps[2].config
    assert make_plan("lambda", "paper").training == "lambda"  # another game and network there


def test_a_study_says_in_what_it_is_not_the_paper_s():
    short = make_plan("lambda", "gpu", frames=25_000_000, precision="bfloat16").stands_in
    assert short == (
        "Craftax-Classic in place of Craftax; MLP in place of the hybrid; 2.5 % of the paper's"
        " frames; 1 of 4 seeds; a constant learning rate where the paper anneals it; bfloat16"
    )
    assert make_plan("corridor-gru", "paper").stands_in.startswith("λ of GAE 0.95 instead of 0.8")
    assert "two rooms" in make_plan("corridor-gru", "cpu").stands_in


def test_numbers_can_be_replaced():
    plan = make_plan("full-mlp", "gpu", seeds=3, frames=10**6, precision="bfloat16")
    found = plan.config
    assert (found.seeds, found.frames, found.precision) == (3, 10**6, "bfloat16")
    with pytest.raises(MasklessError, match="at least 65,536"):
        make_plan("full-mlp", "gpu", frames=100)


def test_every_study_belongs_to_an_experiment_and_every_claim_to_both():
    used = {study for experiment in EXPERIMENTS.values() for study in experiment.studies}
    assert used == set(STUDIES)
    for claim in CLAIMS:
        assert claim.experiment in EXPERIMENTS
        known = EXPERIMENTS[claim.experiment].studies or ("theory",)
        assert set(claim.studies) <= set(known), claim.number  # its command must be accepted
    numbers = [claim.number for claim in CLAIMS]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("content", ["[]", "{", '{"format": 0}'])
def test_what_is_no_result_is_refused(tmp_path, content):
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(MasklessError, match=r"x\.json .*result of a study"):
        read_result(tmp_path / "x.json")


@pytest.mark.parametrize("wrong", [("classic", "gpu"), ("classic-mlp", "huge")])
def test_unknown_names_are_refused(wrong):
    with pytest.raises(MasklessError, match=wrong[0] if wrong[0] == "classic" else "huge"):
        make_plan(*wrong)
