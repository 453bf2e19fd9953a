"""What the hero sees, and what he remembers of it: NetHack 3.6.6's rules, exactly.

`in_sight` and `update_memory` take one map; `jax.vmap` turns them into one computation on bitmaps
for the whole batch (bitmaps.py). A square is in sight if the hero has a free view of it
(free_view.py) and it is adjacent or lit.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int8, Int32, UInt8, UInt32

from minihax import transforms
from minihax.level.terrain import HEIGHT, WIDTH, Terrain
from minihax.look.glyphs import Glyph, appearance
from minihax.sight import bitmaps, free_view
from minihax.sight.bitmaps import Bitmap, each
from minihax.transforms import flat_vmap

Lanes = Int32[Array, " _lanes"]
_CPU_CHUNK = 512


def no_kernels() -> bool:
    return False


use_kernels: Callable[[], bool] = no_kernels
"""Called at trace time: whether GPUs compute the free view with the Pallas kernels of `kernel.py`.
Replace it to switch them on; by default they are off."""


def in_sight(
    terrain: Int8[Array, "21 80"],
    lit: Bool[Array, "21 80"],
    boulders: Bool[Array, "21 80"],
    position: Int32[Array, "2"],
) -> Bool[Array, "21 80"]:
    """The squares that the hero at `position` (y, x) sees: in free view, and adjacent or lit."""
    seen, _ = _batched_sight(_flags(terrain, lit, boulders)[None], position[None])
    return seen[0]


def update_memory(
    remembered: Int8[Array, "21 80"],
    terrain: Int8[Array, "21 80"],
    lit: Bool[Array, "21 80"],
    horizontal: Bool[Array, "21 80"],
    boulders: Bool[Array, "21 80"],
    position: Int32[Array, "2"],
) -> Int8[Array, "21 80"]:
    """The hero's map (`Glyph` ids) after looking around from `position`.

    Squares in sight are drawn as they are, but walls only from inside the room. All others keep
    their last look, except that floor is shown as remembered. The hero himself is not on this
    map: its square holds what he stands on (`observation.crop` draws him).
    """
    _, drawn = _batched_sight(_flags(terrain, lit, boulders)[None], position[None])
    faded = jnp.where(remembered == Glyph.FLOOR, jnp.int8(Glyph.FLOOR_REMEMBERED), remembered)
    return jnp.where(drawn[0], appearance(terrain, horizontal, boulders), faded)


def nothing_remembered() -> Int8[Array, "21 80"]:
    """The hero's map before the first look around: all unseen."""
    return jnp.full((HEIGHT, WIDTH), Glyph.UNSEEN, jnp.int8)


def _flags(
    terrain: Int8[Array, "21 80"], lit: Bool[Array, "21 80"], boulders: Bool[Array, "21 80"]
) -> UInt8[Array, "21 80"]:
    """Bit 0: can be seen through; 1: lit; 2: blocking wall or door; 3: drawn as a wall."""
    passage = (terrain >= Terrain.FLOOR) & (terrain <= Terrain.OPEN_DOOR)
    clear = passage & (terrain != Terrain.SECRET_CORRIDOR) & ~boulders
    plain_wall = (terrain >= Terrain.VERTICAL_WALL) & (terrain <= Terrain.CORNER_BOTTOM_RIGHT)
    barrier = (plain_wall | (terrain >= Terrain.DOORWAY)) & ~clear
    wall = (plain_wall | (terrain >= Terrain.SECRET_DOOR)) & ~boulders
    flags = [f.astype(jnp.uint8) << k for k, f in enumerate((clear, lit, barrier, wall))]
    return flags[0] | flags[1] | flags[2] | flags[3]


@flat_vmap
def _batched_sight(
    flags: UInt8[Array, "batch 21 80"], position: Int32[Array, "batch 2"]
) -> tuple[Bool[Array, "batch 21 80"], Bool[Array, "batch 21 80"]]:
    """(in sight, in sight and drawn). CPUs do a large batch in chunks that fit the cache."""
    batch = flags.shape[0]
    if batch <= _CPU_CHUNK:
        return _sight_of_batch(flags, position)

    def in_chunks(flags: Array, position: Array) -> tuple[Array, Array]:
        padding = -batch % _CPU_CHUNK
        chunks = [
            jnp.pad(a, ((0, padding),) + ((0, 0),) * (a.ndim - 1)).reshape(
                -1, _CPU_CHUNK, *a.shape[1:]
            )
            for a in (flags, position)
        ]
        seen = jax.lax.map(lambda chunk: _sight_of_batch(*chunk), tuple(chunks))
        return jax.tree.map(lambda s: s.reshape(-1, *s.shape[2:])[:batch], seen)

    at_once = functools.partial(_sight_of_batch, view=_free_view(batch))
    return jax.lax.platform_dependent(flags, position, cpu=in_chunks, default=at_once)


def _free_view(batch: int) -> Callable[..., Bitmap]:
    """`free_view.could_see`, or its twin on a GPU."""
    if use_kernels():
        from minihax.sight import kernel  # only here: it uses deprecated parts of JAX

        if kernel.fits(batch):
            return kernel.could_see
    return free_view.could_see


def _sight_of_batch(
    flags: UInt8[Array, "batch 21 80"],
    position: Int32[Array, "batch 2"],
    view: Callable[..., Bitmap] = free_view.could_see,
) -> tuple[Bool[Array, "batch 21 80"], Bool[Array, "batch 21 80"]]:
    y, x = position[:, 0], position[:, 1]
    opaque_true = y[0] >= 0
    clear, lit, barrier, wall = bitmaps.pack(opaque_true, flags, 4)
    could_see = view(opaque_true, clear, y, x)
    seen, drawn = transforms.materialise(
        opaque_true, _seen_and_drawn, could_see, lit, barrier, wall, y, x
    )
    return bitmaps.unpack(opaque_true, seen), bitmaps.unpack(opaque_true, drawn)


# ---- lit and drawn: rules about single squares ------------------------------------------------


def _seen_and_drawn(
    could_see: Bitmap, lit: Bitmap, barrier: Bitmap, wall: Bitmap, y: Lanes, x: Lanes
) -> tuple[Bitmap, Bitmap]:
    seen = _lit_or_adjacent(could_see, lit, barrier, y, x)
    turned_away = _turned_away(wall, lit, y, x)
    return seen, each(lambda s, t: s & ~t, seen, turned_away)


def _where_rows(condition: Bool[Array, "21 lanes"]) -> UInt32[Array, "21 lanes"]:
    return jnp.where(condition, np.uint32(0xFFFFFFFF), np.uint32(0))


def _row_above(bitmap: Bitmap) -> Bitmap:
    """At each square, the one above it."""
    return each(lambda word: jnp.pad(word[:-1], ((1, 0), (0, 0))), bitmap)


def _row_below(bitmap: Bitmap) -> Bitmap:
    return each(lambda word: jnp.pad(word[1:], ((0, 1), (0, 0))), bitmap)


def _lit_or_adjacent(could_see: Bitmap, lit: Bitmap, barrier: Bitmap, y: Lanes, x: Lanes) -> Bitmap:
    """A lit wall or door farther than one square is seen only if the square next to it toward
    the hero is lit: they do not show from down a dark corridor."""
    row = jnp.arange(HEIGHT)[:, None]
    above, below = _where_rows(row < y), _where_rows(row > y)
    near_rows = _where_rows(jnp.abs(row - y) <= 1)
    left, up_to = bitmaps.below_column(x), bitmaps.below_column(x + 1)
    near_columns = each(
        lambda a, b: a & ~b, bitmaps.below_column(x + 2), bitmaps.below_column(x - 1)
    )
    sideways = each(
        lambda inner, outer, here, le, to: (inner & le) | (outer & ~to) | (here & to & ~le),
        *(bitmaps.inward(lit), bitmaps.outward(lit), lit, left, up_to),
    )
    toward = each(
        lambda down, up, here: (down & above) | (up & below) | (here & ~(above | below)),
        *(_row_below(sideways), _row_above(sideways), sideways),
    )
    return each(
        lambda c, t, li, b, near: c & ((near_rows & near) | (li & (~b | t))),
        *(could_see, toward, lit, barrier, near_columns),
    )


def _turned_away(wall: Bitmap, lit: Bitmap, y: Lanes, x: Lanes) -> Bitmap:
    """Walls that show the hero their outer side. The lit area is the room with its walls, so a
    top wall has lit squares below it and none above."""
    row = jnp.arange(HEIGHT)[:, None]
    above, below = _where_rows(row < y), _where_rows(row > y)
    left, up_to = bitmaps.below_column(x), bitmaps.below_column(x + 1)

    def away(
        wall: Array,
        lit_above: Array,
        lit_below: Array,
        lit_left: Array,
        lit_right: Array,
        left: Array,
        up_to: Array,
    ) -> Array:
        upright = (below & lit_below & ~lit_above) | (above & lit_above & ~lit_below)
        sideways = (~up_to & lit_right & ~lit_left) | (left & lit_left & ~lit_right)
        return wall & (upright | sideways)

    neighbours = _row_above(lit), _row_below(lit), bitmaps.outward(lit), bitmaps.inward(lit)
    return each(away, wall, *neighbours, left, up_to)
