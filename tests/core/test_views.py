"""Snapshots of aggregates over events with views: the bytes of a scan, and what brute force finds."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from unittest import mock

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budget import share
from support.specs import stream_spec

from core.slots import SPEC, TICK, Slot
from stqsh.core.snapshots import groups
from stqsh.core.snapshots.cache import covering, margin_choice, selection, time_slots, word_lists
from stqsh.core.snapshots.cache.cells import CellBox, CellGrid, CellNode, Extent
from stqsh.core.snapshots.cache.event_views import EventViews, Usage
from stqsh.core.snapshots.cache.questions import question_of
from stqsh.core.snapshots.cache.saved_views import SavedViews, lay_out, pack_views, unpack_views
from stqsh.core.snapshots.cache.selection import ViewCandidate, dominated, greedy
from stqsh.core.snapshots.cache.snapshot_cache import CachePolicy, KeptViews, SnapshotCache
from stqsh.core.snapshots.cache.views import Size
from stqsh.core.snapshots.select import part, selection_of, whole
from stqsh.lang.binder.bind import Catalogue, bind
from stqsh.lang.syntax.parse import parse

KEEP_S = 40
EVENTS = {"kind": "event", "keep_us": KEEP_S * TICK, "text": "status"}
EAGER = CachePolicy(least=0, scans=0, first=2, always=True)
PLACES = st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, None])
ROWS = st.lists(
    st.tuples(
        PLACES,
        PLACES,
        st.integers(0, 3),
        st.sampled_from([None, "", "free", "busy Free", "jam, JAM rain", "ü rain"]),
        st.none() | st.integers(-2, 2),
    ),
    max_size=30,
)
STEPS = st.lists(st.tuples(st.integers(1, 15), ROWS), min_size=2, max_size=5)


@dataclass(frozen=True)
class Asked:
    """A question: a box, seconds back from the clock, words, a value of n, and what it groups by."""

    box: tuple[float, float, float, float] | None
    back: int | None
    words: tuple[str, ...]
    n: int | None
    by: tuple[str, ...]

    @property
    def text(self) -> str:
        conditions = [
            None if self.back is None else f"ts > NOW - {self.back} s",
            *(f"status CONTAINS {words}" for words in self.words),
            None if self.n is None else f"n = {self.n}",
        ]
        where = " AND ".join(one for one in conditions if one)
        region = "" if self.box is None else f"INSIDE ({', '.join(map(str, self.box))})"
        head = ", ".join([*self.by, "COUNT(*), SUM(x), AVG(n), MIN(y), MAX(status), TOPK(status, 2)"])
        groups = f"GROUP BY {', '.join(self.by)}" if self.by else ""
        return f"{head} FROM taxis {'WHERE ' + where if where else ''} {region} {groups}"


QUESTIONS = st.builds(
    Asked,
    st.none()
    | st.sampled_from([(0.0, 0.0, 0.5, 0.5), (0.1, 0.2, 1.5, 1.0), (-1, -1, 3, 3), (0.2, 0.0, 2.0, 0.7)]),
    st.none() | st.sampled_from([0, 5, 12]),
    st.sampled_from([(), ("'free'",), ("'jam rain'",), ("ANY 'free rain'",), ("'rain'", "ANY 'ü jam'")]),
    st.none() | st.integers(-1, 1),
    st.sampled_from([(), ("n",), ("status",), ("n", "status"), ("MINUTE(ts)", "n"), ("n % 2",)]),
)


class Files:
    """The files of a session's caches, in memory."""

    def __init__(self):
        self.stored = {}

    def write(self, slot, stream, kept):
        packed = None if kept.views is None else pack_views(kept.views)
        places, parts = lay_out({} if packed is None else packed.contents)
        index = None if packed is None else msgspec.msgpack.encode(packed.index)
        self.stored[slot, stream] = (
            kept.numbering,
            kept.sample,
            kept.scanned,
            index,
            places,
            b"".join(parts),
        )

    def read(self, slot, stream):
        if (slot, stream) not in self.stored:
            return None
        numbering, sample, scanned, index, places, content = self.stored[slot, stream]
        views = None
        if index is not None:
            saved = msgspec.msgpack.decode(index, type=SavedViews)
            views = unpack_views(saved, places, np.frombuffer(bytearray(content), np.uint8))
        return KeptViews(numbering, sample, views, scanned)


@pytest.fixture(autouse=True)
def _small_slots():
    """Time slots of four events and cells of one, so that a few events fill many."""
    with (
        mock.patch.multiple(time_slots, FINEST=4, depth_for=lambda events: 2),
        mock.patch.multiple(selection, VIEW_COST=1.0, ROW_COST=1.0),
        mock.patch.multiple(covering, VIEW_COST=1.0, ROW_COST=1.0),
        mock.patch.multiple(margin_choice, LEAST=1),
        mock.patch.multiple(word_lists, LISTING_COST=0.5),
    ):
        yield


def spec_of(text):
    [statement] = parse(f"SELECT {text}")
    return bind(statement, Catalogue({"taxis": stream_spec(SPEC | EVENTS)})).spec


def answer(states, text, kept=None):
    spec = spec_of(text)
    return whole([part(state, spec, kept=kept) for state in states], spec)


def value(row, by):
    if by == "MINUTE(ts)":
        return row["ts"] // 60 % 60
    if by == "n % 2":
        return None if row["n"] is None else int(math.fmod(row["n"], 2))
    return row[by]


def has_words(text, terms, words):
    sought = set(words.removeprefix("ANY ").strip("'").split())
    return text is not None and bool(sought & terms if words.startswith("ANY") else sought <= terms)


def expected(rows, asked, now, terms=2):
    """The rows of an answer by brute force, as tuples, by group, with this many terms."""
    groups: dict = {} if asked.by else {(): []}
    for row in rows:
        x1, y1, x2, y2 = asked.box or (-math.inf, -math.inf, math.inf, math.inf)
        said = set(re.findall(r"[^\W_]+", (row["status"] or "").lower()))
        if (
            row["x"] is not None
            and row["y"] is not None
            and row["ts"] >= now - KEEP_S
            and x1 <= row["x"] <= x2
            and y1 <= row["y"] <= y2
            and (asked.back is None or row["ts"] > now - asked.back)
            and all(has_words(row["status"], said, words) for words in asked.words)
            and (asked.n is None or row["n"] == asked.n)
        ):
            groups.setdefault(tuple(value(row, by) for by in asked.by), []).append((row, said))
    found = []
    for key, members in groups.items():
        xs, ns = [row["x"] for row, _ in members], [row["n"] for row, _ in members if row["n"] is not None]
        texts = [row["status"] for row, _ in members if row["status"] is not None]
        counts = Counter(term for _, said in members for term in said)
        top = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:terms]
        mean = float(sum(map(Fraction, ns))) / len(ns) if ns else None
        total = float(sum(map(Fraction, xs))) if xs else None
        least = min((row["y"] for row, _ in members), default=None)
        found.append((*key, len(members), total, mean, least, max(texts, default=None), top))
    return sorted(
        found, key=lambda row: [(item is None, 0 if item is None else item) for item in row[: len(asked.by)]]
    )


def shown(table):
    rows = [tuple(row.values()) for row in table.to_pylist()]
    return [(*row[:-1], [(one["term"], one["count"]) for one in row[-1]]) for row in rows]


def check_bounds(about, exact, error):
    """Only counts of terms are approximate: never too low, and too high by a share of the records at most."""
    assert [row[:-1] for row in about] == [row[:-1] for row in exact]
    for row, right in zip(about, exact, strict=True):
        found, counts, members = dict(row[-1]), dict(right[-1]), right[-6]
        assert len(row[-1]) == min(2, len(counts))
        assert all(counts[term] <= n <= counts[term] + error * members for term, n in row[-1])
        least = min(found.values(), default=0)
        assert all(n <= least for term, n in counts.items() if term not in found)


@share(3)
@given(STEPS, st.lists(QUESTIONS, min_size=1, max_size=4), st.data())
def test_answers_with_views_are_those_of_scans_and_of_brute_force(steps, questions, data) -> None:
    slots, rows, first, number = [Slot(**EVENTS), Slot(**EVENTS)], [], 1, 0
    kept = SnapshotCache(1 << 20, EAGER, 1 << 20, files=Files())
    slots[1].state.header["slot"] = 1
    for length, some in steps:
        last = first + length
        timed = [
            (first, f"k{number + i:04d}", x, y, max(0, last - late), *rest)
            for i, (x, y, late, *rest) in enumerate(some)
        ]
        number += len(timed)
        for i, slot in enumerate(slots):
            slot.batch(first, last, timed[i::2])
        names = ("step", "oid", "x", "y", "ts", "status", "n")
        rows += [dict(zip(names, row, strict=True)) for row in timed]
        first = last + 1
        for _ in range(2):
            if data.draw(st.booleans(), label="another client"):
                kept.save()
                kept = SnapshotCache(1 << 20, EAGER, 1 << 20, files=kept.files)
            budget = st.sampled_from([1 << 20, 1 << 20, 2000, 0])
            kept.limit(data.draw(budget), data.draw(budget))
            for asked in questions:
                states = [slot.state for slot in slots]
                found = answer(states, asked.text, kept)
                assert found.equals(answer(states, asked.text))
                assert shown(found) == expected(rows, asked, last)
                error = data.draw(st.sampled_from([0.1, 0.4, 0.9]), label="error")
                with mock.patch.object(groups, "_FEW", data.draw(st.sampled_from([0, 1 << 14]))):
                    about = shown(answer(states, f"{asked.text} WITH (error => {error})", kept))
                check_bounds(about, expected(rows, asked, last, terms=None), error)
                count = asked.text.replace(asked.text.split(" FROM ")[0], "COUNT(*)").split(" GROUP BY ")[0]
                members = count.replace("COUNT(*)", "oid, x, n, status")
                for other in (count, members, f"{members} ORDER BY y DESC LIMIT 3"):
                    assert answer(states, other, kept).equals(answer(states, other))


def renumbered(kept: SnapshotCache, region: str) -> tuple[EventViews, Usage]:
    """What is kept of a question and used for it, once events that it has were renumbered often."""
    slot, draw = Slot(**EVENTS), np.random.default_rng(1)
    text = f"n, COUNT(*), SUM(x) FROM taxis INSIDE {region} GROUP BY n"
    for step in range(1, 30):
        xs, ys = draw.random((2, 200)).tolist()
        rows = [(step, f"{step}-{i}", xs[i], ys[i], step * 3, "free", i % 3) for i in range(200)]
        slot.batch(3 * step - 2, 3 * step, rows)
        for _ in range(3):
            assert answer([slot.state], text, kept).equals(answer([slot.state], text))
    assert slot.state.header["renumbered"]["1"] > 0
    [(_, _, views)] = kept.all()
    usage = kept.planned(slot.state, selection_of(slot.state, spec_of(text)))
    assert usage is not None
    return views, usage


def test_views_are_used_and_outlive_the_renumbering_of_events() -> None:
    views, usage = renumbered(SnapshotCache(1 << 20, EAGER), "(0, 0, 1.3, 1.3)")
    assert sum(view.hits for view in views.views) > 10
    assert usage.views > 0
    assert usage.spared > 2 * usage.read


def test_another_client_reads_what_is_stored_only_for_the_same_events() -> None:
    where = "status CONTAINS 'jam' INSIDE (0, 0, 9, 9)"
    text = f"n, COUNT(*), SUM(x), TOPK(status, 2) FROM taxis WHERE {where} GROUP BY n"
    draw = np.random.default_rng(1)
    rows = [
        (1, f"{i}", *draw.random(2), 1 + i // 25, "jam free" if i % 3 else "free", i % 3) for i in range(200)
    ]
    slots = [Slot(**EVENTS), Slot(**EVENTS)]
    slots[0].batch(1, 9, rows)
    slots[1].batch(1, 9, rows[1:])
    files = Files()
    kept = SnapshotCache(1 << 20, EAGER, 1 << 20, files=files)
    for _ in range(8):
        scanned = answer([slots[0].state], text, kept)
    asked, selected = selection_of(slots[0].state, spec_of(text)), selection_of(slots[1].state, spec_of(text))
    kept.save()
    other = SnapshotCache(1 << 20, EAGER, 1 << 20, files=files)
    usage = other.planned(slots[0].state, asked)
    assert usage is not None
    assert usage == kept.planned(slots[0].state, asked)
    assert usage.views + usage.listed > 0
    assert answer([slots[0].state], text, other).equals(scanned)
    [(_, _, views)] = other.all()
    assert views.history.asked == 9
    for stored in (rows[:100], []):  # other events, and fewer of the same
        slot = Slot(**EVENTS)
        slot.batch(1, 9, stored)
        unlike = SnapshotCache(1 << 20, EAGER, 1 << 20, files=files)
        assert unlike.planned(slot.state, selection_of(slot.state, spec_of(text))) is None
    assert SnapshotCache(1 << 20, EAGER, files=files).planned(slots[1].state, selected) is None
    assert SnapshotCache(0, EAGER, files=files).planned(slots[0].state, asked) is None


def said(count, text, kept, budget=1 << 20):
    """How a question about 200 events with words is answered after it was asked a few times."""
    slot, draw = Slot(**EVENTS), np.random.default_rng(1)
    xs, ys = draw.random((2, 200)).tolist()
    texts = ["free" if i % 10 else "jam free" for i in range(200)]
    slot.batch(1, 9, [(1, f"{i}", xs[i], ys[i], 1 + i // 25, texts[i], i % 3) for i in range(200)])
    kept.limit(budget)
    for _ in range(count):
        assert answer([slot.state], text, kept).equals(answer([slot.state], text))
    return kept.planned(slot.state, selection_of(slot.state, spec_of(text)))


def test_views_are_chosen_earlier_for_costly_questions() -> None:
    text = "n, TOPK(status, 2) FROM taxis GROUP BY n"
    kept = SnapshotCache(1 << 20, CachePolicy(least=0, scans=0, first=100, always=True))
    assert said(4, text, kept).views == 0
    [(_, _, views)] = kept.all()
    assert views.history.spent > 4 * 100 * covering.TEXT_COST  # 200 events, some of which are in the tail
    views.history.allowed = views.history.spent + 1
    assert said(1, text, kept).views == 0
    assert (len(views.views), views.history.spent, views.history.due) == (1, 0, 100)
    assert said(2, text, kept).views == 1


def test_word_lists_stand_for_texts_once_these_were_searched_often_enough() -> None:
    never = CachePolicy(least=0, scans=0, first=100, always=True)
    text = "n, COUNT(*) FROM taxis WHERE status CONTAINS 'jam' GROUP BY n"
    with mock.patch.object(word_lists, "LISTING_COST", 2.5):
        assert said(1, text, SnapshotCache(0, never)).listed == 0
        assert 0 < said(2, text, SnapshotCache(0, never)).listed < 200
        listed = said(8, text, SnapshotCache(0, never))
        assert said(8, text, SnapshotCache(0, CachePolicy(0, 0, 100, True, lists=False))).listed == 0
    assert listed.listed == 200
    assert listed.read == 20


def test_words_of_keys_are_listed_too() -> None:
    kept = SnapshotCache(0, CachePolicy(least=0, scans=0, first=100, always=True))
    usage = said(5, "oid, n FROM taxis WHERE oid CONTAINS ANY '17 18 none'", kept)
    assert (usage.listed, usage.read) == (200, 2)


def test_a_word_that_no_event_has_is_found_in_none() -> None:
    kept = SnapshotCache(0, CachePolicy(least=0, scans=0, first=100, always=True))
    for text in (
        "COUNT(*) FROM taxis WHERE status CONTAINS 'bus'",
        "oid FROM taxis WHERE status CONTAINS 'bus'",
    ):
        usage = said(5, text, kept)
        assert (usage.listed, usage.read) == (200, 0)


def test_words_with_equal_hashes_are_told_apart() -> None:
    def lengths(words):
        return np.array([len(word) for word in words.to_pylist()], np.uint64)

    patience = CachePolicy(least=0, scans=0, first=100, always=True)
    with mock.patch.object(word_lists, "hash_keys", lengths):
        usage = said(5, "COUNT(*) FROM taxis WHERE status CONTAINS 'bus'", SnapshotCache(0, patience))
        assert (usage.listed, usage.read) == (200, 0)
        assert (
            said(5, "COUNT(*) FROM taxis WHERE status CONTAINS 'jam'", SnapshotCache(0, patience)).read == 20
        )
    with mock.patch.object(word_lists, "hash_keys", lambda words: lengths(words) * np.uint64(0)):
        usage = said(5, "COUNT(*) FROM taxis WHERE status CONTAINS 'jam'", SnapshotCache(0, patience))
        assert usage.listed < 200


def test_word_lists_are_kept_within_the_memory_of_views() -> None:
    never = CachePolicy(least=0, scans=0, first=100, always=True)
    text = "COUNT(*) FROM taxis WHERE status CONTAINS 'jam' AND n = 1"
    for budget in (20, 300, 1 << 20):
        kept = SnapshotCache(0, never)
        usage = said(20, text, kept, budget)
        [(_, _, views)] = kept.all()
        assert views.words.nbytes <= 0.75 * budget
        assert (usage.listed == 0, usage.listed == 200) == (budget == 20, budget == 1 << 20)


def test_events_with_other_numbers_are_sorted_again_after_as_many_scans() -> None:
    slot, kept = Slot(**EVENTS), SnapshotCache(1 << 20, CachePolicy(least=0, scans=3, first=100, always=True))
    text = "n, COUNT(*) FROM taxis GROUP BY n"

    def asked(step):
        """Fill a step, and return which of the next five questions are not scanned."""
        slot.batch(
            30 * step + 1,
            30 * step + 30,
            [(30 * step + 1, f"{step}-{i}", 0.1, 0.1, 30 * step + 1, "", 1) for i in range(2000)],
        )
        selection = selection_of(slot.state, spec_of(text))
        return [kept.share(slot.state, selection) is not None for _ in range(5)]

    assert asked(0) == [False, False, True, True, True]
    times = slot.state.header.get("renumbered", {}).get("1", 0)
    assert [sum(asked(step)) for step in range(1, 5)] == [5, 3, 5, 3]
    assert slot.state.header["renumbered"]["1"] == times + 2


def test_a_scan_is_left_to_where_it_is_quicker() -> None:
    slot, kept = Slot(**EVENTS), SnapshotCache(1 << 20, CachePolicy(least=0, scans=0))
    slot.batch(1, 1, [(1, f"{i}", i / 50, 0.0, 1, "free", i % 3) for i in range(50)])
    text = "n, COUNT(*) FROM taxis GROUP BY n"
    assert kept.share(slot.state, selection_of(slot.state, spec_of(text))) is None
    kept.patience = CachePolicy(least=0, scans=0, always=True)
    assert kept.share(slot.state, selection_of(slot.state, spec_of(text))) is not None


def test_what_depends_on_more_than_events_is_scanned() -> None:
    slot = Slot(**EVENTS)
    slot.batch(1, 1, [(1, "a", 0.0, 0.0, 1, "free", 1)])

    def asked(text):
        return question_of(selection_of(slot.state, spec_of(text)))

    assert asked("COUNT(*) FROM taxis WHERE ts > NOW - 3 s") is not None
    assert asked("COUNT(*) FROM taxis WHERE ts > NOW - 3 s OR n = 1") is None
    assert asked("COUNT(*) FROM taxis WHERE oid = 'a'") is None
    assert asked("COUNT(*), MIN(x) FROM taxis NEAREST 3 TO (0, 0)") is None
    assert asked("AVG(DISTANCE) FROM taxis INSIDE CIRCLE(0, 0, 1)") is None


def test_a_view_of_more_groups_answers_for_a_value_of_one() -> None:
    slot = Slot(**EVENTS)
    slot.batch(1, 1, [(1, "a", 0.0, 0.0, 1, "free", 1)])
    text = "status, COUNT(*), AVG(x) FROM taxis WHERE n = 1 GROUP BY status"
    question = question_of(selection_of(slot.state, spec_of(text)))
    assert question is not None
    types = stream_spec(SPEC | EVENTS).types
    wide = question.shape.widened(types)
    other = question_of(selection_of(slot.state, spec_of(text.replace("n = 1", "n = 2"))))
    assert other is not None
    assert wide.answers(question.shape)
    assert wide.answers(other.shape)
    assert not question.shape.as_view.answers(other.shape)


def test_the_greedy_choice_takes_the_best_for_its_space_and_drops_the_dominated() -> None:
    slot = Slot(**EVENTS)
    slot.batch(1, 1, [(1, "a", 0.0, 0.0, 1, "free", 1)])
    text = "status, COUNT(*) FROM taxis WHERE n = 1 GROUP BY status"
    narrow = question_of(selection_of(slot.state, spec_of(text))).shape
    wide = narrow.widened(stream_spec(SPEC | EVENTS).types)
    some = [
        ViewCandidate(wide, CellNode(0, 0, 0)),
        ViewCandidate(narrow.as_view, CellNode(0, 0, 0)),
        ViewCandidate(narrow.as_view, CellNode(1, 0, 0)),
    ]
    gains = np.array([[90.0, 95.0, 20.0], [90.0, 0.0, 0.0]])
    sizes, costs = [Size(4, 100), Size(4, 80), Size(2, 40)], np.array([10.0, 10.0, 10.0])
    assert dominated(some, gains, costs, 0).tolist() == [True, True, False]
    assert [one.candidate for one in greedy(some, sizes, gains, costs, 1000)] == some[:1]
    assert [one.candidate for one in greedy(some, sizes, gains, costs, 90)] == [some[1]]


@given(st.lists(st.floats(-2, 2), min_size=1), st.floats(-2, 2), st.floats(-2, 2))
def test_places_of_covered_cells_are_in_the_box(places, low, high) -> None:
    x = np.array(places)
    grid = CellGrid(Extent(-1.0, -1.0, 1.0, 1.0), 3)
    box = np.array([min(low, high), -3.0, max(low, high), 3.0])
    seen = Extent(float(x.min()), 0.0, float(x.max()), 0.0)
    covered: CellBox = grid.covered(box, seen)
    numbers = grid.numbers(x, np.zeros(len(x)))
    held = set()
    if not covered.is_empty:
        columns = np.arange(covered.first, covered.last + 1)
        held = {int(one) for row in range(8) for one in grid.number_of(columns, np.full(len(columns), row))}
    inside = (box[0] <= x) & (x <= box[2])
    assert all(inside[i] for i, number in enumerate(numbers.tolist()) if number in held)
