"""What becomes of an agent that was trained with a mask when the mask is taken away."""

from collections.abc import Iterator, Mapping

import numpy as np
from jaxtyping import Float

from maskless_paper.theory.ascent import Training, ascend
from maskless_paper.theory.doors import bandit_kept, doors_bandit, winding_corridors
from maskless_paper.theory.finding import IDENTITY, ROUNDING, Finding, Size
from maskless_paper.theory.gradients import evaluate, policy_at
from maskless_paper.theory.mdp import MDP, Generator, Problem, staircase_problem
from maskless_paper.theory.statements.masking import masked_corridor_run

ALIGNMENTS = np.linspace(0.0, 0.8, 9)
PENALTY = 0.01
"""What an invalid action costs in the corridors of the paper."""


def mask_removal(size: Size) -> Finding:
    """Printed (seen, not derived): masked agents collapse without the mask, because their features
    do not tell valid from invalid states. It holds for linear policies too, and can be derived:

    Let one of k moves be right in each cell, each in c of them, and `open` at D doors, where it is
    valid; phi of length 1 with inner products rho; a bandit in each state, exact SGD under the
    mask. (1) The share of its return that a cell keeps without the mask falls with rho, strictly,
    at all times; (2) it goes to 0 for rho > (k-1) / (k-1 + D), and to 1 for rho < that. (3) In any
    MDP, a penalty p for invalid actions changes nothing in masked training; without the mask it
    costs p N, where N is the (discounted) number of invalid actions.

    Proof: a mask lets `open` be pushed at doors alone, and upwards: by v at each. In a cell the
    right move is pushed by u, the others by -u/(k-1); summed over the cells that is 0 for each
    move, but not for `open`. So with X = (1-rho) u k/(k-1) and Y = (1-rho + rho D) v (k+1)/k, by
    which the right action leads in a cell and at a door, and tau = rho D / (1-rho + rho D)
    (`transfer`), the logits in a cell are X - X/k - tau Y/(k+1) for the right move, X less for the
    others, tau Y k/(k+1) for `open` and 0 for m actions that are valid nowhere. Hence

        kept = 1 / (1 + (e^(tau Y) + m e^(tau Y/(k+1))) / (e^(X - X/k) + (k-1) e^(-X/k))).

    The denominator grows with X. A step adds r (1-rho) k/(k-1) f(X) to X and r (1-rho + rho D)
    (k+1)/k f(Y) to Y, f = p (1-p): for steps below 10, X falls with rho, Y and tau rise: (1). In
    the long run X and Y grow like log t, and tau > 1 - 1/k decides: (2). (3): an action that is
    never taken has no part in any gradient; values are linear in the rewards.

    Check: (1) and the formula in random bandits, trained; (2) by the formula; (3) exactly. Random
    winding corridors, where episodes end and values compound: exact SGD, samples, Adam.
    """
    kept, priced, price_error = _corridors(size)
    numbers = {
        **_random_bandits(size),
        "price_error": price_error,
        "corridors_that_fall": (np.diff(kept, axis=0) < 0).all(0).mean(),
        **{f"kept_{a:.1f}": share for a, share in zip(ALIGNMENTS, kept.mean(-1), strict=True)},
        **{f"priced_{a:.1f}": share for a, share in zip(ALIGNMENTS, priced.mean(-1), strict=True)},
        **_other_training(size),
        "ladder_invalid": _invalid_without_doors(),
    }
    return Finding(
        claim="A masked agent collapses without its mask, because valid and invalid states share"
        " features",
        paper="Sec. 6, RQ4 (seen, not derived)",
        printed=numbers["formula_error"] <= ROUNDING
        and numbers["bandits_least_drop"] > 0
        and _long_run()
        and price_error <= IDENTITY
        and bool((np.diff(kept.mean(-1)) < 0).all()),
        corrected=None,
        evidence=_evidence(numbers, kept.shape[-1]),
        numbers=numbers,
        curves={
            "alignment": ALIGNMENTS,
            "kept": kept.mean(-1),
            "kept_range": [kept.min(-1), kept.max(-1)],
            "priced": priced.mean(-1),
            "priced_range": [priced.min(-1), priced.max(-1)],
        },
    )


def _evidence(numbers: Mapping[str, float], corridors: int) -> str:
    def shares(what: str, *alignments: str) -> str:
        return ", ".join(f"{numbers[f'{what}_{alignment}']:.0%}" for alignment in alignments)

    return (
        "winding corridors with doors, alignment 0, 0.4, 0.8: "
        f"{shares('kept', '0.0', '0.4', '0.8')} of the value kept, with a penalty of {PENALTY}"
        f" {shares('priced', '0.0', '0.4', '0.8')}; falls with the alignment in"
        f" {numbers['corridors_that_fall']:.0%} of {corridors} (0 and 0.8: by samples"
        f" {shares('samples', '0.0', '0.8')}, Adam {shares('adam', '0.0', '0.8')}). Bandits:"
        f" always, as derived. No doors: {numbers['ladder_invalid']:.0%} of the choices are invalid"
    )


def _random_bandits(size: Size) -> dict[str, float]:
    """The largest error of the formula, and the smallest drop from one alignment to the next."""
    error, least_drop = 0.0, np.inf
    steps = 100
    for options, rate in _bandits(size.rng(), max(1, size.mdps // 50)):
        problem = doors_bandit(ALIGNMENTS, **options)
        theta = _trained(problem, Training(steps, rate=rate, masked=True))
        cell, move = 0, 0  # `open` is not valid in the first cell, and the first move right
        bare = np.exp(policy_at(problem, theta))[:, cell, move]
        kept = bare / np.exp(policy_at(problem, theta, masked=True))[:, cell, move]
        derived = bandit_kept(ALIGNMENTS, np.array([steps]), rate=rate, **options)[0]
        error = max(error, float(np.abs(kept - derived).max()))
        least_drop = min(least_drop, float(-np.diff(kept).max()))
    return {"formula_error": error, "bandits_least_drop": least_drop}


def _bandits(rng: Generator, count: int) -> Iterator[tuple[dict[str, int], float]]:
    """Random bandits, and learning rates that make steps below 10."""
    for _ in range(count):
        options = {
            "moves": int(rng.integers(2, 6)),
            "cells_per_move": int(rng.integers(1, 4)),
            "doors": int(rng.integers(1, 5)),
            "spare": int(rng.integers(4)),
        }
        states = options["moves"] * options["cells_per_move"] + options["doors"]
        yield options, states * rng.uniform(0.1, 1.5)


def _long_run() -> bool:
    """Below (k-1)/(k-1 + D) the share kept still rises late in training, and above it falls."""
    times, right = np.array([2_000, 20_000]), True
    for moves, doors in ((2, 1), (4, 2), (4, 3)):
        limit = (moves - 1) / (moves - 1 + doors)
        around = limit + np.array([-0.2, -0.1, 0.1, 0.2])
        early, late = bandit_kept(
            around, times, rate=15.0, moves=moves, cells_per_move=1, doors=doors
        )
        right = right and bool(((late > early) == (around < limit)).all())
    return right


def _corridors(size: Size) -> tuple[np.ndarray, np.ndarray, float]:
    """Shares kept without and with a penalty, (alignments, corridors); the error of (3)."""
    count, training = max(2, size.mdps // 50), Training(1000, rate=30.0, masked=True)
    free = winding_corridors(size.rng(), count, ALIGNMENTS)
    costly = winding_corridors(size.rng(), count, ALIGNMENTS, penalty=PENALTY)
    theta = _trained(free, training)
    early = Training(20, rate=30.0, masked=True)
    same = bool((_trained(free, early) == _trained(costly, early)).all())
    invalid_steps = MDP(
        free.mdp.transition,
        (~free.mdp.valid).astype(float),
        free.mdp.start,
        free.mdp.discount,
        free.mdp.valid,
    )
    bare = policy_at(free, theta)
    price = PENALTY * evaluate(invalid_steps, bare).values[..., 0]
    with_price = evaluate(costly.mdp, bare).values[..., 0]
    error = np.abs(evaluate(free.mdp, bare).values[..., 0] - price - with_price).max()
    masked = evaluate(free.mdp, policy_at(free, theta, masked=True)).values[..., 0]
    error = float(error) if same else np.inf
    return _kept(free, theta), with_price / masked, error


def _other_training(size: Size) -> dict[str, float]:
    """Mean shares kept at alignments 0 and 0.8: trained by samples, and by Adam."""
    problem = winding_corridors(size.rng(), max(2, size.mdps // 100), np.array([0.0, 0.8]))
    samples = Training(1000, rate=30.0, samples=256, masked=True)
    adam = Training(1000, rate=0.01, optimizer="adam", masked=True)
    shares: dict[str, float] = {}
    for name, training in (("samples", samples), ("adam", adam)):
        kept = _kept(problem, _trained(problem, training, size.rng())).mean(-1)
        shares |= {f"{name}_0.0": float(kept[0]), f"{name}_0.8": float(kept[1])}
    return shares


def _invalid_without_doors() -> float:
    """The share of invalid choices in the corridor with the ladder, its mask taken away."""
    problem = staircase_problem(0.8, right_at_ladder=True)
    bare = np.exp(policy_at(problem, masked_corridor_run(goes_on=True).theta))
    return float(np.where(problem.mdp.valid, 0.0, bare).sum(-1).mean())


def _trained(
    problem: Problem, training: Training, rng: Generator | None = None
) -> Float[np.ndarray, "*batch actions dims"]:
    *_, last = ascend(problem, training, rng)
    return last.theta + last.change


def _kept(
    problem: Problem, theta: Float[np.ndarray, "*batch actions dims"]
) -> Float[np.ndarray, "*batch"]:
    """The value of the start without the mask, as a share of that with it."""
    bare = evaluate(problem.mdp, policy_at(problem, theta)).values[..., 0]
    return bare / evaluate(problem.mdp, policy_at(problem, theta, masked=True)).values[..., 0]
