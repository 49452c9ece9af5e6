"""What a query kind is to the evaluation of a slot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from stqsh.core.base.clock import BatchTiming
from stqsh.core.objects.batch_objects import BatchObjects
from stqsh.core.output.batch_output import BatchOutput
from stqsh.core.output.merge import MergedUpdates, MergeInput
from stqsh.core.queries.query_table import QueryCommands
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.stream import StreamSpec


@dataclass(frozen=True)
class StreamBatch:
    """One stream's batch on one slot, as a kind sees it.

    objects: this slot's objects; focal: the focal objects of all slots. Their tables still hold the state
    before the batch. commands: those that concern the kind.
    """

    state: SlotState
    spec: StreamSpec
    timing: BatchTiming
    objects: BatchObjects
    focal: BatchObjects
    commands: QueryCommands


class QueryKind(Protocol):
    """A query kind: how it registers, how it reacts to a batch, and what it has to tell."""

    def step(self, batch: StreamBatch, report: BatchOutput) -> None:
        """Take a batch's commands and events in, and report all updates that they bring.

        What the kind keeps is in arrays beneath `s{stream id}/{kind}/` of the slot's state.
        """

    def count(self, state: SlotState, stream: int) -> int:
        """How many queries of this kind a stream has."""


@runtime_checkable
class MergingKind(QueryKind, Protocol):
    """A kind whose answers need what all slots have: each offers its part, and Aggregate merges the parts."""

    def merge(self, batch: MergeInput) -> MergedUpdates:
        """Take in what the slots offer in a batch, and give the updates of the whole answers.

        Runs on the slot of Aggregate that has the queries. What the kind keeps there is in arrays beneath
        `s{stream id}/{kind}/` of that slot's state. For answers that are the first k by some rank, this is
        `stqsh.core.output.merge.first_k`.
        """
