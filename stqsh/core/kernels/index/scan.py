"""Scans over all objects of a slot, for snapshots: those in a box, and the nearest to a place.

A million objects are a few tens of MB of contiguous memory: reading them takes a few milliseconds, less than
maintaining an index for occasional queries. Distances are expensive, so the search for the nearest computes
them only within a box that shrinks as results are found (SSTD section 6.2: the radius of the k-th result so
far bounds the rest).
"""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.events.transitions import StoredArrays
from stqsh.core.kernels.geometry.circles import circle_box
from stqsh.core.kernels.geometry.distance import distance
from stqsh.core.kernels.geometry.shapes import Box, IndexRange, Point
from stqsh.core.kernels.index.static_rects import within
from stqsh.core.kernels.jit import Float, Int, kernel

_ROOM = 1024
"""The minimum room for candidates of the nearest search."""

_BLOCK = 4096
"""The number of objects that are tested together in a loop without branches; few of them remain."""

_WORD = 8
"""The number of objects whose marks are read together when the objects are listed."""

_ALL_MARKED = np.uint64(0x0101010101010101)

EVER = np.iinfo(np.int64).min
"""The `since` of records that never expire: no record is older, so times are not read."""


@kernel
def _scan(stored: StoredArrays, since: int, box: Box, span: IndexRange, found: Array) -> Int:
    """Write the objects of a span that are in a box into `found`, and return their number.

    A vectorised loop first marks the objects of a block. Then the marks are read word by word: with a small
    box most words are zero, and without a box all words are full. `found` has room for one word more than the
    span.
    """
    x1, y1, x2, y2 = box
    xs, ys, ts, known, always = stored.x, stored.y, stored.ts, stored.known, since == EVER
    marks = np.zeros(_BLOCK, np.uint8)
    words, k = marks.view(np.uint64), np.uint64(0)
    for start in range(span.begin, span.end, _BLOCK):
        begin, size = np.uint64(start), np.uint64(min(_BLOCK, span.end - start))
        for i in range(size):
            o = begin + i
            marks[i] = within(xs[o], ys[o], x1, y1, x2, y2) & known[o] & (always or ts[o] >= since)
        marks[size:] = 0
        for word in range(np.uint64((size + _WORD - 1) // _WORD)):
            if words[word] == 0:
                continue
            first = word * np.uint64(_WORD)
            if words[word] == _ALL_MARKED:
                for i in range(np.uint64(_WORD)):
                    found[k + i] = begin + first + i
                k += np.uint64(_WORD)
            else:
                for i in range(np.uint64(_WORD)):
                    found[k] = begin + first + i
                    k += np.uint64(marks[first + i])
    return np.int64(k)


@kernel
def in_box(stored: StoredArrays, since: int, box: Array) -> Array:
    """Return the objects in a closed box whose record is not older than `since` (µs); int32, ascending.

    `box` is x1, y1, x2, y2, float64 (4,). An object without a location is in no box.
    """
    found = np.empty(len(stored.known) + _WORD, np.int32)
    corners, everything = (
        Box(box[0], box[1], box[2], box[3]),
        IndexRange(np.int64(0), np.int64(len(stored.known))),
    )
    used = _scan(stored, since, corners, everything, found)
    return found[:used].copy() if 4 * used < len(found) else found[:used]


@kernel
def count_in_box(stored: StoredArrays, since: int, box: Array) -> Int:
    """Count the objects that `in_box` returns."""
    x1, y1, x2, y2 = box[0], box[1], box[2], box[3]
    xs, ys, ts, known, always = stored.x, stored.y, stored.ts, stored.known, since == EVER
    count = np.int64(0)
    for o in range(np.uint64(len(known))):
        inside = within(xs[o], ys[o], x1, y1, x2, y2)
        count += np.int64(inside & known[o] & (always or ts[o] >= since))
    return count


@kernel
def nearest(stored: StoredArrays, since: int, place: Point, k: int, planar: bool) -> Array:
    """Return the k present objects nearest to a place, and all other objects at the distance of the k-th.

    `since` is as in `in_box`. The result is int32 (n,), unordered; n >= k unless there are fewer than k
    objects.
    """
    room = max(4 * k, _ROOM)
    found, far = np.empty(room, np.int32), np.empty(room, np.float64)
    used, bound = 0, np.inf
    box = Box(-np.inf, -np.inf, np.inf, np.inf)
    few = np.empty(_BLOCK + _WORD, np.int32)
    for start in range(0, len(stored.known), _BLOCK):
        span = IndexRange(np.int64(start), np.int64(min(start + _BLOCK, len(stored.known))))
        for o in few[: _scan(stored, since, box, span, few)]:
            d = distance(place.x, place.y, stored.x[o], stored.y[o], planar)
            if used == len(found):
                bound = np.partition(far, k - 1)[k - 1]
                used = _keep(found, far, used, bound)
                box = circle_box(place.x, place.y, bound, planar)
                if 2 * used > len(found):
                    found, far = np.append(found, found), np.append(far, far)
            if d <= bound:
                found[used], far[used] = o, d
                used += 1
    if used > k:
        used = _keep(found, far, used, np.partition(far[:used], k - 1)[k - 1])
    return found[:used].copy()


@kernel
def _keep(found: Array, far: Array, used: Int, bound: Float) -> Int:
    """Keep those of the first `used` objects that are not farther than the bound; return their number."""
    k = 0
    for i in range(used):
        if far[i] <= bound:
            found[k], far[k] = found[i], far[i]
            k += 1
    return k
