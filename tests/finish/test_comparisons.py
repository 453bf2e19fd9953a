"""Rules that decide validity are read off labelled states."""

import jax
import jax.numpy as jnp
import numpy as np

from maskless.finish.comparisons import MOST_NUMBERS, Rules, add_rules, find_rules
from maskless.nets.deployable import Comparisons


def loading(states, seed=0):
    """Three vans, two goods: a good fits where weight and room do and the van is there."""
    random = np.random.default_rng(seed)
    weight, free = random.integers(1, 9, (states, 2)), random.integers(0, 20, (states, 3))
    stock, away = random.integers(0, 3, (states, 2)), random.integers(0, 2, (states, 3))
    fits = (weight[:, None] <= free[:, :, None]) & (stock[:, None] > 0) & (away[:, :, None] == 0)
    order = stock[:, :1] + 2 <= 3  # a bound of one number
    numbers = np.concatenate([weight, free, stock, away, random.normal(size=(states, 4))], axis=1)
    return numbers.astype(np.float32), np.concatenate([fits.reshape(states, -1), order], axis=1)


def sides(rules, numbers):
    """What the student reads."""
    module = Comparisons(len(rules.first))
    params = {"params": jax.tree.map(jnp.asarray, rules._asdict())}
    return np.asarray(module.apply(params, jnp.asarray(numbers)))


def test_the_rules_of_a_world_are_found_and_decide_unseen_states():
    numbers, valid = loading(4096)
    found = find_rules(numbers, valid)
    zero = numbers.shape[1]
    weights_that_fit = {(good, 2 + van, 0.0) for good in range(2) for van in range(3)}
    assert weights_that_fit <= set(found)
    assert any(rule[:2] in ((5, zero), (zero, 5)) for rule in found)
    empty = Rules(*np.zeros((3, 64), np.float32))
    rules = add_rules(empty, found)
    seen, unseen = (sides(rules, loading(4096, seed)[0]) for seed in (0, 1))
    assert not seen[:, len(found) :].any()  # free slots say nothing
    # States on the same sides of all bounds have the same mask, also those never seen.
    masks = {row.tobytes(): mask for row, mask in zip(seen, valid, strict=True)}
    pairs = [
        (masks[row.tobytes()], mask)
        for row, mask in zip(unseen, loading(4096, 1)[1], strict=True)
        if row.tobytes() in masks
    ]
    assert len(pairs) > 1000
    np.testing.assert_array_equal(*map(np.array, zip(*pairs, strict=True)))


def test_a_bound_of_a_sum_is_found():
    """Parcels go into crates that hold 100."""
    random = np.random.default_rng(0)
    numbers = random.integers(0, 100, (4096, 4)).astype(np.float32)  # three crates and a parcel
    valid = numbers[:, :3] + numbers[:, 3:] <= 100
    found = find_rules(numbers, valid)
    sums = {(crate, 4 + 1 + 3, 100.5) for crate in range(3)}
    assert sums <= set(found)
    rules = add_rules(Rules(*np.zeros((3, 16), np.float32)), found)
    places = [found.index(rule) for rule in sorted(sums)]
    unseen = random.integers(0, 100, (4096, 4)).astype(np.float32)
    fits = unseen[:, :3] + unseen[:, 3:] <= 100
    np.testing.assert_array_equal(sides(rules, unseen)[:, places] < 0, fits)


def test_rules_are_added_and_none_changes_its_place():
    few = add_rules(Rules(*np.zeros((3, 3), np.float32)), [(0, 1, 0.0), (2, 3, 0.5)])
    more = add_rules(few, [(2, 3, 0.5), (4, 5, 0.1), (6, 7, 0.0)])
    np.testing.assert_array_equal(more.first, [0, 2, 4])
    np.testing.assert_allclose(more.offset, [0.0, 0.5, 0.1])
    assert add_rules(more, [(4, 5, 0.1)])[0].tolist() == [0, 2, 4]


def test_many_numbers_and_nothing_to_find():
    random = np.random.default_rng(0)
    numbers = random.normal(size=(512, 2 * MOST_NUMBERS)).astype(np.float32)
    valid = numbers[:, -2:] > 0
    # The two that decide are among those looked at.
    found = {rule[:2] for rule in find_rules(numbers, valid)}
    assert {(190, 192), (191, 192)} <= found
    assert find_rules(numbers[:, :3], np.ones((512, 2), bool)) == []
    assert find_rules(np.zeros((512, 3), np.float32), valid) == []
