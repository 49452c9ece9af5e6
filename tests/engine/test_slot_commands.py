"""Rows of the log as commands to the slots: what came together stays together, and goes where it belongs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stqsh.core.queries.registrations import unpack_alike
from stqsh.engine.ingest.slot_commands import (
    NewQueryGroup,
    commands_of,
    concerned_slots,
    for_slot,
    needed,
    packed_commands,
)
from stqsh.routing.event_routing import EventRouting
from stqsh.routing.grid_routing import CellRouting
from stqsh.spec.chunk import unpack_json
from stqsh.storage.bulk_register import QueryGroup as Together
from stqsh.storage.bulk_register import drop_alike, register_alike
from stqsh.storage.control_log import ControlDb, append, read_log
from stqsh.storage.query_templates import QueryTemplate

RECT = {"type": "rect", "x1": 0.0, "y1": 0.0, "x2": 0.0, "y2": 0.0}
CIRCLE = {"type": "circle", "x": 0.0, "y": 0.0, "radius": 0.05}
NUMBERS = np.array([[0.9, 0.1, 0.8, 0.2], [0.1, 0.2, 0.3, 0.1], [0.0, 0.0, 1.0, 1.0]])


def pattern(region: dict[str, Any], holes: tuple[str, ...]) -> QueryTemplate:
    spec = {"stream": "s", "stream_id": 1, "text": "", "kind": "range", "region": region, "condition": None}
    spec |= {"join": None, "areas": [], "select": [], "name": ""}
    words = ("SELECT ", *[", "] * max(0, len(holes) - 1), ")" if holes else "")
    return QueryTemplate(spec, holes, words[: len(holes) + 1], " AS ")


@pytest.fixture
def db(tmp_path: Path) -> ControlDb:
    control = ControlDb(tmp_path)
    append(control, "create_stream", "", {"name": "s"})
    return control


def registered(db: ControlDb, region: dict[str, Any], numbers: np.ndarray[Any, Any]) -> None:
    holes = {"rect": ("x1", "y1", "x2", "y2"), "circle": ("x", "y", "radius")}.get(region["type"], ())
    names = [f"{region['type']}{row}" for row in range(len(numbers))]
    assert register_alike(db, Together(pattern(region, holes), names, numbers))


def test_commands_come_in_the_order_of_the_log(db: ControlDb) -> None:
    append(db, "register", "", {**pattern(RECT, ()).spec, "name": "one"})
    registered(db, RECT, NUMBERS)
    drop_alike(db, ["rect0", "rect2"])
    append(db, "pause_query", "", {"id": 2, "stream_id": 1})
    commands = commands_of(read_log(db))[1]
    packed = list(packed_commands(commands))
    assert [kind for kind, _ in packed] == ["commands", "register_alike", "commands"]
    assert unpack_json(packed[2][1]) == [{"op": "drop", "ids": [3, 5]}, {"op": "pause", "id": 2}]
    new = unpack_alike(packed[1][1])
    assert new.ids.tolist() == [3, 4, 5]
    assert [list(spec["region"].values())[1:] for spec in new] == [
        [0.8, 0.1, 0.9, 0.2],
        [0.1, 0.1, 0.3, 0.2],
        [0.0, 0.0, 1.0, 1.0],
    ]
    assert not {"text", "name", "stream", "stream_id"} & new.patterns[0].keys()


@pytest.mark.parametrize("region", [RECT, CIRCLE, {"type": "all"}])
def test_queries_of_events_go_to_the_slots_that_they_touch(region: dict[str, Any], db: ControlDb) -> None:
    numbers = NUMBERS[:, : {"rect": 4, "circle": 3}.get(region["type"], 0)]
    registered(db, region, numbers)
    append(db, "drop", "", {"id": 99, "stream_id": 1})
    [alike, drop] = commands_of(read_log(db))[1]
    assert isinstance(alike, NewQueryGroup)
    cells = CellRouting.of((0.0, 0.0, 1.0, 1.0), NUMBERS[:, :2].tolist(), 2)
    routes = EventRouting(2, routing=lambda stream_id: cells, area=lambda area: pa.record_batch({}))
    stream = {"id": 1, "planar": True}
    concerned = concerned_slots(routes, stream, [alike, drop])
    specs = [{"region": spec["region"]} for spec in unpack_alike(next(packed_commands([alike]))[1])]
    assert (concerned[0] == routes.slots_of_queries(stream, specs)).all()
    for slot in range(2):
        mine = for_slot([alike, drop], concerned, slot)
        assert mine[-1] == {"op": "drop", "id": 99}
        ids = [some.ids.tolist() for some in mine if isinstance(some, NewQueryGroup)]
        assert [id_ for some in ids for id_ in some] == alike.ids[concerned[0][:, slot]].tolist()


def test_slots_get_what_they_need_of_a_query() -> None:
    assert needed({"id": 1, "text": "SELECT", "name": "q", "region": RECT}) == {"id": 1, "region": RECT}
