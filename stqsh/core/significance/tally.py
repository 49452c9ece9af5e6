"""How a stream's memory stands: by query, and in all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stqsh.core.slot.state import SlotState

Array = npt.NDArray[Any]
Spec = dict[str, Any]


@dataclass(frozen=True)
class Tallies:
    """The active queries of a significant stream on a slot, ascending by id, (n,) each.

    id int64. inside: kept objects in the query's region, cached: in its extended region but not in the region
    itself, shed: dropped objects in the extended region; int64. area: of the region, cache_area: of what the
    extended region has beyond it; m2 or square units, float64, infinite for a query without a region and NaN
    while a focal object is not present. min_accuracy, accuracy: 0 .. 1, float64. locked: bool.
    """

    id: Array
    inside: Array
    cached: Array
    shed: Array
    area: Array
    cache_area: Array
    min_accuracy: Array
    accuracy: Array
    locked: Array


def tallies(state: SlotState, spec: Spec) -> Tallies:
    """The tallies of a stream after the last batch; of arrays alone, also of published ones.

    Arrays read: those beneath `s{id}/interest/` that `stqsh.core.significance.table` lists.
    """
    raise NotImplementedError


def figures(state: SlotState, spec: Spec) -> Spec:
    """The stream's entry in Evaluate's stats "memory", and the histogram S kept as an array.

    objects: kept; focal: of them focal objects of active queries; shadow: objects in the shadow table; k;
    histogram: [S[1], ..., S[63], S[64] and more], kept objects that are not locked by their reference counts
    (SOLE section 6.4), int; locked: queries that are; approximate: queries with an accuracy below 1; least:
    the least accuracy; bytes: of the stream's arrays in use.
    """
    raise NotImplementedError


def histogram(refs: Array, free: Array) -> Array:
    """S: how many objects with so many references there are. int64 (64,): S[1] .. S[63], then the rest.

    refs: int32 (n,); free: bool (n,), which objects count: those that are kept and not locked.
    """
    counts = np.bincount(np.minimum(refs[free], 64), minlength=65)
    return counts[1:65].astype(np.int64)
