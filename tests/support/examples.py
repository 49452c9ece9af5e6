"""Short ways to write a case by hand."""

from __future__ import annotations

from typing import Any

from support.cases import Case, Clock, Command, Row, Spec

SECOND = 1_000_000


def spec(**changes: Any) -> Spec:
    """A planar stream of taxis with string keys, a tick of one second."""
    return {
        "id": 1,
        "name": "taxis",
        "kind": "moving",
        "key": "oid",
        "x": "x",
        "y": "y",
        "time": "ts",
        "text": None,
        "columns": [
            ["oid", "STRING"],
            ["x", "DOUBLE"],
            ["y", "DOUBLE"],
            ["ts", "TIMESTAMP"],
            ["n", "BIGINT"],
        ],
        "planar": True,
        "tick_us": SECOND,
        "report_every_us": None,
        "max_speed": None,
        "bounds": None,
        "order": "arrival",
        "retain": "all",
        "keep_us": None,
        "pace": None,
        "source": {"type": "file", "glob": "none", "format": None, "options": {}},
    } | changes


def at(oid: Any, x: float | None, y: float | None, second: float, n: int | None = None) -> Row:
    """A record of the object at (x, y), `second` seconds after the epoch."""
    return {"oid": oid, "x": x, "y": y, "ts": int(second * SECOND), "n": n}


def rect(x1: float, y1: float, x2: float, y2: float) -> Spec:
    return {"type": "rect", "x1": x1, "y1": y1, "x2": x2, "y2": y2}


def around(focal: Any, xdist: float, ydist: float) -> Spec:
    return {"type": "moving_rect", "focal": focal, "xdist": xdist, "ydist": ydist}


def register(query_id: int, region: Spec, condition: Any = None, for_s: float | None = None) -> Command:
    query = {
        "id": query_id,
        "name": f"q{query_id}",
        "stream": "taxis",
        "stream_id": 1,
        "text": "",
        "kind": "range",
        "region": region,
        "condition": condition,
        "join": None,
        "areas": [],
        "select": [],
        "options": {},
        "for_us": None if for_s is None else int(for_s * SECOND),
    }
    return {"op": "register", "query": query}


def case(
    steps: int, commands: list[tuple[int, Command]], records: list[tuple[int, Row]], **changes: Any
) -> Case:
    """Step n is second n - 1 after the epoch."""
    return Case(spec(**changes), Clock(0, SECOND), steps, records, commands)
