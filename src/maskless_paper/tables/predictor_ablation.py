"""Appendix: a classifier with and without masks, lambda = 20."""

from pathlib import Path

from maskless_paper.tables import drawing, sweep
from maskless_paper.tables.drawing import Panel
from maskless_paper.tables.experiment import Experiment, Results


def draw(studies: Results, path: Path) -> None:
    result = studies["predictor"]
    panels = [
        Panel(result, "return", "return"),
        Panel(
            result,
            "classifier_accuracy",
            "classifier accuracy",
            conditions=("unmasked-kl:strength=20", "masked-kl:strength=20"),
        ),
    ]
    drawing.draw_panels(panels, path)


EXPERIMENT = Experiment(
    about="unmasked + predictor, masked, masked + predictor, λ = 20",
    paper="Appendix, classification with oracle masking",
    studies=("predictor",),
    tables=sweep.sweep_tables("predictor", "A classifier with and without masks"),
    draw=draw,
)
