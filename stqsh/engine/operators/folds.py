"""The two folds that the operators run: the core's Evaluate and Aggregate."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stqsh.core.state.slot_state import SlotState
    from stqsh.engine.state.slot_runner import Fold
    from stqsh.spec.chunk import Chunk


class _Evaluate:
    """Each slot holds part of the objects and the queries, and turns records into updates."""

    name = "evaluate"

    def takes(self, chunk: Chunk) -> bool:
        return True

    def apply(self, state: SlotState, chunks: list[Chunk]) -> list[Chunk]:
        from stqsh.core.evaluate import evaluate

        return list(evaluate(state, chunks))


class _Aggregate:
    """Each slot holds a share of the queries, and merges what the slots of Evaluate offer and counted."""

    name = "aggregate"

    def takes(self, chunk: Chunk) -> bool:
        from stqsh.core.output.partials import is_partial

        return chunk.kind == "define" or is_partial(chunk.kind)

    def apply(self, state: SlotState, chunks: list[Chunk]) -> list[Chunk]:
        from stqsh.core.aggregate import aggregate

        return list(aggregate(state, chunks))


EVALUATE: Fold = _Evaluate()
AGGREGATE: Fold = _Aggregate()
