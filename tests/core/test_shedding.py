"""Load shedding on one slot: who is dropped and told so, what queries lack then, and how all comes back."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budget import share
from support.specs import stream_spec
from support.typed import snapshot_spec

from core.slots import Slot, records, register, stats
from stqsh.core.retention.dropped_objects import dropped_count
from stqsh.core.retention.stream_stats import tallies
from stqsh.core.snapshots.select import part
from stqsh.core.state.slot_state import restore, snapshot
from stqsh.core.state.string_dictionary import pool_of

REPORT_S = 5
ONE = {"type": "rect", "x1": 0.0, "y1": 0.0, "x2": 6.0, "y2": 6.0}
TWO = {"type": "rect", "x1": 4.0, "y1": 0.0, "x2": 10.0, "y2": 6.0}
AROUND = {"type": "moving_rect", "focal": "f", "xdist": 4.0, "ydist": 4.0}
CIRCLE = {"type": "moving_circle", "focal": "f", "radius": 2.0}


def keeping(**changes):
    """A slot that keeps what is significant; a second is a step."""
    return Slot(retain="significant", report_every_us=REPORT_S * 1_000_000, max_speed=0.1, **changes)


def memory(k=1, *, factor=1.0, cache=1.0, area=1.0, part=1.0):
    return {"op": "memory", "factor": factor, "k": k, "cache": cache, "area": area, "part": part}


def asks(id_, region=ONE, least=0.0, **more):
    command = register(id_, region, **more)
    return command | {"query": command["query"] | {"options": {"min_accuracy": least}}}


def rows(step, **places):
    return [(step, key, *(place or (None, None)), step) for key, place in places.items()]


def kept(slot):
    """Who is kept."""
    table = {"stream_id": 1, "kind": "range", "region": {"type": "all"}, "condition": None}
    return set(selected(slot, table))


def selected(slot, query):
    """The keys that the SELECT of a query returns."""
    share_ = part(slot.state, snapshot_spec(query | {"stream_id": 1, "select": []}))
    return [] if share_ is None else share_.column("key").to_pylist()


def tally(slot):
    """Kept, dropped and accuracy of each query, by id."""
    all_ = tallies(slot.state, stream_spec(slot.spec))
    held = (all_.inside + all_.cached).tolist()
    figures = zip(held, all_.shed.tolist(), all_.accuracy.tolist(), strict=True)
    return dict(zip(all_.id.tolist(), figures, strict=True))


def test_who_reports_and_has_one_reference_is_dropped():
    slot = keeping()
    came = rows(1, a=(1, 1), b=(5, 1), c=(9, 1), d=(2, 2))
    slot.batch(1, 1, came, [asks(7, ONE), asks(8, TWO)])
    told = slot.updates(2, 2, rows(2, a=(1, 2), b=(5, 2)), [memory(2)])
    assert told == [(2, 7, "-", "a", "shed")]
    assert kept(slot) == {"b", "c", "d"}
    assert slot.updates(3, 3, rows(3, e=(9, 2), c=(20, 1))) == [(3, 8, "-", "c", "left")]
    assert kept(slot) == {"b", "d"}
    assert tally(slot) == {7: (2, 1, 2 / 3), 8: (1, 1, 1 / 2)}


def test_of_those_that_one_query_less_wants_a_part_goes_always_the_same_ones():
    slot, names = keeping(), [f"o{i}" for i in range(100)]
    everybody = dict.fromkeys(names, (1, 1))
    slot.batch(1, 1, rows(1, **everybody), [asks(7, ONE)])
    some = {key for _, _, _, key, _ in slot.updates(2, 2, rows(2, **everybody), [memory(2, part=0.3)])}
    assert 20 <= len(some) <= 40
    assert slot.updates(3, 3, rows(3, **everybody)) == []
    more = {key for _, _, _, key, _ in slot.updates(4, 4, rows(4, **everybody), [memory(2, part=0.6)])}
    assert 20 <= len(more) <= 40
    assert kept(slot) == set(names) - some - more
    back = slot.updates(5, 5, rows(5, **everybody), [memory(3, part=0.6)])
    assert {(op, why) for _, _, op, _, why in back} == {("-", "shed")}
    assert kept(slot) == set()
    back = slot.updates(6, 6, rows(6, **everybody), [memory(2, part=0.3)])
    assert kept(slot) == set(names) - some
    assert {op for _, _, op, _, _ in back} == {"+"}


def test_memory_figures_tell_of_the_shadow_and_of_s():
    slot = keeping()
    came = rows(1, a=(1, 1), b=(5, 1), c=(9, 1), d=(2, 2))
    before = stats(slot.batch(1, 1, came, [asks(7, ONE), asks(8, TWO)]))["memory"]["1"]
    assert (before["objects"], before["shadow"], before["histogram"][:3]) == (4, 0, [3, 1, 0])
    after = stats(slot.batch(2, 2, rows(2, a=(1, 2), b=(5, 2)), [memory(2)]))["memory"]["1"]
    assert (after["objects"], after["shadow"], after["histogram"][:3]) == (3, 1, [2, 1, 0])
    assert (after["k"], after["approximate"], after["least"]) == (2, 1, 2 / 3)
    assert after["dropped"] == [1] + [0] * 63
    later = stats(slot.batch(3, 3, rows(3, z=(20, 1)), [asks(9, ONE)]))["memory"]["1"]
    assert later["dropped"] == [0, 1] + [0] * 62  # whoever is dropped is still asked for


def test_what_an_earlier_version_had_dropped_without_counting_is_counted():
    slot = keeping()
    slot.batch(1, 1, rows(1, a=(1, 1), b=(5, 1)), [asks(7), asks(8, TWO)])
    slot.batch(2, 2, rows(2, a=(1, 2)), [memory(2)])
    slot.state.release("s1/shadow/refs")
    del slot.state.header["memory"]["1"]["part"]
    after = stats(slot.batch(3, 3, rows(3, b=(5, 2))))["memory"]["1"]
    assert (after["shadow"], after["dropped"][:2], after["part"]) == (1, [1, 0], 1.0)


def test_what_a_locked_query_holds_stays_and_does_not_count_in_s():
    slot = keeping()
    came = rows(1, a=(1, 1), b=(1, 2), c=(1, 3), d=(9, 1))
    slot.batch(1, 1, came, [asks(7, ONE, 0.6), asks(8, TWO)])
    told = slot.updates(2, 2, rows(2, a=(1, 1), b=(1, 2), c=(1, 3), d=(9, 1)), [memory(2)])
    assert told == [(2, 7, "-", "a", "shed"), (2, 8, "-", "d", "shed")]
    figures = stats(slot.batch(3, 3, rows(3, e=(9, 2))))["memory"]["1"]
    assert (figures["locked"], figures["histogram"][:2], figures["shadow"]) == (1, [0, 0], 3)
    assert slot.updates(4, 4, rows(4, b=(1, 2.5), c=(1, 3.5))) == []


def test_at_a_locked_query_the_same_objects_stay_dropped():
    slot, names = keeping(), "abcdefghij"
    everybody = {name: (1, 1 + i / 4) for i, name in enumerate(names)}
    slot.batch(1, 1, rows(1, **everybody), [asks(7, ONE, 0.75)])
    told = slot.updates(2, 2, rows(2, **everybody), [memory(2)])
    assert told == [(2, 7, "-", "a", "shed"), (2, 7, "-", "b", "shed")]
    for step in range(3, 20):  # each time others report together
        some = {name: everybody[name] for i, name in enumerate(names) if (i + step) % 3}
        assert slot.updates(step, step, rows(step, **some)) == []
    assert tally(slot)[7] == (8, 2, 0.8)


@pytest.mark.parametrize("departure", ["by an empty location", "out of the region", "by silence"])
def test_departures_take_a_locked_query_below_its_minimum_until_the_dropped_report(departure):
    """No drop could have been small enough: whatever a query holds may go at once, and what it misses has no
    record to come back with before it reports.
    """
    slot, everybody = keeping(), {name: (1, 1 + i / 4) for i, name in enumerate("abcdefghij")}
    slot.batch(1, 1, rows(1, **everybody), [asks(7, ONE, 0.75)])
    slot.batch(2, 2, rows(2, **everybody), [memory(2)])
    assert tally(slot)[7] == (8, 2, 0.8)
    staying, step = {name: everybody[name] for name in "abghij"}, REPORT_S + 3
    places = {"by an empty location": None, "out of the region": (20, 20)}
    gone = {name: places[departure] for name in "cdef" if departure in places}
    slot.batch(3, step - 1, rows(step - 1, **(everybody if gone else staying)))
    assert tally(slot)[7] == (8, 2, 0.8)
    slot.batch(step, step, rows(step, **gone))
    assert tally(slot)[7] == (4, 2, 4 / 6)
    told = slot.updates(step + 1, step + 1, rows(step + 1, **staying))
    assert [op for _, _, op, *_ in told] == ["+"]
    assert tally(slot)[7] == (5, 1, 5 / 6)


def test_a_focal_object_is_never_dropped():
    slot = keeping()
    came = rows(1, f=(1, 1), a=(2, 2))
    focal = {"focal": records(slot.spec, came[:1])}
    slot.batch(1, 1, came, [asks(7, AROUND), asks(8, ONE)], **focal)
    moved = rows(2, f=(1, 2), a=(2, 2))
    told = slot.updates(2, 2, moved, [memory(3)], focal=records(slot.spec, moved[:1]))
    assert told == [(2, 7, "-", "a", "shed"), (2, 8, "-", "a", "shed")]
    assert kept(slot) == {"f"}


def test_shadows_follow_objects_that_report_and_fall_silent():
    slot = keeping()
    slot.batch(1, 1, rows(1, a=(1, 1), b=(2, 1)), [asks(7, ONE), asks(8, TWO), memory(2)])
    assert tally(slot) == {7: (0, 2, 0.0), 8: (0, 0, 1.0)}
    slot.batch(2, 2, rows(2, a=(9, 1)))
    assert tally(slot) == {7: (0, 1, 0.0), 8: (0, 1, 0.0)}
    slot.batch(3, 3, rows(3, a=(5, 1)))  # two are interested now
    assert tally(slot) == {7: (1, 1, 0.5), 8: (1, 0, 1.0)}
    assert kept(slot) == {"a"}
    slot.batch(4, 4, rows(4, a=(30, 1)))
    assert tally(slot) == {7: (0, 1, 0.0), 8: (0, 0, 1.0)}
    slot.batch(5, 30)
    assert (tally(slot)[7], dropped_count(slot.state, 1)) == ((0, 0, 1.0), 0)


def test_shadows_that_fell_silent_leave_nothing_behind():
    slot, each = keeping(), 2000
    slot.batch(1, 1, rows(1, stays=(1, 1)), [asks(7, ONE), memory(2)])
    for step in range(2, 14):
        came = rows(step, **{f"o{step * each + i}": (1, 1) for i in range(each)})
        slot.batch(step, step, [*came, *rows(step, stays=(1, 1))])
        assert tally(slot)[7][:2] == (0, min(step - 1, REPORT_S + 1) * each + 1)
    assert kept(slot) == set()
    assert len(pool_of(slot.state, 1)) < 2 * (REPORT_S + 1) * each + 4096 + each


@pytest.mark.parametrize("region", [AROUND, CIRCLE])
def test_shadows_are_counted_anew_as_queries_move_and_come(region):
    slot = keeping()
    came = rows(1, f=(5, 5), a=(5, 4), b=(9.5, 5))
    commands = [asks(7, region), memory(9, factor=0.0)]
    slot.batch(1, 1, came, commands, focal=records(slot.spec, came[:1]))
    assert tally(slot) == {7: (0, 1, 0.0)}
    came = rows(2, b=(6, 5))
    slot.batch(2, 2, came, [asks(8, ONE | {"x2": 5.5})])
    assert tally(slot) == {7: (0, 2, 0.0), 8: (1, 1, 0.5)}  # f is in the second, and is focal
    moved = rows(3, f=(7.5, 5))
    slot.batch(3, 3, moved, focal=records(slot.spec, moved))
    assert tally(slot) == {7: (0, 1, 0.0), 8: (0, 1, 0.0)}
    slot.batch(4, 4, commands=[{"op": "drop", "id": 8}])
    assert tally(slot) == {7: (0, 1, 0.0)}
    assert dropped_count(slot.state, 1) == 1
    gone = rows(5, f=None)
    slot.batch(5, 5, gone, focal=records(slot.spec, gone))
    assert (tally(slot)[7][:2], dropped_count(slot.state, 1)) == ((0, 0), 0)


def test_a_neighbour_is_missed_by_the_queries_that_would_ask_for_it():
    slot = keeping()
    nearest = {"type": "nearest", "x": 0.0, "y": 0.0, "k": 1}
    query = register(7, nearest)["query"] | {"kind": "nearest", "options": {}}
    slot.batch(1, 1, rows(1, a=(1, 0), b=(2, 0), c=(3, 0)), [{"op": "register", "query": query}])
    slot.batch(2, 2, rows(2, b=(1.5, 0)), [memory(2)])
    assert tally(slot)[7][:2] == (1, 1)
    assert kept(slot) == {"a"}
    slot.batch(3, 3)
    assert tally(slot)[7][:2] == (1, 1)
    told = slot.batch(4, 4, rows(4, b=(1.5, 0)), [memory(1)])
    assert stats(told)["memory"]["1"]["shadow"] == 0
    assert tally(slot)[7] == (2, 0, 1.0)


def test_all_are_back_within_one_report_once_k_is_one_again():
    slot, honest = keeping(), keeping()
    places = {key: (x / 2, 1 + x / 5) for x, key in enumerate("abcdefghijkl")}
    for both in (slot, honest):
        both.batch(1, 1, rows(1, **places), [asks(7, ONE), asks(8, TWO)])
    slot.batch(2, 2, rows(2, **places), [memory(2)])
    honest.batch(2, 2, rows(2, **places))
    assert len(kept(slot)) < len(kept(honest))
    slot.batch(3, 3, commands=[memory(1)])
    honest.batch(3, 3)
    assert len(kept(slot)) < len(kept(honest))
    for both in (slot, honest):
        for step, key in enumerate(places, start=4):
            both.batch(step, step, [(step, key, *places[key], step)])
    assert kept(slot) == kept(honest)
    assert {row[1:] for row in tally(slot).values()} == {(0, 1.0)}


CUTS = {
    "rect": (ONE, (3, 3), (0.5, 3)),
    "circle": ({"type": "circle", "x": 3.0, "y": 3.0, "radius": 3.0}, (3, 4), (3, 0.5)),
    "polygon": (
        {"type": "polygon", "rings": [[[0, 0], [6, 0], [6, 6], [0, 6], [0, 0]]]},
        (3, 3),
        (0.5, 3),
    ),
    "moving_rect": (AROUND, (5, 6), (5, 6.9)),
    "moving_circle": (CIRCLE, (5, 6), (5, 6.9)),
}


@pytest.mark.parametrize("kind", CUTS)
def test_what_a_smaller_region_cuts_off_is_told_forgotten_and_comes_back(kind):
    region, within, (x, y) = CUTS[kind]
    slot, other = keeping(), {"type": "rect", "x1": x + 0.01, "y1": y, "x2": x + 0.01, "y2": y}
    first = rows(1, f=(5, 5) if "focal" in region else (50, 50))
    came = [*first, *rows(1, a=within, b=(x, y), c=(x + 0.01, y))]
    slot.batch(1, 1, came, [asks(7, region), asks(8, other)], focal=records(slot.spec, first))
    told = slot.updates(2, 2, (), [memory(area=0.5, cache=0.0)])
    assert told == [(2, 7, "-", "b", "shed"), (2, 7, "-", "c", "shed")]
    assert kept(slot) - {"f"} == {"a", "c"}
    assert [row[2] for row in tally(slot).values()] == [0.5, 0.5]
    assert slot.updates(3, 3, (), [memory()]) == [(3, 7, "+", "c", "none")]
    assert slot.updates(4, 4, rows(4, b=(x, y))) == [(4, 7, "+", "b", "none")]
    assert [row[2] for row in tally(slot).values()] == [1.0, 1.0]


def test_no_region_shrinks_below_its_least_accuracy():
    slot = keeping()
    slot.batch(1, 1, rows(1, a=(3, 0.5)), [asks(7, ONE, 0.9), asks(8, ONE, 0.3)])
    assert slot.updates(2, 2, (), [memory(area=0.1)]) == [(2, 8, "-", "a", "shed")]
    assert {i: row[2] for i, row in tally(slot).items()} == {7: 0.9, 8: 0.3}
    assert slot.updates(3, 3, rows(3, b=(3, 0.5)), [asks(9, ONE)]) == [(3, 7, "+", "b", "none")]


def test_a_smaller_cache_takes_nobody_out_of_an_answer():
    slot = keeping()
    came = rows(1, f=(5, 5), a=(5, 6), b=(5, 7.5), c=(5, 8.2))
    slot.batch(1, 1, came, [asks(7, AROUND)], focal=records(slot.spec, came[:1]))
    assert kept(slot) == {"f", "a", "b", "c"}
    assert slot.updates(2, 2, (), [memory(cache=0.5)]) == []
    assert kept(slot) == {"f", "a", "b"}
    assert slot.updates(3, 3, (), [memory(cache=0.0)]) == []
    assert kept(slot) == {"f", "a"}


def test_a_paused_query_goes_on_with_what_is_left_of_its_region():
    slot = keeping()
    slot.batch(1, 1, rows(1, a=(3, 3), b=(3, 0.5)), [asks(7, ONE), asks(8, ONE, 1.0)])
    slot.batch(2, 2, (), [{"op": "pause", "id": 7}])
    assert slot.updates(3, 3, (), [memory(area=0.5)]) == []
    assert slot.updates(4, 4, (), [{"op": "resume", "id": 7}]) == [(4, 7, "-", "b", "shed")]


def test_a_snapshot_asks_for_the_whole_region():
    slot = keeping()
    slot.batch(1, 1, rows(1, a=(3, 3), b=(3, 0.5)), [asks(7, ONE), asks(8, ONE, 1.0)])
    slot.batch(2, 2, (), [memory(area=0.5)])
    query = {"kind": "range", "region": ONE, "condition": None}
    assert set(selected(slot, query)) == {"a", "b"}


def test_a_query_that_ends_or_goes_as_regions_shrink_takes_back_what_it_had():
    slot = keeping()
    asked = [asks(7, ONE, for_us=1_000_000), asks(8, ONE), asks(9, ONE)]
    slot.batch(1, 1, rows(1, a=(3, 0.5)), asked)
    told = slot.updates(2, 2, (), [memory(area=0.5), {"op": "drop", "id": 8}])
    assert told == [(2, 7, "-", "a", "ended"), (2, 8, "-", "a", "dropped"), (2, 9, "-", "a", "shed")]


def test_a_wait_for_dwell_ends_where_a_region_shrinks():
    slot = keeping()
    command = register(7, ONE)
    command["query"]["options"] = {"dwell_us": 2_000_000}
    slot.batch(1, 1, rows(1, a=(3, 0.5), b=(3, 3)), [command])
    assert slot.updates(2, 2, (), [memory(area=0.5)]) == []
    assert slot.updates(3, 3, rows(3, b=(3, 3))) == [(3, 7, "+", "b", "none")]
    assert slot.updates(4, 5, (), [memory(area=0.01)]) == []


REGIONS: list[dict[str, Any]] = [ONE, TWO, {"type": "circle", "x": 5.0, "y": 3.0, "radius": 3.0}, AROUND]
F = 3.0, 3.0
REACH = 0.1 * (2 * REPORT_S + 3)


def wanted(key, place):
    """The queries that ask for an object, by formula."""
    x, y = place
    asked = {7} if 0 <= x <= 6 and 0 <= y <= 6 else set()
    asked |= {8} if 4 <= x <= 10 and 0 <= y <= 6 else set()
    asked |= {9} if math.dist(place, (5, 3)) <= 3 else set()
    near = key != "f" and abs(x - F[0]) <= 2 + REACH and abs(y - F[1]) <= 2 + REACH
    return asked | ({10} if near else set())


@st.composite
def stories(draw):
    """For each step what the memory is told and who reports where; and what the queries insist on."""
    places = st.tuples(st.integers(-1, 11), st.integers(-1, 7)).map(lambda p: (p[0] + 0.25, p[1] + 0.25))
    moves = st.dictionaries(st.sampled_from("abcdegh"), st.one_of(places, places, st.none()))
    told = st.one_of(st.none(), st.none(), st.builds(memory, st.integers(1, 3)))
    steps = draw(st.lists(st.tuples(told, moves), min_size=2, max_size=8))
    least = draw(st.lists(st.sampled_from([0.0, 0.0, 0.3, 0.5, 0.8, 1.0]), min_size=4, max_size=4))
    return steps, least


class Told:
    """A slot that a story is told to; `updates` are all so far."""

    def __init__(self, story):
        (self.steps, least), self.slot, self.updates = story, keeping(), []
        asked = zip(REGIONS, least, strict=True)
        self.take(0, 1, [asks(i, region, low) for i, (region, low) in enumerate(asked, start=7)])

    def take(self, begin, end, commands=()):
        """A batch of the story's steps begin + 1 .. end."""
        commands = [*commands, *([self.steps[begin][0]] if self.steps[begin][0] else [])]
        every = [row for n in range(begin, end) for row in rows(n + 1, f=F, **self.steps[n][1])]
        focal = records(self.slot.spec, [row for row in every if row[1] == "f"])
        self.updates += self.slot.updates(begin + 1, end, every, commands, focal=focal)


@share(2)
@given(stories())
def test_counts_are_true_and_answers_are_those_over_what_is_kept(story):
    steps, least = story
    told, places, shadow, answers, k, seen = Told(story), {}, {}, {i: set() for i in range(7, 11)}, 1, 0
    for step, (command, moves) in enumerate(steps, start=1):
        if step > 1:
            told.take(step - 1, step)
        k = command["k"] if command else k
        places |= {key: (place, step) for key, place in (moves | {"f": F}).items()}
        stay, counts = kept(told.slot), tally(told.slot)
        for query, op, key in sorted((u[1], u[2] == "+", u[3]) for u in told.updates[seen:]):
            assert (key in answers[query]) != op
            answers[query] ^= {key}
        seen = len(told.updates)
        for i, region in enumerate(REGIONS[:3], start=7):
            query = {"kind": "range", "region": region, "condition": None}
            assert set(selected(told.slot, query)) == answers[i]
        want = {key: wanted(key, place) for key, (place, _) in places.items() if place}
        weak = {key for key in moves if 0 < len(want.get(key, ())) < k}
        dropped = weak - stay
        assert {key for key in moves if want.get(key)} - stay == dropped
        shadow = {key for key in shadow if step - places[key][1] <= REPORT_S and want.get(key)} - set(moves)
        shadow |= dropped
        assert dropped_count(told.slot.state, 1) == len(shadow)
        for i, low in enumerate(least, start=7):
            held, lacks = (sum(i in want[key] for key in keys) for keys in (stay, shadow))
            accuracy = held / (held + lacks) if held + lacks else 1.0
            assert counts[i] == (held, lacks, accuracy)
            assert accuracy >= low or not any(i in want[key] for key in dropped)
        locked = {
            i for i, low in enumerate(least, start=7) if low and counts[i][0] - 1 < low * sum(counts[i][:2])
        }
        assert all(want[key] & locked for key in weak & stay)  # who is weak stays for those only
        free = Counter(len(want[key]) for key in stay if want[key] and not want[key] & locked)
        s = told.slot.state.array("s1/interest/histogram").tolist()
        assert s == [free[i] for i in range(1, 65)]


@share(4)
@given(stories(), st.sets(st.integers(1, 8)))
def test_neither_cuts_nor_restarts_change_what_is_told(story, cuts):
    steps, _ = story
    one, other = Told(story), Told(story)
    for step in range(1, len(steps)):
        one.take(step, step + 1)
    begin = 1
    for end in range(2, len(steps) + 1):
        if end == len(steps) or steps[end][0] or end in cuts:
            other.slot.state = restore(snapshot(other.slot.state))
            other.take(begin, end)
            begin = end
    assert one.updates == other.updates
    assert tally(one.slot) == tally(other.slot)
    assert kept(one.slot) == kept(other.slot)
