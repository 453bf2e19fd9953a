"""`maskless export`: a policy for deployment."""

import dataclasses
from pathlib import Path
from typing import Literal

import tyro

from maskless.cli.common import OUT, warn
from maskless.errors import require


@dataclasses.dataclass(frozen=True)
class Export:
    """Write a run's policy as an artifact, or as a program for other runtimes.

    The predicted mask, with thresholds and overrides, is part of the program. A program is written
    only after it was stepped beside the native policy and did the same.

    Example: maskless export runs/staircase-gru-1/masked-kl/seed-0 --format onnx
    """

    run_folder: tyro.conf.Positional[Path]
    """Folder of a run (its policy, else its newest checkpoint), or of an artifact."""
    format: Literal["native", "stablehlo", "onnx"] = "native"
    """native: policy.json and weights. stablehlo: for jax.export. onnx: needs maskless[export]."""
    out: Path | None = None
    """Where to write; default RUN/policy, or in it policy.stablehlo or policy.onnx."""
    batch: int | None = None
    """ONNX only: a fixed batch size instead of any. The hybrid needs one."""
    env: str | None = None
    """From a checkpoint: the environment it was trained in, if that is not built in."""
    trust: bool = False
    """Import the environment that the folder names, if it is neither built in nor Gymnasium's."""

    def run(self) -> None:
        from maskless.policy import load
        from maskless.policy.export import write_export

        fits = self.batch is None or self.format == "onnx"
        require(fits, "--batch is for --format onnx; the other formats take any batch.")
        folder = self._artifact()
        if self.format != "native":
            path = self.out or folder / f"policy.{self.format}"
            difference, _ = write_export(load(folder), path, self.format, self.batch)
            OUT.print(f"wrote {path} (differs from native by {difference:.0e})", soft_wrap=True)
        elif self.out is not None and self.out.resolve() != folder.resolve():
            OUT.print(f"wrote {load(folder).save(self.out)}", soft_wrap=True)
        else:
            load(folder)
            OUT.print(f"{folder} is a policy that can be loaded", soft_wrap=True)

    def _artifact(self) -> Path:
        """The run's artifact; made from its newest checkpoint when it has none yet."""
        from maskless.policy import find_policy, save_policy
        from maskless.policy.artifact import ABOUT_FILE

        run = self.run_folder
        has_policy = any((folder / ABOUT_FILE).exists() for folder in (run, run / "policy"))
        if has_policy or not (run / "checkpoints").is_dir():
            return find_policy(run)
        from maskless.conditions import condition
        from maskless.evaluation.runs import load_runs

        trained = load_runs(run, self.env, trust=self.trust, warn=warn)
        (newest,) = trained.runs
        folder = save_policy(
            run / "policy",
            trained.net,
            newest.params,
            trained.env,
            threshold=condition(newest.name).threshold,
            classifier=newest.has_classifier,
            clone=newest.has_clone,
        )
        OUT.print(f"wrote {folder} from the checkpoint of update {newest.update}", soft_wrap=True)
        return folder
