"""Queries that were stored before layout 16, whose parts were mixed, are read as before."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from support.typed import query_spec

from stqsh.core.top_n.orders import RowForm
from stqsh.spec.aggregate import AggregateSpec, Measure
from stqsh.spec.chunk import pack, unpack
from stqsh.spec.command import RegisterCommand, unpack_asks, unpack_commands
from stqsh.spec.expression import ColumnExpr, NowExpr
from stqsh.spec.log import QueryAltered, QueryBlock
from stqsh.spec.query import GroupForm, OrderColumn, SlotQuery, Timing, slot_query
from stqsh.spec.query_rows import REGION_PATH, QueryRows, pack_alike, unpack_query_rows
from stqsh.spec.region import RectangleSpec
from stqsh.storage import layouts
from stqsh.storage.catalogue import approximate_topk, live_queries
from stqsh.storage.control_log import ControlDb, read_log
from stqsh.storage.queries.query_commands import commands_of
from stqsh.storage.queries.query_templates import NAMES, QueryTemplate

SECOND = 1_000_000
RECT = {"type": "rect", "x1": 0.0, "y1": 0.0, "x2": 1.0, "y2": 1.0}
OWN = {"stream": "s", "stream_id": 1, "text": "SELECT …", "join": None, "areas": []}
SPEED = ["col", "speed"]
QUERIES: list[dict[str, Any]] = [
    {"kind": "range", "condition": ["and", ["col", "a"], ["or", ["col", "b"], ["col", "c"]]]},  # before 0.2
    {"kind": "first", "for_us": 5, "options": {"changes": True, "since_now": True, "min_accuracy": 0.5},
     "first": {"order": [[SPEED, True, False]], "limit": 3, "each_step": True}},
    {"kind": "refreshed_first", "first": {"order": [], "limit": 2**31 - 1, "sync_us": 7, "window_us": 9}},
    {"kind": "first", "first": {"order": [], "limit": 0}},
    {"kind": "aggregate", "options": {"dwell_us": 4, "error": 0.1},
     "aggregates": {"over": "range", "select": [["n", ["col", "m0"], "BIGINT"]], "limit": 2, "error": 0.1,
                    "measures": [["count", None, "BIGINT", 0]], "sync_us": 7, "window_us": 9}},
]  # fmt: skip
PARTS = [
    ({"condition": ["and", [["col", "a"], ["or", [["col", "b"], ["col", "c"]]]]]}, {}, {}),
    ({"since_now": True, "min_accuracy": 0.5}, {"order": [[SPEED, True, False]], "limit": 3},
     {"each_step": True, "changes": True, "for_us": 5}),
    ({}, {}, {"sync_us": 7, "window_us": 9}),
    ({}, {"limit": 0}, {}),
    ({}, {"aggregates": {"select": [["n", ["col", "m0"], "BIGINT"]], "limit": 2, "error": 0.1,
                         "measures": [["count", None, "BIGINT", 0]]}},
     {"sync_us": 7, "window_us": 9, "dwell_us": 4}),
]  # fmt: skip


def older(home: Path, rows: list[tuple[str, Any, bytes | None]]) -> None:
    """Write a control.db of layout 15 with rows of the log; each registration is in the catalogue too."""
    with sqlite3.connect(home / "control.db") as db:
        db.executescript("".join(layouts.LAYOUTS[:15]) + "PRAGMA user_version = 15;")
        for seq, (kind, content, payload) in enumerate(rows, start=1):
            db.execute(
                "INSERT INTO log VALUES (?, 0, ?, '', ?, ?)", (seq, kind, json.dumps(content), payload)
            )
            if kind == "register":
                own = (seq, f"q{seq}", 1, json.dumps(content), "active", seq, 0, 0, None, None)
                db.execute("INSERT INTO queries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", own)


def test_each_fact_of_a_query_comes_to_one_part(tmp_path: Path) -> None:
    older(tmp_path, [("register", OWN | {"region": RECT} | query, None) for query in QUERIES])
    db = ControlDb(tmp_path)
    queries = live_queries(db)
    assert len(queries) == len(QUERIES)
    for query, row, entry, (members, result, timing) in zip(
        queries, read_log(db), QUERIES, PARTS, strict=True
    ):
        parts = {"members": {"region": RECT} | members, "result": result, "timing": timing}
        stored = json.loads(db.query("SELECT spec FROM log WHERE seq = ?", query.id)[0][0])
        assert {name: stored[name] for name in parts} == parts
        assert query.spec.kind == entry["kind"]
        assert row.entry == query.spec
    assert approximate_topk(db) == ["q5"]
    assert db.query("SELECT spec FROM log") == ControlDb(tmp_path).query("SELECT spec FROM log")


def test_a_row_that_cannot_be_read_stays(tmp_path: Path) -> None:
    wrong = OWN | {"region": RECT, "kind": "range", "condition": ["wrong"]}
    older(tmp_path, [("register", wrong, None)])
    assert json.loads(ControlDb(tmp_path).query("SELECT spec FROM log")[0][0]) == wrong


def test_holes_of_a_template_lead_to_the_same_values(tmp_path: Path) -> None:
    example = OWN | {
        "kind": "first",
        "region": RECT,
        "first": {"order": [[["lit", 1, "INT"], True, False]], "limit": 2},
    }
    number = {"column": "n", "content": "number"}
    holes = [[["region", "x2"], number], [["first", "order", 0, 0, 1], number | {"content": "INT"}]]
    template = {
        "spec": example,
        "holes": holes,
        "words": ["SELECT ", ""],
        "parameters": ["n"],
        "between": " AS ",
    }
    payload = pack(pa.record_batch({NAMES: ["a", "b"], "n": [5, 6]}))
    block = {"first": 1, "count": 2, "stream_id": 1, "example": example, "template": template}
    older(tmp_path, [("register_alike", block, payload)])
    db = ControlDb(tmp_path)
    [row] = read_log(db)
    assert isinstance(row.entry, QueryBlock)
    [[rows]] = commands_of([row]).values()
    assert rows.paths == (("members", "region", "x2"), ("result", "order", 0, 0, 1))
    assert QueryTemplate.from_json(row.entry.template).filled([5.0, 6])["result"]["order"] == [
        [["lit", 6, "INT"], True, False]
    ]


def test_commands_in_the_logs_of_slots_are_read() -> None:
    query = {"kind": "range", "region": RECT, "options": {"dwell_us": 4}}
    [command] = unpack_commands(json.dumps([{"op": "register", "query": query}]).encode())
    assert command == RegisterCommand(query=slot_query(query_spec(query)))
    [ask] = unpack_asks(json.dumps([{"ask": 3, "spec": query | {"stream_id": 1, "limit": 2}}]).encode())
    assert (ask.spec.region, ask.spec.result.limit) == (RectangleSpec(0.0, 0.0, 1.0, 1.0), 2)
    rows = QueryRows(
        slot_query(query_spec(query)), np.array([1]), ((*REGION_PATH, "x2"),), (pa.array([5.0]),)
    )
    batch = unpack(pack_alike(rows))
    older = {b"pattern": json.dumps(query).encode(), b"paths": b'[["region", "x2"]]'}
    read = unpack_query_rows(pack(batch.replace_schema_metadata(older)))
    assert (read.pattern, read.paths) == (rows.pattern, rows.paths)


def test_forms_in_the_states_of_slots_are_read() -> None:
    looks = {"each_step": True, "sync_us": 7, "window_us": 9}
    groups = {"limit": 2, "measures": [["count", None, "BIGINT", 0]]}
    read = GroupForm.read(json.dumps(groups | looks | {"over": "nearest"}))
    assert read == GroupForm(AggregateSpec(limit=2, measures=(Measure("count"),)), Timing(**looks))
    assert GroupForm.read(read.text) == read
    rows = {"order": [[SPEED, True, False]], "limit": 2, "timed": [["now"]]}
    form = RowForm.read(json.dumps(rows | looks))
    assert form == RowForm((OrderColumn(ColumnExpr("speed"), True),), (NowExpr(),), Timing(**looks))
    assert RowForm.read(msgspec.json.encode(form).decode()) == form


def test_an_altered_query_is_read(tmp_path: Path) -> None:
    before, after = {"kind": "range", "region": RECT}, OWN | {"kind": "range", "region": RECT | {"x2": 3.0}}
    older(tmp_path, [("alter_query", {"id": 1, "stream_id": 1, "query": after, "before": before}, None)])
    [row] = read_log(ControlDb(tmp_path))
    assert isinstance(row.entry, QueryAltered)
    assert row.entry.query.region == RectangleSpec(0.0, 0.0, 3.0, 1.0)
    assert row.entry.before == slot_query(query_spec(before)) and isinstance(row.entry.before, SlotQuery)
