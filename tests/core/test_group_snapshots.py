"""Snapshots of aggregates, from the text to the rows, against language.md section 7 by brute force."""

from __future__ import annotations

import math
import re
from collections import Counter
from fractions import Fraction
from unittest import mock

import pyarrow as pa
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from support.budget import share
from support.specs import stream_spec

from core.slots import SPEC, TICK, Slot
from stqsh.client.read.slot_answers import placed
from stqsh.core.snapshots import groups
from stqsh.core.snapshots.select import nothing, part, whole
from stqsh.lang.binder.bind import Catalogue, bind
from stqsh.lang.syntax.parse import parse
from stqsh.spec.chunk import pack
from stqsh.spec.stream import AreaSpec, StreamSpec

ZONES = {"b": (0, 0, 2, 2), "a": (1, 1, 3, 3), "empty": (9, 9, 9.5, 9.5)}
AREA = AreaSpec(id=20, name="zones", set=True, members=tuple(ZONES))
RECORDS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.1, 0.2, 0.3, 1.0, 1.5, 2.0, 3.0, None]),
        st.sampled_from([0.0, 0.5, 1.0, 2.0]),
        st.integers(0, 200),
        st.none() | st.sampled_from(["", "free", "busy Free", "jam, JAM rain", "ü"]),
        st.none() | st.integers(-3, 3) | st.sampled_from([2**62, -(2**63), 2**63 - 1]),
    ),
    max_size=12,
)


def states_of(records, count, steps=200, closing=0, **changes):
    """Slots that deal out records (x, y, second, status, n) with the keys k00, k01, …"""
    rows = [(1, f"k{i:02d}", *record) for i, record in enumerate(records)]
    zones = pa.RecordBatch.from_pydict(
        {"member": list(ZONES), "wkb": [shapely.to_wkb(shapely.box(*box)) for box in ZONES.values()]}
    )
    made = []
    for number in range(count):
        slot = Slot(**changes)
        slot.batch(1, 1, rows[number::count], beside=[("area_define", 20, pack(zones))])
        slot.batch(2, steps, closing=closing)
        made.append(slot.state)
    return made


def catalogue(**changes) -> Catalogue:
    stream: StreamSpec = stream_spec(SPEC | changes)
    return Catalogue({"taxis": stream}, areas={"zones": AREA})


def ask(text, states, **changes):
    [statement] = parse(f"SELECT {text}")
    spec = bind(statement, catalogue(**changes)).spec
    spec, place = placed(states, spec)
    shares = [part(state, spec, place) for state in states]
    known = [share for share in shares if share is not None]
    table = whole(known or [nothing(stream_spec(SPEC | changes), spec)], spec)
    for i, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(i, field.name, table[i].cast(pa.int64()))
    return [tuple(row.values()) for row in table.to_pylist()]


def members(records):
    """The rows that have a place, as dictionaries."""
    names = ("x", "y", "ts", "status", "n")
    rows = [dict(zip(names, record, strict=True), oid=f"k{i:02d}") for i, record in enumerate(records)]
    return [row | {"ts": row["ts"] * TICK} for row in rows if row["x"] is not None]


def rank(value):
    return (value is None, 0 if value is None else value)


def grouped(rows, key):
    groups: dict = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return sorted(groups.items(), key=lambda item: [rank(value) for value in item[0]])


def known(rows, name):
    return [row[name] for row in rows if row[name] is not None]


def total(values):
    exact = sum(map(Fraction, values))
    if not values:
        return None
    if isinstance(values[0], int):
        return int(exact) if -(2**63) <= exact < 2**63 else None
    return float(exact)


def mean(values):
    return float(sum(map(Fraction, values))) / len(values) if values else None


def remainder(n):
    return None if n is None else int(math.fmod(n, 2)) if abs(n) < 2**53 else n % 2 * (-1 if n < 0 else 1)


def top(texts, k):
    counts = Counter(term for text in texts for term in set(re.findall(r"[^\W_]+", text.lower())))
    return [
        {"term": term, "count": n} for term, n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ][:k]


def zone(row):
    held = [name for name, (x1, y1, x2, y2) in ZONES.items() if x1 <= row["x"] <= x2 and y1 <= row["y"] <= y2]
    return min(held, default=None)


def far(row, x=0.0, y=0.0):
    return math.sqrt((row["x"] - x) ** 2 + (row["y"] - y) ** 2)


def around(rows, key):
    """The rows in the square with sides of 2 around a focal object."""
    focal_rows = [row for row in rows if row["oid"] == key]
    return [
        row
        for row in rows
        for middle in focal_rows
        if row is not middle and max(abs(row["x"] - middle["x"]), abs(row["y"] - middle["y"])) <= 1
    ]


def newest(rows):
    return len(rows), max(known(rows, "oid"), default=None)


def first(rows):
    return len(rows), min(known(rows, "x"), default=None)


CASES = {
    "SELECT everything": (
        "COUNT(*), COUNT(n) AS c, SUM(n) AS s, AVG(n) AS a, MIN(n) AS l, MAX(n) AS h, SUM(x) AS sx,"
        " AVG(x) AS ax,"
        " COUNT(DISTINCT status) AS d, MIN(ts) AS t, MAX(status) AS m, TOPK(status, 2) AS top FROM taxis",
        lambda rows: [
            (
                len(rows),
                len(known(rows, "n")),
                total(known(rows, "n")),
                mean(known(rows, "n")),
                min(known(rows, "n"), default=None),
                max(known(rows, "n"), default=None),
                total(known(rows, "x")),
                mean(known(rows, "x")),
                len(set(known(rows, "status"))),
                min(known(rows, "ts"), default=None),
                max(known(rows, "status"), default=None),
                top(known(rows, "status"), 2),
            )
        ],
    ),
    "groups": (
        "status, COUNT(*), SUM(x) FROM taxis GROUP BY status",
        lambda rows: [
            (*key, len(some), total(known(some, "x")))
            for key, some in grouped(rows, lambda r: (r["status"],))
        ],
    ),
    "two groups, not all shown": (
        "n, COUNT(*) FROM taxis GROUP BY n, status",
        lambda rows: [(key[0], len(some)) for key, some in grouped(rows, lambda r: (r["n"], r["status"]))],
    ),
    "distinct groups": (
        "x > 1 AS east FROM taxis GROUP BY east",
        lambda rows: [key for key, _ in grouped(rows, lambda r: (r["x"] > 1,))],
    ),
    "distinct rows": (
        "DISTINCT status, n % 2 AS odd FROM taxis ORDER BY odd DESC",
        lambda rows: sorted(
            (key for key, _ in grouped(rows, lambda r: (r["status"], remainder(r["n"])))),
            key=lambda key: (key[1] is None, -(key[1] or 0)),
        ),
    ),
    "distinct counts": (
        "DISTINCT COUNT(*) AS c FROM taxis GROUP BY status, n ORDER BY c DESC",
        lambda rows: sorted(
            {(len(some),) for _, some in grouped(rows, lambda r: (r["status"], r["n"]))}, reverse=True
        ),
    ),
    "distinct values of more groups, with a condition": (
        "DISTINCT n % 2 AS odd, COUNT(*) > 1 AS some FROM taxis GROUP BY n, status HAVING COUNT(*) < 4"
        " ORDER BY odd DESC, some LIMIT 2",
        lambda rows: sorted(
            {
                (remainder(n), len(some) > 1)
                for (n, _), some in grouped(rows, lambda r: (r["n"], r["status"]))
                if len(some) < 4
            },
            key=lambda row: (row[0] is None, -(row[0] or 0), row[1]),
        )[:2],
    ),
    "distinct rows of one group": (
        "DISTINCT COUNT(*) + 0 AS c FROM taxis",
        lambda rows: [(len(rows),)],
    ),
    "expressions": (
        "MINUTE(ts) + 1 AS m, MAX(LENGTH(status)) - MIN(LENGTH(status)) AS l, DATE(ts) AS d, HOUR(ts) AS h"
        " FROM taxis GROUP BY MINUTE(ts), d, HOUR(ts)",
        lambda rows: [
            (
                key[0] + 1,
                max(map(len, known(some, "status"))) - min(map(len, known(some, "status")))
                if known(some, "status")
                else None,
                "1970-01-01",
                0,
            )
            for key, some in grouped(rows, lambda r: (r["ts"] // TICK // 60,))
        ],
    ),
    "regions": (
        "REGION(zones) AS z, COUNT(*) FROM taxis GROUP BY z",
        lambda rows: [(*key, len(some)) for key, some in grouped(rows, lambda r: (zone(r),))],
    ),
    "a region in a condition": (
        "COUNT(*) + 0 FROM taxis WHERE REGION(zones) = 'a' OR LENGTH(status) > 4",
        lambda rows: [(sum(zone(r) == "a" or len(r["status"] or "") > 4 for r in rows),)],
    ),
    "having and order": (
        "status, COUNT(*) AS c FROM taxis WHERE x >= 0.1 GROUP BY status HAVING SUM(n) > 0 OR c > 1"
        " ORDER BY c DESC, MAX(x), status LIMIT 2",
        lambda rows: [
            (*key, len(some))
            for key, some in sorted(
                grouped([r for r in rows if r["x"] >= 0.1], lambda r: (r["status"],)),
                key=lambda g: (-len(g[1]), max(known(g[1], "x")), rank(g[0][0])),
            )
            if (total(known(some, "n")) or 0) > 0 or len(some) > 1
        ][:2],
    ),
    "a limit is by key": (
        "n, COUNT(*) FROM taxis GROUP BY n LIMIT 2",
        lambda rows: [(*key, len(some)) for key, some in grouped(rows, lambda r: (r["n"],))][:2],
    ),
    "nulls first": (
        "status FROM taxis GROUP BY status ORDER BY status NULLS FIRST",
        lambda rows: sorted(
            (key for key, _ in grouped(rows, lambda r: (r["status"],))),
            key=lambda key: (key[0] is not None, key[0] or ""),
        ),
    ),
    "having without groups": (
        "MAX(x) FROM taxis HAVING COUNT(*) > 2",
        lambda rows: [(max(known(rows, "x")),)] if len(rows) > 2 else [],
    ),
    "a circle": (
        "COUNT(*), SUM(DISTANCE) AS far FROM taxis INSIDE CIRCLE(0, 0, 1.5) GROUP BY y",
        lambda rows: [
            (len(some), total([far(r) for r in some]))
            for _, some in grouped([r for r in rows if far(r) <= 1.5], lambda r: (r["y"],))
        ],
    ),
    "around a focal object": (
        "COUNT(*) + 0, MAX(oid) AS last FROM taxis INSIDE RECT(2, 2) AROUND 'k01'",
        lambda rows: [newest(around(rows, "k01"))],
    ),
    "neighbours": (
        "status, COUNT(*), MAX(DISTANCE) AS far FROM taxis WHERE y < 2 NEAREST 3 TO (0, 0) GROUP BY status",
        lambda rows: [
            (*key, len(some), max(map(far, some)))
            for key, some in grouped(
                sorted((r for r in rows if r["y"] < 2), key=lambda r: (far(r), r["oid"]))[:3],
                lambda r: (r["status"],),
            )
        ],
    ),
    "one object": (
        "COUNT(*) + 0, MIN(x) AS x FROM taxis WHERE oid = 'k02'",
        lambda rows: [first([row for row in rows if row["oid"] == "k02"])],
    ),
    "a window": (  # step 200 of ticks of a second, the first of which begins at 1 s: it ends at 201 s
        "COUNT(*) FROM taxis WINDOW 100 s",
        lambda rows: [(sum(101 <= r["ts"] // TICK < 201 for r in rows),)],
    ),
}


@share(5)
@pytest.mark.parametrize("name", CASES)
@given(RECORDS, st.sampled_from([1, 2, 3, 7]), st.sampled_from([0, 2, 9]))
def test_a_snapshot_is_what_the_language_says(name, records, count, few):
    text, expected = CASES[name]
    with mock.patch.object(groups, "_FEW", few):  # slots with more records group them
        found = ask(text, states_of(records, count))
    assert [tuple(map(repr, row)) for row in found] == [
        tuple(map(repr, row)) for row in expected(members(records))
    ]


def test_a_window_is_closed_at_its_beginning_and_open_at_its_end() -> None:
    states = states_of([(0.0, 0.0, second, None, second) for second in (10, 11, 12, 20, 21)], 2, steps=20)
    # Step 20 ends at 21 s.
    assert ask("MIN(n), MAX(n), COUNT(*) FROM taxis WINDOW 10 s", states) == [(11, 20, 3)]
    assert ask("MIN(n) FROM taxis WHERE ts > NOW - 10 s WINDOW 10 s", states) == [(12,)]
    assert ask("MIN(n) FROM taxis WHERE ts > NOW - 10 s", states) == [(11,)]  # NOW is 20 s
    assert ask("MIN(n) FROM taxis GROUP BY y HAVING MAX(ts) > NOW - 1 s", states) == [(10,)]
    assert ask("MIN(n) FROM taxis GROUP BY y HAVING MAX(ts) < NOW", states) == []


def test_after_the_end_of_all_streams_a_window_ends_as_that_of_the_closing_refresh() -> None:
    records = [(0.0, 0.0, second, None, second) for second in (10, 11, 12, 19, 20)]
    # Step 20, of 20 s, is refreshed as of the end of the last tick, 20 s.
    assert ask("MIN(n), MAX(n) FROM taxis WINDOW 10 s", states_of(records, 2, 20, closing=20)) == [(10, 19)]
    assert ask("MIN(n), MAX(n) FROM taxis WINDOW 10 s", states_of(records, 2, 21, closing=20)) == [(12, 20)]
    assert ask(
        "COUNT(*) FROM taxis WHERE ts > NOW - 10 s WINDOW 10 s", states_of(records, 2, 20, closing=20)
    ) == [(3,)]


def test_presence_in_a_window_is_as_of_its_end() -> None:
    states = states_of([(0.0, 0.0, 5, None, 5), (0.0, 0.0, 6, None, 6)], 1, steps=9, report_every_us=4 * TICK)
    # At the end of step 9, 10 s, the record of 5 s is too old; at its beginning it is not.
    assert ask("COUNT(*) FROM taxis WINDOW 100 s", states, report_every_us=4 * TICK) == [(1,)]
    assert ask("COUNT(*) + 0 FROM taxis", states, report_every_us=4 * TICK) == [(2,)]


def test_before_anything_is_known_there_is_one_row_or_none() -> None:
    assert ask("COUNT(*), SUM(n), TOPK(status, 3) FROM taxis WHERE x > 1", []) == [(0, None, [])]
    assert ask("status, COUNT(*) FROM taxis GROUP BY status", []) == []
    assert ask("REGION(zones) AS z, MAX(x) FROM taxis NEAREST 2 TO (1, 1) GROUP BY z", []) == []
    assert ask("COUNT(*) FROM taxis LIMIT 0", []) == []


def test_rows_are_typed() -> None:
    [statement] = parse("SELECT MIN(ts) AS t, SUM(n) AS n, AVG(n) AS a, TOPK(status, 1) AS top FROM taxis")
    spec = bind(statement, catalogue()).spec
    table = whole([nothing(stream_spec(SPEC), spec)], spec)
    kinds = [str(kind) for kind in table.schema.types]
    assert kinds[:3] == ["timestamp[us, tz=UTC]", "int64", "double"]
    assert kinds[3].startswith("list<")
