"""The memory runner: the engine's way of the data without Spark: chunks, Evaluate, Aggregate, updates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import shapely

from stqsh.core.kernels.geometry.circles import circle_box
from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.core.state.slot_state import SlotState, restore, snapshot
from stqsh.engine.operators.slot_task import AGGREGATE, EVALUATE, address_partials
from stqsh.engine.state.slot_runner import Fold
from stqsh.routing.grid_routing import CellRouting
from stqsh.routing.object_routing import slots_of
from stqsh.spec.chunk import (
    WHY,
    Chunk,
    ChunkOrder,
    columns_schema,
    in_order,
    pack,
    pack_json,
    unpack,
    unpack_json,
)
from support.cases import Area, Case, Command, Row, Spec, by_step
from support.oracle import Update, in_log_order, parts_of

FOLDS = (EVALUATE, AGGREGATE)
Content = tuple[str, int, int, bytes]
"""Kind, part, rows and payload of a chunk."""


def encode(spec: Spec, rows: list[tuple[int, Row]]) -> pa.RecordBatch:
    """Rows with their steps as the payload of a `records` or `focal` chunk."""
    schema = columns_schema(spec["columns"])
    batch = pa.RecordBatch.from_pylist([row for _, row in rows], schema)
    hashes = hash_keys(batch.column(spec["key"]))
    arrays = [*batch.columns, pa.array([step for step, _ in rows], pa.int64()), pa.array(hashes, pa.uint64())]
    return pa.RecordBatch.from_arrays(arrays, names=[*schema.names, "_step", "_hash"])


def encode_area(area: Area) -> pa.RecordBatch:
    """The geometry of an area's members."""
    shapes = [shapely.MultiPolygon([(p[0], p[1:]) for p in polygons]) for polygons in area.members.values()]
    members = pa.array(list(area.members), pa.string())
    return pa.RecordBatch.from_arrays([members, pa.array(shapely.to_wkb(shapes))], ["member", "wkb"])


def decode(batch: pa.RecordBatch) -> list[Row]:
    """The rows of a record batch as dicts; timestamps as int microseconds."""
    columns = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        columns[name] = (
            column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        ).to_pylist()
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def decode_updates(chunks: Iterable[Chunk], cases: Iterable[Case]) -> list[Update]:
    """The updates that chunks of the kinds `rows` and `updates` hold, in log order."""
    specs = {case.spec["id"]: case.spec for case in cases}
    far = {q["id"] for case in cases for q in case.queries if parts_of(q["select"], "distance")}
    rows = {(c.slot, c.stream, c.order): decode(unpack(c.payload)) for c in chunks if c.kind == "rows"}
    out = []
    for chunk in chunks:
        if chunk.kind != "updates":
            continue
        spec, found = specs[chunk.stream], rows[chunk.slot, chunk.stream, chunk.order]
        for u in decode(unpack(chunk.payload)):
            row, query = found[u["row"]], u["query"]
            why = "" if u["op"] > 0 else WHY[u["why"]]
            values = tuple(row[name] for name, _ in spec["columns"])
            distance = u.get("distance") if query in far else None
            op = "+" if u["op"] > 0 else "-"
            out.append(Update(u["step"], query, op, row[spec["key"]], why, values, distance))
    return in_log_order(out)


class StreamFeed:
    """What the data source has for one stream: definition, commands, records, records of focal objects."""

    def __init__(self, case: Case, slots: int) -> None:
        self.case, self.spec, self.slots = case, case.spec, slots
        self.records, self.commands = by_step(case.records), by_step(case.commands)
        self.focal_of: dict[int, Any] = {}
        self.cells = cells_of(case, slots) if self.spec["kind"] == "event" else None

    def unknown_focal(self, step: int) -> list[Any]:
        """The focal keys of queries that a step registers, whose records not all slots have been sent."""
        asked = [
            c["query"]["region"].get("focal") for c in self.commands.get(step, []) if c["op"] == "register"
        ]
        if not any(taken < step for taken in self.records):
            return []
        return sorted({key for key in asked if key is not None} - set(self.focal_of.values()))

    def contents(self, first: int, last: int, seeds: list[Row], halved: bool) -> list[list[Content]]:
        """Each slot's chunks of the steps first .. last; the commands are those of the first step."""
        commands = self.commands.get(first, [])
        contents: list[list[Content]] = [[] for _ in range(self.slots)]
        self._follow(commands)
        for slot, chunks in enumerate(contents):
            mine = [command for command in commands if self._concerns(command, slot)]
            if first == 1:
                chunks.append(("define", 0, 0, pack_json(self.spec)))
            if mine:
                chunks.append(("commands", 1, 0, pack_json(mine)))
            if seeds:
                early = encode(self.spec, [(first - 1, row) for row in seeds])
                chunks.append(("focal", 3, len(seeds), pack(early)))
        rows = [(step, row) for step in range_of(self.records, first, last) for row in self.records[step]]
        self._add_records(contents, rows, halved)
        return contents

    def _concerns(self, command: Command, slot: int) -> bool:
        """A query over events is only known where its region lies."""
        if self.cells is None or command["op"] != "register":
            return True
        box = box_of(command["query"]["region"], self.case)
        return bool(self.cells.slots_touching(np.array([box]))[0, slot])

    def _follow(self, commands: list[Command]) -> None:
        for command in commands:
            if command["op"] == "register" and "focal" in command["query"]["region"]:
                self.focal_of[command["query"]["id"]] = command["query"]["region"]["focal"]
            elif command["op"] == "drop":
                self.focal_of.pop(command["id"], None)

    def _add_records(self, contents: list[list[Content]], rows: list[tuple[int, Row]], halved: bool) -> None:
        """Each slot gets its own objects' records, and all focal objects' records."""
        if not rows:
            return
        records = encode(self.spec, rows)
        homes = self._homes(records)
        focal = set(self.focal_of.values())
        followed = records.filter(pa.array([row[self.spec["key"]] in focal for _, row in rows]))
        for slot, chunks in enumerate(contents):
            mine = records.take(np.flatnonzero(homes == slot))
            half = mine.num_rows // 2 if halved else mine.num_rows
            for part, piece in enumerate([mine.slice(0, half), mine.slice(half)], start=10):
                if piece.num_rows:
                    chunks.append(("records", part, piece.num_rows, pack(piece)))
            if followed.num_rows:
                chunks.append(("focal", 10, followed.num_rows, pack(followed)))

    def _homes(self, records: pa.RecordBatch) -> Any:
        """The slot of each record: by place those of events, by key those of objects."""
        if self.cells is None:
            return slots_of(records.column("_hash").to_numpy(), self.slots)
        return self.cells.slots_of(*(records.column(self.spec[name]).to_numpy() for name in ("x", "y")))


def cells_of(case: Case, slots: int) -> CellRouting:
    """Cells dealt to slots by some of the places that occur."""
    places = [(row[case.spec["x"]], row[case.spec["y"]]) for _, row in case.records]
    return CellRouting.of(case.spec["bounds"] or (-1.0, -1.0, 1.0, 1.0), places[::2], slots)


def box_of(region: Spec, case: Case) -> tuple[float, float, float, float]:
    """A box that holds a region."""
    match region["type"]:
        case "rect":
            return region["x1"], region["y1"], region["x2"], region["y2"]
        case "circle":
            return circle_box(region["x"], region["y"], region["radius"], case.spec["planar"])
        case "polygon":
            return shapely.Polygon(region["rings"][0]).bounds
        case "area":
            polygons = case.areas[region["area"]].members[region["member"]]
            return shapely.MultiPoint([point for rings in polygons for point in rings[0]]).bounds
    return -np.inf, -np.inf, np.inf, np.inf


class Feeder:
    """Stands in for the data source: the chunks of each batch of a session's cases, for every slot.

    As the planner does, it has a focal object that the slots may not know looked up in a batch without
    steps, and keeps sending its records to all slots until the queries around it are dropped by a command.
    """

    def __init__(self, cases: list[Case], slots: int) -> None:
        self.cases, self.slots, self.batches = cases, slots, 0
        self.feeds = {case.spec["id"]: StreamFeed(case, slots) for case in cases}

    def lookup(self, step: int) -> list[Chunk]:
        """A batch without steps before `step` that asks for focal objects; empty if there is no need."""
        asked = {id_: keys for id_, feed in self.feeds.items() if (keys := feed.unknown_focal(step))}
        chunks = {id_: [[("lookup", 2, 0, pack_json(keys))]] * self.slots for id_, keys in asked.items()}
        return self._batch(step, step - 1, chunks) if asked else []

    def ask(self, asks: list[Spec], step: int) -> list[Chunk]:
        """A batch without steps after `step` that asks all slots for snapshots."""
        stream = asks[0]["spec"]["stream_id"]
        content: list[Content] = [("ask", 2, 0, pack_json(asks))]
        return self._batch(step + 1, step, {stream: [content] * self.slots})

    def batch(self, first: int, last: int, found: list[Chunk]) -> list[Chunk]:
        """The steps first .. last; `found`: what a look-up gave, as the state before `first`."""
        chunks = self._named() if first == 1 else {}
        for id_, feed in self.feeds.items():
            seeds = [row for c in found if c.stream == id_ for row in decode(unpack(c.payload))]
            chunks[id_] = feed.contents(first, last, seeds, halved=self.batches % 2 == 1)
        return self._batch(first, last, chunks)

    def _named(self) -> dict[int, list[list[Content]]]:
        """The tables and areas of all cases, for every slot."""
        out: dict[int, list[Content]] = {}
        for case in self.cases:
            for id_, table in case.tables.items():
                spec = {name: content for name, content in table.spec.items() if name != "joins"}
                spec["source"] = {"type": "file", "glob": "none"}
                halves = [table.rows[::2], table.rows[1::2]]
                pieces = [pa.RecordBatch.from_pylist(r, columns_schema(spec["columns"])) for r in halves]
                out[id_] = [("table_define", 0, 0, pack_json(spec))]
                out[id_] += [("table", n, p.num_rows, pack(p)) for n, p in enumerate(pieces, start=1)]
            for id_, area in case.areas.items():
                out[id_] = [("area_define", 0, len(area.members), pack(encode_area(area)))]
        return {id_: [content] * self.slots for id_, content in out.items()}

    def _batch(self, first: int, last: int, contents: dict[int, list[list[Content]]]) -> list[Chunk]:
        self.batches += 1
        clock = self.cases[0].clock
        head = {
            "first_step": first,
            "last_step": last,
            "base_tick": clock.base_tick,
            "tick_us": clock.tick_us,
        }
        payload = pack_json(head | {"batch_seq": self.batches, "seq": self.batches})
        out = [Chunk(slot, 0, "clock", ChunkOrder(), first, last, 1, payload) for slot in range(self.slots)]
        for stream, slots in contents.items():
            for slot, chunks in enumerate(slots):
                out += [
                    Chunk(slot, stream, kind, ChunkOrder(number=part), first, last, n, p)
                    for kind, part, n, p in chunks
                ]
        return out


def range_of(by_steps: dict[int, Any], first: int, last: int) -> list[int]:
    """The steps of a dict that lie in first .. last, in order."""
    return sorted(step for step in by_steps if first <= step <= last)


class Slots:
    """Both operators of every slot, folded in this process."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.states = {fold.name: [SlotState.fresh(slot) for slot in range(slots)] for fold in FOLDS}

    def apply(self, chunks: Iterable[Chunk]) -> list[Chunk]:
        """Run one batch; all that comes out of Aggregate."""
        for fold in FOLDS:
            slots: list[list[Chunk]] = [[] for _ in range(self.slots)]
            for chunk in chunks:
                slots[chunk.slot].append(chunk)
            chunks = [out for slot, some in enumerate(slots) for out in self._fold(fold, slot, some)]
        return list(chunks)

    def _fold(self, fold: Fold, slot: int, chunks: list[Chunk]) -> list[Chunk]:
        taken = in_order(chunk for chunk in chunks if fold.accepts(chunk))
        sent = fold.apply(self.states[fold.name][slot], taken) if taken else []
        return [chunk for chunk in chunks if not fold.accepts(chunk)] + list(
            address_partials(sent, self.slots)
        )

    def restart(self) -> None:
        """Lose all but what is kept."""
        self.states = self.copy().states

    def copy(self) -> Slots:
        """Slots made from what is kept of these: a snapshot, or header and arrays as in an arena."""
        copy = Slots(self.slots)
        for name, states in self.states.items():
            for slot, state in enumerate(states):
                arrays = {array: buffer.copy() for array, buffer in state.buffers.items()}
                mapped = SlotState(orjson.loads(orjson.dumps(state.header)), arrays)
                copy.states[name][slot] = restore(snapshot(state)) if slot % 2 else mapped
        return copy


@dataclass
class Outcome:
    """What a run delivered: updates in log order, answer sizes by query id, totals of the statistics."""

    updates: list[Update]
    sizes: dict[int, int]
    stats: Counter[str]

    def take(self, chunks: list[Chunk], cases: list[Case]) -> None:
        """Add what a batch delivered."""
        self.updates += decode_updates(chunks, cases)
        for chunk in chunks:
            if chunk.kind == "counts":
                for row in decode(unpack(chunk.payload)):
                    self.sizes[row["query"]] = self.sizes.get(row["query"], 0) + row["delta"]
            elif chunk.kind == "stats":
                stats = unpack_json(chunk.payload)
                self.stats.update({name: stats[name] for name in ("records", "stale", "updates")})


def ask(engine: Slots, case: Case, asks: list[Spec], step: int) -> list[pa.RecordBatch]:
    """What the slots answer to snapshots asked by way of the control log after a step."""
    sent = engine.apply(Feeder([case], engine.slots).ask(asks, step))
    return [unpack(chunk.payload) for chunk in sent if chunk.kind == "answer"]


Batches = list[tuple[int, int]]
AfterBatch = Callable[[Slots, int], None]


def run(
    session: Case | list[Case],
    slots: int,
    batches: Batches,
    restarts: Container[int] = (),
    look: AfterBatch = lambda slots, step: None,
) -> Outcome:
    """Run one case, or several with one clock, in the given batches (first and last step of each).

    Everything is restarted before the batches in `restarts`. `look` sees the slots after each last step.
    """
    cases = session if isinstance(session, list) else [session]
    feeder, engine, out = Feeder(cases, slots), Slots(slots), Outcome([], {}, Counter())
    for number, (first, last) in enumerate(batches):
        if number in restarts:
            engine.restart()
        asked = feeder.lookup(first)
        found = [chunk for chunk in engine.apply(asked) if chunk.kind == "found"] if asked else []
        out.take(engine.apply(feeder.batch(first, last, found)), cases)
        look(engine, last)
    out.updates = in_log_order(out.updates)
    return out
