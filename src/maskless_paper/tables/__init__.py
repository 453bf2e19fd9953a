"""Every table and figure of `maskless reproduce`, by name.

experiment, table     what a table or figure is; a table for the terminal, Markdown and JSON
drawing, sweep        curves, bars and points that several figures share
all others            one file for each table or figure, named as in `maskless reproduce`
"""

from maskless_paper.tables import (
    across_games,
    beyond_oracle,
    controls,
    correlation,
    correlation_kept,
    deployment,
    descend_profile,
    first_occurrence,
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
    "first-occurrence": first_occurrence.EXPERIMENT,
    "correlation": correlation.EXPERIMENT,
    "correlation-kept": correlation_kept.EXPERIMENT,
    "beyond-oracle": beyond_oracle.EXPERIMENT,
    "deployment": deployment.EXPERIMENT,
    "across-games": across_games.EXPERIMENT,
    "predictor-ablation": predictor_ablation.EXPERIMENT,
    "lambda-sweep": lambda_sweep.EXPERIMENT,
    "gamma-sweep": gamma_sweep.EXPERIMENT,
    "descend-profile": descend_profile.EXPERIMENT,
    "theory": theory.EXPERIMENT,
    "controls": controls.EXPERIMENT,
}

__all__ = ["EXPERIMENTS", "Experiment"]
