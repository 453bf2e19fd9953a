"""Playing complete episodes of trained policies: evaluation, audit, calibration."""

from maskless.evaluation.summary import Evaluation, evaluate, evaluate_runs

__all__ = ["Evaluation", "evaluate", "evaluate_runs"]
