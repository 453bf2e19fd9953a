"""Do the features tell states where an action is valid from states where it is not?

Suppression spreads along shared features (the paper's condition (ii)), and a classifier can only
read what they hold. Rare actions have few valid states in one rollout, so that sums are carried
from update to update with an exponential window:

    state = correlation.init(num_actions, features.shape[-1], hidden.shape[-1])
    state, metrics = correlation.measure(state, features, hidden, valid)

NaN means "not enough states yet". `docs/metrics.md` explains each number.
"""

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float

DECAY = 0.9
"""The weight of a state in the next update's sums: the window is about ten updates long."""

LEAST_STATES = 32.0
"""With fewer valid or invalid states in the window an action has no numbers."""

LEAST_SPREAD = 1e-5
"""Mean features that vary less from dimension to dimension, compared with their length, are
constant up to rounding: they correlate with nothing."""


@struct.dataclass
class Sums:
    """Sums over the states in which each action is invalid (0) and valid (1), at one layer."""

    plain: Float[Array, "2 actions dims"]
    """Of the features x."""
    unit: Float[Array, "2 actions dims"]
    """Of x / |x|. The mean cosine of all pairs is the product of two such means: no pair is ever
    formed."""
    unit_with_bias: Float[Array, "2 actions dims+1"]
    """Of [x, 1] / |[x, 1]|."""


@struct.dataclass
class Correlation:
    """What is remembered from update to update."""

    states: Float[Array, "2 actions"]
    """How many states the sums are over."""
    features: Sums
    hidden: Sums


def init(num_actions: int, feature_dims: int, hidden_dims: int) -> Correlation:
    """Before the first update. `feature_dims` is the size of phi (what the classifier reads),
    `hidden_dims` that of the actor's last hidden layer."""

    def sums(dims: int) -> Sums:
        zeros = jnp.zeros((2, num_actions, dims), jnp.float32)
        return Sums(zeros, zeros, jnp.zeros((2, num_actions, dims + 1), jnp.float32))

    return Correlation(
        jnp.zeros((2, num_actions), jnp.float32), sums(feature_dims), sums(hidden_dims)
    )


def measure(
    state: Correlation,
    features: Float[Array, "time *batch features"],
    hidden: Float[Array, "time *batch hidden"],
    valid: Bool[Array, "time *batch actions"],
    *,
    stride: int = 1,
) -> tuple[Correlation, dict[str, Array]]:
    """The metrics of the window that ends with this rollout, arrays [actions].

    `stride`: only every `stride`-th time step counts, which divides the cost.
    """
    features, hidden, valid = (_by_step(x[::stride]) for x in (features, hidden, valid))
    new = Correlation(
        states=jnp.stack([jnp.sum(~valid, axis=(0, 1)), jnp.sum(valid, axis=(0, 1))]),
        features=_sums(features, valid),
        hidden=_sums(hidden, valid),
    )
    state = jax.tree.map(lambda old, added: DECAY * old + added, state, new)
    invalid_states, valid_states = state.states
    return state, {
        "correlation_valid_states": valid_states,
        "correlation_invalid_states": invalid_states,
        **_similarities("feature", state.features, state.states),
        **_similarities("hidden", state.hidden, state.states),
    }


def _by_step(x: Array) -> Array:
    """[time, ..., dims] -> [time, batch, dims]"""
    return x.reshape(x.shape[0], -1, x.shape[-1])


def _sums(x: Float[Array, "time batch dims"], valid: Bool[Array, "time batch actions"]) -> Sums:
    x = x.astype(jnp.float32)  # a network in bfloat16 gives them as it has them
    square = jnp.sum(x * x, axis=-1)
    per_length = jnp.where(square > 0, 1.0 / jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)
    per_length_with_bias = 1.0 / jnp.sqrt(square + 1.0)
    bias = _split_sum(jnp.ones_like(square)[..., None], per_length_with_bias, valid)
    with_bias = [_split_sum(x, per_length_with_bias, valid), bias]
    return Sums(
        plain=_split_sum(x, jnp.ones_like(square), valid),
        unit=_split_sum(x, per_length, valid),
        unit_with_bias=jnp.concatenate(with_bias, axis=-1),
    )


def _split_sum(
    x: Float[Array, "time batch dims"],
    weights: Float[Array, "time batch"],
    valid: Bool[Array, "time batch actions"],
) -> Float[Array, "2 actions dims"]:
    """The weighted sums of x over the states in which each action is invalid (0) and valid (1)."""
    # Only the rarer side of each action is summed, and the other is the rest: half the work, and
    # nothing is lost, as it would be in the small difference of two large sums.
    rare = jnp.mean(valid, axis=(0, 1)) <= 0.5
    chosen = jnp.where(valid == rare, weights[..., None], 0.0)
    # Time steps are summed apart first, since one float32 sum over all states is less exact; the
    # highest precision, because a GPU otherwise keeps three digits of each factor.
    highest = jax.lax.Precision.HIGHEST
    rarer = jnp.sum(jnp.einsum("tba,tbd->tad", chosen, x, precision=highest), axis=0)
    rest = jnp.sum(jnp.einsum("tb,tbd->td", weights, x, precision=highest), axis=0) - rarer
    return jnp.where(rare[:, None], jnp.stack([rest, rarer]), jnp.stack([rarer, rest]))


def _similarities(
    layer: str, sums: Sums, states: Float[Array, "2 actions"]
) -> dict[str, Float[Array, " actions"]]:
    """Valid against invalid states at one layer."""
    enough = jnp.all(states >= LEAST_STATES, axis=0)

    def means(total: Float[Array, "2 actions dims"]) -> Float[Array, "2 actions dims"]:
        return total / jnp.maximum(states, 1.0)[..., None]

    def product(pair: Float[Array, "2 actions dims"]) -> Float[Array, " actions"]:
        return jnp.sum(pair[0] * pair[1], axis=-1)

    plain = means(sums.plain)
    centred = plain - jnp.mean(plain, axis=-1, keepdims=True)
    lengths = jnp.linalg.norm(centred, axis=-1)
    varied = jnp.all(lengths > LEAST_SPREAD * jnp.linalg.norm(plain, axis=-1), axis=0)
    pearson = product(centred) / jnp.prod(lengths, axis=0)
    values = {
        f"{layer}_correlation": jnp.where(varied, pearson, jnp.nan),
        f"{layer}_cosine": product(means(sums.unit)),
        f"{layer}_cosine_with_bias": product(means(sums.unit_with_bias)),
    }
    return {name: jnp.where(enough, value, jnp.nan) for name, value in values.items()}
