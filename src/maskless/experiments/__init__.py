"""The paper's experiments and the controls it lacks: `maskless reproduce NAME --scale SCALE`.

`studies` says what is trained, `run` trains and evaluates it into one small JSON, and one file for
each table or figure makes that out of such JSONs. `claims` judges the paper's claims by them.
"""

from maskless.experiments import (
    beyond_oracle,
    controls,
    correlation,
    deployment,
    descend_profile,
    gamma_sweep,
    lambda_sweep,
    predictor_ablation,
    suppression,
    table_masks,
    theory,
)
from maskless.experiments.harness import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    "table-masks": table_masks.EXPERIMENT,
    "suppression": suppression.EXPERIMENT,
    "correlation": correlation.EXPERIMENT,
    "beyond-oracle": beyond_oracle.EXPERIMENT,
    "deployment": deployment.EXPERIMENT,
    "predictor-ablation": predictor_ablation.EXPERIMENT,
    "lambda-sweep": lambda_sweep.EXPERIMENT,
    "gamma-sweep": gamma_sweep.EXPERIMENT,
    "descend-profile": descend_profile.EXPERIMENT,
    "theory": theory.EXPERIMENT,
    "controls": controls.EXPERIMENT,
}

__all__ = ["EXPERIMENTS", "Experiment"]
