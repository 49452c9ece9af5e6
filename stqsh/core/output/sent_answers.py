"""The members of answers that queries have sent, as pairs of query id and object."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from stqsh.arrays import Array
from stqsh.core.state.table import ArraySpec, StateTable


class SentAnswers(StateTable):
    """Members of answers, one row each; built-in kinds use it for paused queries."""

    sent_query = ArraySpec(np.int64)
    sent_obj = ArraySpec(np.int32, "objects")

    def add(self, queries: Array, objects: Array) -> None:
        """Add members of queries: ids int64 (n,), objects int32 (n,)."""
        self.append(sent_query=queries, sent_obj=objects)

    def pop_queries(self, queries: Iterable[int]) -> tuple[Array, Array]:
        """Remove these queries' members and return them: ids and objects, (n,) each."""
        ids, objects = self.pop(np.isin(self.sent_query, list(queries)))
        return ids, objects
