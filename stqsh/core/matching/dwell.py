"""Dwelling: a row is told to be in an answer, or out of it, only once it has stayed so for a while.

A stage between what changes in answers and what is told of it, for queries `WITH (dwell => …)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from stqsh.core.kernels.events.dwell_changes import DwellChanges, find_lasting
from stqsh.core.matching.query_context import AnswerMembers, QueryContext
from stqsh.core.output.batch_output import QueryUpdates
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import ArraySpec, Specs, StateTable

Array = npt.NDArray[Any]


class DwellTable(StateTable):
    """Changes of answers that wait until they have lasted: `DwellChanges`, with the ids of queries."""

    specs: ClassVar[Specs] = {
        "query": ArraySpec(np.int64),
        "obj": ArraySpec(np.int32, "objects"),
        "step": ArraySpec(np.int64),
        "op": ArraySpec(np.int8),
    }

    def __init__(self, state: SlotState, prefix: str) -> None:
        super().__init__(state, f"{prefix}/dwell")

    def pop_queries(self, ids: Iterable[int]) -> dict[str, Array]:
        """Remove the waiting changes of these queries and return them, by the names of the columns."""
        return self.pop(np.isin(self["query"], np.array([*ids], np.int64)))

    def sent_members(
        self, context: QueryContext, members: AnswerMembers, positions: Array, step: int
    ) -> AnswerMembers:
        """The members of queries' answers after a step that have been told; what waits of them is forgotten.

        members: those that the queries at `positions` have.
        """
        waits = self.pop_queries(context.queries["id"][positions])
        if not len(waits["query"]):
            return members
        objects = context.batch.objects
        query = np.searchsorted(context.queries["id"], waits["query"]).astype(np.int32)
        came, obj = waits["op"] > 0, waits["obj"]
        count = len(objects.table)
        have = members.query.astype(np.int64) * count + members.obj
        known = ~np.isin(have, (query.astype(np.int64) * count + obj)[came])
        gone = obj[~came]
        versions = objects.keyed(objects.versions_after(gone, np.full(len(gone), step)), gone)
        more = (query[~came], gone, versions)
        kept = (column[known] for column in members)
        return AnswerMembers(*(np.concatenate(pair) for pair in zip(kept, more, strict=True)))

    def lasting(self, context: QueryContext, changes: list[QueryUpdates]) -> QueryUpdates:
        """What is to be told in a batch; what has not lasted yet goes on waiting.

        changes: of the answers of queries that dwell, as they would be told without; queries are positions.
        """
        queries, timing = context.queries, context.batch.timing
        columns = [self._toggles(context, told) for told in changes]
        position = np.searchsorted(queries["id"], self["query"])
        columns.append((position, self["obj"], self["step"], self["op"]))
        query, obj, step, op = (np.concatenate(column) for column in zip(*columns, strict=True))
        order = np.lexsort((step, obj, query))
        toggles = DwellChanges(*(column[order] for column in (query.astype(np.int32), obj, step, op)))
        lasted, due, left = find_lasting(toggles, queries["dwell"], queries["until"], timing)
        self.store(
            {
                "query": queries["id"][toggles.query[left]],
                "obj": toggles.obj[left],
                "step": toggles.step[left],
                "op": toggles.op[left],
            }
        )
        return _as_of(
            context, DwellChanges(toggles.query[lasted], toggles.obj[lasted], due, toggles.op[lasted])
        )

    def _toggles(self, context: QueryContext, told: QueryUpdates) -> tuple[Array, Array, Array, Array]:
        """Query, object, step and op of changes."""
        objects = context.batch.objects
        lone = told.show >= objects.versions
        known = objects.objects_of(np.where(lone, 0, told.show))
        obj = np.where(lone, told.show - objects.versions, known).astype(np.int32)
        return told.query, obj, told.step, told.op.astype(np.int8)


def _as_of(context: QueryContext, toggles: DwellChanges) -> QueryUpdates:
    """Changes as they are told at the steps given: rows and reasons are those of the object's state then."""
    objects = context.batch.objects
    versions = objects.versions_after(toggles.obj, toggles.step)
    why, show = objects.reasons(versions, toggles.obj, toggles.step)
    came = toggles.op > 0
    why, show = np.where(came, 0, why), np.where(came, versions, show)
    return QueryUpdates(toggles.step, toggles.query, toggles.op, why, show)
