"""How wrong the masks of Craftax are in states that play reaches; some minutes on a CPU.

python results/validity_in_play.py results

As `maskless validity`, without the edited states that are half of results/validity/ENV: a quarter
each is of random play without masks and under the paper's, exact and prudent ones. Writes
OUT/validity/in-play.json.
"""

import copy
import sys
from pathlib import Path
from typing import Any

import maskless
from maskless.envs import mask_audit
from maskless.files import write_json
from maskless.provenance import provenance

STATES = 3072
mask_audit.PLAY_STEPS = 64  # few states, from all over an episode


def without_edits(id: str) -> Any:
    """The environment; states are played only."""
    env = copy.copy(maskless.make(id))
    env.perturb = lambda key, state: None
    return env


def main() -> None:
    games = {
        id: mask_audit.audit(without_edits(id), states=STATES).to_json()
        for id in ("craftax-classic", "craftax")
    }
    write_json(Path(sys.argv[1]) / "validity/in-play.json", {"games": games, **provenance()})


if __name__ == "__main__":
    main()
