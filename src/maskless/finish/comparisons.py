"""What decides validity is often which of two numbers is larger: a weight and what a van can still
carry, a price and the money that is left. A network needs many states to learn such a rule, and is
wrong near the edge for ever; but the rule itself can be read off a few thousand labelled states.

For every action: the bounds of single numbers, and of sums and differences of two, that all states
keep in which it is valid, chosen one after the other by how many invalid states they rule out that
those before have not. The student reads on which side of each of them a state is
(`nets.deployable`).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

STATES = 4096
"""That rules are read off."""
MOST_NUMBERS = 96
RULES_PER_ACTION = 8
LEAST_GAIN = 1e-3
"""Of the states: what a rule must rule out."""
_WORK = 2.0**29
"""Entries (of states, pairs and actions) that are looked at, at most: seconds on one core."""


class Rules(NamedTuple):
    """Bounds of differences: numbers[first] - numbers[second] against `offset`. [rules]

    The number after the last one is 0, and those after that are all of them with the other sign:
    with these as `second`, a rule bounds a sum."""

    first: Float[np.ndarray, " rules"]
    second: Float[np.ndarray, " rules"]
    offset: Float[np.ndarray, " rules"]


def find_rules(
    numbers: Float[np.ndarray, "states numbers"], valid: Bool[np.ndarray, "states actions"]
) -> list[tuple[int, int, float]]:
    """(first, second, offset) of each rule: the most telling ones of all actions first."""
    numbers, valid = numbers[:STATES], valid[:STATES]
    chosen = _telling(numbers, valid)
    if not len(chosen):
        return []
    zero = numbers.shape[1]
    signed = np.concatenate([numbers, np.zeros_like(numbers[:, :1]), -numbers], axis=1)
    columns = np.append(chosen, zero)
    (one, other), (left, right) = (np.triu_indices(len(x), 1) for x in (columns, chosen))
    first = np.append(columns[one], chosen[left])
    second = np.append(columns[other], zero + 1 + chosen[right])
    differences = signed[:, first] - signed[:, second]
    of_actions = [_bounds(differences, of_action) for of_action in valid.T]
    ranked = [rules[n] for n in range(RULES_PER_ACTION) for rules in of_actions if n < len(rules)]
    return list(dict.fromkeys((int(first[p]), int(second[p]), offset) for p, offset in ranked))


def _telling(
    numbers: Float[np.ndarray, "states numbers"], valid: Bool[np.ndarray, "states actions"]
) -> Int[np.ndarray, " chosen"]:
    """The numbers that vary; if they are too many, those that go with some action's validity."""
    states, actions = valid.shape
    varying = np.flatnonzero(numbers.min(0) < numbers.max(0))
    most = int(min(MOST_NUMBERS, np.sqrt(_WORK / (states * actions))))
    if len(varying) <= most:
        return varying
    x, y = numbers[:, varying], valid.astype(np.float32)
    x, y = ((each - each.mean(0)) / (each.std(0) + 1e-6) for each in (x, y))
    best = np.abs(x.T @ y).max(1)
    return np.sort(varying[np.argsort(-best, kind="stable")[:most]])


def _bounds(
    differences: Float[np.ndarray, "states pairs"], valid: Bool[np.ndarray, " states"]
) -> list[tuple[int, float]]:
    """(pair, offset) of the rules of one action."""
    if not valid.any() or valid.all():
        return []
    allowed, others = differences[valid], differences[~valid]
    low, high = allowed.min(0), allowed.max(0)
    outside = np.concatenate([others < low, others > high], axis=1).astype(np.float32)
    left, rules = np.ones(len(others), np.float32), []
    for _ in range(RULES_PER_ACTION):
        gain = left @ outside
        best = int(gain.argmax())
        if gain[best] < max(2.0, LEAST_GAIN * len(valid)):
            break
        above, pair = divmod(best, len(low))
        ruled_out = others[outside[:, best] > 0, pair]
        edges = (high[pair], ruled_out.min()) if above else (ruled_out.max(), low[pair])
        rules.append((pair, _between(*edges)))
        left *= 1.0 - outside[:, best]
    return rules


def _between(low: float, high: float) -> float:
    """A number between these: 0 if it lies there, which is what a rule compares with most often."""
    return 0.0 if low < 0.0 < high or 0.0 in (low, high) else float((low + high) / 2)


def add_rules(rules: Rules, found: list[tuple[int, int, float]]) -> Rules:
    """With what was found in the free slots, those whose numbers are the same; nothing that is
    there changes its place."""
    taken = int(np.sum(rules.first != rules.second))
    known = set(zip(*(x[:taken].tolist() for x in rules), strict=True))
    new = [rule for rule in found if _as_stored(rule) not in known][: len(rules.first) - taken]
    first, second, offset = (np.array(x) for x in rules)
    for slot, rule in enumerate(new, start=taken):
        first[slot], second[slot], offset[slot] = rule
    return Rules(first, second, offset)


def _as_stored(rule: tuple[int, int, float]) -> tuple[int, int, float]:
    return rule[0], rule[1], float(np.float32(rule[2]))
