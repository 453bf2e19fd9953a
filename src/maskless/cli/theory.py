"""`maskless theory`: the paper's theory, statement by statement."""

import dataclasses
import sys
import time
from pathlib import Path

from maskless.cli.common import ERR, OUT, ProgressBar
from maskless.errors import MasklessError


@dataclasses.dataclass(frozen=True)
class Theory:
    """Check every statement of the paper's theory numerically, as printed and as corrected.

    Example: maskless theory

    Example: maskless theory --mdps 200 --out /tmp/theory
    """

    out: Path = Path("runs/theory")
    """Folder for theory.json and the figures."""
    seed: int = 0
    """Seed of the random MDPs."""
    mdps: int = 1000
    """Random MDPs and feature maps for each statement."""

    def run(self) -> None:
        from maskless.files import output_folder
        from maskless.provenance import provenance
        from maskless_paper.theory import STATEMENTS, Size, check_all
        from maskless_paper.theory.report import print_theory, save_theory

        if self.mdps < 1:
            raise MasklessError(f"--mdps must be at least 1, not {self.mdps}.")
        folder = output_folder(self.out)
        started = time.monotonic()
        with ProgressBar("checking", len(STATEMENTS), "statements") as update:
            findings = check_all(Size(self.seed, self.mdps), update)
        run = {
            "seed": self.seed,
            "mdps": self.mdps,
            "seconds": round(time.monotonic() - started, 1),
        }
        written = save_theory(findings, folder, provenance() | run)  # before anything is printed
        print_theory(findings, OUT)
        for path in written:
            OUT.print(f"wrote {path}", soft_wrap=True)
        failed = [name for name, found in findings.items() if found.verdict == "correction fails"]
        if failed:
            ERR.print(f"maskless: the corrected statement failed for: {', '.join(failed)}.")
            sys.exit(1)
