"""Queries of one template: for a slot as if each had come by itself, to the last byte."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from support.budget import share
from support.typed import plain, slot_query

from core.slots import TICK, Slot
from stqsh.core.queries.registrations import NewQueries, gathered, unpack_alike
from stqsh.core.state.slot_state import snapshot
from stqsh.spec.older_queries import composed
from stqsh.spec.query import SlotQuery
from stqsh.spec.query_rows import FOCAL_PATH, REGION_PATH, QueryRows, filled, pack_alike

near = st.integers(-2, 3).map(float)
sizes = st.sampled_from([0.5, 1.0, 2.5])
keys = st.sampled_from("abcx")
PLACES = {
    "rect": {"type": "rect", "x1": 0.0, "y1": 0.0, "x2": 0.0, "y2": 0.0},
    "circle": {"type": "circle", "x": 0.0, "y": 0.0, "radius": 1.5},
    "sized": {"type": "circle", "x": 0.0, "y": 0.0, "radius": 1.5},
    "nearest": {"type": "nearest", "k": 2, "x": 0.0, "y": 0.0},
    "all": {"type": "all"},
    "around": {"type": "moving_rect", "focal": "a", "xdist": 1.0, "ydist": 2.0},
    "sized around": {"type": "moving_circle", "focal": "a", "radius": 1.0},
    "nearest to": {"type": "nearest", "k": 2, "focal": "a"},
    "around one": {"type": "moving_circle", "focal": "b", "radius": 1.5},
    "polygon": {"type": "polygon", "rings": [[[0.0, 0.0], [2.0, 0.0], [1.0, 2.0], [0.0, 0.0]]]},
}
HOLES = {
    "rect": ("x1", "y1", "x2", "y2"),
    "circle": ("x", "y"),
    "sized": ("x", "y", "radius"),
    "nearest": ("x", "y"),
    "all": (),
    "around": ("xdist", "ydist", "focal"),
    "sized around": ("radius", "focal"),
    "nearest to": ("focal",),
    "around one": (),
    "polygon": (),
}
CONTENTS = {"focal": keys, "radius": sizes, "xdist": sizes, "ydist": sizes}
"""What is in holes that hold no coordinate."""
CONDITIONS = (
    None,
    ["cmp", "=", ["col", "status"], ["lit", "free", "STRING"]],
    ["cmp", ">", ["col", "n"], ["lit", 2, "BIGINT"]],
    ["contains", ["col", "status"], "free taxi", "any"],
)


OF_CONDITIONS = ((), ((3, 1),), ((3, 1),), ((2,),))
"""The paths within each of them to a constant that may differ."""
CONSTANTS = {"STRING": st.sampled_from(["free", "a free taxi", "x"]), "BIGINT": st.integers(0, 4)}


@st.composite
def patterns(draw):
    """A pattern, the paths to what differs, and that of each of its queries."""
    place = draw(st.sampled_from(sorted(PLACES)))
    kind = "nearest" if PLACES[place]["type"] == "nearest" else "range"
    number, for_us = draw(st.integers(0, len(CONDITIONS) - 1)), draw(st.sampled_from([None, 2 * TICK]))
    condition = CONDITIONS[number]
    pattern = {"kind": kind, "region": PLACES[place], "condition": condition, "for_us": for_us, "select": []}
    holes = {(*REGION_PATH, hole): CONTENTS.get(hole, near) for hole in HOLES[place]}
    if condition is not None and draw(st.booleans()):
        [path] = OF_CONDITIONS[number]
        holes["members", "condition", *path] = CONSTANTS["BIGINT" if number == 2 else "STRING"]
    if kind == "nearest" and draw(st.booleans()):
        holes[*REGION_PATH, "k"] = st.integers(1, 3)
    rows = draw(st.lists(st.fixed_dictionaries(holes), min_size=1, max_size=6))
    return composed(pattern), [*holes], [in_order(some) for some in rows]


def in_order(row):
    """A rectangle's lower corner first, as specs have it."""
    if (*REGION_PATH, "x1") not in row:
        return row
    for low, high in (("x1", "x2"), ("y1", "y2")):
        ends = sorted((row[*REGION_PATH, low], row[*REGION_PATH, high]))
        row = row | dict(zip([(*REGION_PATH, low), (*REGION_PATH, high)], ends, strict=True))
    return row


def alike(some, first):
    """The queries of a pattern with ids from `first` on: as a payload, and as commands one by one."""
    pattern, paths, rows = some
    ids = np.arange(first, first + len(rows))
    values = tuple(pa.array([row[path] for row in rows]) for path in paths)
    specs = [
        filled({**pattern, "id": id_}, paths, [row[path] for path in paths])
        for id_, row in zip(ids.tolist(), rows, strict=True)
    ]
    payload = pack_alike(QueryRows(msgspec.convert(pattern, SlotQuery), ids, tuple(paths), values))
    return payload, [{"op": "register", "query": spec} for spec in specs]


def packed(pattern, ids, numbers, focals=None):
    """Queries of a pattern, by the numbers of their regions and the keys of their focal objects."""
    values = {(*REGION_PATH, name): pa.array(some) for name, some in numbers.items()}
    if focals is not None:
        values[FOCAL_PATH] = focals
    return pack_alike(QueryRows(slot_query(pattern), np.array(ids), tuple(values), tuple(values.values())))


statuses = st.sampled_from(["free", "a free taxi", "x"])
reports = st.lists(st.tuples(st.sampled_from("abcd"), near, near, statuses, st.integers(0, 5)), max_size=6)


@share(3)
@given(
    st.lists(patterns(), min_size=1, max_size=3),
    st.lists(st.tuples(st.sampled_from(["drop", "pause"]), st.integers(1, 19)), max_size=4),
    st.lists(reports, min_size=3, max_size=3),
)
def test_queries_of_one_template_are_queries_as_all_others(some, later, rows):
    payloads, single, first = [], [], 1
    for one in some:
        payload, specs = alike(one, first)
        payloads.append(("register_alike", 1, payload))
        single += specs
        first += len(specs)
    later = [{"op": op, "id": id_} for op, id_ in later]
    together, alone = Slot(text="status"), Slot(text="status")
    for step, some in enumerate(rows, start=1):
        brought = [(step, oid, x, y, step, status, n) for oid, x, y, status, n in some]
        asked = [*single, *later], later, payloads
        commands, rest, beside = asked if step == 2 else ((), (), ())
        outs = [
            together.batch(step, step, brought, rest, beside=beside),
            alone.batch(step, step, brought, commands),
        ]
        told = [[(c.stream, c.kind, c.payload) for c in out if c.kind != "stats"] for out in outs]
        assert told[0] == told[1]
        assert b"".join(snapshot(together.state)) == b"".join(snapshot(alone.state))


def test_newcomers_are_gathered_in_the_order_of_their_ids():
    pattern = {"kind": "range", "region": PLACES["rect"], "condition": None, "for_us": None}
    numbers = {name: np.arange(3.0) for name in HOLES["rect"]}
    some = unpack_alike(packed(pattern, [4, 5, 6], numbers))
    one = slot_query({**pattern, "id": 5_000, "region": PLACES["circle"]})
    both = gathered([NewQueries.of([one]), some])
    assert both.ids.tolist() == [4, 5, 6, 5000]
    assert [plain(spec.region) for spec in both] == [
        *({"type": "rect", "x1": i, "y1": i, "x2": i, "y2": i} for i in (0.0, 1.0, 2.0)),
        PLACES["circle"],
    ]
    assert [spec.id for spec in both.those(np.array([False, True, False, True]))] == [5, 5000]


def test_newcomers_tell_whom_they_move_with():
    still = NewQueries.of([slot_query({"id": 7, "kind": "range", "region": PLACES["rect"]})])
    alone = NewQueries.of([slot_query({"id": 2, "kind": "range", "region": PLACES["around one"]})])
    around = {"kind": "range", "region": PLACES["around"]}
    numbers = {name: np.ones(3) for name in ("xdist", "ydist")}
    some = unpack_alike(packed(around, [4, 5, 6], numbers, pa.array(["x", "a", "x"])))
    both = gathered([still, some, alone])
    rows, keys = both.moving(pa.string())
    assert both.ids[rows].tolist() == [2, 4, 5, 6] and keys.to_pylist() == ["b", "x", "a", "x"]
    assert [spec.region.focal_key for spec in both] == ["b", "x", "a", "x", None]
    assert still.moving(pa.string())[1].to_pylist() == []
