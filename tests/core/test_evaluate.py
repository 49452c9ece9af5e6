"""A slot's fold, case by case; the law itself is tested against the oracle in tests/laws/test_law.py."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.slots import SPEC, TICK, UNIT, Slot, of_kind, records, register, stats, updates
from stqsh.core.aggregate import aggregate
from stqsh.core.evaluate import evaluate
from stqsh.core.state import string_dictionary
from stqsh.core.state.slot_state import SlotState, restore, snapshot
from stqsh.spec.chunk import Chunk, ChunkOrder, pack_json, unpack, unpack_json


def test_objects_come_stay_and_leave():
    slot = Slot()
    rows = [(1, "a", 0.5, 0.5, 1), (2, "a", 1.0, 1.0, 2), (3, "a", 1.1, 1.0, 3), (3, "b", 0, 0, 3)]
    assert slot.updates(1, 3, rows, [register(7)]) == [
        (1, 7, "+", "a", "none"),
        (3, 7, "+", "b", "none"),
        (3, 7, "-", "a", "left"),
    ]


def test_a_stale_record_is_counted_and_an_equal_time_replaces():
    slot = Slot()
    slot.batch(1, 1, [(1, "a", 0, 0, 5)], [register(7)])
    out = slot.batch(2, 2, [(2, "a", 9, 9, 4), (2, "a", 2, 2, 5)])
    assert (stats(out)["stale"], stats(out)["records"], stats(out)["updates"]) == (1, 2, 1)


def test_silence_disconnects_in_its_step_though_a_batch_spans_millions():
    slot = Slot(report_every_us=10_000_000)
    slot.batch(1, 1, [(1, "a", 0, 0, 1), (1, "b", 0, 0, 1.5)], [register(7)])
    assert slot.updates(2, 5_000_000, [(4_000_000, "b", 0, 0, 4e6)]) == [
        (12, 7, "-", "a", "disconnected"),
        (12, 7, "-", "b", "disconnected"),
        (4_000_000, 7, "+", "b", "none"),
        (4_000_011, 7, "-", "b", "disconnected"),
    ]


def test_an_empty_location_says_gone():
    slot = Slot()
    rows = [(1, "a", 0, 0, 1), (2, "a", None, None, 2)]
    assert slot.updates(1, 2, rows, [register(7)])[1] == (2, 7, "-", "a", "gone")


def test_the_row_of_a_disconnected_object_is_its_last():
    slot = Slot(report_every_us=10_000_000)
    (entered,) = of_kind(slot.batch(1, 1, [(1, "a", 0, 0, 1, "free", 3)], [register(7)]), "rows")
    (left,) = of_kind(slot.batch(2, 20), "rows")
    assert unpack(left.payload).to_pylist() == unpack(entered.payload).to_pylist()
    assert unpack(left.payload)["status"].to_pylist() == ["free"]


def test_time_alone_turns_conditions_on_now():
    slot = Slot()
    recent = ["cmp", ">=", ["col", "ts"], ["arith", "-", ["now"], ["dur", 5_000_000]]]
    slot.batch(1, 1, [(1, "a", 0, 0, 1)], [register(7, condition=recent)])
    assert slot.updates(2, 100) == [(7, 7, "-", "a", "left")]


def test_one_shape_serves_many_constants():
    slot = Slot()
    asked = [register(i, condition=["cmp", ">", ["col", "n"], ["lit", i, "BIGINT"]]) for i in range(1, 6)]
    found = slot.updates(1, 1, [(1, "a", 0, 0, 1, "free", 3)], asked)
    assert [query for _, query, *_ in found] == [1, 2]
    assert len(slot.state.header["templates"]["s1/range"]) == 1


def test_a_rectangle_follows_its_focal_object_and_leaves_it_out():
    slot = Slot()
    around = {"type": "moving_rect", "focal": "f", "xdist": 2.0, "ydist": 2.0}
    first = [(1, "f", 0, 0, 1), (1, "a", 1, 1, 1), (1, "b", 5, 5, 1)]
    slot.batch(1, 1, first, [register(7, around)], focal=records(SPEC, first[:1]))
    moved = [(2, "f", 5, 4, 2)]
    assert slot.updates(2, 2, moved, focal=records(SPEC, moved)) == [
        (2, 7, "+", "b", "none"),
        (2, 7, "-", "a", "left"),
    ]


def test_a_query_ends_in_the_middle_of_a_batch_with_a_notice():
    slot = Slot()
    out = slot.batch(1, 9, [(1, "a", 0, 0, 1), (6, "b", 0, 0, 6)], [register(7, for_us=3_000_000)])
    assert unpack_json(of_kind(out, "notice")[0].payload) == [{"event": "ended", "query": 7, "step": 4}]
    assert stats(out)["queries"] == 0
    assert not of_kind(slot.batch(10, 10, [(10, "b", 9, 9, 10)]), "updates")


def test_a_paused_query_sends_the_difference_when_it_goes_on():
    slot = Slot()
    slot.batch(1, 1, [(1, "a", 0, 0, 1), (1, "b", 0, 0, 1)], [register(7)])
    assert slot.updates(2, 2, [(2, "a", 9, 9, 2)], [{"op": "pause", "id": 7}]) == []
    assert slot.updates(3, 3, [(3, "c", 0, 0, 3)], [{"op": "resume", "id": 7}]) == [
        (3, 7, "+", "c", "none"),
        (3, 7, "-", "a", "left"),
    ]


def test_a_drop_of_a_query_that_has_ended_drops_no_other():
    slot = Slot()
    slot.batch(1, 3, [(1, "a", 0, 0, 1)], [register(7, for_us=1_000_000), register(8)])
    drops = [{"op": "drop", "id": 7}, {"op": "drop", "id": 8}]
    assert slot.updates(4, 4, commands=drops) == [(4, 8, "-", "a", "dropped")]


def test_a_dropped_stream_takes_everything_back_and_is_forgotten():
    slot = Slot()
    slot.batch(1, 1, [(1, "a", 0, 0, 1)], [register(7)])
    assert slot.updates(2, 2, commands=[{"op": "drop_stream"}]) == [(2, 7, "-", "a", "dropped")]
    assert not [name for name in slot.state.header["lengths"] if name.startswith("s1/")]
    assert slot.updates(3, 3) == []


def test_a_lookup_finds_what_is_known_before_the_batch():
    slot = Slot()
    slot.batch(1, 1, [(1, "a", 0, 0, 1, "free", 3), (1, "b", None, None, 1)])
    out = slot.batch(2, 1, lookup=pack_json(["a", "b", "c"]))
    found = unpack(of_kind(out, "found")[0].payload).to_pylist()
    assert [(row["oid"], row["x"], row["status"]) for row in found] == [("a", 0.0, "free"), ("b", None, None)]


def test_a_slot_goes_on_from_a_snapshot_as_if_nothing_had_been():
    slot, twin = Slot(report_every_us=5_000_000), Slot(report_every_us=5_000_000)
    around = {"type": "moving_rect", "focal": "f", "xdist": 2.0, "ydist": 2.0}
    free = ["cmp", "=", ["col", "status"], ["lit", "free", "STRING"]]
    rows = [(1, "f", 0, 0, 1, "free"), (1, "a", 0.5, 0, 1, "busy"), (1, "b", 0, 0.5, 1, "free")]
    asked = [register(7, around), register(8, UNIT, free)]
    for one in (slot, twin):
        one.batch(1, 1, rows, asked, focal=records(SPEC, rows[:1]))
    twin.state = restore(list(snapshot(twin.state)))
    later = [(2, "f", 3, 3, 2, "free"), (3, "b", 0, 0, 3, "busy")]
    focal = records(SPEC, later[:1])
    left, right = (one.batch(2, 9, later, focal=focal) for one in (slot, twin))
    assert [chunk for chunk in left if chunk.kind != "stats"] == [c for c in right if c.kind != "stats"]


@pytest.mark.parametrize(
    ("commands", "last", "message"),
    [
        ([register(7)], 0, "without steps"),
        ([register(7) | {"query": register(7)["query"] | {"kind": "ring"}}], 1, "'ring'"),
    ],
)
def test_what_makes_no_batch_is_refused(commands, last, message):
    with pytest.raises(ValueError, match=message):
        Slot().batch(1, last, commands=commands)


def test_a_batch_needs_its_clock():
    with pytest.raises(ValueError, match="one clock"):
        evaluate(SlotState.fresh(0), [])


def test_time_passes_in_streams_that_have_no_chunks():
    slot = Slot(report_every_us=10_000_000)
    slot.batch(1, 1, [(1, "a", 0, 0, 1)], [register(7)])
    assert len(slot.updates(2, 100)) == 1


def test_what_is_not_merged_passes_aggregate_by():
    state, passing = SlotState.fresh(0), Chunk(0, 1, "rows", ChunkOrder(), 1, 1, 0, b"")
    assert aggregate(state, [passing]) == [passing]
    assert aggregate(state, []) == []


def test_two_runs_agree_to_the_byte():
    rows = [(s, k, s % 3, 0.5, s) for s in range(1, 9) for k in "abc"]
    asked = [register(i) for i in range(5)]
    outs = [[c for c in Slot().batch(1, 9, rows, asked) if c.kind != "stats"] for _ in range(2)]
    assert outs[0] == outs[1]


def test_texts_that_nobody_has_any_more_go(monkeypatch):
    monkeypatch.setattr(string_dictionary, "_SPARE", 8)
    slot = Slot()
    is_it = ["cmp", "=", ["col", "status"], ["lit", "text 3", "STRING"]]
    slot.batch(1, 1, commands=[register(7, condition=is_it)])
    for step in range(2, 60):
        rows = [(step, "a", 0, 0, step, f"text {step}")]
        assert slot.updates(step, step, rows) == {
            3: [(3, 7, "+", "a", "none")],
            4: [(4, 7, "-", "a", "left")],
        }.get(step, [])
    assert len(string_dictionary.pool_of(slot.state, 1)) < 16
    assert slot.updates(60, 60, [(60, "a", 0, 0, 60, "text 3")]) == [(60, 7, "+", "a", "none")]


def test_the_clock_is_in_the_header():
    slot = Slot()
    slot.batch(1, 3)
    assert slot.state.header["clock"] == {"step": 3, "base_tick": 1, "tick_us": TICK, "closing": 0}


def test_a_definition_is_passed_on_for_aggregate():
    slot = Slot()
    assert [c.payload for c in of_kind(slot.batch(1, 1), "define")] == [pack_json(slot.spec)]
    assert not of_kind(slot.batch(2, 2), "define")


def test_queries_that_differ_in_their_keywords_have_one_shape():
    slot, words = Slot(), ["fog", "free coffee", "bus late", "late"]
    asked = [
        register(i, condition=["contains", ["col", "status"], word, "all"]) for i, word in enumerate(words)
    ]
    rows = [(1, "a", 0, 0, 1, "Late bus, free?"), (1, "b", 0, 0, 1, None), (1, "c", 0, 0, 1, "FREE coffee")]
    found = slot.updates(1, 1, rows, asked)
    assert [u[1:4] for u in found] == [(1, "+", "c"), (2, "+", "a"), (3, "+", "a")]
    assert len(slot.state.header["templates"]["s1/range"]) == 1


@pytest.mark.parametrize("first", [1, 2, 4])
def test_a_batch_that_does_not_follow_is_refused(first):
    slot = Slot()
    slot.batch(1, 2)
    with pytest.raises(ValueError, match=f"slot 0 is at step 2, and got step {first}"):
        slot.batch(first, 4)
    slot.batch(3, 2)
    slot.batch(3, 4)


NEAREST_TWO = {"type": "nearest", "k": 2, "x": 0.0, "y": 0.0}


@pytest.mark.parametrize(("kind", "region"), [("range", UNIT), ("nearest", NEAREST_TWO)])
def test_an_older_query_that_a_slot_gets_to_know_does_not_take_the_place_of_one_that_resumes(kind, region):
    """A new routing brings queries with lower numbers to the slot in the step of a RESUME."""

    def first(id_):
        command = register(id_, region)
        return command | {"query": command["query"] | {"kind": kind}}

    slot, other, merging = Slot(), Slot(), SlotState.fresh(0)

    def sent(step, rows, commands, elsewhere):
        chunks = [replace(chunk, slot=1) for chunk in other.batch(step, step, [], elsewhere)]
        return updates(aggregate(merging, [*slot.batch(step, step, rows, commands), *chunks]))

    pause, resume = ({"op": op, "id": 5} for op in ("pause", "resume"))
    assert sent(1, [(1, "a", 0.5, 0.5, 1)], [first(5)], [first(4), first(5)]) == [(1, 5, "+", "a", "none")]
    assert sent(2, [], [pause], [pause]) == []
    assert sent(3, [(3, "a", None, None, 3)], [], []) == []
    back = sent(4, [], [first(4) | {"step": 1}, resume], [resume])
    assert [one[:4] for one in back] == [(4, 5, "-", "a")]
