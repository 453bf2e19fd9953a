"""Maps as bits: three 32-bit words hold a row of 80 squares, bit x of the row is column x.

One instruction then works on a whole row of many maps: a `Bitmap` is a tuple with one array
[rows, lanes] for each word (first columns first), and the lanes are the maps of the batch.
Where possible, arrays are sliced and padded rather than stacked and concatenated: inside a fused
loop XLA turns a concatenation into a branch per element.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Integer, UInt8, UInt32

from minihax.level.terrain import HEIGHT, WIDTH
from minihax.transforms import materialise

WORDS = 3
Words = UInt32[Array, "..."]
Bitmap = tuple[Words, ...]

_ALL = np.uint32(0xFFFFFFFF)
_ONE_PER_BYTE = np.uint32(0x01010101)
_GATHER_FOUR = np.uint32(0x01020408)  # times four 0/1 bytes: their bits meet from bit 24 on
_MORE_ROWS = 31


# ---- between maps and bitmaps -----------------------------------------------------------------


def pack(
    opaque_true: Bool[Array, ""], flags: UInt8[Array, "batch 21 80"], count: int
) -> tuple[Bitmap, ...]:
    """Bitmaps of the lowest `count` bits of maps of flags (`opaque_true`: see `materialise`)."""
    fours = materialise(opaque_true, _four_squares_a_word, flags)
    return materialise(
        opaque_true, lambda words: tuple(_pack_bit(words, bit) for bit in range(count)), fours
    )


def _four_squares_a_word(flags: UInt8[Array, "batch 21 80"]) -> UInt32[Array, "20 21 batch"]:
    fours = flags.reshape(*flags.shape[:2], WIDTH // 4, 4)
    return jax.lax.bitcast_convert_type(fours, jnp.uint32).transpose(2, 1, 0)


def _pack_bit(fours: UInt32[Array, "20 21 batch"], bit: int) -> Bitmap:
    words = []
    for first in range(0, WIDTH // 4, 8):
        word = jnp.zeros_like(fours[0])
        for k in range(first, min(first + 8, WIDTH // 4)):
            ones = (fours[k] >> bit) & _ONE_PER_BYTE
            nibble = ((ones * _GATHER_FOUR) >> 24) & np.uint32(15)
            word = word | (nibble << (4 * (k - first)))
        words.append(word)
    return tuple(words)


def unpack(opaque_true: Bool[Array, ""], bitmap: Bitmap) -> Bool[Array, "batch 21 80"]:
    """Maps of the set squares."""
    words = materialise(opaque_true, lambda b: jnp.stack(b).transpose(2, 1, 0), bitmap)
    bits = (words[..., None] >> np.arange(32, dtype=np.uint32)) & np.uint32(1)
    return bits.reshape(*bits.shape[:2], WORDS * 32)[..., :WIDTH].astype(bool)


def each(function: Callable[..., Words], *bitmaps: Bitmap) -> Bitmap:
    """Applies an operation on words to all words."""
    return tuple(function(*words) for words in zip(*bitmaps, strict=True))


# ---- columns ----------------------------------------------------------------------------------


def outward(bitmap: Bitmap) -> Bitmap:
    """Every square moved by one column, away from column 0."""
    moved = [word << 1 for word in bitmap]
    return tuple(m | (bitmap[k - 1] >> 31) if k else m for k, m in enumerate(moved))


def inward(bitmap: Bitmap) -> Bitmap:
    """Every square moved by one column, toward column 0."""
    moved = [word >> 1 for word in bitmap]
    last = len(bitmap) - 1
    return tuple(m | (bitmap[k + 1] << 31) if k < last else m for k, m in enumerate(moved))


def mirror(bitmap: Bitmap) -> Bitmap:
    """The map seen in a mirror: column x becomes column 79 - x."""
    words = [_reverse(word) for word in bitmap[::-1]]  # 96 columns: 16 too many in front
    joined = [(words[k] >> 16) | (words[k + 1] << 16) for k in range(WORDS - 1)]
    return (*joined, words[-1] >> 16)


def _reverse(word: Words) -> Words:
    for shift, low in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF)):
        word = ((word >> shift) & np.uint32(low)) | ((word & np.uint32(low)) << shift)
    return (word >> 16) | (word << 16)


def drop_columns(bitmap: Bitmap, count: Integer[Array, " lanes"], words: int = WORDS) -> Bitmap:
    """Removes the first `count` columns; only the first `words` words of what is left are kept."""
    shift = (count & 31).astype(jnp.uint32)
    whole = count >> 5
    padded = [*bitmap, *[jnp.zeros_like(bitmap[0])] * WORDS]
    moved = [
        jnp.where(whole == 0, padded[k], jnp.where(whole == 1, padded[k + 1], padded[k + 2]))
        for k in range(words + 1)
    ]
    # Shifting by 32 is undefined, hence the two steps.
    return tuple((moved[k] >> shift) | ((moved[k + 1] << 1) << (31 - shift)) for k in range(words))


def insert_columns(bitmap: Bitmap, count: Integer[Array, " lanes"]) -> Bitmap:
    """Puts `count` empty columns in front; what leaves the map at the far side is lost."""
    shift = (count & 31).astype(jnp.uint32)
    whole = count >> 5
    zero = jnp.zeros_like(bitmap[0])
    words = [zero, *bitmap, *[zero] * (WORDS - len(bitmap))]
    moved = [
        (words[k] << shift) | ((words[k - 1] >> 1) >> (31 - shift)) for k in range(1, WORDS + 1)
    ]
    padded = [zero, zero, *moved]
    placed = [
        jnp.where(whole == 0, padded[k + 2], jnp.where(whole == 1, padded[k + 1], padded[k]))
        for k in range(WORDS)
    ]
    return (*placed[:-1], placed[-1] & np.uint32(0xFFFF))


def below_column(x: Integer[Array, " lanes"]) -> tuple[UInt32[Array, " lanes"], ...]:
    """A row whose columns 0..x-1 are set."""
    counts = [jnp.clip(x - 32 * k, 0, 32) for k in range(WORDS)]
    return tuple(
        jnp.where(count == 32, _ALL, ~(_ALL << jnp.minimum(count, 31).astype(jnp.uint32)))
        for count in counts
    )


def single_column(x: Integer[Array, " lanes"], words: int) -> tuple[UInt32[Array, " lanes"], ...]:
    """A row with only column x set; empty where x does not lie in the first `words` words."""
    bit = np.uint32(1) << (x & 31).astype(jnp.uint32)
    return tuple(jnp.where((x >> 5) == k, bit, np.uint32(0)) for k in range(words))


def flood(through: Bitmap, start: Bitmap) -> Bitmap:
    """The squares of `through` that a run of `through` connects, going outward, with one of
    `start` (itself included; `start` must lie in `through`).

    Adding a start bit to its run makes a carry walk along the run: the bits it passes flip.
    """
    result = []
    carry = None
    for free, begin in zip(through, start, strict=True):
        total = free + begin
        over = total < free
        if carry is not None:
            total = total + carry
            over = over | (total < carry)
        carry = over.astype(jnp.uint32)
        result.append(((total ^ free) & free) | begin)
    return tuple(result)


# ---- rows -------------------------------------------------------------------------------------


def rows_after(bitmap: Bitmap) -> Bitmap:
    """The map with empty rows below it, as `drop_rows` wants it."""
    return each(lambda word: jnp.pad(word, ((0, _MORE_ROWS), (0, 0))), bitmap)


def rows_before(bitmap: Bitmap) -> Bitmap:
    """The map with empty rows above it, as `insert_rows` wants it."""
    return each(lambda word: jnp.pad(word, ((_MORE_ROWS, 0), (0, 0))), bitmap)


def drop_rows(
    opaque_true: Bool[Array, ""], extended: Bitmap, count: Integer[Array, " lanes"]
) -> Bitmap:
    """Removes the first `count` rows (0..31), different in every lane, of `rows_after(map)`."""

    def drop(powers: tuple[int, ...], words: Bitmap, count: Integer[Array, " lanes"]) -> Bitmap:
        for power in powers:
            there = (count & power) != 0
            words = each(lambda w, p=power, t=there: jnp.where(t, w[p:], w[:-p]), words)
        return words

    # Merged into one, five steps would cost 2 ** 5 rows for each row.
    halfway = materialise(opaque_true, functools.partial(drop, (16, 8)), extended, count)
    return materialise(opaque_true, functools.partial(drop, (4, 2, 1)), halfway, count)


def insert_rows(
    opaque_true: Bool[Array, ""], extended: Bitmap, count: Integer[Array, " lanes"]
) -> Bitmap:
    """A map with `count` empty rows put in front, given `rows_before(map)`."""
    return drop_rows(opaque_true, extended, _MORE_ROWS - count)


def transpose(words: UInt32[Array, "32 lanes"]) -> UInt32[Array, "32 lanes"]:
    """Turns 32 x 32 bits: bit r of result c is bit c of word r."""
    low = 0x0000FFFF
    block = 16
    while block:
        halves = words.reshape(32 // (2 * block), 2, block, -1)
        upper, lower = halves[:, 0], halves[:, 1]
        swap = ((upper >> block) ^ lower) & np.uint32(low)
        words = jnp.stack([upper ^ (swap << block), lower ^ swap], axis=1).reshape(words.shape)
        block //= 2
        low ^= (low << block) & 0xFFFFFFFF
    return words


assert HEIGHT <= 32
assert WORDS * 32 - WIDTH == 16
