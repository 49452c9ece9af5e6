"""The nearest of objects with an extent, whose distances cost more than bounds of them do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stqsh.arrays import Array

_LEAST, _GROWTH = 16, 4
"""The fewest objects that are measured at first, and the factor by which further ones are added."""


def within_kth(
    bounds: Array, k: int, holds: Callable[[Array], Array], measure: Callable[[Array], Array]
) -> tuple[Array, Array]:
    """Return the k nearest objects that satisfy a condition, and all others at the distance of the k-th.

    Idea: look at the objects with the lowest bounds, and at more of them until the k-th distance is below the
    bounds of all others; so none of these can be nearer, or as near. Cost: a selection among the bounds, and
    distances of about 4 k objects if bounds are good.

    Args:
        bounds: A number that the distance of each object is not below, float64 (n,).
        k: The number of objects.
        holds: Returns which of some objects, int64 (m,), satisfy the condition, bool (m,).
        measure: Returns the distances of some objects, float64 (m,).

    Returns:
        The objects, int64 (m,), and their distances, float64 (m,).
    """
    count, some = len(bounds), max(_LEAST, 4 * k)
    while True:
        if some < count:
            order = np.argpartition(bounds, some)
            near, least = order[:some], bounds[order[some]]
        else:
            near, least = np.arange(count), np.inf
        near = near[holds(near)]
        far = measure(near)
        kth = np.partition(far, k - 1)[k - 1] if len(far) >= k else np.inf
        if kth < least or some >= count:
            kept = far <= kth
            return near[kept], far[kept]
        some *= _GROWTH
