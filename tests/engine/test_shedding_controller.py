"""Orders about memory: from Deliver and from statements into the log, and from the log to the slots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.specs import stream_spec

from engine.test_deliver import batch, chunk
from engine.test_planner import COLUMNS, SECOND, World, of_kind
from stqsh.engine.delivery.deliver import Delivery
from stqsh.engine.planning.planner import Planner
from stqsh.spec.chunk import Chunk, pack_json, to_table, unpack_json
from stqsh.spec.shedding import SheddingOrder
from stqsh.storage import catalogue_writer
from stqsh.storage.control_log import ControlDb, append, read_log
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import read_progress
from stqsh.storage.shedding_orders import append_order

SIGNIFICANT = stream_spec({
    "name": "s", "kind": "moving", "columns": COLUMNS, "key": "oid", "x": "x", "y": "y", "time": "ts",
    "tick_us": SECOND, "report_every_us": 5 * SECOND, "max_speed": 10.0, "retain": "significant",
})  # fmt: skip


def deliver_each_step(home: SessionHome, control: ControlDb) -> Delivery:
    """A Deliver that looks at the load after each step."""
    delivery = Delivery(home, control)
    delivery.shedding.every = 1
    return delivery


class Engine:
    """Deliver over a control log with a significant stream; `objects` is what two slots say they hold."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        (folder / "updates").mkdir(exist_ok=True)
        self.home, self.control = SessionHome(folder), ControlDb(folder, create=True)
        self.stream = catalogue_writer.create_stream(self.control, "", SIGNIFICANT).id
        self.set(**settings)
        self.delivery = deliver_each_step(self.home, self.control)
        self.number = 0

    def set(self, **settings: Any) -> None:
        for key, value in settings.items():
            catalogue_writer.set_value(self.control, "", key.replace("_", "."), value)

    def batch(
        self, objects: int, shadow: int = 0, *, seq: int | None = None, again: bool = False, step: int = 6
    ) -> None:
        told = {
            "objects": objects // 2, "bytes": 100 * objects, "shadow": shadow // 2,
            "histogram": [objects // 2] + [0] * 63, "dropped": [shadow // 2] + [0] * 63,
            "approximate": 1, "least": 0.75,
        }  # fmt: skip
        stats = [
            chunk("stats", pack_json({"slot": slot, "memory": {str(self.stream): told}}), slot)
            for slot in (0, 1)
        ]
        taken = self.last_seq() if seq is None else seq
        chunks = batch(*stats, seq=taken, tick_us=SECOND, last_step=step)
        self.number += not again
        self.delivery.deliver(to_table(chunks), self.number)

    def last_seq(self) -> int:
        return read_log(self.control)[-1].seq

    def orders(self) -> list[SheddingOrder]:
        return [row.entry for row in read_log(self.control) if row.kind == "memory"]


OBJECT = {"shedding": "object", "shedding_budget": 100, "shedding_keep": 0.5}


def test_an_order_is_given_once_and_again_only_when_it_changes(tmp_path: Path) -> None:
    engine = Engine(tmp_path, **OBJECT)
    engine.batch(90)
    assert engine.orders() == []
    engine.batch(120)
    engine.batch(110)
    assert engine.orders() == [SheddingOrder(k=2, part=0.5834, step=6)]
    engine.batch(50, step=9)
    assert engine.orders() == [SheddingOrder(k=2, part=0.5834, step=6), SheddingOrder(k=1, step=9)]


def test_a_batch_that_comes_again_gives_no_second_order(tmp_path: Path) -> None:
    engine = Engine(tmp_path, **OBJECT)
    seq = engine.last_seq()
    engine.batch(120, seq=seq)
    engine.batch(120, seq=seq, again=True)
    engine.delivery = deliver_each_step(engine.home, engine.control)  # as after kill -9
    engine.batch(120, seq=seq, again=True)
    assert engine.orders() == [SheddingOrder(k=2, part=0.5834, step=6)]


def test_a_restart_knows_what_stands(tmp_path: Path) -> None:
    engine = Engine(tmp_path, **OBJECT)
    engine.batch(120)
    engine.delivery = deliver_each_step(engine.home, engine.control)
    engine.batch(80)
    assert len(engine.orders()) == 1
    engine.batch(50, step=9)
    assert engine.orders()[-1] == SheddingOrder(k=1, step=9)


def test_no_order_follows_from_a_load_before_the_last_order_took_effect(tmp_path: Path) -> None:
    engine = Engine(tmp_path, **OBJECT | {"shedding": "query"})
    seq = engine.last_seq()
    engine.batch(120, seq=seq)
    engine.batch(120, seq=seq)
    assert engine.orders() == [SheddingOrder(cache=0.75, step=6)]
    engine.batch(120, step=9)
    assert engine.orders()[1:] == [SheddingOrder(cache=0.5, step=9)]


def test_the_progress_tells_what_was_in_force(tmp_path: Path) -> None:
    engine = Engine(tmp_path, **OBJECT)
    engine.batch(120)
    engine.batch(120, 6, seq=engine.last_seq() - 1)
    told = read_progress(engine.control).stats.memory
    assert told is not None
    assert (told.k, told.objects, told.shadow, told.least) == (1, 120, 6, 0.75)
    engine.batch(120)
    assert read_progress(engine.control).stats.memory.k == 2


def test_without_significant_streams_there_is_nothing_to_tell_or_to_shed(tmp_path: Path) -> None:
    engine = Engine(tmp_path, **OBJECT)
    engine.delivery.deliver(to_table(batch(chunk("stats", pack_json({"slot": 0})))), 1)
    assert engine.orders() == []
    assert read_progress(engine.control).stats.memory is None


# From the log to the slots.


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def create(world: World, **spec: Any) -> int:
    stream = append(world.db, msgspec.structs.replace(SIGNIFICANT, **spec)).seq
    world.store(stream, [(tick, "a") for tick in range(5, 15)])
    return stream


def told(chunks: list[Chunk] | None, stream: int) -> list[dict[str, Any]]:
    commands = [unpack_json(one.payload) for one in of_kind(chunks or [], "commands") if one.stream == stream]
    return [command for some in commands for command in some]


def step(world: World) -> list[Chunk] | None:
    world.log("run", mode="steps", n=1)
    return world.batch()


def test_the_last_order_reaches_significant_streams_only_and_before_their_new_queries(world: World) -> None:
    first, other = create(world), create(world, name="t", retain="all")
    for order in (SheddingOrder(k=2), SheddingOrder(0.5, 3, step=4, part=0.25)):
        append_order(world.db, order)
    world.query(first)
    world.query(other)
    said = {"op": "memory", "factor": 0.5, "k": 3, "cache": 1.0, "area": 1.0, "part": 0.25}
    chunks = step(world)
    assert [command["op"] for command in told(chunks, first)] == ["memory", "register"]
    assert told(chunks, first)[0] == said
    assert [command["op"] for command in told(chunks, other)] == ["register"]
    assert told(step(world), first) == []


def test_a_stream_that_comes_later_gets_the_order_that_stands(world: World) -> None:
    create(world)
    append_order(world.db, SheddingOrder(k=2))
    step(world)
    world.planner = Planner(world.home, 1, 100)  # as after a restart
    later = create(world, name="t")
    assert [command["k"] for command in told(step(world), later)] == [2]


def test_an_order_makes_no_step_of_its_own(world: World) -> None:
    create(world)
    world.log("run", mode="end")
    assert len(world.all_batches()) == 1
    append_order(world.db, SheddingOrder(k=2))
    run = world.log("run", mode="end")
    assert all(told(chunks, 1) == [] for chunks in world.all_batches())
    assert world.at.run_done == run
    assert world.at.step == 10


def test_an_order_is_kept_in_the_log_as_its_fields(world: World) -> None:
    append_order(world.db, SheddingOrder(0.5, 2, 0.25, 0.75, 9))
    assert read_log(world.db)[-1].entry == SheddingOrder(0.5, 2, 0.25, 0.75, 9)
    assert append(world.db, SheddingOrder()).seq == 2
