"""The queries that live at a point of the log, whose rows are not decoded one by one where they are alike."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.specs import stream_spec
from support.typed import query_spec

from stqsh.errors import HomeError
from stqsh.lang.binder.parameters import Hole
from stqsh.spec.query import SlotQuery, slot_query, with_members, with_timing
from stqsh.spec.query_rows import QueryRows
from stqsh.storage.catalogue import live_queries
from stqsh.storage.catalogue_writer import Registered, change_query, create_stream, register
from stqsh.storage.control_log import ControlDb, last_seq
from stqsh.storage.progress import BatchEffects, record_batch
from stqsh.storage.queries.bulk_register import register_rows
from stqsh.storage.queries.living_queries import MovedQueries, ids_of, living_queries
from stqsh.storage.queries.query_templates import NAMES, QueryTemplate
from stqsh.storage.rows import Progress

TICK_US = 1_000_000
REGIONS: list[dict[str, Any]] = [
    {"type": "rect", "x1": 0.1, "y1": -2.5, "x2": 1.0, "y2": 1e300},
    {"type": "rect", "x1": 0.3, "y1": 0.0, "x2": 7.0, "y2": 5e-324},
    {"type": "circle", "x": 0.5, "y": 0.25, "radius": 2.0},
    {"type": "circle", "x": -0.5, "y": 0.0, "radius": 1.0},
    {"type": "circle", "x": 0.5, "y": 0.25, "radius": 2.0, "area": 1},
    {"type": "nearest", "k": 2, "x": 0.5, "y": 1.0},
    {"type": "nearest", "k": 2, "x": 7.5, "y": 1.0},
    {"type": "nearest", "k": 3, "x": 7.5, "y": 1.0},
    {"type": "nearest", "k": 3, "focal": "a"},
    {"type": "moving_rect", "focal": "a", "xdist": 1.0, "ydist": 1.0},
    {"type": "polygon", "rings": [[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]]},
]


class Logged:
    """A log, and what a reader who decodes every row and follows every change knows of it."""

    def __init__(self, home: Path) -> None:
        self.db, self.step = ControlDb(home, create=True), 0
        self.stream, self.other = (
            create_stream(self.db, "", msgspec.structs.replace(stream_spec(), name=name)).id for name in "st"
        )
        self.queries: dict[int, tuple[SlotQuery, int]] = {}
        self.paused: set[int] = set()
        self._waiting: list[SlotQuery] = []

    def register(self, region: int, for_us: int | None, since_now: bool, *, elsewhere: bool) -> None:
        stream = self.other if elsewhere else self.stream
        raw = {"stream": "s", "stream_id": stream, "text": "", "kind": "range", "region": REGIONS[region]}
        name = f"q{last_seq(self.db)}"
        spec = with_members(msgspec.structs.replace(query_spec(raw), name=name), since_now=since_now)
        spec = with_timing(spec, for_us=for_us)
        id_ = register(self.db, Registered("REGISTER …", spec)).id
        if not elsewhere:
            self._waiting.append(slot_query(msgspec.structs.replace(spec, id=id_)))

    def block(self, count: int) -> None:
        raw = {"stream": "s", "stream_id": self.stream, "text": "", "kind": "range", "region": REGIONS[0]}
        spec, hole = query_spec(raw), Hole("c", "number")
        region = msgspec.structs.replace(spec.region, x2=hole)
        template = QueryTemplate.of(with_members(spec, region=region), "SELECT :c", "")
        first = last_seq(self.db)
        names, ends = [f"b{first}_{row}" for row in range(count)], np.arange(1.0, 1.0 + count)
        rows = pa.RecordBatch.from_pydict({NAMES: names, "c": ends})
        assert not register_rows(self.db, template, rows).any()
        for id_, end in zip(range(last_seq(self.db) + 1 - count, last_seq(self.db) + 1), ends, strict=True):
            own = msgspec.structs.replace(spec.region, x2=end)
            self._waiting.append(slot_query(with_members(msgspec.structs.replace(spec, id=id_), region=own)))

    def change(self, kind: Any, at: int) -> None:
        if queries := [query for query in live_queries(self.db) if query.stream_id == self.stream]:
            query = queries[at % len(queries)]
            if kind != "drop" and (query.state == "active") != (kind == "pause_query"):
                return
            change_query(self.db, kind, "", query)
            if kind == "pause_query":
                self.paused.add(query.id)
            else:
                self.paused.discard(query.id)
            if kind == "drop":
                self.queries.pop(query.id, None)
                self._waiting = [one for one in self._waiting if one.id != query.id]

    def batch(self) -> None:
        self.step += 1
        record_batch(self.db, Progress(self.step, self.step, 0, TICK_US, last_seq(self.db)), BatchEffects())
        self.queries |= {query.id: (query, self.step) for query in self._waiting}
        self._waiting = []

    def expected(self) -> dict[int, tuple[SlotQuery, int]]:
        """The queries that live before the next step, and the steps of those for which these matter."""
        next_step = self.step + 1
        return {
            id_: (query, begun if query.timing.for_us is not None or query.members.since_now else -1)
            for id_, (query, begun) in self.queries.items()
            if query.timing.for_us is None or begun + -(-query.timing.for_us // TICK_US) >= next_step
        }


def _one_by_one(command: Any) -> list[tuple[SlotQuery, int | None]]:
    if not isinstance(command, QueryRows):
        return [(command.query, command.step)]
    names = [str(path[-1]) for path in command.paths]
    columns = zip(*(value.to_pylist() for value in command.values), strict=True)
    return [
        (
            with_members(
                msgspec.structs.replace(command.pattern, id=id_),
                region=msgspec.structs.replace(command.pattern.region, **dict(zip(names, own, strict=True))),
            ),
            command.step,
        )
        for id_, own in zip(command.ids.tolist(), columns, strict=True)
    ]


_REGISTER = st.tuples(
    st.just("register"),
    st.integers(0, len(REGIONS) - 1),
    st.sampled_from([None, 1, 1_500_000, 3_000_000]),
    st.booleans(),
    st.sampled_from([False, False, True]),
)
_CHANGE = st.tuples(st.sampled_from(["drop", "pause_query", "resume_query"]), st.integers(0, 1 << 20))
_OTHER = st.tuples(st.sampled_from(["block", "batch"]), st.integers(1, 3))


@given(st.lists(_REGISTER | _REGISTER | _CHANGE | _OTHER, max_size=40))
def test_columns_have_what_the_rows_say(changes: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as home:
        logged = Logged(Path(home))
        for what, *values in [*changes, ("batch", 1)]:
            match what:
                case "register":
                    region, for_us, since_now, elsewhere = values
                    logged.register(region, for_us, since_now, elsewhere=elsewhere)
                case "block":
                    logged.block(values[0])
                case "batch":
                    logged.batch()
                case _:
                    logged.change(what, values[0])
        living = living_queries(logged.db, logged.stream, last_seq(logged.db), TICK_US, logged.step + 1)
        found: dict[int, tuple[SlotQuery, int]] = {}
        for query, step in (one for command in living.queries for one in _one_by_one(command)):
            assert step is not None, "it is not new"
            timed = query.timing.for_us is not None or query.members.since_now
            assert query.id not in found
            found[query.id] = query, step if timed else -1
        assert found == logged.expected()
        _check_moved(logged, found)
        assert {one.id for one in living.paused} == logged.paused


def _check_moved(logged: Logged, every: dict[int, tuple[SlotQuery, int]]) -> None:
    """Check that of some queries those are found that are listed or newer than a row."""
    since = last_seq(logged.db) // 2
    moved = MovedQueries(np.array(sorted(every)[::3], np.int64), since)
    living = living_queries(
        logged.db, logged.stream, last_seq(logged.db), TICK_US, logged.step + 1, moved=moved
    )
    found = {id_ for command in living.queries for id_ in ids_of(command)}
    assert found == {id_ for id_ in every if id_ in moved.ids or id_ > since}


@pytest.mark.parametrize("portion", [1, 3, 1 << 16])
def test_queries_that_are_alike_are_columns_of_one_command(
    tmp_path: Path, portion: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stqsh.storage.queries.living_queries._PORTION", portion)
    logged = Logged(tmp_path)
    for region in (0, 1, 2, 0, 5, 3, 6, 7, -1):
        logged.register(region, None, since_now=False, elsewhere=False)
        logged.batch()
    up_to = last_seq(logged.db)
    living = living_queries(logged.db, logged.stream, up_to, TICK_US, 99)
    polygon, *others = living.queries
    assert not isinstance(polygon, QueryRows)
    assert [len(some.ids) for some in others if isinstance(some, QueryRows)] == [3, 2, 2, 1]


def test_a_damaged_row_is_named(tmp_path: Path) -> None:
    logged = Logged(tmp_path)
    logged.register(0, None, since_now=False, elsewhere=False)
    seq = last_seq(logged.db)
    with logged.db.transaction() as connection:
        connection.execute("UPDATE log SET spec = '{\"id\": 3, ' WHERE seq = ?", (seq,))
    with pytest.raises(HomeError, match=f"row {seq} of the log"):
        living_queries(logged.db, logged.stream, seq, TICK_US, 1)
