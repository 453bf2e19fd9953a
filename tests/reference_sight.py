"""Sight as the fact sheet (section 3.2) words it, square by square: slow and obvious.

The fast version in `minihax.sight.sight` has to agree with this one exactly.
"""

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
_EDGE = WIDTH - 2  # the wall column where the real game forgets a square: see `_quadrant_row`


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


def _quadrant_row(clear, seen, carried, y0, x0, y, sy, sx):
    """One row of one quadrant. Adds to `seen`; returns the set carried to the next row."""
    next_carried = np.zeros(WIDTH, np.bool_)
    forgotten = _forgotten_edge(clear, carried, y0, x0, y, sx)
    inner_seen_clear = False  # the inner neighbour is a seen clear square
    inner_ends_run = False  # the inner neighbour is the blocking end of a seen clear run
    x = x0
    while 0 <= x < WIDTH:
        inner = x - sx
        has_inner = x != x0
        if clear[y, x]:
            sees = (carried[x] or inner_seen_clear) and line_is_clear(clear, y0, x0, y, x)
            ends_run = False
        else:
            ends_run = inner_seen_clear and (
                carried[x] or inner == x0 or line_is_clear(clear, y0, x0, y, x)
            )
            around_corner = (
                has_inner
                and carried[inner]
                and not clear[y, inner]
                and not inner_ends_run
                and clear[y - sy, inner]
            )
            sees = carried[x] or ends_run or around_corner
            if x == _EDGE and forgotten:
                sees = False
        seen[y, x] |= sees
        inner_seen_clear = sees and clear[y, x]
        inner_ends_run = ends_run
        next_carried[x] = inner_seen_clear or ends_run
        x += sx
    return next_carried


def _forgotten_edge(clear, carried, y0, x0, y, sx):
    """Whether the real game forgets the wall at x = 78 (a boundary test one column too early).

    It does when the clear run before that wall has carried squares, but from the first of them on
    neither the squares of the run nor the wall itself pass the line test.
    """
    if sx < 0 or clear[y, _EDGE]:
        return False
    first_carried = -1
    x = _EDGE - 1
    while x >= x0 and clear[y, x]:
        if carried[x]:
            first_carried = x
        x -= 1
    if first_carried < 0:
        return False
    tested = range(first_carried, _EDGE + 1)
    return not any(line_is_clear(clear, y0, x0, y, x) for x in tested)


def could_see(clear, y0, x0):
    """bool[21, 80]: squares with a free view to the hero, lit or not."""
    clear = clear.copy()
    clear[y0, x0] = True
    seen = np.zeros((HEIGHT, WIDTH), np.bool_)
    seen[y0, x0] = True
    for sx in (-1, 1):
        x = x0
        while 0 <= x + sx < WIDTH and clear[y0, x]:
            x += sx
            seen[y0, x] = True
    for sy in (-1, 1):
        for sx in (-1, 1):
            carried = seen[y0].copy()
            for x in range(WIDTH):
                if (x - x0) * sx < 0:
                    carried[x] = False
            y = y0 + sy
            while 0 <= y < HEIGHT:
                carried = _quadrant_row(clear, seen, carried, y0, x0, y, sy, sx)
                y += sy
    return seen


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
