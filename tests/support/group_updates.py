"""Run cases of aggregate queries, and read what their updates say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from stqsh.core.aggregates.keys import decode_keys
from stqsh.spec.chunk import WHY
from stqsh.storage.update_log.reader import UpdateLog
from support import memory
from support.cases import Case
from support.memory import Batches, MemoryEngine, memory_engine
from support.oracle.groups import GroupUpdate, group_order


def updates(
    case: Case,
    slots: int,
    batches: Batches,
    restarts: Any = (),
    *,
    ends: bool = False,
    chosen: Mapping[int, str | int] | None = None,
) -> list[GroupUpdate]:
    """What the updates of a case of aggregate queries say, in log order; `ends` lets its stream end.

    Before batches in `chosen`, another index is chosen.
    """
    with memory_engine([case], slots, ends=ends) as engine:
        for number, (first, last) in enumerate(batches):
            if number in restarts:
                engine.restart(arena=number % 2 == 1)
            if chosen and number in chosen:
                engine.choose(chosen[number])
            engine.take(first, last)
        return read_groups(engine, case)


def read_groups(engine: MemoryEngine, case: Case) -> list[GroupUpdate]:
    """What the updates of an engine over a case of aggregate queries say, in log order."""
    log = UpdateLog(engine.control, lambda _: case.spec["key"])
    forms = {query["id"]: query["aggregates"] for query in case.queries}
    found = []
    for tables in log.read(-1, engine.number):
        for one in tables:
            found += [_update(row, forms, engine.named) for row in memory.decode(one.table)]
    return group_order(found)


def key_types(form: dict[str, Any]) -> list[str]:
    """The types of the values that identify the rows of an aggregate query."""
    if form.get("distinct"):
        return ["STRING" if kind == "TOPK" else kind for _, _, kind in form["select"]]
    return [kind for _, kind in form["groups"]]


def _update(row: dict[str, Any], forms: dict[int, Any], named: dict[int, int]) -> GroupUpdate:
    query = named[row["query"]]
    form = forms[query]
    keys: Any = pa.array([row["key"]], pa.binary())
    columns = decode_keys(keys, key_types(form))
    key = tuple(_value(column[0]) for column in columns)
    shown = tuple(_listed(row[f"c.s{i}:{kind}"]) for i, (_, _, kind) in enumerate(form["select"]))
    op, why = ("+", "") if row["op"] > 0 else ("-", WHY[row["why"]])
    return GroupUpdate(row["step"], query, op, key, why, shown)


def _value(scalar: Any) -> Any:
    return scalar.cast(pa.int64()).as_py() if pa.types.is_timestamp(scalar.type) else scalar.as_py()


def _listed(value: Any) -> Any:
    return [(one["term"], one["count"]) for one in value] if isinstance(value, list) else value
