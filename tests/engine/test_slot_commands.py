"""Rows of the log as commands to the slots: what came together stays together, and goes where it belongs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace
from support.specs import stream_spec
from support.typed import query_spec

from stqsh.core.queries.registrations import unpack_alike
from stqsh.engine.ingest.slot_commands import (
    concerned_slots,
    for_slot,
    packed_commands,
)
from stqsh.lang.binder.parameters import Hole
from stqsh.routing.initial_routing import sampled_grid
from stqsh.routing.query_routing import QueryRouting
from stqsh.spec.chunk import unpack_json
from stqsh.spec.command import DropCommand, RegisterCommand
from stqsh.spec.log import QueryDropped, QueryPaused
from stqsh.spec.query import Members, QuerySpec, SlotQuery, slot_query, with_members
from stqsh.spec.query_rows import QueryRows
from stqsh.spec.region import RectangleSpec
from stqsh.storage.catalogue_writer import create_stream
from stqsh.storage.control_log import ControlDb, append, read_log
from stqsh.storage.queries.bulk_register import register_rows
from stqsh.storage.queries.query_commands import commands_of
from stqsh.storage.queries.query_templates import NAMES, QueryTemplate

RECT = {"type": "rect", "x1": 0.0, "y1": 0.0, "x2": 0.0, "y2": 0.0}
CIRCLE = {"type": "circle", "x": 0.0, "y": 0.0, "radius": 0.05}
NUMBERS = np.array([[0.9, 0.1, 0.8, 0.2], [0.1, 0.2, 0.3, 0.1], [0.0, 0.0, 1.0, 1.0]])


def pattern(region: dict[str, Any], holes: tuple[str, ...]) -> QueryTemplate:
    spec = {"stream": "s", "stream_id": 1, "text": "", "kind": "range", "region": region, "condition": None}
    spec |= {"join": None, "areas": [], "select": []}
    query = query_spec(spec)
    own = {name: Hole(name, "number") for name in holes}
    query = with_members(query, region=replace(query.region, **own))
    return QueryTemplate.of(query, f"SELECT {', '.join(f':{name}' for name in holes)}", " AS ")


@pytest.fixture
def db(tmp_path: Path) -> ControlDb:
    control = ControlDb(tmp_path, create=True)
    create_stream(control, "", stream_spec())
    return control


def registered(db: ControlDb, region: dict[str, Any], numbers: np.ndarray[Any, Any]) -> None:
    holes = {"rect": ("x1", "y1", "x2", "y2"), "circle": ("x", "y", "radius")}.get(region["type"], ())
    names = [f"{region['type']}{row}" for row in range(len(numbers))]
    columns = {NAMES: pa.array(names)} | {name: pa.array(numbers[:, i]) for i, name in enumerate(holes)}
    assert not register_rows(db, pattern(region, holes), pa.RecordBatch.from_pydict(columns)).any()


def test_commands_come_in_the_order_of_the_log(db: ControlDb) -> None:
    append(db, msgspec.convert({**pattern(RECT, ()).spec, "name": "one"}, QuerySpec))
    registered(db, RECT, NUMBERS)
    append(db, QueryDropped(3, stream_id=1))
    append(db, QueryPaused(2, stream_id=1))
    commands = commands_of(read_log(db))[1]
    packed = list(packed_commands(commands))
    assert [kind for kind, _ in packed] == ["commands", "register_alike", "commands"]
    assert unpack_json(packed[2][1]) == [{"op": "drop", "id": 3}, {"op": "pause", "id": 2}]
    new = unpack_alike(packed[1][1])
    assert new.ids.tolist() == [3, 4, 5]
    assert [list(spec.region.box) for spec in new] == [
        [0.8, 0.1, 0.9, 0.2],
        [0.1, 0.1, 0.3, 0.2],
        [0.0, 0.0, 1.0, 1.0],
    ]
    assert type(new.patterns[0]) is SlotQuery


@pytest.mark.parametrize("region", [RECT, CIRCLE, {"type": "all"}])
def test_queries_of_events_go_to_the_slots_that_they_touch(region: dict[str, Any], db: ControlDb) -> None:
    numbers = NUMBERS[:, : {"rect": 4, "circle": 3}.get(region["type"], 0)]
    registered(db, region, numbers)
    append(db, QueryDropped(99, stream_id=1))
    [alike, drop] = commands_of(read_log(db))[1]
    assert isinstance(alike, QueryRows)
    cells = sampled_grid((0.0, 0.0, 1.0, 1.0), tuple(map(tuple, NUMBERS[:, :2].tolist())), 2)
    routes = QueryRouting(2, tables=lambda stream_id: [cells], area=lambda area: {})
    stream = stream_spec(id=1, planar=True)
    concerned = concerned_slots(routes, stream, [alike, drop])
    specs = list(unpack_alike(next(packed_commands([alike]))[1]))
    alone = routes.slots_of(stream, [RegisterCommand(query=spec) for spec in specs])
    assert (concerned[0] == np.concatenate(alone)).all()
    for slot in range(2):
        mine = for_slot([alike, drop], concerned, slot)
        assert mine[-1] == DropCommand(id=99)
        ids = [some.ids.tolist() for some in mine if isinstance(some, QueryRows)]
        assert [id_ for some in ids for id_ in some] == alike.ids[concerned[0][:, slot]].tolist()


def test_slots_get_what_they_need_of_a_query() -> None:
    spec = query_spec({"id": 1, "text": "SELECT", "name": "q", "region": RECT})
    assert slot_query(spec) == SlotQuery(
        id=1, kind="range", members=Members(region=RectangleSpec(0.0, 0.0, 0.0, 0.0))
    )
