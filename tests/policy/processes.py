"""One policy in other processes: run as a script by test_policy.py."""

import multiprocessing
import sys

import jax
import numpy as np

import maskless
from maskless import MasklessError

OBSERVATION = np.array([1, 2, 3], np.int32)


def act(policy):
    return [int(policy.act(OBSERVATION, key=key)[0]) for key in range(20)]


def try_in_fork(policy, folder, answers):
    attempts = [lambda: maskless.load(folder)]
    if policy is not None:
        attempts += [lambda: act(policy), lambda: policy.initial_carry(1)]
    for attempt in attempts:
        try:
            attempt()
        except MasklessError as error:
            answers.put(str(error))


if __name__ == "__main__":
    fork = multiprocessing.get_context("fork")
    answers = fork.Queue()
    jax.numpy.zeros(1).block_until_ready()  # JAX runs, and there is no policy yet
    before = fork.Process(target=try_in_fork, args=(None, sys.argv[1], answers))
    before.start()
    assert "JAX would hang here" in answers.get(timeout=30)
    before.join()
    policy = maskless.load(sys.argv[1])
    here = act(policy)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(act, (policy,)) == here
    child = fork.Process(target=try_in_fork, args=(policy, sys.argv[1], answers))
    child.start()
    for _ in range(3):
        assert "JAX would hang here" in answers.get(timeout=30)
    child.join()
    print("as said")
