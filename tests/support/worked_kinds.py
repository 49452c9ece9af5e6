"""Examples worked out by hand of circles, polygons, neighbours, events, texts, joins and dwell."""

from __future__ import annotations

from typing import Any

from support.cases import Area, Case, Command, Row, Table
from support.examples import SECOND, at, case, rect, register

UNIT = rect(0, 0, 1, 1)
FALLING = [["col", "n"], True, False]
DROP: Command = {"op": "drop", "id": 3}
SQUARE_WITH_A_HOLE = [
    [[0, 0], [4, 0], [4, 4], [0, 4], [0, 0]],
    [[1, 1], [3, 1], [3, 3], [1, 3], [1, 1]],
]
POST = [["oid", "STRING"], ["x", "DOUBLE"], ["y", "DOUBLE"], ["ts", "TIMESTAMP"], ["n", "BIGINT"]]


def nearest(query_id: int, k: int, condition: Any = None, **place: Any) -> Command:
    """A kNN query."""
    command = register(query_id, {"type": "nearest", "k": k, **place}, condition)
    command["query"]["kind"] = "nearest"
    return command


def first(query_id: int, limit: int, *order: Any, region: Any = UNIT, for_s: float | None = None) -> Command:
    """A query with LIMIT."""
    command = register(query_id, region, for_s=for_s)
    command["query"] |= {"kind": "first", "first": {"order": list(order), "limit": limit}}
    return command


def dwelling(query_id: int, region: Any, seconds: float) -> Command:
    """A range query whose rows have to stay."""
    command = register(query_id, region)
    command["query"]["options"] = {"dwell_us": int(seconds * SECOND)}
    return command


def events(
    steps: int, commands: list[tuple[int, Command]], records: list[tuple[int, Row]], keep_s: float | None
) -> Case:
    """A case of an event stream."""
    keep_us = None if keep_s is None else int(keep_s * SECOND)
    return case(steps, commands, records, kind="event", keep_us=keep_us, name="posts")


def saying(row: Row, body: str | None) -> Row:
    """A record with a text."""
    return {**row, "body": body}


def _with_texts(texts: list[str | None], asked: str, how: str) -> Case:
    records = [(1, saying(at(key, 0, 0, 0), text)) for key, text in zip("abcdef", texts, strict=False)]
    commands = [(1, register(2, UNIT, ["contains", ["col", "body"], asked, how]))]
    columns = [*POST, ["body", "STRING"]]
    return case(1, commands, records, kind="event", columns=columns, text="body", name="posts")


def _joined() -> Case:
    source = {"type": "file", "glob": "none", "format": None, "options": {}}
    columns = [["tk", "STRING"], ["rank", "BIGINT"]]
    table = {"id": 7, "name": "favs", "columns": columns, "key": "tk", "source": source, "joins": "oid"}
    key, rank = ["join", 7, "oid", "tk"], ["join", 7, "oid", "rank"]
    high = ["cmp", ">", rank, ["lit", 1, "BIGINT"]]
    commands = [(1, register(2, UNIT, ["and", [high, ["not", ["isnull", key]]]]))]
    made = case(1, commands, [(1, at(key, 0, 0, 0)) for key in "abcd"])
    rows = [{"tk": "a", "rank": 1}, {"tk": "b", "rank": 2}, {"tk": "c", "rank": None}]
    return Case(made.spec, made.clock, 1, made.records, commands, {7: Table(table, rows)})


def _in_an_area() -> Case:
    spec = {"id": 8, "name": "zones", "set": True, "members": ["A", "B"], "source": None}
    area = Area(spec, {"A": [SQUARE_WITH_A_HOLE], "B": [[[[1, 1], [3, 1], [3, 3], [1, 3], [1, 1]]]]})
    made = case(
        2,
        [
            (1, register(2, {"type": "area", "area": 8, "name": "zones", "member": "A"})),
            (1, register(3, {"type": "area", "area": 8, "name": "zones", "member": "B"})),
        ],
        [(1, at("a", 2, 2, 0)), (1, at("b", 1, 2, 0)), (2, at("a", 0.5, 0, 1))],
    )
    return Case(made.spec, made.clock, 2, made.records, made.commands, {}, {8: area})


KINDS = {
    "the border of a circle belongs to it": (
        case(
            2,
            [(1, register(2, {"type": "circle", "x": 1, "y": 1, "radius": 5}))],
            [(1, at("a", 4, 5, 0)), (1, at("b", 4, 5.001, 0)), (2, at("a", 4.001, 5, 1))],
        ),
        [(1, "+", "a", ""), (2, "-", "a", "left")],
    ),
    "a circle over the line at 180 degrees": (
        case(
            1,
            [(1, register(2, {"type": "circle", "x": 179.9, "y": 0, "radius": 30_000}))],
            [(1, at("a", -179.9, 0, 0)), (1, at("b", -179.8, 0, 0))],
            planar=False,
        ),
        [(1, "+", "a", "")],
    ),
    "a moving rectangle over the line at 180 degrees": (
        case(
            4,
            [(1, register(2, {"type": "moving_rect", "focal": "a", "xdist": 60_000, "ydist": 60_000}))],
            [
                (1, at("a", 179.9, 0, 0)),
                (1, at("b", -179.9, 0, 0)),
                (1, at("c", -179.8, 0, 0)),
                (2, at("a", -179.9, 0, 1)),
                (2, at("d", 179.9, 0.1, 1)),
                (3, at("a", -179, 0, 2)),
                (4, at("c", 179.95, 0, 3)),
                (4, at("a", -180, 0, 3)),
            ],
            planar=False,
        ),
        [
            (1, "+", "b", ""),
            (2, "+", "c", ""),
            (2, "+", "d", ""),
            (3, "-", "b", "left"),
            (3, "-", "c", "left"),
            (3, "-", "d", "left"),
            (4, "+", "b", ""),
            (4, "+", "c", ""),
            (4, "+", "d", ""),
        ],
    ),
    "a circle at the pole": (
        case(
            1,
            [(1, register(2, {"type": "circle", "x": 0, "y": 89, "radius": 230_000}))],
            [(1, at("a", 180, 89, 0)), (1, at("b", 180, 88.9, 0))],
            planar=False,
        ),
        [(1, "+", "a", "")],
    ),
    "a circle moves with its focal object": (
        case(
            3,
            [(1, register(2, {"type": "moving_circle", "focal": "a", "radius": 1}))],
            [
                (1, at("a", 0, 0, 0)),
                (1, at("b", 0, 1, 0)),
                (2, at("a", 0, 3, 1)),
                (3, at("a", 0, 2, 2)),
            ],
        ),
        [(1, "+", "b", ""), (2, "-", "b", "left"), (3, "+", "b", "")],
    ),
    "a hole does not belong to a polygon, its border does": (
        case(
            2,
            [(1, register(2, {"type": "polygon", "rings": SQUARE_WITH_A_HOLE}))],
            [(1, at("a", 2, 2, 0)), (1, at("b", 1, 2, 0)), (2, at("a", 0.5, 0, 1)), (2, at("b", 4, 4.5, 1))],
        ),
        [(1, "+", "b", ""), (2, "-", "b", "left"), (2, "+", "a", "")],
    ),
    "members of a set of regions": (
        _in_an_area(),
        [(1, "+", "b", ""), (1, "+", "a", ""), (1, "+", "b", ""), (2, "+", "a", ""), (2, "-", "a", "left")],
    ),
    "inside as a condition is false without a location": (
        case(
            2,
            [(1, register(2, {"type": "all"}, ["not", ["inside", UNIT]]))],
            [(1, at("a", 0, 0, 0)), (1, at("b", 2, 2, 0)), (2, at("b", None, None, 1))],
        ),
        [(1, "+", "b", ""), (2, "-", "b", "gone")],
    ),
    "ties go to the smaller key, whole numbers by value": (
        case(
            2,
            [(1, nearest(2, 2, x=0, y=0))],
            [(1, at(10, 1, 0, 0)), (1, at(9, 0, 1, 0)), (1, at(-1, -1, 0, 0)), (2, at(9, 0, 0.5, 1))],
            columns=[["oid", "BIGINT"], *POST[1:]],
        ),
        [(1, "+", -1, ""), (1, "+", 9, "")],
    ),
    "overtaken, and back when another leaves": (
        case(
            4,
            [(1, nearest(2, 1, x=0, y=0))],
            [
                (1, at("a", 0, 2, 0)),
                (2, at("b", 0, 1, 1)),
                (3, at("b", None, None, 2)),
                (4, at("a", 0, 9, 3)),
            ],
        ),
        [
            (1, "+", "a", ""),
            (2, "-", "a", "overtaken"),
            (2, "+", "b", ""),
            (3, "-", "b", "gone"),
            (3, "+", "a", ""),
        ],
    ),
    "the condition comes first": (
        case(
            3,
            [(1, nearest(2, 1, ["cmp", "=", ["col", "n"], ["lit", 1, "BIGINT"]], x=0, y=0))],
            [
                (1, at("a", 0, 0, 0, 2)),
                (1, at("b", 0, 1, 0, 1)),
                (1, at("c", 0, 2, 0, 1)),
                (2, at("b", 0, 1, 1, 2)),
                (3, at("b", 0, 1, 2, 1)),
            ],
        ),
        [
            (1, "+", "b", ""),
            (2, "-", "b", "left"),
            (2, "+", "c", ""),
            (3, "-", "c", "overtaken"),
            (3, "+", "b", ""),
        ],
    ),
    "neighbours of an object, until it vanishes": (
        case(
            3,
            [(1, nearest(2, 2, focal="a"))],
            [
                (1, at("a", 0, 0, 0)),
                (1, at("b", 0, 1, 0)),
                (2, at("a", None, None, 1)),
                (3, at("a", 5, 5, 2)),
                (3, at("b", None, None, 2)),
                (3, at("c", 5, 5, 2)),
            ],
        ),
        [(1, "+", "b", ""), (2, "-", "b", "left"), (3, "+", "c", "")],
    ),
    "an event expires once it is strictly older, and its key may come again": (
        events(
            6,
            [(1, register(2, UNIT))],
            [(1, at("a", 0, 0, 0)), (2, at("b", 0, 0, 1)), (4, at("a", 1, 1, 3))],
            keep_s=2,
        ),
        [
            (1, "+", "a", ""),
            (2, "+", "b", ""),
            (4, "-", "a", "expired"),
            (4, "+", "a", ""),
            (5, "-", "b", "expired"),
        ],
    ),
    "a late event may be born expired": (
        events(5, [(1, register(2, UNIT))], [(5, at("a", 0, 0, 1)), (5, at("b", 0, 0, 2))], keep_s=2),
        [(5, "+", "b", "")],
    ),
    "neighbours among events": (
        events(
            4,
            [(1, nearest(2, 1, x=0, y=0))],
            [(1, at("a", 0, 0, 0)), (2, at("b", 3, 0, 1)), (2, at("c", 2, 0, 1))],
            keep_s=2,
        ),
        [(1, "+", "a", ""), (4, "-", "a", "expired"), (4, "+", "c", "")],
    ),
    "all of the terms, whatever their case and place": (
        _with_texts(
            ["Light, STREET", "street-light!", "lights street", None, "light", "light+street"],
            "street light",
            "all",
        ),
        [(1, "+", "a", ""), (1, "+", "b", ""), (1, "+", "f", "")],
    ),
    "any of the terms": (
        _with_texts(["Light", "", "lights", None, "the street", "日本"], "street LIGHT 日本", "any"),
        [(1, "+", "a", ""), (1, "+", "e", ""), (1, "+", "f", "")],
    ),
    "a join is a filter, and NULL is not more than one": (_joined(), [(1, "+", "b", "")]),
    "a row counts once it has stayed for so long": (
        case(
            9,
            [(1, dwelling(2, UNIT, 2))],
            [
                (1, at("a", 0, 0, 0)),
                (1, at("b", 0, 0, 0)),
                (2, at("b", 5, 5, 1)),
                (4, at("a", 5, 5, 3)),
                (5, at("a", 0, 0, 4)),
                (6, at("a", 5, 5, 5)),
            ],
        ),
        [(3, "+", "a", ""), (8, "-", "a", "left")],
    ),
    "the first two by a column: ties by key, NULLs last, changes inside are silent": (
        case(
            5,
            [(1, first(2, 2, FALLING))],
            [
                (1, at("b", 0, 0, 0, 5)),
                (1, at("c", 0, 0, 0, 5)),
                (1, at("a", 0, 0, 0)),
                (1, at("d", 5, 5, 0, 9)),
                (2, at("c", 0, 0, 1, 7)),
                (3, at("a", 0, 0, 2, 6)),
                (4, at("c", 0, 0, 3)),
                (5, at("a", 5, 5, 4, 8)),
                (5, at("b", None, None, 4)),
            ],
        ),
        [
            (1, "+", "b", ""),
            (1, "+", "c", ""),
            (3, "-", "b", "overtaken"),
            (3, "+", "a", ""),
            (4, "-", "c", "overtaken"),
            (4, "+", "b", ""),
            (5, "-", "a", "left"),
            (5, "-", "b", "gone"),
            (5, "+", "c", ""),
        ],
    ),
    "the first by key, and fewer than there might be": (
        case(
            4,
            [(1, first(2, 2)), (1, first(3, 9)), (1, first(4, 0))],
            [(1, at("b", 0, 0, 0)), (2, at("c", 0, 0, 1)), (3, at("a", 0, 0, 2)), (4, at("b", 0, 5, 3))],
        ),
        [
            (1, "+", "b", ""),
            (1, "+", "b", ""),
            (2, "+", "c", ""),
            (2, "+", "c", ""),
            (3, "-", "c", "overtaken"),
            (3, "+", "a", ""),
            (3, "+", "a", ""),
            (4, "-", "b", "left"),
            (4, "+", "c", ""),
            (4, "-", "b", "left"),
        ],
    ),
    "NULLs first, where it says so, then by another column": (
        case(
            2,
            [(1, first(2, 2, [["col", "n"], False, True], [["col", "y"], True, False]))],
            [
                (1, at("a", 0, 0, 0)),
                (1, at("b", 0, 1, 0)),
                (1, at("c", 0, 0, 0, -1)),
                (2, at("a", 0, 0, 1, 0)),
            ],
        ),
        [(1, "+", "a", ""), (1, "+", "b", ""), (2, "-", "a", "overtaken"), (2, "+", "c", "")],
    ),
    "the first two stand still in a pause, and what has changed is told after it": (
        case(
            6,
            [(1, first(2, 2, FALLING)), (2, {"op": "pause", "id": 2}), (5, {"op": "resume", "id": 2})],
            [
                (1, at("a", 0, 0, 0, 3)),
                (1, at("b", 0, 0, 0, 2)),
                (1, at("c", 0, 0, 0, 1)),
                (3, at("c", 0, 0, 2, 9)),
                (4, at("a", 5, 5, 3, 3)),
                (4, at("d", 0, 0, 3, 8)),
            ],
        ),
        [
            (1, "+", "a", ""),
            (1, "+", "b", ""),
            (5, "-", "a", "left"),
            (5, "-", "b", "overtaken"),
            (5, "+", "c", ""),
            (5, "+", "d", ""),
        ],
    ),
    "the first two are taken back at the end, and others do not move up": (
        case(
            4,
            [(1, first(2, 1, FALLING, for_s=2)), (1, first(3, 1)), (2, {"op": "pause", "id": 3}), (4, DROP)],
            [(1, at("a", 0, 0, 0, 3)), (1, at("b", 0, 0, 0, 2)), (3, at("a", 0, 0, 2, 1))],
        ),
        [(1, "+", "a", ""), (1, "+", "a", ""), (3, "-", "a", "ended"), (4, "-", "a", "dropped")],
    ),
    "an event expires, and the next one takes its place": (
        events(
            4,
            [(1, first(2, 1))],
            [(1, at("a", 0, 0, 0)), (2, at("b", 0, 0, 1)), (4, at("a", 1, 1, 3))],
            keep_s=2,
        ),
        [(1, "+", "a", ""), (4, "-", "a", "expired"), (4, "+", "a", "")],
    ),
    "paused and resumed in one step, a row goes on waiting": (
        case(
            5,
            [(1, dwelling(2, UNIT, 2)), (2, {"op": "pause", "id": 2}), (2, {"op": "resume", "id": 2})],
            [(1, at("a", 0, 0, 0))],
        ),
        [(3, "+", "a", "")],
    ),
    "what has not been told is not taken back": (
        case(
            3,
            [(1, dwelling(2, UNIT, 2)), (2, {"op": "drop", "id": 2})],
            [(1, at("a", 0, 0, 0))],
        ),
        [],
    ),
}
