"""Who is in the extended regions of a stream's active queries: the reference counts (SOLE section 5)."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from stqsh.core.kinds.protocol import StreamBatch
from stqsh.core.matching.answers import Members
from stqsh.core.significance.settings import Memory
from stqsh.core.significance.table import InterestTable

Array = npt.NDArray[Any]


class Interest:
    """One piece of a batch of a significant stream: extended regions follow, and counts with them.

    Arrays beneath `s{id}/interest/`: those of `InterestTable`, of a grid and of cells; `s{id}/objects/refs`
    int32, for each object the number of active queries in whose extended regions it is, its own as a focal
    object left out; 0 for objects that are not present.
    """

    queries: InterestTable
    """All queries of the stream, kNN queries too; positions are meant by "query" here."""

    def __init__(self, batch: StreamBatch, memory: Memory) -> None:
        raise NotImplementedError

    def follow(self) -> None:
        """Take the piece's commands and events in: `refs` and `held` are those after its last step."""
        raise NotImplementedError

    def refs(self) -> Array:
        """The reference counts, int32 (objects,); a view to be changed."""
        raise NotImplementedError

    def pairs_of(self, objects: Array) -> Members:
        """The active queries that are interested in each of these objects after the last step; kNN too.

        objects: int32, ascending, present ones. Ascending by object, then query.
        """
        raise NotImplementedError
