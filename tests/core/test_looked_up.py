"""What slots look up for candidates, and Aggregate reads as further columns."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import numpy as np
import pyarrow as pa
from support.specs import stream_spec
from support.typed import expression

from stqsh.core.conditions.resolver import Resolver
from stqsh.core.groups.candidate_groups import lookup_columns, lookup_keys, separated
from stqsh.core.output.candidates import CandidateRecords
from stqsh.core.state.joined_tables import JoinedTables
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.aggregate import AggregateSpec, GroupColumn, Measure
from stqsh.spec.chunk import columns_schema
from stqsh.spec.expression import ColumnExpr
from stqsh.spec.stream import TableSpec

STREAM = stream_spec(columns=[["oid", "STRING"], ["x", "DOUBLE"], ["y", "DOUBLE"]], planar=True)
TABLE_COLUMNS = [
    ["oid", "STRING"],
    ["stars", "INT"],
    ["rate", "DOUBLE"],
    ["since", "TIMESTAMP"],
    ["ok", "BOOLEAN"],
]
HERE = ["inside", {"type": "rect", "x1": 0, "y1": 0, "x2": 1, "y2": 1}]


def slot() -> SlotState:
    """A slot with a table that lacks the key c."""
    state = SlotState.fresh(0)
    source = {"type": "file", "glob": "none"}
    spec = {"id": 5, "name": "t", "columns": TABLE_COLUMNS, "key": "oid", "source": source}
    rows = [
        {"oid": "a", "stars": 3, "rate": -0.0, "since": 10, "ok": True},
        {"oid": "b", "stars": None, "rate": 2.5, "since": None, "ok": False},
    ]
    tables = JoinedTables(state)
    tables.define(msgspec.convert(spec, TableSpec))
    tables.add(5, pa.RecordBatch.from_pylist(rows, columns_schema(TABLE_COLUMNS)))
    return state


class Records:
    """Three records: two in the rectangle or on its border, one without a place."""

    def __init__(self, state: SlotState) -> None:
        self.resolver = Resolver(state, STREAM)

    def columns(self, names, versions):
        every = {
            "oid": pa.array(["a", "b", "c"]),
            "x": pa.array([0.5, 1.0, None]),
            "y": pa.array([0.5, 1.0, None]),
        }
        taken = pa.array(versions)
        return {name: every[name].take(taken) for name in names} | {"": pa.nulls(len(versions))}


def test_lookups_come_back_as_columns_in_their_types() -> None:
    state = slot()
    joined = [["join", 5, "oid", name] for name, _ in TABLE_COLUMNS[1:]]
    many = [["inside", HERE[1] | {"x2": 1 + i / 8}] for i in range(8)]
    arguments = [expression(one) for one in (*joined, HERE, *many)]
    spec = AggregateSpec(measures=tuple(Measure("count", one, "STRING") for one in arguments))
    plain, lookups = separated(spec, JoinedTables(state))
    names = [one.argument.name for one in plain.measures if isinstance(one.argument, ColumnExpr)]
    assert len(names) == 13 and len(lookups) == len(set(names)) == 12, "equal lookups are one"

    keys = lookup_keys(lookups, Records(state), np.array([2, 0, 1], np.int32))
    found = lookup_columns(sorted(set(names), reverse=True), keys)
    stars, rate, since, ok, here = (found[name].to_pylist() for name in names[:5])
    assert (stars, rate, ok, here) == (
        [None, 3, None], [None, 0.0, 2.5], [None, True, False], [False, True, True]
    )  # fmt: skip
    assert since == [None, datetime(1970, 1, 1, microsecond=10, tzinfo=UTC), None]
    assert all(found[name].to_pylist() == here for name in names[5:])


def test_what_looks_nothing_up_stays_as_it_is() -> None:
    spec = AggregateSpec(groups=(GroupColumn(ColumnExpr("oid"), "STRING"),), measures=(Measure("count"),))
    assert separated(spec, JoinedTables(SlotState.fresh(0))) == (spec, ())


def test_candidates_of_a_slot_that_looked_nothing_up_have_null() -> None:
    records = CandidateRecords(SlotState.fresh(0), "s1/k/members", STREAM)
    records.take([pa.array(["a", "b"]), pa.array([1.0, 2.0]), pa.array([3.0, 4.0])])
    shown = records.show(np.array([1, 0]))
    assert shown.column("x").to_pylist() == [2.0, 1.0]
    assert records.looked_up(np.array([1, 0])).to_pylist() == [None, None]
