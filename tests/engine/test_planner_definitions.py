"""The planner: tables and areas reach every slot before what uses them, events the slots of their cells."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shapely
from support.specs import stream_spec

from engine.test_planner import COLUMNS, SECOND, World, clock, of_kind, records
from stqsh.checksums import DamagedFileError
from stqsh.engine.ingest.task_reader import chunks
from stqsh.engine.planning.planner import Planner
from stqsh.sources.region_files import GEOMETRY
from stqsh.sources.replay_store.manifest import write_manifest
from stqsh.sources.replay_store.store import StoreWriter, open_store
from stqsh.sources.table_files import BATCH_ROWS, CONTENT
from stqsh.spec.chunk import Chunk, pack, unpack, unpack_json
from stqsh.spec.offset import Offset
from stqsh.storage.control_log import append
from stqsh.storage.progress import set_stream_status
from stqsh.storage.rows import StreamStatus

TABLE = {"name": "t", "columns": [["id", "BIGINT"]], "key": "id"}


def create_table(world: World, rows: int | None) -> int:
    """Log a table and, unless `rows` is None, write its content."""
    table = world.log("create_table", **TABLE)
    if rows is not None:
        write_table(world, table, rows)
    return table


def write_table(world: World, table: int, rows: int) -> None:
    directory = world.home / "tables" / str(table)
    directory.mkdir(parents=True)
    batch = pa.RecordBatch.from_arrays([pa.array(np.arange(rows))], names=["id"])
    with pa.OSFile(str(directory / CONTENT), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        for start in range(0, rows, BATCH_ROWS):
            writer.write_batch(batch.slice(start, BATCH_ROWS))


def create_area(world: World, *boxes: tuple[float, float, float, float]) -> int:
    """Log a set of rectangles, named 0, 1, …"""
    wkb = [shapely.to_wkb(shapely.box(*box)) for box in boxes]
    names = [str(number) for number in range(len(boxes))]
    payload = pack(pa.RecordBatch.from_arrays([pa.array(names), pa.array(wkb)], schema=GEOMETRY))
    return world.log("create_area", payload, name="a", set=True, members=names)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, slots=2)


def test_tables_and_areas_reach_every_slot_before_the_first_step(world: World) -> None:
    table, area = create_table(world, BATCH_ROWS + 5), create_area(world, (0, 0, 1, 1))
    stream = world.stream([(1, "a")])
    world.query(stream)
    world.log("run", mode="end")
    (batch,) = world.all_batches()
    for slot in (0, 1):
        (define,) = of_kind(batch, "table_define", slot)
        assert (define.stream, unpack_json(define.payload)["name"]) == (table, "t")
        pieces = of_kind(batch, "table", slot)
        assert [piece.rows for piece in pieces] == [BATCH_ROWS, 5]
        assert all(piece.order > define.order for piece in pieces)
        assert unpack(pieces[1].payload)["id"].to_pylist()[0] == BATCH_ROWS
        (shape,) = of_kind(batch, "area_define", slot)
        assert (shape.stream, unpack(shape.payload)["member"].to_pylist()) == (area, ["0"])


def test_without_a_step_definitions_come_alone_and_once(world: World) -> None:
    stream = world.stream([(1, "a")])
    query = world.query(stream)
    area = create_area(world, (0, 0, 1, 1))
    batch = world.batch()
    assert batch is not None
    assert {chunk.kind for chunk in batch} == {"clock", "area_define"}
    assert (clock(batch)["first_step"], clock(batch)["last_step"], clock(batch)["seq"]) == (1, 0, 0)
    assert world.batch() is None
    world.log("run", mode="end")
    after = world.batch()
    assert after is not None
    assert not of_kind(after, "area_define") and of_kind(after, "commands")
    world.log("drop", id=query, stream_id=stream)
    world.log("drop_area", id=area, name="a")
    assert world.batch() is None, "a drop waits for a step"
    world.log("run", mode="steps", n=1)
    last = world.batch()
    assert last is not None
    assert [chunk.stream for chunk in of_kind(last, "area_drop", 1)] == [area]


def test_an_offset_of_an_older_session_is_read(world: World) -> None:
    create_area(world, (0, 0, 1, 1))
    older = {name: value for name, value in world.at.to_json().items() if name != "defined"}
    world.at = Offset.from_json(older)
    batch = world.batch()
    assert batch is not None and of_kind(batch, "area_define")


def test_a_run_waits_for_a_table_that_is_being_read(world: World) -> None:
    world.stream([(1, "a")])
    table = create_table(world, None)
    world.log("run", mode="end")
    assert world.batch() is None
    write_table(world, table, 1)
    batch = world.batch()
    assert batch is not None
    assert of_kind(batch, "table_define") and clock(batch)["ended"]


def test_while_a_table_is_read_what_was_said_before_it_goes_on(world: World) -> None:
    stream = world.stream([(tick, "a") for tick in range(100)])
    world.log("play", id=stream, pace=1)
    world.query(stream)
    table = create_table(world, None)
    late = world.stream([(0, "b")])
    world.query(late)
    first = world.batch(0)
    assert first is not None
    assert [chunk.stream for chunk in of_kind(first, "commands")] == [stream]
    assert [chunk.stream for chunk in of_kind(first, "define")] == [stream]
    write_table(world, table, 1)
    world.log("play", id=late, pace=1)
    second = world.batch(SECOND)
    assert second is not None
    assert [chunk.stream for chunk in of_kind(second, "commands")] == [late]
    assert of_kind(second, "table_define") and records(second, slot=0) + records(second, slot=1)


@pytest.mark.parametrize("gone", ["failed", "dropped"])
def test_nothing_waits_for_a_table_that_never_comes(world: World, gone: str) -> None:
    world.stream([(1, "a")])
    table = create_table(world, None)
    if gone == "failed":
        set_stream_status(world.db, StreamStatus(table, "failed", message="no such file"))
    else:
        world.log("drop_table", id=table, name="t")
    world.log("run", mode="end")
    batch = world.batch()
    assert batch is not None
    assert of_kind(batch, "table_define") and not of_kind(batch, "table")


@pytest.mark.parametrize("sees", ["the file", "the status"])
def test_a_table_that_was_read_and_is_gone_is_not_empty(world: World, sees: str) -> None:
    world.stream([(1, "a")])
    table = create_table(world, None)
    write_table(world, table, 1)
    set_stream_status(world.db, StreamStatus(table, "ready", rows=1))
    world.log("run", mode="end")
    end = world.planner.latest(world.at, 0)
    shutil.rmtree(world.home / "tables" / str(table))
    planner = world.planner if sees == "the file" else Planner(world.home, 1, 100)
    [task, *_] = planner.plan(world.at, end)
    with pytest.raises(DamagedFileError, match=f"the session's file tables/{table}/content.arrow is gone"):
        list(chunks(task))


# -- events --------------------------------------------------------------------------------------------------

SLOTS = 4


class Posts(World):
    """A world with one event stream over (0, 0, 100, 100): post number n of a hundred at (n, n), tick n."""

    def __init__(self, home: Path) -> None:
        super().__init__(home, slots=SLOTS, max_records=1000)
        roles = {"key": "oid", "x": "x", "y": "y", "time": "ts", "planar": True, "kind": "event"}
        spec = {"name": "posts", "columns": COLUMNS, "tick_us": SECOND, **roles}
        self.id = append(self.db, stream_spec(spec)).seq

    def write(self) -> None:
        at = np.arange(100.0)
        arrays = [pa.array([f"p{n}" for n in range(100)]), pa.array(at), pa.array(at)]
        ticks = at.astype(np.int64)
        arrays += [pa.array(ticks * SECOND).cast(pa.timestamp("us", "UTC")), pa.array(ticks)]
        directory = self.home / "streams" / str(self.id)
        writer = StoreWriter(directory, COLUMNS)
        writer.append(pa.RecordBatch.from_arrays(arrays, names=["oid", "x", "y", "ts", "_tick"]))
        sample = tuple((float(n), float(n)) for n in range(0, 100, 3))
        bounds = (0.0, 0.0, 100.0, 100.0)
        manifest = replace(writer.finish(), bounds=bounds, sample=sample, has_coarse_grid=False)
        write_manifest(directory, manifest)

    def ask(self, region: dict[str, Any]) -> int:
        return self.log("register", stream="s", stream_id=self.id, text="", kind="range", region=region)


@pytest.fixture
def posts(tmp_path: Path) -> Posts:
    return Posts(tmp_path)


def homes(batch: list[Chunk]) -> dict[str, int]:
    """The slot of each post."""
    return {key: slot for slot in range(SLOTS) for _, key in records(batch, slot=slot)}


def asked(batch: list[Chunk]) -> dict[int, set[int]]:
    """The slots that each query was registered on."""
    slots: dict[int, set[int]] = {}
    for slot in range(SLOTS):
        for chunk in of_kind(batch, "commands", slot):
            for command in unpack_json(chunk.payload):
                if command["op"] == "register":
                    slots.setdefault(command["query"]["id"], set()).add(slot)
    return slots


def test_events_lie_by_place_and_their_queries_only_where_they_may_be(posts: Posts) -> None:
    area = create_area(posts, (0, 0, 5, 5), (90, 90, 99, 99))
    ring = [[40, 40], [60, 40], [60, 60], [40, 40]]
    regions: list[tuple[dict[str, Any], range]] = [
        ({"type": "rect", "x1": 10, "y1": 10, "x2": 20, "y2": 20}, range(10, 21)),
        ({"type": "circle", "x": 70, "y": 70, "radius": 5}, range(67, 74)),
        ({"type": "polygon", "rings": [ring]}, range(40, 61)),
        ({"type": "area", "area": area, "name": "a", "member": "1"}, range(90, 100)),
        ({"type": "area", "area": area, "name": "a", "member": None}, range(1, 100, 97)),
        ({"type": "rect", "x1": -500, "y1": -500, "x2": -400, "y2": -400}, range(0)),
    ]
    everywhere: list[dict[str, Any]] = [{"type": "all"}, {"type": "nearest", "k": 3, "x": 1, "y": 1}]
    small = [(posts.ask(region), inside) for region, inside in regions]
    large = [posts.ask(region) for region in everywhere]
    posts.write()
    posts.log("run", mode="end")
    batches = posts.all_batches()
    batch = batches[-1]
    at, slots = homes(batch), asked(batch)
    assert len(at) == 100 and len(set(at.values())) == SLOTS
    for query, inside in small:
        assert {at[f"p{n}"] for n in inside} <= slots[query]
    assert all(1 <= len(slots[query]) < SLOTS for query, _ in small[:4])
    assert all(slots[query] == set(range(SLOTS)) for query in large)


def test_a_query_is_dropped_on_every_slot(posts: Posts) -> None:
    query = posts.ask({"type": "rect", "x1": 1, "y1": 1, "x2": 2, "y2": 2})
    posts.write()
    posts.log("run", mode="steps", n=1)
    posts.all_batches()
    posts.log("drop", id=query, stream_id=posts.id)
    posts.log("run", mode="end")
    batch = posts.batch()
    assert batch is not None
    for slot in range(SLOTS):
        (commands,) = of_kind(batch, "commands", slot)
        assert unpack_json(commands.payload) == [{"op": "drop", "id": query}]


def test_a_query_that_comes_before_its_stream_is_read_goes_to_every_slot(posts: Posts) -> None:
    other = posts.stream([(0, "a"), (1, "a")])
    query = posts.ask({"type": "rect", "x1": 1, "y1": 1, "x2": 2, "y2": 2})
    posts.log("play", id=other, pace="max")
    batch = posts.batch()
    assert batch is not None
    assert asked(batch)[query] == set(range(SLOTS))


def test_a_routing_follows_from_the_store_alone(posts: Posts) -> None:
    posts.write()
    store = open_store(posts.home / "streams" / str(posts.id))
    assert store.manifest.bounds == (0, 0, 100, 100) and len(store.manifest.sample) == 34
