"""The diagnostics once more, slowly, in float64, one state and one action at a time.

Rollouts are lists of updates; a reference sees all updates so far and gives the metrics of the
last one.
"""

import dataclasses
import itertools

import numpy as np

import reference

ACTIONS = 7
ALWAYS, NEVER, ONCE, RARE, MOSTLY = range(5)  # the other two are valid at random


@dataclasses.dataclass
class Rollout:
    """Arrays [time, envs, ...] of one update, as the learner has them."""

    policy_logits: np.ndarray
    applied: np.ndarray
    valid: np.ndarray
    actions: np.ndarray
    validity_logits: np.ndarray
    features: np.ndarray
    hidden: np.ndarray

    def states(self):
        """One state after the other."""
        for at in itertools.product(*map(range, self.actions.shape)):
            yield Rollout(**{name: value[at] for name, value in vars(self).items()})


def random_rollouts(kind, *, updates=4, time=6, envs=10, seed=0):
    """`kind`: 'unmasked', 'masked', or 'predicted' (half of the environments act under a predicted
    mask, which may forbid what is valid, and everything)."""
    random = np.random.default_rng(seed)
    return [_random_rollout(random, kind, update, (time, envs)) for update in range(updates)]


def _random_rollout(random, kind, update, shape):
    valid = random.random((*shape, ACTIONS)) < 0.4
    valid[..., ALWAYS] = True
    valid[..., [NEVER, ONCE, RARE]] = False
    valid[..., MOSTLY] = random.random(shape) < 0.95
    if update == 1:
        valid[1, 2, ONCE] = True
    if update > 0:
        valid[0, :4, RARE] = True  # in the step that every stride looks at
    policy_logits = random.normal(0, 2, valid.shape)
    policy_logits[..., RARE] += 4 * update - 6  # suppressed at first, learned later
    validity_logits = np.where(valid, 1.0, -1.0) + random.normal(0, 2, valid.shape)
    validity_logits[2, 3] = -5.0  # nothing is predicted valid
    validity_logits[2, 4] = np.where(valid[2, 4], 30.0, -30.0)  # beyond the bins, and right
    validity_logits[2, 5] = 0.0  # exactly at the threshold, and at the border of a bin
    applied = np.ones_like(valid)
    if kind != "unmasked":
        applied = valid.copy()
    if kind == "predicted":
        applied[:, ::2] = (validity_logits > 0)[:, ::2]
    directions = random.normal(0, 1, (ACTIONS, 5))
    features = np.tanh(valid @ directions + random.normal(0, 1, (*shape, 5)))
    features[0, 0] = 0.0  # a vector without direction
    return Rollout(
        policy_logits=np.float32(policy_logits),
        applied=applied,
        valid=valid,
        actions=random.integers(0, ACTIONS, shape),
        validity_logits=np.float32(validity_logits),
        features=np.float32(features),
        hidden=np.float32(np.maximum(random.normal(0, 1, (*shape, 9)) + valid[..., [6]], 0)),
    )


def mean(values):
    return np.mean(values) if len(values) else np.nan


def suppression(rollouts):
    last = rollouts[-1]
    metrics = {
        "valid_rate": mean([state.valid[state.actions] for state in last.states()]),
        "valid_share": [mean([s.valid[a] for s in last.states()]) for a in range(ACTIONS)],
        "probability_valid_relative": [
            mean(
                [behaviour(s)[a] * s.valid.sum() for s in last.states() if s.valid[a]],
            )
            for a in range(ACTIONS)
        ],
    }
    for prefix, policy in (("", behaviour), ("raw_", raw)):
        for kind, wanted in (("valid", True), ("invalid", False)):
            per_action = [
                [policy(s)[a] for s in last.states() if s.valid[a] == wanted]
                for a in range(ACTIONS)
            ]
            name = f"{prefix}probability_{kind}"
            metrics[name] = [mean(p) for p in per_action]
            metrics[f"{name}_geometric"] = [np.exp(mean(logs(p))) for p in per_action]
    histories = [_history(rollouts, a) for a in range(ACTIONS)]
    return metrics | {name: [h[name] for h in histories] for name in histories[0]}


def _history(rollouts, action):
    names = (
        "first_valid_frames",
        "first_valid_log_probability",
        "raw_first_valid_log_probability",
        "suppression_ratio",
        "suppression_ratio_among_valid",
        "frames_to_half",
    )
    found = dict.fromkeys(names, np.nan)
    frames = 0
    for rollout in rollouts:
        frames += rollout.actions.size
        states = [s for s in rollout.states() if s.valid[action]]
        if not states:
            continue
        probabilities = [behaviour(s)[action] for s in states]
        if np.isnan(found["first_valid_frames"]):
            log, raw_log = mean(logs(probabilities)), mean(logs([raw(s)[action] for s in states]))
            relative = [
                log_p + np.log(s.valid.sum())
                for log_p, s in zip(logs(probabilities), states, strict=True)
            ]
            found |= dict(
                zip(
                    names,
                    (frames, log, raw_log, np.exp(log) * ACTIONS, np.exp(mean(relative)), np.nan),
                    strict=True,
                )
            )
        if np.isnan(found["frames_to_half"]) and np.mean(probabilities) > 0.5:
            found["frames_to_half"] = frames - found["first_valid_frames"]
    return found


def behaviour(state):
    return np.exp(reference.masked_log_softmax(np.float64(state.policy_logits), state.applied))


def raw(state):
    return np.exp(reference.log_softmax(np.float64(state.policy_logits)))


def logs(probabilities):
    return [np.log(max(p, 1e-12)) for p in probabilities]


def correlation(rollouts, *, stride=1, decay=0.9, least=32):
    """Every pair of a valid and an invalid state is looked at, with the weight of its age."""
    metrics = {}
    for layer, attribute in (("feature", "features"), ("hidden", "hidden")):
        rows = [_similarity(rollouts, attribute, a, stride, decay, least) for a in range(ACTIONS)]
        for column, name in enumerate(("correlation", "cosine", "cosine_with_bias")):
            metrics[f"{layer}_{name}"] = [row[column] for row in rows]
    for name, column in (("valid", 3), ("invalid", 4)):
        metrics[f"correlation_{name}_states"] = [row[column] for row in rows]
    return metrics


def _similarity(rollouts, attribute, action, stride, decay, least):
    sides = {True: [], False: []}
    for age, rollout in enumerate(reversed(rollouts)):
        shorter = Rollout(**{name: value[::stride] for name, value in vars(rollout).items()})
        for state in shorter.states():
            vector = np.float64(getattr(state, attribute))
            sides[bool(state.valid[action])].append((vector, decay**age))
    counts = [sum(weight for _, weight in sides[side]) for side in (True, False)]
    if min(counts) < least:
        return (np.nan, np.nan, np.nan, *counts)
    means = [
        np.average([v for v, _ in side], axis=0, weights=[w for _, w in side])
        for side in sides.values()
    ]
    cosines, biased, weights = [], [], []
    for (x, w), (y, z) in itertools.product(sides[True], sides[False]):
        cosines.append(cosine(x, y))
        biased.append(cosine(np.append(x, 1), np.append(y, 1)))
        weights.append(w * z)
    pearson = np.corrcoef(means[0], means[1])[0, 1]
    average = [np.average(c, weights=weights) for c in (cosines, biased)]
    return (pearson, *average, *counts)


def cosine(x, y):
    lengths = np.linalg.norm(x) * np.linalg.norm(y)
    return x @ y / lengths if lengths > 0 else 0.0


def classifier(rollout, *, threshold=0.5, stride=1):
    states = list(rollout.states())
    metrics = {
        name: []
        for name in (
            "classifier_accuracy_per_action",
            "classifier_precision",
            "classifier_recall",
            "classifier_auroc",
            "classifier_calibration_error",
        )
    }
    for a in range(ACTIONS):
        pairs = [(predicted(s, threshold)[a], s.valid[a]) for s in states]
        metrics["classifier_accuracy_per_action"].append(mean([p == v for p, v in pairs]))
        metrics["classifier_precision"].append(mean([v for p, v in pairs if p]))
        metrics["classifier_recall"].append(mean([p for p, v in pairs if v]))
        some_valid = rollout.valid[::stride, ..., a].ravel()
        some_logits = np.float64(rollout.validity_logits[::stride, ..., a].ravel())
        metrics["classifier_auroc"].append(auroc(some_logits, some_valid))
        metrics["classifier_calibration_error"].append(calibration(some_logits, some_valid))
    return metrics | {
        "classifier_accuracy": mean(metrics["classifier_accuracy_per_action"]),
        "mask_total_variation": mean([total_variation(s, threshold) for s in states]),
        "mask_kl": mean([soft_kl(s, threshold) for s in states]),
        "uniform_weight_share": mean([agrees(s, threshold) for s in states]),
        "fallback_rate": mean([not predicted(s, threshold).any() for s in states]),
    }


def predicted(state, threshold):
    return 1 / (1 + np.exp(-np.float64(state.validity_logits))) > threshold


def bin_of(logit):
    """64 bins of half a unit from -16 to 16; the first and the last are open."""
    return int(min(max(np.floor((logit + 16) / 0.5), 0), 63))


def auroc(logits, valid):
    """Every pair of a valid and an invalid state, by bin."""
    wins = [
        np.sign(bin_of(x) - bin_of(y)) / 2 + 0.5
        for x, y in itertools.product(logits[valid], logits[~valid])
    ]
    return mean(wins)


def calibration(logits, valid):
    total = 0.0
    for index in range(64):
        inside = np.array([bin_of(logit) == index for logit in logits])
        if inside.any():
            confidence = mean(1 / (1 + np.exp(-logits[inside])))
            total += inside.sum() * abs(mean(valid[inside]) - confidence)
    return total / len(logits)


def total_variation(state, threshold):
    logits = np.float64(state.policy_logits)
    p = np.exp(reference.masked_log_softmax(logits, state.valid))
    q = np.exp(reference.masked_log_softmax(logits, predicted(state, threshold)))
    return max(
        p[list(chosen)].sum() - q[list(chosen)].sum()
        for size in range(1, ACTIONS)
        for chosen in itertools.combinations(range(ACTIONS), size)
    )


def soft_policies(state, threshold):
    logits = np.float64(state.policy_logits)
    oracle = reference.log_softmax(logits + np.where(state.valid, 0, -20))
    guess = reference.log_softmax(logits + np.where(predicted(state, threshold), 0, -20))
    return oracle, guess


def soft_kl(state, threshold):
    oracle, guess = soft_policies(state, threshold)
    return (np.exp(oracle) * (oracle - guess)).sum()


def agrees(state, threshold):
    oracle, guess = soft_policies(state, threshold)
    return (raw(state) * np.abs(oracle - guess)).sum() < 1e-6
