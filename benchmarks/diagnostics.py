"""What do the diagnostics cost? One update with them and without, in one run.

python benchmarks/diagnostics.py [--env craftax-classic] [--net mlp] [--envs 128] [--out FILE]
"""

import argparse
import time
from pathlib import Path

import jax

from maskless.files import write_json
from maskless.provenance import provenance
from maskless.training.program import Program
from maskless.training.request import make_request


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="craftax-classic")
    parser.add_argument("--net", default="mlp")
    parser.add_argument("--envs", type=int, default=128)
    parser.add_argument("--updates", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    programs, states = {}, {}
    best: dict[bool, float] = {}
    for on in (True, False):
        request = make_request(
            arguments.env,
            "masked-kl",
            net=arguments.net,
            frames=1e9,
            numbers={"num_envs": arguments.envs},
            diagnostics=on,
        )
        programs[on] = Program(request, chunk=arguments.updates)
        states[on], _ = programs[on].advance(programs[on].start(), 1)
    for _ in range(arguments.rounds):  # in turns: what else the machine does hits both alike
        for on in (True, False):
            began = time.perf_counter()
            states[on], _ = programs[on].advance(states[on], arguments.updates)
            jax.block_until_ready(states[on].params)
            seconds = (time.perf_counter() - began) / arguments.updates
            best[on] = min(best.get(on, seconds), seconds)
    cost = best[True] / best[False] - 1
    print(
        f"{arguments.env}, {arguments.net}, {arguments.envs} environments: one update"
        f" {best[False]:.3f} s, with diagnostics {best[True]:.3f} s: {100 * cost:+.1f} %"
    )
    if arguments.out:
        numbers = {"update_seconds": best[False], "with_diagnostics": best[True], "cost": cost}
        write_json(arguments.out, vars(arguments) | {"out": None} | numbers | provenance())


if __name__ == "__main__":
    main()
