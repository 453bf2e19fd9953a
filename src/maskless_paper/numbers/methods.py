"""The study `methods`: what sentences of docs/methods.md and README tell of it."""

import numpy as np

from maskless_paper.methods import FINISHED, Method, methods
from maskless_paper.numbers.query import Files, Number, signed, together

DOSES = ("masked-distil:distil=0.01", "masked-distil", "masked-distil:distil=1")
"""The weight of -log Z is 0.01, 0.1 and 1."""


def numbers(files: Files) -> dict[str, Number]:
    def method(block: str, name: str, way: str) -> Method:
        found = methods(files.read(f"methods/{block}.json"))
        return next(m for m in found if (m.name, m.way) == (name, way))

    def mean(block: str, name: str, way: str, masks: str = "") -> Number:
        def made() -> str:
            values = method(block, name, way).over_seeds(masks or way)
            return signed(float(np.mean(values)), ".2f")

        return made

    def seeds(block: str, name: str, way: str) -> Number:
        return lambda: together(
            signed(value, ".2f") for value in method(block, name, way).over_seeds(way)
        )

    def dose(masks: str) -> Number:
        """Mean returns in the packing line of each weight of -log Z."""

        def made() -> str:
            runs = files.read("methods/packing.json")["runs"]
            of_dose = {name: [run for run in runs if run["condition"] == name] for name in DOSES}
            returns = (Method(name, 1, masks, found).deployed for name, found in of_dose.items())
            return together(signed(value, ".1f") for value in returns)

        return made

    def student(block: str, number: str) -> Number:
        """Of the last rounds of a finish, in per cent."""

        def made() -> str:
            rounds = files.read(f"methods/{block}.json")["finish_rounds"]
            shares = [100 * float(run[-1]["quality"][number]) for run in rounds]
            return together(f"{share:.1f}" for share in shares) + " %"

        return made

    student_of_masked = f"masked, {FINISHED}"
    return {
        "methods-prudent-oracle": mean("classic-prudent", student_of_masked, "clone", "oracle"),
        "methods-prudent-predicted": mean("classic-prudent", student_of_masked, "predicted"),
        "methods-prudent-clone": mean("classic-prudent", student_of_masked, "clone"),
        "methods-classic-oracle": mean("classic", student_of_masked, "predicted", "oracle"),
        "methods-classic-predicted": mean("classic", student_of_masked, "predicted"),
        "methods-discovered": seeds("corridor", "discovered:explore=0.1", "predicted"),
        "methods-safe-loop": seeds("corridor", "safe-loop", "predicted"),
        "methods-dose-oracle": dose("oracle"),
        "methods-dose-none": dose("none"),
        "methods-full-moved": student("full", "moved_predicted"),
        "methods-full-clone": student("full", "moved_clone"),
        "methods-corridor-moved": student("corridor", "moved_predicted"),
        "methods-corridor-clone": student("corridor", "moved_clone"),
        "methods-naive-oracle": mean("packing", "naive:entropy_factor=3", "none", "oracle"),
        "methods-naive-none": mean("packing", "naive:entropy_factor=3", "none"),
    }
