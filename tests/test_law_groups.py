"""The first law of aggregates that follow every step: their updates are the oracle's, to the byte."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import memory
from support.budget import share
from support.cases import Case
from support.memory import Batches, MemoryEngine, memory_engine
from support.oracle.groups import GroupUpdate, group_order, run_groups
from support.strategies import BATCHES, cases, cut, cuts
from support.strategies.groups import group_cases

from stqsh.core.aggregates.keys import decode_keys
from stqsh.spec.chunk import WHY
from stqsh.storage.update_log.reader import UpdateLog

FEATURES = {
    "rectangles": frozenset(),
    "circles": frozenset({"circles", "nearest"}),
    "polygons": frozenset({"polygons", "inside", "events"}),
    "texts": frozenset({"events", "text"}),
    "joins": frozenset({"joins", "expressions", "text"}),
    "neighbours": frozenset({"nearest", "events", "text"}),
    "neighbours in regions": frozenset({"nearest", "inside", "polygons", "joins", "expressions"}),
    "zones": frozenset({"nearest", "polygons", "circles"}),
}
SLOTS = [1, 2, 3, 7]


@share(6)
@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
@given(st.data(), cuts, st.sampled_from(SLOTS))
def test_updates_of_groups_are_the_oracles(
    features: frozenset[str], data: st.DataObject, size: int | None, count: int
) -> None:
    case = data.draw(group_cases(cases(features)))
    assert updates(case, count, cut(case, size)) == run_groups(case)


@share(40, least=6)
@given(
    group_cases(cases(frozenset({"events", "text", "circles", "nearest", "polygons"}))),
    st.sets(st.integers(0, 12), min_size=1),
)
def test_neither_slots_nor_cuts_nor_restarts_change_groups(case: Case, restarts: set[int]) -> None:
    one = updates(case, SLOTS[0], cut(case, BATCHES[0]))
    for count in SLOTS[1:]:
        for size in BATCHES:
            assert updates(case, count, cut(case, size), restarts) == one


def updates(
    case: Case, slots: int, batches: Batches, restarts: Any = (), *, ends: bool = False
) -> list[GroupUpdate]:
    """What the updates of a case of aggregate queries say, in log order; `ends` lets its stream end."""
    with memory_engine([case], slots, ends=ends) as engine:
        for number, (first, last) in enumerate(batches):
            if number in restarts:
                engine.restart(arena=number % 2 == 1)
            engine.take(first, last)
        return read(engine, case)


def read(engine: MemoryEngine, case: Case) -> list[GroupUpdate]:
    log = UpdateLog(engine.control, lambda _: case.spec["key"])
    forms = {query["id"]: query["aggregates"] for query in case.queries}
    found = []
    for tables in log.read(-1, engine.number):
        for one in tables:
            found += [_update(row, forms, engine.named) for row in memory.decode(one.table)]
    return group_order(found)


def _update(row: dict[str, Any], forms: dict[int, Any], named: dict[int, int]) -> GroupUpdate:
    query = named[row["query"]]
    form = forms[query]
    keys: Any = pa.array([row["key"]], pa.binary())
    columns = decode_keys(keys, [kind for _, kind in form["groups"]])
    key = tuple(_value(column[0]) for column in columns)
    shown = tuple(_listed(row[f"c.s{i}:{kind}"]) for i, (_, _, kind) in enumerate(form["select"]))
    op, why = ("+", "") if row["op"] > 0 else ("-", WHY[row["why"]])
    return GroupUpdate(row["step"], query, op, key, why, shown)


def _value(scalar: Any) -> Any:
    return scalar.cast(pa.int64()).as_py() if pa.types.is_timestamp(scalar.type) else scalar.as_py()


def _listed(value: Any) -> Any:
    return [(one["term"], one["count"]) for one in value] if isinstance(value, list) else value
