"""The queries of a significant stream, of all kinds, with their extended regions."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from stqsh.core.matching.queries import QueryTable

Array = npt.NDArray[Any]

CIRCLING = 3
"""The mode of active kNN queries: their circles are others after each step, so no index has them."""


class InterestTable(QueryTable):
    """A `QueryTable` beneath `s{id}/interest` of the stream's range and kNN queries, in the order of ids.

    Column "c" of a moving region is the distance D by which it is extended, "d" of a moving circle its own
    radius, "radius" that and D. "least" is the least accuracy (min_accuracy). Beside, int64 (queries,): held,
    the kept objects in the extended region, and shed, the dropped ones; 0 unless active.
    """
