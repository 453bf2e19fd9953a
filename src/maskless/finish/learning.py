"""The student's supervised learning: its loss, and passes over the memory."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct
from jaxtyping import Array, Float

from maskless import masking
from maskless.finish.comparisons import Rules, add_rules, find_rules
from maskless.finish.memory import Labelled, Memory
from maskless.nets.deployable import Deployable, Student, observed_numbers, plain_numbers

LEARNING_RATE = 3e-3
BATCH = 512
STEPS_AT_A_TIME = 32
AVERAGE = 0.995
"""Of the running average of the weights, which is what acts: it stands where a falling learning
rate would lead, without a schedule that has to know when the end comes."""


@struct.dataclass
class Learned:
    """What changes while the student learns."""

    params: Any
    average: Any
    optimizer: Any
    steps: Array


class Losses(NamedTuple):
    """The parts of the student's loss, each a mean over states."""

    validity: Float[Array, ""]
    clone: Float[Array, ""]


WEIGHT_DECAY = 0.1
"""Of kernels. Without it, states that were seen become certain before what decides is found."""


def _kernels(params: Any) -> Any:
    return jax.tree_util.tree_map_with_path(lambda path, _: path[-1].key == "kernel", params)


# Adam with decoupled weight decay; `_learn` multiplies by the learning rate, which falls.
_OPTIMIZER = optax.chain(
    optax.clip_by_global_norm(10.0),
    optax.scale_by_adam(),
    optax.add_decayed_weights(WEIGHT_DECAY, mask=_kernels),
)


def student_losses(student: Student, params: Any, states: Labelled) -> Losses:
    """Cross-entropy of every action's label, summed over actions; and cross-entropy of the clone
    towards the masked policy. `states`: [batch, ...]"""
    sequence = jax.tree.map(lambda x: jnp.asarray(x)[None], states)
    arguments = (sequence.observation, sequence.features, sequence.logits)
    outputs: Any = student.apply({"params": params}, *arguments)
    validity, clone = outputs
    labels = sequence.valid
    entries = optax.sigmoid_binary_cross_entropy(validity, labels.astype(jnp.float32))
    teacher = masking.masked_log_softmax(sequence.logits, labels)
    # - sum pi log q + sum pi log pi: zero when the clone is the masked policy.
    divergence = masking.kl_divergence(teacher, jax.nn.log_softmax(clone))
    return Losses(jnp.mean(jnp.sum(entries, axis=-1)), jnp.mean(divergence))


def untrained(net: Deployable, play: Any, seed: int) -> Learned:
    """Before the first step. `play`: of the environments, for shapes."""
    actor = play.actor
    observed = (actor.now.observation, actor.reset)
    sequence = jax.tree.map(lambda x: jnp.asarray(x)[None, :1], observed)  # games are in NumPy
    params: Any = net.init(jax.random.key(seed), net.initial_carry(1), *sequence)
    student = params["params"]["student"]
    return Learned(student, student, _OPTIMIZER.init(student), jnp.int32(0))


def normalise(student: Student, learned: Learned, states: Labelled) -> Learned:
    """With what is read brought to these states' mean and spread."""
    whole = jax.tree.map(lambda x: jnp.asarray(x)[None], states)
    numbers = plain_numbers(
        student.encoder, whole.observation, whole.features, recurrent=student.recurrent
    )[0]
    params = learned.params | {"normaliser": _spread(np.asarray(numbers))}
    return Learned(params, params, _OPTIMIZER.init(params), learned.steps)


def compare(student: Student, learned: Learned, states: Labelled) -> Learned:
    """With the comparisons in free slots that these states suggest."""
    if not student.comparisons:
        return learned
    observation = jax.tree.map(lambda x: jnp.asarray(x)[None], states.observation)
    numbers = np.asarray(observed_numbers(student.encoder, observation)[0])
    rules = Rules(**jax.tree.map(np.asarray, learned.average["comparisons"]))
    rules = Rules(np.round(rules.first), np.round(rules.second), rules.offset)
    rules = add_rules(rules, find_rules(numbers, np.asarray(states.valid)))
    entry = {"comparisons": jax.tree.map(jnp.asarray, rules._asdict())}
    params, average = learned.params | entry, learned.average | entry
    return Learned(params, average, learned.optimizer, learned.steps)


def _spread(numbers: np.ndarray) -> dict[str, Array]:
    """Mean and scale of each number. What varies rarely is not blown up to more than 4."""
    mean, deviation = numbers.mean(0), numbers.std(0)
    reach = np.abs(numbers - mean).max(0)
    scale = 1.0 / np.maximum(np.maximum(deviation, reach / 4), 1e-3)
    return {"mean": jnp.asarray(mean), "scale": jnp.asarray(scale)}


def learn(
    student: Student,
    learned: Learned,
    memory: Memory,
    steps: int,
    random: np.random.Generator,
    *,
    rate: float = LEARNING_RATE,
) -> tuple[Learned, Losses]:
    """After so many steps of Adam on batches from the memory; and the losses of the last ones."""
    nothing: Any = np.float32(np.nan)
    losses = Losses(nothing, nothing)
    for _ in range(max(1, steps // STEPS_AT_A_TIME)):
        batches = memory.draw(random, (STEPS_AT_A_TIME, min(BATCH, memory.size)))
        learned, losses = _learn(student, learned, batches, np.float32(rate))
    return learned, losses


@partial(jax.jit, static_argnums=0)
def _learn(
    student: Student, learned: Learned, batches: Labelled, rate: Float[Array, ""]
) -> tuple[Learned, Losses]:
    def total(params: Any, states: Labelled) -> tuple[Array, Losses]:
        losses = student_losses(student, params, states)
        return losses.validity + losses.clone, losses

    def step(learned: Learned, states: Labelled) -> tuple[Learned, Losses]:
        grads, losses = jax.grad(total, has_aux=True)(learned.params, states)
        changes, optimizer = _OPTIMIZER.update(grads, learned.optimizer, learned.params)
        changes = jax.tree.map(lambda x: -rate * x, changes)
        params = optax.apply_updates(learned.params, changes)
        # At first the average is that of all weights so far.
        keep = jnp.minimum(AVERAGE, learned.steps / (learned.steps + 1.0))
        average = optax.incremental_update(params, learned.average, 1.0 - keep)
        return Learned(params, average, optimizer, learned.steps + 1), losses

    learned, losses = jax.lax.scan(step, learned, batches)
    return learned, jax.tree.map(jnp.mean, losses)
