"""chi(s): the few facts about a Craftax state that decide which actions are valid.

Both rule sets, and both games, read the world through `Surroundings`; counts and levels are read
from upstream's state directly. All functions take one state; batch them with vmap.
"""

from typing import Any

import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Int

# Row and column offsets: the player's own square, then the square each move action (1-4: left,
# right, up, down) leads to, then the diagonals. So squares[direction] is the faced one.
OFFSETS = jnp.array(
    [[0, 0], [0, -1], [0, 1], [-1, 0], [1, 0], [-1, -1], [-1, 1], [1, -1], [1, 1]], jnp.int32
)
MOVES = slice(1, 5)


@struct.dataclass
class Surroundings:
    """The player's square and its eight neighbours, in the order of `OFFSETS`."""

    block: Int[Array, " 9"]
    """Block types as upstream reads them: past the map's edge, see `clamp_like_upstream`."""
    inside: Bool[Array, " 9"]
    """False past the edge of the map."""
    mob: Bool[Array, " 9"]
    """A living creature stands there (`mob_map`)."""
    item: Int[Array, " 9"] | None
    """Torches and ladders; None in Classic, which has none."""
    direction: Int[Array, ""]
    """Where the player looks: 1-4, like the move actions."""

    def near(self, block_type: Any) -> Bool[Array, ""]:
        """One of the eight neighbours is such a block (how upstream finds tables and furnaces)."""
        return jnp.any((self.block == block_type.value) & self.inside, where=_NEIGHBOURS)

    def front(self, field: Array) -> Array:
        """The entry of `field` for the square the player faces."""
        return field[self.direction]

    def facing(self, *block_types: Any) -> Bool[Array, ""]:
        """The faced square is on the map and holds one of these blocks."""
        return self.front(self.inside) & self.facing_unchecked(*block_types)

    def facing_unchecked(self, *block_types: Any) -> Bool[Array, ""]:
        """The same where upstream forgets to ask whether the square is on the map."""
        return is_one_of(self.front(self.block), *block_types)


_NEIGHBOURS = jnp.arange(9) > 0


def is_one_of(block: Int[Array, "..."], *block_types: Any) -> Bool[Array, "..."]:
    return jnp.isin(block, jnp.array([b.value for b in block_types]))


def clamp_like_upstream(index: Int[Array, "..."], size: int) -> Int[Array, "..."]:
    """The index that upstream's unchecked map[row, column] really reads: -1 wraps to the far side
    (NumPy's rule), `size` is pulled back to the last entry (JAX's rule for reads)."""
    return jnp.clip(jnp.where(index < 0, index + size, index), 0, size - 1)


def surroundings(
    block_map: Int[Array, "rows columns"],
    mob_map: Bool[Array, "rows columns"],
    item_map: Int[Array, "rows columns"] | None,
    position: Int[Array, " 2"],
    direction: Int[Array, ""],
) -> Surroundings:
    squares = position + OFFSETS
    size = jnp.array(block_map.shape)
    rows = clamp_like_upstream(squares[:, 0], block_map.shape[0])
    columns = clamp_like_upstream(squares[:, 1], block_map.shape[1])
    return Surroundings(
        block=block_map[rows, columns],
        inside=jnp.all((squares >= 0) & (squares < size), axis=-1),
        mob=mob_map[rows, columns],
        item=None if item_map is None else item_map[rows, columns],
        direction=direction,
    )


def any_at(
    mobs: Any, position: Int[Array, " 2"], level: Int[Array, ""] | None = None
) -> Bool[Array, ""]:
    """Some living member of a mob class stands on `position` (of a floor, in the full game)."""
    where, alive = mobs.position, mobs.mask
    if level is not None:
        where, alive = where[level], alive[level]
    return jnp.any(jnp.all(where == position, axis=-1) & alive)


def stack_rules(rules: dict[Any, Any], actions: type) -> Bool[Array, " actions"]:
    """The mask of a table {action: condition}; every action of the game must be in it."""
    return jnp.stack([jnp.asarray(rules[action], bool) for action in actions])  # type: ignore[attr-defined]
