"""Queries that were dropped are forgotten, and nothing that remains depends on their rows."""

from __future__ import annotations

import tempfile
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.specs import entry, stream_spec
from support.typed import query_spec

from stqsh.engine.planning.planner_state import PlannerState
from stqsh.lang.binder.parameters import Hole
from stqsh.spec.query import with_members, with_timing
from stqsh.spec.query_rows import QueryRows
from stqsh.spec.region import Key
from stqsh.storage.catalogue import NameBook, find_query, live_queries, query_by_id, query_now
from stqsh.storage.catalogue_writer import Registered, change_query, create_stream, register
from stqsh.storage.control_log import ControlDb, append, last_seq, read_log
from stqsh.storage.progress import BatchEffects, record_batch, step_taken
from stqsh.storage.queries.bulk_register import register_rows
from stqsh.storage.queries.forgotten import forget_queries, numbered_names
from stqsh.storage.queries.living_queries import living_queries
from stqsh.storage.queries.query_templates import NAMES, QueryTemplate
from stqsh.storage.rows import Progress
from stqsh.storage.update_log.files import LogCompactedError

RECTANGLE = {"type": "rect", "x1": 0.0, "y1": 0.0, "x2": 1.0, "y2": 1.0}
AROUND = {"type": "moving_rect", "focal": "a", "xdist": 1.0, "ydist": 1.0}


class Played:
    """A session's control.db, and what a planner, the slots and clients have read of it."""

    def __init__(self, home: Path) -> None:
        self.db, self.step, self.names = ControlDb(home, create=True), 0, iter(range(1_000_000))
        self.stream = create_stream(self.db, "", stream_spec()).id

    def query(self, *, moves: bool = False, dwell: bool = False) -> None:
        spec = query_spec(self._spec(AROUND if moves else RECTANGLE))
        named = msgspec.structs.replace(spec, name=f"sub_{next(self.names)}")
        named = with_timing(named, dwell_us=1_000_000 if dwell else None)
        register(self.db, Registered("REGISTER …", named))

    def block(self, count: int) -> None:
        spec = query_spec(self._spec(RECTANGLE))
        hole: Any = Hole("c", "number")
        region = msgspec.structs.replace(spec.region, x2=hole)
        template = QueryTemplate.of(with_members(spec, region=region), "SELECT :c", "")
        names = [f"alike_{next(self.names)}" for _ in range(count)]
        rows = pa.RecordBatch.from_pydict({NAMES: names, "c": np.arange(2.0, 2.0 + count)})
        assert not register_rows(self.db, template, rows).any()

    def change(self, kind: Any, at: int) -> None:
        if queries := live_queries(self.db):
            query = queries[at % len(queries)]
            if kind == "drop" or (query.state == "active") == (kind == "pause_query"):
                change_query(self.db, kind, "", query)

    def batch(self) -> None:
        """All that has been said takes effect with a step, in which each query that lives gets a row."""
        self.step += 1
        ids = np.array([query.id for query in live_queries(self.db)], np.int64)
        progress = Progress(self.step, self.step, 0, 1_000_000, last_seq(self.db))
        record_batch(self.db, progress, BatchEffects(grown=(ids, np.ones(len(ids), np.int64))))

    def planned(self) -> tuple[object, ...]:
        """What a planner that begins makes of the log."""
        state = PlannerState()
        for row in read_log(self.db, whole=False):
            state.apply(row)
        focal: dict[int, Counter[Key]] = {stream: +keys for stream, keys in state.focal.items()}
        remembering = {stream: ids for stream, ids in state.remembering.items() if ids}
        return state.seq, state.streams, {key: keys for key, keys in focal.items() if keys}, remembering

    def living(self) -> list[object]:
        """What a slot gets that learns of the queries later."""
        living = living_queries(self.db, self.stream, last_seq(self.db), 1_000_000, self.step)
        queries = [
            (command.pattern, command.ids.tolist(), [value.to_pylist() for value in command.values])
            if isinstance(command, QueryRows)
            else command
            for command in living.queries
        ]
        return [*queries, *living.paused]

    def seen(self) -> object:
        """What clients see."""
        queries = live_queries(self.db)
        steps = [step_taken(self.db, query.seq) for query in queries]
        return queries, steps, numbered_names(self.db, "sub"), numbered_names(self.db, "alike")

    def all(self) -> tuple[object, ...]:
        return self.planned(), self.living(), self.seen()

    def count(self, table: str) -> int:
        return int(self.db.query(f"SELECT count(*) FROM {table}")[0][0])

    def _spec(self, region: dict[str, Any]) -> dict[str, Any]:
        return {"stream": "s", "stream_id": self.stream, "text": "", "kind": "range", "region": region}


@pytest.fixture
def played(tmp_path: Path) -> Played:
    return Played(tmp_path)


_WHAT = "query moves dwell block drop drop drop pause_query resume_query batch batch forget"
_CHANGES = st.tuples(
    st.sampled_from(_WHAT.split()),
    st.integers(0, 1 << 20),
)


@given(st.lists(_CHANGES, max_size=60))
def test_planners_slots_and_clients_find_what_they_found_before(changes: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as home:
        played = Played(Path(home))
        for what, number in [*changes, ("batch", 0), ("forget", 0)]:
            match what:
                case "batch":
                    played.batch()
                case "forget":
                    before = played.all()
                    forget_queries(played.db, number % (played.step + 1) if number else played.step)
                    assert played.all() == before
                case "block":
                    played.block(number % 3 + 1)
                case "drop" | "pause_query" | "resume_query":
                    played.change(what, number)
                case _:
                    played.query(moves=what == "moves", dwell=what == "dwell")
        played.db.close()


def test_a_session_that_registers_and_drops_for_ever_stays_as_small_as_it_is(played: Played) -> None:
    sizes = []
    for _ in range(40):
        for _ in range(20):
            played.query()
        played.block(20)
        played.batch()
        played.change("pause_query", 3)
        played.batch()
        for _ in range(40):
            played.change("drop", 0)
        played.batch()
        forget_queries(played.db, played.step - 2)
        sizes.append([played.count(table) for table in ("log", "queries", "patterns", "taken", "sizes")])
    assert {tuple(counts) for *counts, _ in sizes[10:]} == {tuple(sizes[10][:-1])}
    assert max(buckets for *_, buckets in sizes) == 2, "numbers of 512 go into one"
    (pages,) = played.db.query("PRAGMA page_count")[0]
    assert pages < 100


def test_queries_that_were_dropped_since_are_kept(played: Played) -> None:
    for _ in range(3):
        played.query()
        played.batch()
    early, middle, late = live_queries(played.db)
    for query in (early, middle):
        change_query(played.db, "drop", "", query)
        played.batch()
    change_query(played.db, "drop", "", late)  # no step has taken it in yet
    assert forget_queries(played.db, 4) == 1
    assert [find_query(played.db, query.name) is None for query in (early, middle, late)] == [
        True,
        False,
        False,
    ]
    assert query_now(played.db, early).state == query_by_id(played.db, middle.id).state == "dropped"
    assert forget_queries(played.db, 4) == 0
    assert forget_queries(played.db, 5) == 1


def test_queries_registered_together_are_forgotten_together(played: Played) -> None:
    played.block(3)
    played.batch()
    for at in (1, 0):
        played.change("drop", at)
        played.batch()
        assert forget_queries(played.db, played.step) == 0
    [left] = live_queries(played.db)
    assert left.spec.region.x2 == 4.0  # type: ignore[union-attr]
    change_query(played.db, "drop", "", left)
    append(played.db, entry("run", {"mode": "end"}))
    played.batch()
    assert forget_queries(played.db, played.step) == 3
    assert (played.count("queries"), played.count("patterns")) == (0, 0)


def test_the_last_number_is_never_given_again(played: Played) -> None:
    played.query()
    played.batch()
    played.change("drop", 0)
    played.batch()
    last = last_seq(played.db)
    forget_queries(played.db, played.step)
    assert last_seq(played.db) == last
    played.query()
    assert last_seq(played.db) == last + 1


def test_a_reader_that_is_too_late_hears_that_the_updates_are_gone(played: Played) -> None:
    played.query()
    played.batch()
    [query] = live_queries(played.db)
    change_query(played.db, "drop", "", query)
    append(played.db, entry("run", {"mode": "end"}))
    played.batch()
    forget_queries(played.db, played.step)
    book = NameBook(played.db)
    book.refresh()
    with pytest.raises(LogCompactedError):
        _ = book.names[query.id]
    with pytest.raises(LogCompactedError):
        _ = book.queries[query.id]


def test_a_reader_that_never_ends_forgets_templates_too(played: Played) -> None:
    played.block(2)
    stays = played.db.template_rows(live_queries(played.db)[-1].id)
    read: list[weakref.ref[Any]] = []
    for _ in range(40):
        played.block(2)
        read.append(weakref.ref(played.db.template_rows(live_queries(played.db)[-1].id)))
        played.batch()
        for _ in range(2):
            played.change("drop", 2)
        played.batch()
        forget_queries(played.db, played.step)
        assert sum(rows() is not None for rows in read) <= 12
    assert played.db.template_rows(live_queries(played.db)[-1].id) is stays


def test_a_reader_that_never_ends_forgets_names_too(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stqsh.storage.catalogue._NAMES", 10)
    book = NameBook(played.db)
    for _ in range(50):
        played.query()
        played.batch()
        book.refresh()
        [query] = live_queries(played.db)
        assert book.names[query.id] == book.queries[query.id].name == query.name
        played.change("drop", 0)
        played.batch()
        forget_queries(played.db, played.step)
        assert max(len(book.names), len(book.queries)) <= 14
