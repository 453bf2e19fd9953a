"""The validity audit: are an environment's masks what the game really does?

For every state it steps every action beside the reference no-op with the same random key, and
compares: an action is *effective* when the world comes out different. (A penalty alone is no
effect: many environments punish actions that do nothing.) The masks of every
rule set are compared with that. It needs nothing but the environment contract.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PRNGKeyArray

from maskless.envs.base import Environment, State
from maskless.envs.contract import check_contract
from maskless.envs.vector import VectorEnv
from maskless.errors import MasklessError

BATCH = 128  # states measured at once
PLAY_STEPS = 8  # steps of random play between two measured batches


@dataclasses.dataclass
class RuleCounts:
    """Number of states per action, for one rule set."""

    valid: np.ndarray
    effective_but_masked: np.ndarray
    dead_but_valid: np.ndarray
    waived: dict[str, np.ndarray]
    """By reason: disagreements that the environment declares as decided, not counted above."""


@dataclasses.dataclass
class Audit:
    """The result. Counts are of states; rates are counts divided by `states`."""

    env: str
    action_names: tuple[str, ...]
    states: int
    sources: dict[str, int]
    effective: np.ndarray
    rules: dict[str, RuleCounts]

    @property
    def always_works(self) -> bool:
        """Every action in every state: more likely a clock in the state than a fact of the game."""
        return bool((self.effective == self.states).all())

    def errors(self, rules: str) -> int:
        """State-actions on which these rules and the game disagree, decisions aside."""
        counts = self.rules[rules]
        return int(counts.effective_but_masked.sum() + counts.dead_but_valid.sum())

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "Audit":
        """The audit that `to_json` described, for redrawing it without measuring again."""
        actions = tuple(content["effective"])

        def array(by_action: dict[str, int]) -> np.ndarray:
            return np.array([by_action[action] for action in actions])

        rules = {
            name: RuleCounts(
                array(counts["valid"]),
                array(counts["effective_but_masked"]),
                array(counts["dead_but_valid"]),
                {reason: array(by_action) for reason, by_action in counts["waived"].items()},
            )
            for name, counts in content["rules"].items()
        }
        effective = array(content["effective"])
        states, sources = content["states"], content["sources"]
        return cls(content["environment"], actions, states, sources, effective, rules)

    def to_json(self) -> dict[str, Any]:
        """Counts by action name, as saved in validity.json."""

        def by_action(counts: np.ndarray) -> dict[str, int]:
            return dict(zip(self.action_names, counts.tolist(), strict=True))

        return {
            "environment": self.env,
            "states": self.states,
            "sources": self.sources,
            "effective": by_action(self.effective),
            "rules": {
                name: {
                    "errors": self.errors(name),
                    "valid": by_action(counts.valid),
                    "effective_but_masked": by_action(counts.effective_but_masked),
                    "dead_but_valid": by_action(counts.dead_but_valid),
                    "waived": {reason: by_action(c) for reason, c in counts.waived.items()},
                }
                for name, counts in self.rules.items()
            },
        }


def audit(
    env: Environment,
    *,
    states: int,
    seed: int = 0,
    draws: int = 16,
    progress: Callable[[int, str], None] = lambda done, source: None,
) -> Audit:
    """Measures at least `states` states of `env`, under all its rule sets.

    `draws`: an action is effective if one of so many random outcomes shows it. More than one is
    tried only where it matters: in batches where rules that promise to be exact call an action
    valid that did nothing, since one outcome cannot prove that it never does.
    `progress` is called with the number of states done and the source at work.
    """
    check_size(states, draws)
    check_contract(env, first_state=False)
    measure = jax.jit(functools.partial(_measure, env, draws))
    result: Audit | None = None
    play_key, draw_key = jax.random.split(jax.random.key(seed))
    for source, batch in _collect(env, play_key, states):
        if result is not None and result.states >= states:
            break
        key = jax.random.fold_in(draw_key, 0 if result is None else result.states)
        counts = jax.device_get(measure(key, batch))
        result = _add(env, result, source, counts)
        progress(result.states, source)
    assert result is not None  # states >= 1
    return result


def check_size(states: int, draws: int) -> None:
    """Refuses an audit of nothing."""
    if states < 1 or draws < 1:
        raise MasklessError(
            f"An audit needs at least one state and one draw, not {states} and {draws}."
        )


def effective_actions(env: Environment, key: PRNGKeyArray, state: State) -> Bool[Array, " actions"]:
    """Which actions make a difference in `state`, for the random outcome of `key`.

    Different from the outcome of the reference no-op; where the environment has none, from the
    state before the step, in what `effect_view` keeps of it.
    """

    def outcome(action: Array) -> Any:
        _, after, _, done, _ = env.step(key, state, action)
        return env.effect_view(after) if env.noop_action is None else (after, done)

    def compare(reference: Any, step: tuple[Array, Array]) -> tuple[Any, Bool[Array, ""]]:
        is_first, action = step
        found = outcome(action)
        reference = jax.tree.map(
            lambda new, old: jnp.where(is_first, new, old).astype(old.dtype), found, reference
        )
        return reference, differ(reference, found)

    # One action after the other: all at once would hold a copy of the world per action. The no-op
    # comes first, in the same loop, because to compile a step takes long.
    actions = jnp.arange(env.num_actions)
    if env.noop_action is None:
        return jax.lax.map(lambda action: differ(env.effect_view(state), outcome(action)), actions)
    actions = jnp.append(env.noop_action, actions)
    start = (state, jnp.zeros((), bool))
    return jax.lax.scan(compare, start, (jnp.arange(len(actions)) == 0, actions))[1][1:]


def differ(a: Any, b: Any) -> Bool[Array, ""]:
    """Whether two pytrees of the same shapes differ anywhere."""

    def leaf(x: Any, y: Any) -> Bool[Array, ""]:
        x, y = jnp.asarray(x), jnp.asarray(y)
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            x, y = jax.random.key_data(x), jax.random.key_data(y)
        both_nan = (x != x) & (y != y)
        return jnp.any((x != y) & ~both_nan)

    differences = jax.tree.leaves(jax.tree.map(leaf, a, b))
    return jnp.any(jnp.stack(differences))


def _measure(env: Environment, draws: int, key: PRNGKeyArray, batch: State) -> dict[str, Any]:
    """Counts per action over a batch of states."""
    size = jax.tree.leaves(batch)[0].shape[0]
    verdicts = {name: _verdict(env.with_rules(name), batch) for name in env.rule_sets}
    # What exact rules promise to work: where one random outcome shows no effect, another might.
    promised = jnp.zeros((size, env.num_actions), bool)
    if env.exact_rules in verdicts:
        valid, waivers = verdicts[env.exact_rules]
        promised = functools.reduce(lambda left, waived: left & ~waived, waivers.values(), valid)

    def unclear(carry: tuple[Array, Array]) -> Bool[Array, ""]:
        draw, effective = carry
        return (draw == 0) | ((draw < draws) & jnp.any(_dead(env, promised, effective)))

    def try_draw(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        draw, effective = carry
        keys = jax.random.split(jax.random.fold_in(key, draw), size)
        now = jax.vmap(functools.partial(effective_actions, env))(keys, batch)
        return draw + 1, effective | now

    start = jnp.int32(0), jnp.zeros((size, env.num_actions), bool)
    _, effective = jax.lax.while_loop(unclear, try_draw, start)
    return {
        "states": jnp.int32(size),
        "effective": effective.sum(0),
        "rules": {name: _compare(env, *verdicts[name], effective) for name in verdicts},
        "empty": {name: (~valid.any(-1)).sum() for name, (valid, _) in verdicts.items()},
    }


def _compare(env: Environment, valid: Array, waivers: dict[str, Array], effective: Array) -> dict:
    """The fields of `RuleCounts`. Each disagreement counts for the first waiver that covers it."""
    masked, dead = effective & ~valid, _dead(env, valid, effective)
    waived, unexplained = {}, masked | dead
    for reason, covered in waivers.items():
        waived[reason] = (unexplained & covered).sum(0)
        unexplained &= ~covered
    return {
        "valid": valid.sum(0),
        "effective_but_masked": (masked & unexplained).sum(0),
        "dead_but_valid": (dead & unexplained).sum(0),
        "waived": waived,
    }


def _verdict(env: Environment, batch: State) -> tuple[Bool[Array, "batch actions"], dict[str, Any]]:
    """Masks and waivers of a batch of states."""
    return jax.vmap(env.validity)(batch), jax.vmap(env.waivers)(batch)


def _dead(env: Environment, valid: Array, effective: Array) -> Bool[Array, "batch actions"]:
    """Valid without effect. The reference no-op never has one and is valid by convention."""
    dead = valid & ~effective
    return dead if env.noop_action is None else dead.at[:, env.noop_action].set(False)


def _add(env: Environment, result: Audit | None, source: str, counts: dict[str, Any]) -> Audit:
    """The audit so far and the counts of one more batch from `source`."""
    size = int(counts["states"])
    for name, empty in counts["empty"].items():
        if empty:
            raise MasklessError(
                f"{env.id}: under the rules {name!r} {int(empty)} of {size} states ({source}) have"
                " no valid action; at least one action must be valid in every state."
            )
    # In the environment's order: a compiled function returns dictionaries sorted by key.
    rules = {name: counts["rules"][name] for name in env.rule_sets}
    if result is None:
        rules = {name: RuleCounts(**fields) for name, fields in rules.items()}
        return Audit(env.id, env.action_names, size, {source: size}, counts["effective"], rules)
    result.states += size
    result.sources[source] = result.sources.get(source, 0) + size
    result.effective = result.effective + counts["effective"]
    for name, fields in rules.items():
        total = dataclasses.asdict(result.rules[name])
        result.rules[name] = RuleCounts(**jax.tree.map(np.add, total, fields))
    return result


def _collect(env: Environment, key: PRNGKeyArray, states: int) -> Iterator[tuple[str, State]]:
    """Batches of states: random play, play under each rule set's masks, and synthetic ones.

    Sources take turns, so that a short audit uses them all.
    """
    batch = min(BATCH, states)
    venv = VectorEnv(env, batch, pool_size=max(1, batch // 4))
    play = jax.jit(functools.partial(_play, venv))
    perturb = jax.jit(jax.vmap(env.perturb))
    start, _ = jax.jit(venv.reset)(jax.random.fold_in(key, 0))
    has_perturb = jax.eval_shape(env.perturb, key, jax.tree.map(lambda x: x[0], start.states))
    policies = ("random play", *(f"play under {name} masks" for name in env.rule_sets))
    games = dict.fromkeys(range(len(policies)), start)
    for turn in itertools.count(1):
        for policy, name in enumerate(policies):
            step_key, perturb_key, play_on_key = jax.random.split(
                jax.random.fold_in(jax.random.fold_in(key, turn), policy), 3
            )
            games[policy] = play(step_key, games[policy], policy)
            yield name, games[policy].states
            if has_perturb is None:
                continue
            # Rules go wrong in rare states, so these get half of the budget; half of them are
            # played on, which mixes the edits with the game's own dynamics.
            edited = perturb(jax.random.split(perturb_key, batch), games[policy].states)
            if turn % 2:
                edited = play(play_on_key, games[policy].replace(states=edited), 0).states
            yield "synthetic", edited


def _play(venv: VectorEnv, key: PRNGKeyArray, state: Any, policy: Array) -> Any:
    """`PLAY_STEPS` steps of uniformly random play: policy 0 among all actions, policy n among those
    that the n-th rule set calls valid. One program serves all: compiling is what takes time."""
    all_actions = jnp.ones((venv.num_envs, venv.env.num_actions), bool)

    def step(state: Any, key: PRNGKeyArray) -> tuple[Any, None]:
        action_key, step_key = jax.random.split(key)
        masks = [
            jax.vmap(venv.env.with_rules(name).validity)(state.states)
            for name in venv.env.rule_sets
        ]
        allowed = jnp.stack([all_actions, *masks])[policy]
        actions = jax.random.categorical(action_key, jnp.where(allowed, 0.0, -jnp.inf))
        return venv.step(step_key, state, actions)[0], None

    refresh_key, key = jax.random.split(key)
    state, _ = jax.lax.scan(step, state, jax.random.split(key, PLAY_STEPS))
    return venv.refresh(refresh_key, state)
