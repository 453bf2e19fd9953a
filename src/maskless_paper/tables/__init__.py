"""Every table and figure of `maskless reproduce`, by name.

experiment, table     what a table or figure is; a table for the terminal, Markdown and JSON
drawing, sweep        curves, bars and points that several figures share
all others            one file for each table or figure, named as in `maskless reproduce`
"""

from maskless_paper.tables import (
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
from maskless_paper.tables.experiment import Experiment

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
