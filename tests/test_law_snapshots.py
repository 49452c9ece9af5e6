"""Snapshots in memory: they equal the oracle's, and the fold of the same SELECT registered."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from support import memory, oracle
from support.budget import share
from support.cases import Case, Spec, by_step
from support.running import alike
from support.specs import stream_spec
from support.strategies import EVERY, cases, cut, cuts, looks, slots
from support.strategies.top_n import top_n_cases
from support.typed import snapshot_spec

from stqsh.client.read.slot_answers import placed
from stqsh.core.snapshots.select import nothing, part, whole

Rows = list[dict[str, Any]]


@share(5)
@given(data=st.data(), size=cuts, count=slots)
def test_snapshots_are_the_oracles_on_both_ways(data: st.DataObject, size: int | None, count: int) -> None:
    case: Case = data.draw(cases(EVERY).filter(lambda case: case.records))
    asked = [select for _, select in data.draw(looks(case, EVERY))]

    def look(engine: memory.MemoryEngine, step: int) -> None:
        state = oracle.after(case, step)
        for select, shares in zip(asked, engine.ask(asked), strict=True):
            expected = oracle.snapshot(state, select, step)
            assert alike(direct(engine, case, select), expected)
            assert alike(merged(shares, case, engine.renamed(select)), expected)

    memory.run(case, count, cut(case, size), look=look)


@share(5)
@given(cases(EVERY) | top_n_cases(cases(EVERY)), cuts, slots)
def test_a_snapshot_is_the_fold_of_the_same_select_registered(
    case: Case, size: int | None, count: int
) -> None:
    seen: dict[int, dict[int, set[Any]]] = {}

    def look(engine: memory.MemoryEngine, step: int) -> None:
        asked = {query["id"]: snapshot_of(query, case.spec["key"]) for query in case.queries}
        seen[step] = {id_: {row["key"] for row in direct(engine, case, q)} for id_, q in asked.items()}

    updates = memory.run(case, count, cut(case, size), look=look).updates
    state = oracle.Oracle.of(case)
    records, commands = by_step(case.records), by_step(case.commands)
    for step in sorted({*oracle.moments(case), *seen}):
        state.step(step, commands.get(step, []), records.get(step, []))
        held = oracle.fold([update for update in updates if update.step <= step])
        for id_, query in state.queries.items() if step in seen else ():
            if not query.paused and not query.spec["options"]:
                assert held.get(id_, set()) == seen[step][id_]


def snapshot_of(query: Spec, key: str) -> Spec:
    """The same SELECT, asked once, with nothing but the key."""
    plain = {"lookup": None, "order": [], "limit": None, "aggregate": None}
    return query | plain | query.get("first", {}) | {"select": [["key", ["col", key]]]}


def direct(engine: memory.MemoryEngine, case: Case, asked: Spec) -> Rows:
    """The answer from the slots' states."""
    select = engine.renamed(asked)
    states, spec = engine.states(), snapshot_spec(select)
    spec, place = placed(states, spec)
    shares = [part(state, spec, place) for state in states]
    return merged([share for share in shares if share is not None], case, select)


def merged(shares: list[pa.RecordBatch], case: Case, select: Spec) -> Rows:
    """The rows of an answer whose slots' shares are given."""
    spec = snapshot_spec(select)
    table = whole(shares or [nothing(stream_spec(case.spec), spec)], spec)
    return [row for batch in table.to_batches() for row in memory.decode(batch)]
