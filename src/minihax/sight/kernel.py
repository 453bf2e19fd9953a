"""The free view (free_view.py says what that is) in GPU kernels.

XLA passes every stage through memory, and repeats the rows before a row for each row. Here a
thread keeps one quadrant of one hero in its registers:

- `_near_lines` and `_near_views`: all quadrants within `NEAR` columns.
- `_far_lines` and `_far_views`: those whose view goes farther, at full width. They are collected in
  a list first. The kernels themselves read how long it is, so nothing waits for the host.

The four quadrants are down-right, down-left, up-right and up-left. Leftward ones read the map's
mirror image, so all go outward from column 0. Quadrant q of hero h is number q * batch + h, its
lane. `sight.use_kernels` decides when this is used.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Bool, Int32, UInt32

from minihax.level.terrain import HEIGHT, WIDTH
from minihax.sight import bitmaps
from minihax.sight import lines as sight_lines
from minihax.sight.bitmaps import WORDS, Bitmap, each
from minihax.sight.free_view import FORGOTTEN_COLUMN, NEAR, WINDOW, next_row

QUADRANTS = 4
NEAR_LANES = 128
"""Quadrants that a program looks into at once, one in each thread; or, the far ones:"""
FAR_LANES = 32
FAR_PROGRAMS = 256
"""At most so many divide the list of far quadrants among them."""
STEPS = 4
"""Steps along far lines that are taken at once, so that their loads wait together."""
_LAST_ROW, _LAST_COLUMN = HEIGHT - 1, WIDTH - 1

Lanes = Int32[Array, " _lanes"]
Sides = UInt32[Array, " _words"]  # 2 * 3 * 21 * batch of them
Views = tuple[UInt32[Array, "21 _lanes"], ...]  # bitmaps of all quadrants


def fits(batch: int) -> bool:
    return batch % NEAR_LANES == 0


def could_see(
    opaque_true: Bool[Array, ""], clear: Bitmap, y: Lanes, x: Lanes, interpret: bool = False
) -> Bitmap:
    """`free_view.could_see`, bit for bit."""
    del opaque_true
    sides = jnp.stack([*clear, *bitmaps.mirror(clear)]).reshape(-1)
    octants = _near_octants(sides, y, x, interpret)
    views, near, farther = _near_views(octants, _near_lines(octants, interpret), x, interpret)
    lanes, count = _compact_indices(farther)
    far = _far_lines(sides, y, x, lanes, count, interpret)
    return _on_the_map(_far_views(views, sides, y, x, near, far, lanes, count, interpret), y, x)


def _compact_indices(farther: Lanes) -> tuple[Lanes, Int32[Array, "1"]]:
    """The numbers of the lanes with a 1, and how many they are."""
    until = jnp.cumsum(farther)
    target = jnp.where(farther > 0, until - 1, farther.size)
    numbers = jnp.arange(farther.size, dtype=jnp.int32)
    return jnp.zeros_like(farther).at[target].set(numbers, mode="drop"), until[-1:]


def _on_the_map(views: Views, y: Lanes, x: Lanes) -> Bitmap:
    """All quadrants put together. On the hero's own row those upward equal those downward."""
    row = jnp.arange(HEIGHT)[:, None]
    away, up = jnp.abs(row - y), row < y

    def side(number: int, word: Array) -> Array:
        lane = (2 * up + number) * y.shape[0] + jnp.arange(y.shape[0])
        return word[away, lane]

    right, left = (each(functools.partial(side, k), views) for k in (0, 1))
    left = bitmaps.mirror(bitmaps.insert_columns(left, _LAST_COLUMN - x))
    return each(jnp.bitwise_or, bitmaps.insert_columns(right, x), left)


def _edge(quadrant: Lanes, x: Lanes) -> Lanes:
    """The column where a wall can be forgotten, or -1."""
    return jnp.where((quadrant & 1) == 1, -1, FORGOTTEN_COLUMN - x)


class _Quadrants:
    """Where the lanes of a program look: read from the arguments that all kernels have."""

    def __init__(self, sides: Any, y: Any, x: Any, lane: Lanes):
        self.batch = y.shape[0]
        self.hero = lane % self.batch
        quadrant = lane // self.batch
        self.left, self.up = (quadrant & 1) == 1, quadrant >= 2
        self.y, x = y[self.hero], x[self.hero]
        self.column = jnp.where(self.left, _LAST_COLUMN - x, x)
        self.edge = _edge(quadrant, x)
        self._sides = sides

    def row(self, number: Any, words: int = WORDS) -> Bitmap:
        """The clear squares of a row of theirs, the first `words` words."""
        y = jnp.where(self.up, self.y - number, self.y + number)
        there = (y >= 0) & (y < HEIGHT)
        whole = self.column >> 5
        read = []
        for k in range(words + 1):
            word = whole + k
            index = ((jnp.where(self.left, WORDS, 0) + word) * HEIGHT + y) * self.batch + self.hero
            inside = there & (word < WORDS)
            index = jnp.where(inside, index, 0)
            read.append(jnp.where(inside, self._sides[index], np.uint32(0)))
        shift = (self.column & 31).astype(jnp.uint32)
        return tuple(
            (read[k] >> shift) | ((read[k + 1] << np.uint32(1)) << (np.uint32(31) - shift))
            for k in range(words)
        )


# ---- near -------------------------------------------------------------------------------------


def _near_call(kernel: Any, lanes: int, outcomes: list[Any], interpret: bool) -> Any:
    return pl.pallas_call(
        kernel,
        out_shape=outcomes,
        grid=(lanes // NEAR_LANES,),
        compiler_params=triton.CompilerParams(num_warps=NEAR_LANES // 32, num_stages=1),
        interpret=interpret,
        name=kernel.__name__.strip("_"),
    )


def _near_lanes() -> Lanes:
    return pl.program_id(0) * NEAR_LANES + jnp.arange(NEAR_LANES, dtype=jnp.int32)


def _near_octants(sides: Sides, y: Lanes, x: Lanes, interpret: bool) -> UInt32[Array, "21 _twice"]:
    """The near squares of all quadrants row by row, and then column by column."""
    lanes = QUADRANTS * y.shape[0]
    shape = [jax.ShapeDtypeStruct((HEIGHT, 2 * lanes), jnp.uint32)]
    octants: Array = _near_call(_near_squares, lanes, shape, interpret)(sides, y, x)[0]
    return octants


def _near_squares(sides: Any, y: Any, x: Any, octants: Any) -> None:
    lane = _near_lanes()
    here = _Quadrants(sides, y, x, lane)
    rows = [here.row(number, 1)[0] for number in range(HEIGHT)]
    turned = _transpose([*rows, *[jnp.zeros_like(rows[0])] * (32 - HEIGHT)])
    for number in range(HEIGHT):
        octants[number, lane] = rows[number]
        octants[number, lane + octants.shape[1] // 2] = turned[number]


def _near_lines(octants: UInt32[Array, "21 _twice"], interpret: bool) -> UInt32[Array, "21 _twice"]:
    """Free lines to the squares of the steep octants (no farther aside than ahead), and of the
    flat ones. Row 0 holds nothing."""
    shape = [jax.ShapeDtypeStruct(octants.shape, jnp.uint32)]
    lines: Array = _near_call(_octant_lines, octants.shape[1], shape, interpret)(octants)[0]
    return lines


def _octant_lines(octants: Any, lines: Any) -> None:
    lane = _near_lanes()
    free = _free_lines([octants[number, lane] for number in range(1, HEIGHT)])
    for number, row in enumerate(free, 1):
        lines[number, lane] = row


def _near_views(
    octants: Array, lines: Array, x: Lanes, interpret: bool
) -> tuple[list[Array], Array, Lanes]:
    """Views; the free lines to all near squares [21, lanes]; and a 1 for each quadrant whose view
    goes farther."""
    lanes = QUADRANTS * x.shape[0]
    rows = jax.ShapeDtypeStruct((HEIGHT, lanes), jnp.uint32)
    outcomes = [*[rows] * (WORDS + 1), jax.ShapeDtypeStruct((lanes,), jnp.int32)]
    call = _near_call(_near_rows, lanes, outcomes, interpret)
    *views, lines, farther = call(octants, lines, x)
    return views, lines, farther


def _near_rows(octants: Any, lines: Any, x: Any, *outcomes: Any) -> None:
    *views, free_lines, farther = outcomes
    lane = _near_lanes()
    edge = _edge(lane // x.shape[0], x[lane % x.shape[0]])
    edge_row = bitmaps.single_column(edge, 1)
    zero = jnp.zeros(NEAR_LANES, jnp.uint32)
    flat = [lines[number, lane + lines.shape[1] // 2] for number in range(1, HEIGHT)]
    flat = _transpose([zero, *flat, *[zero] * (32 - HEIGHT)])
    seen, carried, previous = _hero_row((octants[0, lane] & WINDOW,))
    reached = carried[0]
    for number in range(HEIGHT):
        if number:
            # Straight ahead no line is needed: there squares are seen only as far as all before
            # are clear.
            in_steep = np.uint32((2 << number) - 1)  # columns 0..number
            free = (lines[number, lane] & in_steep) | (flat[number] & ~in_steep) | np.uint32(1)
            free_lines[number, lane] = free
            clear = (octants[number, lane] & WINDOW,)
            seen, carried = next_row(carried, previous, clear, (free,), edge_row)
            previous, reached = clear, reached | carried[0]
        for word, row in zip(views, (seen[0] & WINDOW, zero, zero), strict=True):
            word[number, lane] = row
    farther[lane] = ((reached >> np.uint32(NEAR)) & np.uint32(1)).astype(jnp.int32)


def _free_lines(octant: list[Array]) -> list[Array]:
    """`sight_lines.free_lines` of an octant whose words are arrays of their own."""
    tables = sight_lines.slope_tables(len(octant), NEAR)
    free = [jnp.full_like(octant[0], sight_lines.ONES)] * tables.words
    lines = []
    for i, here in enumerate(octant):
        reached = jnp.zeros_like(here)
        for k in range(min(i + 1, NEAR)):
            word, bit = int(tables.target_word[i, k]), int(tables.target_bit[i, k])
            reached = reached | (
                ((free[word] >> np.uint32(bit)) & np.uint32(1)) << np.uint32(k + 1)
            )
        lines.append(reached)
        for word in range(tables.words):
            for side, spared in zip(tables.side[i, word], tables.spared[i, word], strict=True):
                if spared != sight_lines.ONES:
                    through = np.uint32(0) - ((here >> side) & np.uint32(1))
                    free[word] = free[word] & (through | spared)
    return lines


def _transpose(words: list[Array]) -> list[Array]:
    """`bitmaps.transpose` of words that are arrays of their own."""
    words, low, block = list(words), 0x0000FFFF, 16
    while block:
        for k in range(32):
            if not k & block:
                shift = np.uint32(block)
                swap = ((words[k] >> shift) ^ words[k + block]) & np.uint32(low)
                words[k], words[k + block] = words[k] ^ (swap << shift), words[k + block] ^ swap
        block //= 2
        low ^= (low << block) & 0xFFFFFFFF
    return words


def _hero_row(clear: Bitmap) -> tuple[Bitmap, Bitmap, Bitmap]:
    """Of the hero's own row: the squares seen, those carried on, and the clear ones."""
    hero = tuple(jnp.full_like(word, k == 0) for k, word in enumerate(clear))
    clear = each(jnp.bitwise_or, clear, hero)
    run = bitmaps.flood(clear, hero)
    first = each(lambda r, o, c: r | (o & ~c), run, bitmaps.outward(run), clear)
    return first, first, clear


# ---- far --------------------------------------------------------------------------------------


@functools.cache
def _far_masks() -> UInt32[np.ndarray, " 21*21*80*3"]:
    """[row, side, step]: the targets in this row, as words, whose line runs through the square
    `side` aside and `step` ahead. Near targets and steps that come after them are left out."""
    masks = np.zeros((HEIGHT, HEIGHT, WIDTH, 32 * WORDS), bool)
    step = np.arange(1, WIDTH)
    for row in range(1, HEIGHT):
        for column in range(NEAR + 1, WIDTH):
            before = step[: column - 1]
            masks[row, (2 * before * row + column) // (2 * column), before, column] = True
    packed = np.packbits(masks, axis=-1, bitorder="little").view("<u4")
    return np.ascontiguousarray(packed).reshape(-1)


@functools.cache
def _far_steps() -> Int32[np.ndarray, " 21*21*2"]:
    """[row, side]: the first step with such targets, and the one after the last, in `STEPS`."""
    some = np.any(_far_masks().reshape(HEIGHT, HEIGHT, WIDTH // STEPS, STEPS * WORDS), -1)
    ever, backwards = np.any(some, -1), np.flip(some, -1)
    first = np.where(ever, np.argmax(some, -1), 0)
    end = np.where(ever, WIDTH // STEPS - np.argmax(backwards, -1), 0)
    return np.stack([first, end], -1).astype(np.int32).reshape(-1)


def _far_programs(lanes: int) -> int:
    return min(FAR_PROGRAMS, lanes // FAR_LANES)


def _far_lines(
    sides: Sides, y: Lanes, x: Lanes, lanes: Lanes, count: Int32[Array, "1"], interpret: bool
) -> UInt32[Array, " _words"]:
    """Free lines to the squares beyond the near ones, in the order of the list."""
    shape = jax.ShapeDtypeStruct((WORDS * HEIGHT * lanes.size,), jnp.uint32)
    call = pl.pallas_call(
        _far_lines_kernel,
        out_shape=shape,
        grid=(_LAST_ROW, _far_programs(lanes.size)),
        compiler_params=triton.CompilerParams(num_warps=1, num_stages=1),
        interpret=interpret,
        name="far_lines",
    )
    outcome: Array = call(
        sides, y, x, lanes, count, jnp.asarray(_far_masks()), jnp.asarray(_far_steps())
    )
    return outcome


def _each_part(count: Any, axis: int, process: Any) -> None:
    """Calls process(places in the list) for this program's parts of it."""
    program, programs = pl.program_id(axis), pl.num_programs(axis)
    parts = (count[0] + FAR_LANES - 1) // FAR_LANES
    turns = (parts - program + programs - 1) // programs

    def turn(number: Array, _: None) -> None:
        part = program + number * programs
        process(part * FAR_LANES + jnp.arange(FAR_LANES, dtype=jnp.int32))

    jax.lax.fori_loop(0, turns, turn, None)


def _far_lines_kernel(
    sides: Any, y: Any, x: Any, lanes: Any, count: Any, masks: Any, steps: Any, lines: Any
) -> None:
    """One row of the far quadrants. A line to the square (row, column) is at step k in the row
    floor(k * row / column + 1/2), so each blocked square takes away a run of columns."""
    target = _LAST_ROW - pl.program_id(0)  # the long ones first

    def process(place: Lanes) -> None:
        here = _Quadrants(sides, y, x, lanes[place])

        def through(side: Array, free: Bitmap) -> Bitmap:
            clear = here.row(side)
            entry = target * HEIGHT + side

            def take_steps(number: Array, free: Bitmap) -> Bitmap:
                first = number * STEPS
                word = jnp.where(first < 32, clear[0], jnp.where(first < 64, clear[1], clear[2]))
                for k in range(STEPS):
                    bit = ((first + k) & 31).astype(jnp.uint32)
                    open_here = np.uint32(0) - ((word >> bit) & np.uint32(1))
                    mask = (entry * WIDTH + first + k) * WORDS
                    free = tuple(f & (open_here | ~masks[mask + w]) for w, f in enumerate(free))
                return free

            return jax.lax.fori_loop(steps[2 * entry], steps[2 * entry + 1], take_steps, free)

        everything = tuple(jnp.full(FAR_LANES, sight_lines.ONES) for _ in range(WORDS))
        free = jax.lax.fori_loop(0, target + 1, through, everything)
        for w in range(WORDS):
            lines[(w * HEIGHT + target) * lanes.shape[0] + place] = free[w]

    _each_part(count, 1, process)


def _far_views(
    views: list[Array],
    sides: Sides,
    y: Lanes,
    x: Lanes,
    near: Array,
    far: Array,
    lanes: Lanes,
    count: Int32[Array, "1"],
    interpret: bool,
) -> Views:
    """`views` with those of the listed quadrants in the place of their near ones."""
    call = pl.pallas_call(
        _far_views_kernel,
        out_shape=[jax.ShapeDtypeStruct(word.shape, word.dtype) for word in views],
        grid=(_far_programs(lanes.size),),
        input_output_aliases={7 + w: w for w in range(WORDS)},
        compiler_params=triton.CompilerParams(num_warps=1, num_stages=1),
        interpret=interpret,
        name="far_views",
    )
    return tuple(call(sides, y, x, lanes, count, near, far, *views))


def _far_views_kernel(
    sides: Any, y: Any, x: Any, lanes: Any, count: Any, near: Any, far: Any, *refs: Any
) -> None:
    views = refs[WORDS:]  # the ones before are the same memory

    def process(place: Lanes) -> None:
        lane = lanes[place]
        here = _Quadrants(sides, y, x, lane)
        valid = place < count[0]
        edge_row = bitmaps.single_column(here.edge, WORDS)

        def write(number: Any, seen: Bitmap) -> None:
            for word, row in zip(views, seen, strict=True):
                triton.store(word.at[number, lane], row, mask=valid)

        def read(number: Any) -> tuple[Bitmap, Bitmap]:
            """Clear squares and free lines of a row."""
            first = number * lanes.shape[0] + place
            free = [far[w * HEIGHT * lanes.shape[0] + first] for w in range(WORDS)]
            free[0] = (free[0] & ~WINDOW) | (near[number, lane] & WINDOW)
            return here.row(number), tuple(free)

        def next_state(number: Array, state: tuple[Bitmap, ...]) -> tuple[Bitmap, ...]:
            carried, previous, clear, free = state
            # Asked for now, so that they are there in the next turn.
            ahead = read(jnp.minimum(number + 1, _LAST_ROW))
            seen, carried = next_row(carried, previous, clear, free, edge_row)
            write(number, seen)
            return carried, clear, *ahead

        seen, carried, clear = _hero_row(here.row(0))
        write(0, seen)
        jax.lax.fori_loop(1, HEIGHT, next_state, (carried, clear, *read(1)))

    _each_part(count, 0, process)
