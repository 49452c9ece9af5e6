"""Event streams on a slot: every record is an object of its own, until KEEP has passed."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.specs import stream_spec

from core.slots import SPEC, TICK, UNIT, Slot, of_kind, register, stats, updates
from stqsh.core.objects import event_objects
from stqsh.core.state.slot_state import restore, snapshot
from stqsh.spec.chunk import unpack

KEEP = 5
EVENTS = {"kind": "event", "text": None, "keep_us": KEEP * TICK}
FREE = ["cmp", "=", ["col", "status"], ["lit", "free", "STRING"]]
YOUNG = ["cmp", ">", ["col", "ts"], ["arith", "-", ["now"], ["dur", 2 * TICK]]]


def posts(**changes):
    return Slot(**(EVENTS | changes))


def test_an_event_comes_once_and_expires_with_its_row():
    slot = posts()
    (came,) = of_kind(slot.batch(1, 1, [(1, "a", 0, 0, 1, "free", 3)], [register(7)]), "rows")
    assert slot.updates(2, 6) == []
    out = slot.batch(7, 9)
    assert updates(out) == [(7, 7, "-", "a", "expired")]
    (row,) = unpack(of_kind(out, "rows")[0].payload).to_pylist()
    assert [row] == unpack(came.payload).to_pylist()
    assert (row["oid"], row["status"], row["n"]) == ("a", "free", 3)


def test_without_keep_events_stay_for_ever():
    slot = posts(keep_us=None)
    slot.batch(1, 1, [(1, "a", 0, 0, 1)], [register(7)])
    assert slot.updates(2, 10**9) == []
    assert stats(slot.batch(10**9 + 1, 10**9 + 1))["objects"] == 1


def test_an_event_that_is_late_by_more_than_keep_is_in_no_answer():
    slot = posts()
    slot.batch(1, 19)
    assert slot.updates(20, 20, [(20, "a", 0, 0, 14.9), (20, "b", 0, 0, 15)], [register(7)]) == [
        (20, 7, "+", "b", "none")
    ]
    assert stats(slot.batch(21, 21))["objects"] == 0


def test_a_key_may_come_again_when_its_event_has_expired():
    slot = posts()
    rows = [(1, "a", 0, 0, 1), (7, "a", 1, 1, 7), (13, "a", 9, 9, 13)]
    assert slot.updates(1, 20, rows, [register(7)]) == [
        (1, 7, "+", "a", "none"),
        (7, 7, "+", "a", "none"),
        (7, 7, "-", "a", "expired"),
        (13, 7, "-", "a", "expired"),
    ]


@pytest.mark.parametrize("keep", [None, 0, KEEP * TICK])
def test_a_live_event_whose_key_is_kept_counts_once(keep):
    slot = posts(keep_us=keep, source={"type": "socket", "address": "localhost:1"})
    first = [(1, "a", 0, 0, 1), (1, "b", 0, 0, 1), (1, "a", 1, 1, 1)]
    again = [(2, "a", 1, 0, 2), (8, "a", 0, 1, 8), (8, "a", 0, 0, 8)]
    told = slot.updates(1, 1, first, [register(7)])
    out = slot.batch(2, 9, again)
    told += [update for update in updates(out) if update[2] == "+"]
    steps = {None: [1], 0: [1, 2, 8], KEEP * TICK: [1, 8]}[keep]
    assert [step for step, _, _, key, _ in told if key == "a"] == steps
    assert stats(out)["stale"] == len(again) + 1 - len(steps)
    assert stats(out)["records"] == len(again)


def test_a_batch_spans_millions_of_empty_steps():
    slot = posts()
    slot.batch(1, 1, [(1, "a", 0, 0, 1)], [register(7)])
    assert slot.updates(2, 5_000_000, [(4_000_000, "b", 0, 0, 4e6)]) == [
        (7, 7, "-", "a", "expired"),
        (4_000_000, 7, "+", "b", "none"),
        (4_000_006, 7, "-", "b", "expired"),
    ]


@pytest.mark.parametrize("key", ["STRING", "BIGINT", "INT"])
def test_expired_events_make_room_and_nobody_notices(monkeypatch, key):
    monkeypatch.setattr(event_objects, "_SPARE", 4)
    columns = [["oid", key], *SPEC["columns"][1:]]
    slot, name = posts(columns=columns), (lambda i: f"k{i}") if key == "STRING" else (lambda i: i)
    slot.batch(1, 1, [(1, name(0), 0, 0, 1, "keep me")], [register(7)])
    slot.batch(2, 2, commands=[{"op": "pause", "id": 7}, register(8)])
    for step in range(3, 60):
        out = slot.batch(step, step, [(step, name(step), 0, 0, step, f"text {step}")])
        gone = [(step, 8, "-", name(step - KEEP - 1), "expired")] if step >= 9 else []
        late = [(step, 8, "-", name(0), "expired")] if step == 7 else []
        assert sorted(updates(out)) == [(step, 8, "+", name(step), "none"), *late, *gone]
    assert len(slot.state.array("s1/objects/ts")) < 20
    # The paused query was told of an event that has long expired: it takes it back when it goes on.
    resumed = slot.updates(60, 60, commands=[{"op": "resume", "id": 7}])
    assert [u for u in resumed if u[2] == "-"] == [
        (60, 7, "-", name(0), "expired"),
        (60, 8, "-", name(54), "expired"),
    ]


def test_keys_are_found_by_a_look_at_all_events():
    from stqsh.core.objects.object_table import ObjectTable

    slot = posts()
    slot.batch(1, 9, [(1, "a", 0, 0, 1), (2, "b", 0, 0, 2), (9, "a", 0, 0, 9)])
    keys = ObjectTable(slot.state, "s1/objects", stream_spec(slot.spec)).keys
    import pyarrow as pa

    assert keys.find(pa.array(["b", "x", "a", "b"])).tolist() == [1, -1, 2, 1]
    assert keys.find(pa.array([], pa.string())).tolist() == []


# --- a small brute force ---

_CONDITIONS = [None, FREE, YOUNG, ["not", ["or", [FREE, YOUNG]]]]


def holds(condition, row, step):
    free, young = row[5] == "free", row[4] > step - 2
    return [True, free, young, not (free or young)][_CONDITIONS.index(condition)]


def inside(region, row):
    return region["x1"] <= row[2] <= region["x2"] and region["y1"] <= row[3] <= region["y2"]


def brute_force(rows, queries, last):
    """All updates, from what each step's answer is; each row is an object of its own."""
    out, before = [], {query["id"]: set() for _, query in queries}
    for n in range(1, last + 1):
        for begin, query in queries:
            if n < begin:
                continue
            now = {
                i
                for i, row in enumerate(rows)
                if row[0] <= n
                and row[4] >= n - KEEP
                and inside(query["region"], row)
                and holds(query["condition"], row, n)
            }
            id_ = query["id"]
            out += [(n, id_, "+", rows[i][1], "none") for i in now - before[id_]]
            for i in before[id_] - now:
                out.append((n, id_, "-", rows[i][1], "expired" if rows[i][4] < n - KEEP else "left"))
            before[id_] = now
    return sorted(out)


@st.composite
def event_rows(draw):
    """Records in the order of steps, each not later than its step; a key only after its last has expired."""
    rows, known = [], {}
    for step in sorted(draw(st.lists(st.integers(1, 30), max_size=25))):
        key, late = draw(st.sampled_from("abcdefgh")), draw(st.sampled_from([0, 0, 0, 0.5, 1, 4, 6, 9]))
        ts = step - late
        if key in known and known[key] >= step - KEEP:
            continue
        known[key] = ts
        x, y = draw(st.integers(0, 3)), draw(st.integers(0, 3))
        rows.append((step, key, x, y, ts, draw(st.sampled_from(["free", "busy"])), 1))
    return rows


@st.composite
def registered(draw):
    out = []
    for id_ in range(1, draw(st.integers(1, 4)) + 1):
        x1, y1 = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        region = {"type": "rect", "x1": x1, "y1": y1, "x2": x1 + draw(st.integers(0, 2)), "y2": y1 + 2}
        query = register(id_, region, draw(st.sampled_from(_CONDITIONS)))["query"]
        out.append((draw(st.integers(1, 12)), query))
    return out


@given(event_rows(), registered(), st.sets(st.integers(1, 32)), st.booleans())
def test_updates_are_those_of_a_brute_force(rows, queries, cuts, restarts):
    last, spare = 33, event_objects._SPARE
    event_objects._SPARE = 0
    try:
        slot, found = posts(), []
        begins = sorted({1, last + 1, *(cut + 1 for cut in cuts), *(begin for begin, _ in queries)})
        for first, after in itertools.pairwise(begins):
            commands = [{"op": "register", "query": query} for begin, query in queries if begin == first]
            mine = [row for row in rows if first <= row[0] < after]
            found += updates(slot.batch(first, after - 1, mine, commands))
            if restarts:
                slot.state = restore(list(snapshot(slot.state)))
    finally:
        event_objects._SPARE = spare
    assert sorted(found) == brute_force(rows, queries, last)


def test_a_dropped_event_stream_is_forgotten():
    slot = posts()
    slot.batch(1, 1, [(1, "a", 0, 0, 1)], [register(7, UNIT)])
    assert slot.updates(2, 2, commands=[{"op": "drop_stream"}]) == [(2, 7, "-", "a", "dropped")]
    assert not [name for name in slot.state.header["lengths"] if name.startswith("s1/")]
    assert slot.state.header["references"] == {}
    assert slot.state.header["derived"] == {}
