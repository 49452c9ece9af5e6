"""RETAIN SIGNIFICANT on one slot: who is kept and for whom, what is forgotten, and that caches suffice.

`tests/laws/test_law_significant.py` holds whole runs to an oracle; here are reference counts, memory and what
the cache's distance promises of objects that keep to MAX SPEED.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budget import share
from support.specs import stream_spec

from core.slots import TICK, Slot, records, register, stats, updates
from stqsh.core.kernels.geometry.boxes import extended_box
from stqsh.core.kernels.geometry.boxes import region_box as rectangle_around
from stqsh.core.kernels.geometry.distance import distance
from stqsh.core.objects.object_table import ObjectTable
from stqsh.core.retention.interest_table import InterestTable
from stqsh.core.retention.region_sizes import cache_distance
from stqsh.core.retention.stream_stats import tallies
from stqsh.core.state.slot_state import restore, snapshot
from stqsh.spec.chunk import pack_json

REPORT_S = 5
SIGNIFICANT = {"retain": "significant", "report_every_us": REPORT_S * TICK, "max_speed": 0.1}
"""A stream whose moving regions are extended by 1.3: 0.1 * (2 * 5 + 3)."""
D = 1.3
FOCALS = ["a", "b"]
SQUARE = {"type": "polygon", "rings": [[[4, 4], [8, 4], [8, 8], [6, 6], [4, 8], [4, 4]]]}


def rect(x1, y1, x2, y2):
    return {"type": "rect", "x1": x1, "y1": y1, "x2": x2, "y2": y2}


def circle(x, y, radius):
    return {"type": "circle", "x": x, "y": y, "radius": radius}


def moving(focal, side):
    return {"type": "moving_rect", "xdist": side, "ydist": side, "focal": focal}


def round_about(focal, radius):
    return {"type": "moving_circle", "radius": radius, "focal": focal}


def neighbours(id_, k, **place):
    query = register(id_, {"type": "nearest", "k": k, **place})
    query["query"] |= {"kind": "nearest", "select": []}
    return query


def memory(**asked):
    return {"op": "memory", "factor": 1.0, "k": 1, "cache": 1.0, "area": 1.0} | asked


def play(slot, first, last, rows=(), commands=()):
    """A batch, with the records of focal objects sent along as routing does."""
    focal = [row for row in rows if row[1] in FOCALS]
    more = {"focal": records(slot.spec, focal)} if focal else {}
    return slot.batch(first, last, rows, commands, **more)


def kept(slot):
    """Keys of kept objects and their reference counts."""
    table = ObjectTable(slot.state, "s1/objects", stream_spec(slot.spec))
    at = np.flatnonzero(table.stored.known)
    refs = slot.state.array("s1/objects/refs")[at].tolist()
    return dict(zip(table.show_keys(at).to_pylist(), refs, strict=True))


def batches(last, size):
    """First and last steps of batches of so many steps."""
    return [(at, min(at + size - 1, last)) for at in range(1, last + 1, size)]


def run(slot, last, rows, commands, size):
    """All updates in log order."""
    told = []
    for first, to in batches(last, size):
        mine = [row for row in rows if first <= row[0] <= to]
        # Commands come at the first step of a batch, so runs are compared that have them where batches begin.
        told += updates(play(slot, first, to, mine, [c for step, c in commands if first <= step <= to]))
    return sorted(told)


def test_who_is_in_no_region_leaves_nothing_behind():
    slot = Slot(**SIGNIFICANT)
    chunks = play(slot, 1, 3, [(1, "p", 0.5, 0.5, 1), (1, "q", 5, 5, 1), (3, "p", 2, 2, 3)], [register(7)])
    assert updates(chunks) == [(1, 7, "+", "p", "none"), (3, 7, "-", "p", "left")]
    assert kept(slot) == {}
    assert stats(chunks)["memory"]["1"]["objects"] == 0


def test_a_stream_without_queries_keeps_nothing():
    slot = Slot(**SIGNIFICANT)
    play(slot, 1, 2, [(1, "p", 0.5, 0.5, 1), (2, "q", 5, 5, 2)])
    assert kept(slot) == {}
    assert stats(play(slot, 3, 3))["objects"] == 0


def test_a_stream_that_retains_all_has_no_counts_and_keeps_all():
    slot = Slot(report_every_us=REPORT_S * TICK)
    chunks = play(slot, 1, 2, [(1, "p", 0.5, 0.5, 1), (2, "q", 5, 5, 2)], [register(7)])
    assert stats(chunks)["memory"] == {}
    assert not [name for name in slot.state.header["lengths"] if "interest" in name or "refs" in name]
    assert stats(chunks)["objects"] == 2


def test_focal_objects_stay_and_count_for_others_only():
    slot = Slot(**SIGNIFICANT)
    rows = [(1, "a", 0.5, 0.5, 1), (1, "b", 9, 9, 1)]
    chunks = play(slot, 1, 1, rows, [register(7), register(8, moving("a", 1)), register(9, moving("b", 1))])
    assert kept(slot) == {"a": 1, "b": 0}
    assert stats(chunks)["memory"]["1"] | {"bytes": 0} == {
        "objects": 2,
        "focal": 2,
        "shadow": 0,
        "k": 1,
        "part": 1.0,
        "histogram": [1] + [0] * 63,
        "dropped": [0] * 64,
        "locked": 0,
        "approximate": 0,
        "least": 1.0,
        "bytes": 0,
    }
    assert kept_after(slot, [{"op": "drop", "id": 9}]) == {"a": 1}


def kept_after(slot, commands):
    play(slot, 2, 2, (), commands)
    return kept(slot)


def test_what_was_known_of_a_focal_object_goes_with_the_last_query_that_follows_it():
    slot = Slot(**SIGNIFICANT)
    play(slot, 1, 1, [(1, "a", 0, 0, 1)], [register(7, moving("a", 1)), register(8, moving("a", 1))])
    play(slot, 2, 2, (), [{"op": "drop", "id": 7}])
    assert kept(slot) == {"a": 0}
    play(slot, 3, 3, (), [{"op": "drop", "id": 8}])
    assert kept(slot) == {}
    slot.batch(
        4, 4, [(4, "a", 9, 9, 4), (4, "p", 0.2, 0, 4)], [register(9, moving("a", 1))]
    )  # nobody is told
    assert kept(slot) == {"a": 0}


def test_queries_that_pause_or_end_hold_nobody():
    slot = Slot(**SIGNIFICANT | {"report_every_us": 100 * TICK, "max_speed": 0.01})
    rows = [(1, "p", 0.5, 0.5, 1), (1, "q", 3.5, 3.5, 1)]
    commands = [register(7), register(8, rect(3, 3, 4, 4), for_us=4 * TICK), register(9, rect(0, 0, 4, 4))]
    play(slot, 1, 1, rows, commands)
    assert kept(slot) == {"p": 2, "q": 2}
    play(slot, 2, 2, (), [{"op": "pause", "id": 9}])
    assert kept(slot) == {"p": 1, "q": 1}
    play(slot, 3, 8)
    assert kept(slot) == {"p": 1}
    play(slot, 9, 9, (), [{"op": "resume", "id": 9}])
    assert kept(slot) == {"p": 2}
    assert InterestTable(slot.state, 1).held.tolist() == [1, 1]


def test_frozen_answers_of_a_paused_query_are_taken_back_by_their_keys():
    slot = Slot(**SIGNIFICANT | {"report_every_us": 100 * TICK})
    play(slot, 1, 1, [(1, "p", 0.5, 0.5, 1)], [register(7)])
    play(slot, 2, 4, (), [{"op": "pause", "id": 7}])
    assert kept(slot) == {}
    assert updates(play(slot, 5, 5, (), [{"op": "resume", "id": 7}])) == [(5, 7, "-", "p", "left")]
    assert updates(play(slot, 6, 6, [(6, "p", 0.5, 0.5, 6)])) == [(6, 7, "+", "p", "none")]


def test_who_a_focal_objects_silence_leaves_alone_goes_within_a_run_of_empty_steps():
    slot = Slot(**SIGNIFICANT)
    commands = [register(7, moving("a", 1)), register(8, rect(20, 20, 21, 21))]
    play(slot, 1, 4, [(1, "a", 0, 0, 1), (4, "p", 0.2, 0, 4), (4, "q", 20, 20, 4)], commands)
    assert kept(slot) == {"a": 0, "p": 1, "q": 1}
    chunks = play(slot, 5, 8)
    assert updates(chunks) == [(7, 7, "-", "p", "left")]
    assert kept(slot) == {"q": 1}
    play(slot, 9, 9, [(9, "a", 0, 0, 9)])
    assert kept(slot) == {"a": 0, "q": 1}  # the cells of moving regions have let the others go, too


def test_objects_that_pass_by_take_no_memory():
    slot = Slot(**SIGNIFICANT | {"key": "n"})
    slot.spec["columns"][0] = ["oid", "STRING"]
    rows, sizes = 2000, []
    play(slot, 1, 1, [(1, f"kept{i}", 0.5, 0.5, 1, None, i) for i in range(300)], [register(7)])
    for step in range(2, 52):
        batch = [
            (step, f"{step}/{i}", 5.0, 5.0, step, f"text {step}/{i}", 1000 * step + i) for i in range(rows)
        ]
        batch += [(step, f"kept{i}", 0.5, 0.5, step, None, i) for i in range(300)]
        slot.batch(step, step, batch)
        sizes.append((len(slot.state.array("s1/objects/known")), slot.state.nbytes))
    assert stats(slot.batch(52, 52))["objects"] == 300
    assert max(count for count, _ in sizes) <= 300 + 1024 + 300 // 8
    assert max(size for _, size in sizes[10:]) < 3 * max(size for _, size in sizes[:3])
    assert max(map(len, slot.state.buffers.values())) < 1 << 18


@pytest.mark.parametrize("text", [True, False])
def test_keys_are_found_again_when_rows_have_closed_ranks(text):
    slot = Slot(**SIGNIFICANT | ({} if text else {"key": "n"}))
    play(
        slot, 1, 1, [(1, f"k{i}", i % 2, 0.5, 1, "s", i) for i in range(100)], [register(7, rect(1, 0, 2, 1))]
    )
    play(slot, 2, 2, [(2, f"other{i}", 9, 9, 2, "t", 1000 + i) for i in range(3000)])
    assert len(slot.state.array("s1/objects/known")) <= 50 + 1024 + 50 // 8
    slot.state = restore(snapshot(slot.state))
    told = updates(play(slot, 3, 3, [(3, f"k{i}", 5, 5, 3, "u", i) for i in range(100)]))
    assert sorted(told) == sorted((3, 7, "-", f"k{i}", "left") for i in range(1, 100, 2))
    assert kept(slot) == {}


def test_dropping_the_stream_takes_what_was_asked_of_its_memory_along():
    slot = Slot(**SIGNIFICANT)
    play(slot, 1, 1, [(1, "p", 0.5, 0.5, 1)], [memory(factor=0.5), register(7)])
    told = {"factor": 0.5, "k": 1, "cache": 1.0, "area": 1.0, "part": 1.0}
    assert slot.state.header["memory"] == {"1": told}
    told = updates(play(slot, 2, 2, (), [{"op": "drop_stream"}]))
    assert told == [(2, 7, "-", "p", "dropped")]
    assert slot.state.header["memory"] == {}
    assert not [name for name in slot.state.header["lengths"] if name.startswith("s1/")]


def test_the_cache_grows_and_shrinks_with_its_factor():
    slot = Slot(**SIGNIFICANT)
    rows = [(1, "a", 0, 0, 1), (1, "p", 1.0, 0, 1), (1, "q", 1.7, 0, 1)]
    play(slot, 1, 1, rows, [register(7, moving("a", 1))])
    assert kept(slot) == {"a": 0, "p": 1, "q": 1}
    play(slot, 2, 2, (), [memory(factor=0.5)])
    assert kept(slot) == {"a": 0, "p": 1}
    play(slot, 3, 3, rows=[(3, "q", 1.7, 0, 3)], commands=[memory(cache=0.0)])
    assert kept(slot) == {"a": 0}
    play(slot, 4, 4, rows=[(4, "q", 1.7, 0, 4)], commands=[memory()])
    assert kept(slot) == {"a": 0, "q": 1}


def test_tallies_say_how_queries_stand():
    slot = Slot(**SIGNIFICANT)
    rows = [(1, "a", 0, 0, 1), (1, "p", 0.4, 0, 1), (1, "q", 1.7, 0, 1), (1, "r", 5, 4.5, 1)]
    commands = [
        register(1, moving("a", 1)),
        register(2, round_about("a", 2)),
        register(3, SQUARE),
        register(4, {"type": "all"}),
        register(5, moving("b", 1)),
    ]
    commands[2]["query"]["options"] = {"min_accuracy": 0.5}
    chunks = play(slot, 1, 1, rows, [*commands, neighbours(6, 1, x=5.0, y=5.0)])
    found = tallies(slot.state, stream_spec(slot.spec))
    assert found.id.tolist() == [1, 2, 3, 4, 5, 6]
    assert found.inside.tolist() == [1, 2, 1, 4, 0, 1]
    assert found.cached.tolist() == [1, 0, 0, 0, 0, 3]  # a new kNN query holds everybody
    assert found.shed.tolist() == [0] * 6
    circles = [math.pi * 4, math.pi * (2 + D) ** 2 - math.pi * 4]
    near = [math.pi * 0.25, math.pi * (0.5 + D) ** 2 - math.pi * 0.25]
    assert found.area == pytest.approx([1, circles[0], 12, np.inf, np.nan, near[0]], nan_ok=True)
    cached = [(1 + 2 * D) ** 2 - 1, circles[1], 0, 0, np.nan, near[1]]
    assert found.cache_area == pytest.approx(cached, nan_ok=True)
    assert found.min_accuracy.tolist() == [0, 0, 0.5, 0, 0, 0]
    assert found.accuracy.tolist() == [1] * 6
    assert found.locked.tolist() == [False, False, True, False, False, False]
    told = stats(chunks)["memory"]["1"]
    assert (told["objects"], told["locked"], told["approximate"]) == (4, 1, 0)
    assert told["histogram"][:5] == [0, 1, 0, 2, 0]  # r is locked


def test_areas_on_the_sphere_are_square_metres():
    slot = Slot(**SIGNIFICANT | {"planar": False, "max_speed": 1000.0})
    play(
        slot,
        1,
        1,
        [(1, "a", 10, 60, 1)],
        [register(1, rect(10, 60, 11, 61)), register(2, round_about("a", 1e4))],
    )
    found = tallies(slot.state, stream_spec(slot.spec))
    assert found.area == pytest.approx([111_195**2 * math.cos(math.radians(60.5)), math.pi * 1e8], rel=1e-4)
    assert found.cache_area == pytest.approx([0, math.pi * (2.3e4**2 - 1e8)], rel=1e-4)


# --- reference counts against brute force ---


class Brute:
    """Who is kept for whom, step by step, with plain loops."""

    def __init__(self, spec):
        self.planar, self.reach = spec["planar"], cache_distance(stream_spec(spec), TICK)
        self.kept, self.focal, self.queries, self.paused = {}, {}, {}, set()

    def step(self, n, rows, commands):
        for command in commands:
            if command["op"] == "register":
                self.queries[command["query"]["id"]] = command["query"]["region"]
                self._follow(command["query"]["region"].get("focal"))
            elif command["op"] == "drop":
                self.queries.pop(command["id"], None)
            elif command["op"] in ("pause", "resume"):
                (self.paused.add if command["op"] == "pause" else self.paused.discard)(command["id"])
        for _, key, x, y, second, *_ in rows:
            self.kept[key] = (x, y, second)
            if key in FOCALS:
                self.focal[key] = (x, y, second)
        here = {k: r for k, r in self.kept.items() if r[2] >= n - REPORT_S and r[0] is not None}
        active = {i: r for i, r in self.queries.items() if i not in self.paused}
        refs = {key: sum(self._wants(r, key, row, n) for r in active.values()) for key, row in here.items()}
        focals = {region.get("focal") for region in active.values()}
        self.kept = {key: row for key, row in here.items() if refs[key] or key in focals}
        return {key: refs[key] for key in self.kept}

    def _follow(self, key):
        if key is not None and key not in self.focal and key in self.kept:
            self.focal[key] = self.kept[key]

    def _wants(self, region, key, row, n):
        x, y, _ = row
        if region["type"] == "rect":
            return region["x1"] <= x <= region["x2"] and region["y1"] <= y <= region["y2"]
        if region["type"] == "circle":
            return distance(region["x"], region["y"], x, y, self.planar) <= region["radius"]
        a, b, second = self.focal.get(region["focal"], (None, None, 0))
        if key == region["focal"] or a is None or second < n - REPORT_S:
            return False
        if region["type"] == "moving_circle":
            return distance(a, b, x, y, self.planar) <= region["radius"] + self.reach
        side = region["xdist"] + 2 * self.reach
        x1, y1, x2, y2 = rectangle_around(a, b, side, side, self.planar)
        if not self.planar:
            farthest = abs(b) + math.degrees(self.reach / 6371008.8)
            x1, _, x2, _ = rectangle_around(a, farthest, side, side, self.planar)
        return x1 <= x <= x2 and y1 <= y <= y2


def at_random(draw, planar):
    """Places on a grid, so that some are the same; degrees are a hundredth of the grid's units."""
    unit = 1.0 if planar else 0.01
    return draw.randint(0, 40) * unit / 4, draw.randint(0, 40) * unit / 4 + (0.0 if planar else 60.0)


def a_region(draw, planar):
    x, y = at_random(draw, planar)
    size = draw.choice([0.7, 1.6, 3.1])
    unit, metres = (1.0, 1.0) if planar else (0.01, 1000.0)
    kind = draw.choice(["rect", "circle", "moving", "moving", "round"])
    if kind == "rect":
        return rect(x, y, x + size * unit, y + size * unit)
    if kind == "circle":
        return circle(x, y, size * metres)
    focal = draw.choice(FOCALS)
    return moving(focal, size * metres) if kind == "moving" else round_about(focal, size * metres)


def scenario(seed, planar, steps=24):
    """Rows and commands at random; commands come at steps 1, 8, 15 and 22, where batches of 7 begin."""
    draw = random.Random(seed)
    rows = []
    for step in range(1, steps + 1):
        for key in draw.sample([*FOCALS, *"pqrstuvw"], draw.choice([0, 1, 3, 6])):
            rows.append((step, key, *at_random(draw, planar), step))
        rows = [(*r[:2], None, None, r[4]) if draw.random() < 0.01 else r for r in rows]
    commands = [(1, register(10 + i, a_region(draw, planar))) for i in range(5)]
    commands += [
        (step, {"op": op, "id": draw.randint(10, 15)}) for step, op in ((8, "pause"), (15, "resume"))
    ]
    commands += [(8, register(20, a_region(draw, planar))), (15, {"op": "drop", "id": draw.randint(10, 13)})]
    return rows, commands


def test_references_are_those_of_brute_force():
    references = 0

    @share(4)
    @given(st.integers(0, 1 << 30), st.sampled_from([1, 7]), st.booleans())
    def holds(seed, size, planar):
        nonlocal references
        changes = SIGNIFICANT | {"planar": planar, "max_speed": 0.1 if planar else 100.0}
        rows, commands = scenario(seed, planar)
        slot = Slot(**changes)
        brute = Brute(slot.spec)
        for first, last in batches(24, size):
            now = {n: [c for step, c in commands if step == n] for n in range(first, last + 1)}
            new_rows = [r for r in rows if first <= r[0] <= last]
            play(slot, first, last, new_rows, [c for some in now.values() for c in some])
            for n in range(first, last + 1):
                expected = brute.step(n, [r for r in rows if r[0] == n], now[n])
            assert kept(slot) == expected
            held = InterestTable(slot.state, 1).held
            assert held.sum() == sum(expected.values())
            assert len(held) == len(brute.queries)
            references += sum(expected.values())

    holds()
    assert references > 0


@share(10)
@given(st.integers(0, 1 << 30), st.booleans(), st.booleans())
def test_cuts_never_show(seed, planar, near):
    changes = SIGNIFICANT | {"planar": planar, "max_speed": 0.1 if planar else 100.0}
    rows, commands = scenario(seed, planar)
    commands = [(1, command) for step, command in commands if step == 1]
    if near:
        commands += [(1, neighbours(40, 2, focal="a")), (1, neighbours(41, 3, x=2.0, y=60.0))]
    slots = [Slot(**changes) for _ in range(3)]
    whole, *others = (
        (run(slot, 24, rows, commands, size), kept(slot))
        for slot, size in zip(slots, (24, 7, 1), strict=True)
    )
    assert others == [whole, whole]


# --- what the cache's distance promises ---


def walk(draw, step, place, planar, speed):
    """Where an object is that has gone for so many seconds, not faster than it may."""
    angle, gone = draw.random() * 2 * math.pi, draw.choice([0.0, 0.5, 1.0, 1.0]) * speed * step * 0.999
    if planar:
        return place[0] + gone * math.cos(angle), place[1] + gone * math.sin(angle)
    up, side = gone * math.sin(angle) / 111_195.1, gone * math.cos(angle) / 111_195.1
    # Of the two latitudes the one nearer to the pole, so that no step is longer than it may be.
    return place[0] + side * math.cos(
        math.radians(max(abs(place[1]), abs(place[1] + up)))
    ) ** -1 * 0.99, place[1] + up


def traffic(draw, objects, steps, planar, speed, start):
    """Objects that keep to the speed, and report in time; in the order of steps."""
    rows = []
    for key in [*FOCALS, *(f"k{i}" for i in range(objects))]:
        place, at = start(draw), draw.randint(1, 2)
        while at <= steps:
            rows.append((at, key, *place, at))
            gap = draw.choice([1, 2, REPORT_S, REPORT_S])
            place, at = walk(draw, gap, place, planar, speed), at + gap
    return sorted(rows, key=lambda row: row[0])


def answers(told, last):
    """Who is in each answer after each step, from REPORT EVERY on, and why they went then."""
    now, out = defaultdict(set), []
    by_step = defaultdict(list)
    for update in told:
        by_step[update[0]].append(update)
    for step in range(1, last + 1):
        for _, query, op, key, why in by_step[step]:
            (now[query].add if op == "+" else now[query].discard)(key)
            if step > 2 * REPORT_S:
                out.append((step, query, op, key, why))
        if step > 2 * REPORT_S:
            out.append({query: frozenset(keys) for query, keys in now.items() if keys})
    return out


@share(4)
@given(st.integers(0, 1 << 30), st.sampled_from(["plane", "north", "pole"]))
def test_a_full_cache_gives_the_answers_of_a_stream_that_retains_all(seed, where):
    draw, planar = random.Random(seed), where == "plane"
    speed = 0.2 if planar else 200.0
    unit, metres = (1.0, 1.0) if planar else (0.02, 1000.0)
    latitude = {"plane": 0.0, "north": 60.0, "pole": 88.0}[where]
    wide = unit if where != "pole" else 0.3

    def start(draw):
        return draw.random() * 12 * wide, latitude + draw.random() * 12 * unit

    rows = traffic(draw, 40, 40, planar, speed, start)
    queries = [
        register(1, moving("a", 3 * metres)),
        register(2, round_about("a", 2 * metres)),
        register(3, moving("b", 1 * metres)),
        register(4, round_about("b", 0.5 * metres)),
        register(5, rect(0, latitude, 3 * wide, latitude + 3 * unit)),
    ]
    changes = SIGNIFICANT | {"planar": planar, "max_speed": speed}
    significant, all_ = (
        run(Slot(**changes | {"retain": retain}), 40, rows, [(1, query) for query in queries], 40)
        for retain in ("significant", "all")
    )
    assert answers(significant, 40) == answers(all_, 40)


@pytest.mark.parametrize("latitude", [0.0, 60.0, -88.9, 89.95])
def test_extended_rectangles_hold_what_they_may_become(latitude):
    draw = np.random.default_rng(7)
    for _ in range(300):
        x, y = draw.choice([10.0, 179.99]), latitude + draw.uniform(-0.01, 0.01)
        sides, far = tuple(draw.uniform(0, 9000, 2).tolist()), draw.uniform(1, 9000)
        x1, y1, x2, y2 = extended_box(x, y, *sides, far, False)
        place = destination(x, y, draw.uniform(0, 360), draw.choice([0.3, 1.0]) * far * (1 - 1e-9))
        becomes = rectangle_around(*place, *sides, False)
        assert y1 <= becomes[1] <= becomes[3] <= y2
        assert x1 <= becomes[0] <= becomes[2] <= x2


def destination(lon, lat, bearing, metres):
    """Where one gets to on the sphere."""
    up, turn, angle = math.radians(lat), math.radians(bearing), metres / 6371008.8
    high = math.asin(math.sin(up) * math.cos(angle) + math.cos(up) * math.sin(angle) * math.cos(turn))
    ahead = math.cos(angle) - math.sin(up) * math.sin(high)
    side = math.atan2(math.sin(turn) * math.sin(angle) * math.cos(up), ahead)
    return (lon + math.degrees(side) + 540) % 360 - 180, math.degrees(high)


def test_a_cache_of_nothing_misses_who_lies_before_a_moving_region():
    told = []
    for factor in (1.0, 0.0):
        slot = Slot(**SIGNIFICANT)
        rows = [(1, "a", 0, 0, 1), (1, "p", 0.6, 0, 1), (2, "a", 0.2, 0, 2)]
        told.append(updates(play(slot, 1, 2, rows, [memory(factor=factor), register(7, moving("a", 1))])))
    assert told == [[(2, 7, "+", "p", "none")], []]


def test_neighbours_that_move_out_stay_and_their_circles_grow():
    slot = Slot(**SIGNIFICANT | {"max_speed": 0.01})
    rows = [(1, "p", 1, 0, 1), (1, "q", 1.05, 0, 1), (1, "r", 3, 0, 1), (2, "p", 1, 0, 2)]
    play(slot, 1, 1, [row for row in rows if row[0] == 1], [neighbours(7, 1, x=0.0, y=0.0)])
    assert set(kept(slot)) == {"p", "q", "r"}  # a new query holds everybody
    play(slot, 2, 2)
    assert set(kept(slot)) == {"p", "q"}
    play(slot, 3, 3, [(3, "p", 8, 0, 3), (3, "s", 2, 0, 3)])
    assert set(kept(slot)) == {"p", "q"}  # p was the neighbour, q is within the cache
    play(slot, 4, 4, [(4, "s", 2, 0, 4)])
    assert set(kept(slot)) == {"q"}


def test_a_neighbour_that_is_kept_for_another_query_only_does_not_count_as_held():
    slot = Slot(**SIGNIFICANT)
    play(slot, 1, 1, [(1, "near", 1, 0, 1)], [neighbours(1, 1, x=0.0, y=0.0)])
    rows = [(2, "near", None, None, 2), (2, "far", 9, 0, 2)]
    play(slot, 2, 2, rows, [neighbours(2, 1, x=9.0, y=0.0)])
    assert kept(slot) == {"far": 1}
    told = tallies(slot.state, stream_spec(slot.spec))
    assert (told.inside.tolist(), told.cached.tolist()) == ([0, 1], [0, 0])


def test_regions_reach_across_the_line_of_180_degrees():
    slot = Slot(**SIGNIFICANT | {"planar": False, "max_speed": 100.0})
    rows: Iterable[tuple] = [(1, "a", 179.996, 60, 1), (1, "p", -179.9986, 60, 1), (1, "far", 0, 60, 1)]
    assert not updates(play(slot, 1, 1, rows, [register(7, moving("a", 500.0))]))  # 300 m from its centre
    assert kept(slot)["p"] == 1
    assert updates(play(slot, 2, 2, [(2, "a", 179.9975, 60, 2)])) == [(2, 7, "+", "p", "none")]
    assert not updates(play(slot, 3, 3, [(3, "a", 179.9985, 60, 3)]))
    assert updates(play(slot, 4, 4, [(4, "a", -179.99, 60, 4)])) == [(4, 7, "-", "p", "left")]


def test_answers_from_published_arrays_are_the_same():
    slot = Slot(**SIGNIFICANT)
    play(slot, 1, 1, [(1, "a", 0, 0, 1), (1, "p", 0.4, 0, 1)], [register(1, moving("a", 1))])
    copy = restore(snapshot(slot.state))
    for array in copy.buffers.values():
        array.flags.writeable = False
    one, other = tallies(slot.state, stream_spec(slot.spec)), tallies(copy, stream_spec(slot.spec))
    assert one.id.tolist() == other.id.tolist() == [1]
    assert one.inside.tolist() == other.inside.tolist() == [1]
    assert pa.array(one.area).equals(pa.array(other.area))
    assert pack_json(one.locked.tolist()) == pack_json(other.locked.tolist())


def test_cells_stay_where_they_count_as_rows_close_ranks():
    slot = Slot(**SIGNIFICANT)
    near, far = [(0.5, 0.5)] * 100, [(90.0, 90.0)] * 3000
    for step, places in enumerate((near, near, far + near, near), start=1):
        rows = [(step, "f", 0.5, 0.5, step)]
        rows += [(step, f"{n}", x, y, step) for n, (x, y) in enumerate(places)]
        play(slot, step, step, rows, [register(7, moving("f", 4.0))] if step == 1 else ())
        for cells in ("range", "interest"):
            assert len(slot.state.array(f"s1/{cells}/cells/slot")) == len(slot.state.array("s1/objects/x"))
