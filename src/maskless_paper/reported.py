"""What the paper reports, as data."""

# Table 1: (game, network) -> condition -> return under ground-truth and under predicted masks.
TABLE: dict[tuple[str, str], dict[str, tuple[float, float]]] = {
    ("craftax", "mlp"): {
        "unmasked": (26.9, 26.9),
        "masked": (30.4, -0.9),
        "masked-focal": (24.6, 13.7),
        "masked-kl": (28.7, 28.6),
    },
    ("craftax", "gru"): {
        "unmasked": (36.7, 36.7),
        "masked": (38.3, -0.9),
        "masked-focal": (39.2, 27.5),
        "masked-kl": (38.1, 36.4),
    },
    ("craftax", "hybrid"): {
        "unmasked": (43.9, 43.9),
        "masked": (45.6, -0.9),
        "masked-focal": (45.0, 21.2),
        "masked-kl": (48.8, 43.2),
    },
    ("craftax-classic", "mlp"): {
        "unmasked": (19.2, 19.2),
        "masked": (19.3, -0.8),
        "masked-focal": (19.4, 15.3),
        "masked-kl": (19.5, 19.3),
    },
    ("craftax-classic", "gru"): {
        "unmasked": (19.8, 19.8),
        "masked": (20.4, -0.9),
        "masked-focal": (20.3, 14.8),
        "masked-kl": (20.5, 20.4),
    },
    ("craftax-classic", "hybrid"): {
        "unmasked": (19.2, 19.2),
        "masked": (18.9, -0.9),
        "masked-focal": (19.0, 17.6),
        "masked-kl": (19.0, 18.4),
    },
    ("corridor-r5", "mlp"): {
        "unmasked": (0.9, 0.9),
        "masked": (0.9, 0.1),
        "masked-focal": (0.9, 0.9),
        "masked-kl": (0.9, 0.9),
    },
    ("corridor-r5", "gru"): {
        "unmasked": (1.0, 1.0),
        "masked": (1.0, 0.2),
        "masked-focal": (1.0, 1.0),
        "masked-kl": (1.0, 1.0),
    },
    ("corridor-r5", "hybrid"): {
        "unmasked": (1.0, 1.0),
        "masked": (1.0, 0.3),
        "masked-focal": (1.0, 1.0),
        "masked-kl": (1.0, 1.0),
    },
}
# Table 1, Corridor-R5: network -> condition -> share of 2e8 frames until the return is 1.0.
SHARE_TO_ONE: dict[str, dict[str, float]] = {
    "gru": {"unmasked": 0.29, "masked": 0.16, "masked-focal": 0.21, "masked-kl": 0.21},
    "hybrid": {"unmasked": 0.84, "masked": 0.63, "masked-focal": 0.76, "masked-kl": 0.65},
}
# Table 1, Corridor-R5: network -> condition -> mean length of an episode.
LENGTH: dict[str, dict[str, float]] = {
    "mlp": {"unmasked": 161.3, "masked": 118.3, "masked-focal": 113.6, "masked-kl": 123.6},
    "gru": {"unmasked": 52.0, "masked": 52.1, "masked-focal": 52.0, "masked-kl": 53.8},
    "hybrid": {"unmasked": 94.6, "masked": 80.7, "masked-focal": 92.0, "masked-kl": 88.0},
}
