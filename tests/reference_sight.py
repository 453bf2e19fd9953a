"""Sight as the real game computes it, opening by opening and square by square: slow and obvious.

The fast version in `minihax.sight.sight` has to agree with this one exactly.
"""

import functools

import numpy as np

from minihax.level.terrain import HEIGHT, WIDTH, Terrain

_CLEAR_KINDS = np.isin(
    np.arange(len(Terrain)),
    [
        Terrain.FLOOR,
        Terrain.UP_STAIRS,
        Terrain.DOWN_STAIRS,
        Terrain.CORRIDOR,
        Terrain.DOORWAY,
        Terrain.BROKEN_DOOR,
        Terrain.OPEN_DOOR,
    ],
)
_WALL_OR_DOOR = np.isin(np.arange(len(Terrain)), np.r_[1:7, 12:19])


def clear_squares(terrain, boulders):
    return _CLEAR_KINDS[terrain] & ~boulders


def line_is_clear(clear, y0, x0, y1, x1):
    """All squares strictly between hero and target on the Bresenham line are clear."""
    dy, dx = abs(y1 - y0), abs(x1 - x0)
    sy = 1 if y1 > y0 else -1
    sx = 1 if x1 > x0 else -1
    long, short = max(dy, dx), min(dy, dx)
    error = 2 * short - long
    y, x = y0, x0
    for _ in range(long - 1):
        if dx >= dy:
            x += sx
        else:
            y += sy
        if error >= 0:
            if dx >= dy:
                y += sy
            else:
                x += sx
            error -= 2 * long
        error += 2 * short
        if not clear[y, x]:
            return False
    return True


def could_see(clear, y0, x0):
    """bool[21, 80]: squares with a free view to the hero, lit or not.

    As the real game does it: down and up, right and left, row by row. Each opening of a row is a
    view of its own, a pair (first column, last column) as distances from the hero's column; it
    decides alone what comes of it in the next row. The map's border is solid, as in every level.
    """
    clear = clear.copy()
    clear[y0, x0] = True
    seen = np.zeros((HEIGHT, WIDTH), np.bool_)
    for sx in (-1, 1):
        far = 0
        while clear[y0, x0 + far * sx]:
            far += 1
        seen[y0, [x0 + k * sx for k in range(far + 1)]] = True
        for sy in (-1, 1):
            views, y = {(0, far)}, y0 + sy
            while views and 0 <= y < HEIGHT:
                row, before = clear[y, x0::sx], clear[y - sy, x0::sx]

                @functools.cache
                def free(k, y=y, sx=sx):
                    return line_is_clear(clear, y0, x0, y, x0 + k * sx)

                last = len(row) - 1 if sx > 0 else None
                outcomes = [_one_view(row, before, free, last, *view) for view in views]
                for shown, _ in outcomes:
                    seen[y, [x0 + k * sx for k in shown]] = True
                views = {view for _, views in outcomes for view in views}
                y += sy
    return seen


def _one_view(clear, before, free, last, first, mark):
    """What the view `first`..`mark` of the row before shows of a row: its columns, its views.

    `free(k)`: has column k a free line? `last`: the map's last column, None when looking left.
    """
    shown, views = set(), set()
    while first <= mark:
        end = first
        if not clear[first]:
            # A wall is seen as far as the view goes, and one more where that was clear.
            while end < mark and not clear[end + 1]:
                end += 1
            if end == mark and before[mark] and not clear[mark + 1]:
                end += 1
            shown |= set(range(first, end + 1))
            first = end + 1
            continue
        while clear[end]:
            end += 1
        # Along a clear run, to the first square with a free line. Straight ahead none is needed.
        while first > 0 and first <= end and not free(first):
            first += 1
        if first == last:
            break  # the wall at x = 78 is forgotten, because the search has left the map
        if first >= end:
            first = end  # nothing of the run is seen, but the wall behind it is, if in view
            continue
        # From there to the wall behind the run or, if the view does not reach it, as far as lines
        # are free.
        right = end
        if mark < end:
            right = mark
            while right <= end and free(right):
                right += 1
            right -= 1
        if first == right == 0 and not clear[1]:
            right = 1  # walls beside the hero's column need no line
        if right < first:
            break
        shown |= set(range(first, right + 1))
        views.add((first, right))
        first = right + 1
    return shown, views


def in_sight(terrain, lit, boulders, y0, x0):
    """bool[21, 80]: could-see, and adjacent or lit (with the rule for walls and doors)."""
    clear = clear_squares(terrain, boulders)
    seen = could_see(clear, y0, x0)
    result = np.zeros((HEIGHT, WIDTH), np.bool_)
    for y, x in zip(*np.nonzero(seen), strict=True):
        if max(abs(y - y0), abs(x - x0)) <= 1:
            result[y, x] = True
        elif lit[y, x]:
            toward = y + np.sign(y0 - y), x + np.sign(x0 - x)
            shaded = not clear[y, x] and _WALL_OR_DOOR[terrain[y, x]] and not lit[toward]
            result[y, x] = not shaded
    return result
