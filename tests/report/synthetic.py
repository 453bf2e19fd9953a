"""Rows as a run logs them, with the shapes of real ones: for looking at figures."""

import numpy as np

from maskless.report.curves import Run

CRAFTAX = [
    *("noop", "left", "right", "up", "down", "do", "sleep", "place_stone", "place_table"),
    *("place_furnace", "place_plant", "make_wood_pickaxe", "make_stone_pickaxe"),
    *("make_iron_pickaxe", "make_wood_sword", "make_stone_sword", "make_iron_sword", "rest"),
    *("descend", "ascend"),
]


def runs(labels=("masked", "unmasked", "masked-focal", "masked-kl"), seeds=3, rows=60, frames=1e8):
    return [
        Run(
            label,
            _rows(np.random.default_rng([seed, *map(ord, label)]), label, rows, frames),
            CRAFTAX,
            classifier=label not in ("masked", "unmasked"),
        )
        for label in labels
        for seed in range(seeds)
    ]


def _rows(random, label, rows, frames):
    masked, shift = label != "unmasked", random.normal(0, 0.3)
    share = np.geomspace(1, 1e-3, len(CRAFTAX))
    made = []
    for time in np.linspace(1 / rows, 1, rows):
        wobble = np.exp(random.normal(shift, 0.2, len(CRAFTAX)))
        dip = np.exp(-8 * time) + 2 * max(0, time - 0.7) if not masked else 1 + 4 * time
        seen = share * np.exp(random.normal(0, 0.1, len(CRAFTAX))) > 2e-3 * random.random()
        valid = np.minimum(wobble * dip * 0.1, 1)
        quality = 1 - (0.1 + 0.4 * np.exp(-5 * time)) * random.random(len(CRAFTAX)) * (1 - share)
        made.append(
            {
                "frames": int(time * frames),
                "return": float(15 * time**0.5 * (1 if masked else 0.8) + random.normal(0, 0.4)),
                "valid_rate": float(1 if masked else 0.2 + 0.6 * time + random.normal(0, 0.01)),
                "valid_share": share.tolist(),
                "probability_valid": nulls(valid, seen),
                "raw_probability_invalid": nulls(wobble * 0.05 * np.exp(-6 * time), share < 1),
                "feature_correlation": nulls(
                    0.8 - 0.4 * time * (label != "masked") + 0.1 * wobble, seen
                ),
                "feature_cosine_with_bias": nulls(0.95 - 0.2 * time + 0.01 * wobble, seen),
                "classifier_recall": nulls(quality, seen),
                "classifier_precision": nulls(quality**2, seen),
                "classifier_auroc": nulls(quality**0.5, seen),
            }
        )
    return made


def nulls(values, known):
    return [float(v) if k else None for v, k in zip(values, known, strict=True)]
