"""Joined tables on a slot."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest

from core.slots import Slot, register
from stqsh.core.state.joined_tables import JoinedTables
from stqsh.core.state.slot_state import SlotState, restore, snapshot
from stqsh.spec.chunk import columns_schema, pack, pack_json
from stqsh.spec.stream import TableSpec

COLUMNS = [
    ["oid", "STRING"],
    ["note", "STRING"],
    ["stars", "INT"],
    ["since", "TIMESTAMP"],
    ["good", "BOOLEAN"],
]
SOURCE = {"type": "file", "glob": "none"}
SPEC = {"id": 5, "name": "favourites", "columns": COLUMNS, "key": "oid", "source": SOURCE}
ROWS = [
    {"oid": "a", "note": "x", "stars": 3, "since": 10, "good": True},
    {"oid": "b", "note": None, "stars": None, "since": None, "good": None},
    {"oid": "", "note": "x", "stars": 1, "since": 0, "good": False},
]


def batch(rows, columns=COLUMNS):
    return pa.RecordBatch.from_pylist(rows, columns_schema(columns))


def tables(rows=ROWS, spec=SPEC):
    out = JoinedTables(SlotState.fresh(0))
    out.define(msgspec.convert(spec, TableSpec))
    out.add(spec["id"], batch(rows, spec["columns"]))
    return out


@pytest.mark.parametrize(("column", "kind"), COLUMNS)
def test_a_column_of_rows_by_their_keys(column, kind):
    keys = pa.array(["b", "a", "absent", None, "", "a"], pa.string())
    found = tables().values(5, keys, column)
    want = [ROWS[1][column], ROWS[0][column], None, None, ROWS[2][column], ROWS[0][column]]
    assert found.type == columns_schema(COLUMNS).field(column).type
    assert (found.view(pa.int64()) if kind == "TIMESTAMP" else found).to_pylist() == want


def test_an_empty_table_has_no_rows_for_any_key():
    assert tables([]).values(5, pa.array(["a", None]), "stars").to_pylist() == [None, None]
    assert tables([]).values(5, pa.array([], pa.string()), "oid").to_pylist() == []


def test_integer_keys_of_any_width_meet():
    spec = SPEC | {"columns": [["n", "BIGINT"], ["s", "STRING"]], "key": "n"}
    found = tables([{"n": 7, "s": "seven"}, {"n": 0, "s": "nil"}], spec)
    assert found.values(5, pa.array([7, None, 0], pa.int32()), "s").to_pylist() == ["seven", None, "nil"]
    assert found.values(5, pa.array([7, 8]), "n").to_pylist() == [7, None]


def test_of_equal_keys_the_first_row_counts():
    again = tables()
    again.add(5, batch([{"oid": "a", "note": "late"}, {"oid": "c", "note": "1"}, {"oid": "c", "note": "2"}]))
    assert again.values(5, pa.array(["a", "c", "b"]), "note").to_pylist() == ["x", "1", None]


def test_chunks_make_and_drop_a_table_that_queries_join():
    define = [("table_define", 5, pack_json(SPEC)), *(("table", 5, pack(batch([row]))) for row in ROWS)]
    good = ["cmp", ">", ["join", 5, "oid", "stars"], ["lit", 2, "BIGINT"]]
    joined = ["not", ["isnull", ["join", 5, "oid", "oid"]]]
    slot = Slot()
    asked = [register(7, condition=joined), register(8, condition=["and", [joined, good]])]
    assert slot.updates(
        1, 1, [(1, "a", 0, 0, 1), (1, "b", 0, 0, 1), (1, "c", 0, 0, 1)], asked, beside=define
    ) == [
        (1, 7, "+", "a", "none"),
        (1, 7, "+", "b", "none"),
        (1, 8, "+", "a", "none"),
    ]
    slot.state = restore(list(snapshot(slot.state)))
    assert slot.updates(2, 2, [(2, "a", 9, 9, 2)]) == [(2, 7, "-", "a", "left"), (2, 8, "-", "a", "left")]
    drops = [{"op": "drop", "id": 7}, {"op": "drop", "id": 8}]
    # The table goes after the queries: what they take back still has to be looked up in it.
    dropped = slot.updates(3, 3, commands=drops, beside=[("table_drop", 5, pack_json({}))])
    assert dropped == [(3, 7, "-", "b", "dropped")]
    assert slot.state.header["tables"] == {}
    assert not [name for name in slot.state.header["lengths"] if name.startswith("t5/")]


def test_time_alone_turns_a_condition_on_a_joined_moment():
    slot, row = Slot(), {"oid": "a", "note": None, "stars": 1, "since": 5_000_000, "good": True}
    define = [("table_define", 5, pack_json(SPEC)), ("table", 5, pack(batch([row])))]
    begun = ["cmp", "<=", ["join", 5, "oid", "since"], ["now"]]
    slot.batch(1, 1, [(1, "a", 0, 0, 1), (1, "b", 0, 0, 1)], [register(7, condition=begun)], beside=define)
    assert slot.updates(2, 100) == [(5, 7, "+", "a", "none")]
