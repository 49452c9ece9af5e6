"""The memory runner: a case goes the engine's whole way, from the log to the update log, in this process.

What a case holds is written where the engine looks for it: its stream into a replay store, its commands into
the control log of a home in shared memory. Ids are those that the log gives; what comes out bears the case's.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import cycle, repeat
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import shapely

from stqsh.core.matching import tree_choice
from stqsh.engine.config import TUNING, EngineSettings, EngineTuning
from stqsh.engine.delivery.shedding_controller import SheddingController
from stqsh.engine.ingest.stream_preparer import EndlessStreams
from stqsh.settings import INDEXES, WINDOWS
from stqsh.sources.replay_store.manifest import write_manifest
from stqsh.sources.replay_store.store import TICK, StoreWriter
from stqsh.sources.table_files import CONTENT
from stqsh.spec.chunk import WHY, columns_schema, pack
from stqsh.spec.log import RunSteps
from stqsh.spec.offset import Offset
from stqsh.spec.shedding import SheddingOrder
from stqsh.storage.catalogue import SIZES_A_BUCKET
from stqsh.storage.catalogue_writer import create_area, create_stream, create_table, set_value
from stqsh.storage.control_log import append
from stqsh.storage.home import SHM
from stqsh.storage.progress import read_progress
from stqsh.storage.snapshot_answers import read_answer, take_answer
from stqsh.storage.update_log.reader import DISTANCE, UpdateLog
from support.cases import Area, Case, Command, Row, Spec, Table, by_step
from support.deaths import Death, KilledError, dying
from support.local import LocalEngine
from support.memory_slots import MemorySlots
from support.oracle import Update, in_log_order, parts_of
from support.specs import area_spec, entry, stream_spec, table_spec

Batches = list[tuple[int, int]]


@dataclass(frozen=True)
class Outcome:
    """What a run delivered: updates in log order, answer sizes by query id, totals of the statistics."""

    updates: list[Update]
    sizes: dict[int, int]
    stats: Counter[str]


class MemoryEngine(LocalEngine):
    """An engine over cases, whose stores and log are written by hand.

    Streams get the ids that they have in their cases; all else that the log numbers is renamed on its way.

    Attributes:
        deaths: by batch, where it dies.
        later: the tunables of the engine after each restart.
    """

    def __init__(
        self,
        folder: Path,
        cases: list[Case],
        slots: int,
        *,
        ends: bool = False,
        tuning: EngineTuning = TUNING,
    ) -> None:
        super().__init__(EngineSettings(folder, slots=slots), memory=MemorySlots(), tuning=tuning)
        self._ends = ends
        self.deaths: Mapping[int, Death] = {}
        self.later: Iterator[EngineTuning] = repeat(tuning)
        self.cases = {case.spec["id"]: case for case in cases}
        self.stats: Counter[str] = Counter()
        self.logged: dict[int, int] = {}
        """The log's number of what a case has under a number."""
        self._specs: dict[int, Spec] = {}
        self._paused: frozenset[int] = frozenset()
        for case in cases:
            self._create_stream(case)
        for case in cases:
            for table in case.tables.values():
                self._create_table(table)
            for area in case.areas.values():
                found = create_area(self.control, "", area_spec(area.spec), pack(encode_area(area)))
                self.logged[area.spec["id"]] = found.id

    @property
    def named(self) -> dict[int, int]:
        """The number that a case has for what the log has under a number."""
        return {logged: told for told, logged in self.logged.items()}

    def renamed(self, part: Any) -> Any:
        """A part of a query with the tables and areas that it speaks of numbered as in the log."""
        if isinstance(part, dict):
            out = {name: self.renamed(content) for name, content in part.items()}
            numbers = [name for name in ("area", "table_id") if isinstance(out.get(name), int)]
            return out | {name: self.logged[out[name]] for name in numbers} | self._renamed_list(out)
        if isinstance(part, list):
            if part[:1] == ["join"] and len(part) == 4:
                return ["join", self.logged[part[1]], self.renamed(part[2]), part[3]]
            if part[:1] == ["region_of"]:
                return ["region_of", self.logged[part[1]]]
            return [self.renamed(content) for content in part]
        return part

    def _renamed_list(self, query: dict[str, Any]) -> dict[str, Any]:
        return {"areas": [self.logged[id_] for id_ in query["areas"]]} if query.get("areas") else {}

    def take(self, first: int, last: int) -> None:
        """Take the commands of step `first` and the steps up to `last` in, as one RUN."""
        for case in self.cases.values():
            for command in by_step(case.commands).get(first, []):
                self._command(case, command)
        append(self.control, RunSteps(last - first + 1))
        self.advance()

    def choose(self, index: str | int) -> None:
        """Choose an index of queries or of windows, or the most queries of a tree, as SET does."""
        name = "windows" if index in WINDOWS else "queries" if index in INDEXES else "tree_queries"
        set_value(self.control, "", f"index.{name}", index)

    def restart(self, *, arena: bool) -> None:
        """Lose what is not kept on disk, and go on with the next tunables."""
        self.tuning = next(self.later)
        super().restart(arena=arena)

    def ask(self, selects: list[Spec]) -> list[list[pa.RecordBatch]]:
        """The slots' shares of each of the snapshots, which are asked by way of the log and of one batch."""
        entries = [entry("ask", {"spec": self.renamed(select)}) for select in selects]
        numbers = [append(self.control, one).seq for one in entries]
        self.advance()
        contents = [take_answer(self.home, number) for number in numbers]
        return [read_answer(content)[0] for content in contents if content is not None]

    def _command(self, case: Case, command: Command) -> None:
        match command:
            case {"op": "register", "query": query}:
                spec = {"stream": "", "text": ""} | self.renamed(query) | {"stream_id": case.spec["id"]}
                self.logged[query["id"]] = append(self.control, entry("register", spec)).seq
                self._specs[query["id"]] = spec | {"id": self.logged[query["id"]]}
            case {"op": "memory", **order}:
                append(self.control, SheddingOrder(**order))
            case {"op": "alter", "id": id_, **other}:
                before = self._specs[id_]
                self._specs[id_] = before | self.renamed(other)
                content = {"id": self.logged[id_], "stream_id": case.spec["id"], "before": before}
                content |= {"query": self._specs[id_], "paused": id_ in self._paused}
                append(self.control, entry("alter_query", content))
            case {"op": op, "id": id_}:
                self._paused = self._paused | {id_} if op == "pause" else self._paused - {id_}
                kind: Any = op if op == "drop" else f"{op}_query"
                content = {"id": self.logged[id_], "stream_id": case.spec["id"]}
                append(self.control, entry(kind, content))

    def _create_stream(self, case: Case) -> None:
        """Enter the stream, and write its records to a store that ends with the case, and not before."""
        spec, clock = stream_spec(case.spec, name=f"s{case.spec['id']}"), case.clock
        assert create_stream(self.control, "", spec).id == case.spec["id"]
        folder = self.home.stream(case.spec["id"])
        writer = StoreWriter(folder, spec.columns)
        if case.records:
            rows = pa.RecordBatch.from_pylist([row for _, row in case.records], columns_schema(spec.columns))
            ticks = pa.array([clock.base_tick + step - 1 for step, _ in case.records], pa.int64())
            writer.append(rows.append_column(TICK, ticks))
        manifest = writer.finish(complete=self._ends or not case.records)
        if case.records:
            [segment] = manifest.segments
            segment = replace(segment, last_tick=clock.base_tick + case.steps - 1)
            manifest = replace(manifest, segments=(segment,), began_tick=clock.base_tick)
        if spec.is_event:
            places = tuple((row[spec.x], row[spec.y]) for _, row in case.records)
            bounds = tuple(case.spec["bounds"] or (-1.0, -1.0, 1.0, 1.0))
            manifest = replace(manifest, bounds=bounds, sample=places[::2], has_coarse_grid=False)
        write_manifest(folder, manifest)

    def _create_table(self, table: Table) -> None:
        told = {name: content for name, content in table.spec.items() if name != "joins"}
        made = create_table(self.control, "", table_spec(told))
        self.logged[table.spec["id"]] = made.id
        folder, schema = self.home.table(made.id), columns_schema(table.spec["columns"])
        folder.mkdir(parents=True)
        with pa.OSFile(str(folder / CONTENT), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for rows in (table.rows[::2], table.rows[1::2]):
                writer.write_batch(pa.RecordBatch.from_pylist(rows, schema))

    def _batch(self, end: Offset) -> None:
        death = self.deaths.get(self.number)
        if death is not None:
            with suppress(KilledError), dying(death):
                super()._batch(end)
            self.restart(arena=death.arena)
        super()._batch(end)
        stats = read_progress(self.control).stats
        self.stats.update({name: getattr(stats, name) for name in ("records", "stale", "updates")})

    def delivered(self) -> Outcome:
        """What was delivered until now."""
        columns = {id_: [name for name, _ in case.spec["columns"]] for id_, case in self.cases.items()}
        far = {
            q["id"] for case in self.cases.values() for q in case.queries if parts_of(q["select"], "distance")
        }
        log = UpdateLog(self.control, lambda id_: str(self.cases[id_].spec["key"]))
        named, updates = self.named, []
        for table in (table for batch in log.read(-1, self.number) for table in batch):
            for u in decode(table.table):
                query = named[u["query"]]
                row = tuple(u[f"c.{name}"] for name in columns[table.stream_id])
                distance = u.get(DISTANCE) if query in far else None
                op, why = ("+", "") if u["op"] > 0 else ("-", WHY[u["why"]])
                updates.append(Update(u["step"], query, op, u["key"], why, row, distance))
        return Outcome(in_log_order(updates), self._sizes(), self.stats)

    def _sizes(self) -> dict[int, int]:
        """How large answers are, by what Deliver notes of each query."""
        named, sizes = self.named, {}
        for bucket, content in self.control.query("SELECT bucket, content FROM sizes"):
            for place in np.flatnonzero(found := np.frombuffer(content, "<u4")):
                sizes[named[bucket * SIZES_A_BUCKET + int(place)]] = int(found[place])
        return sizes


AfterBatch = Callable[[MemoryEngine, int], None]


@contextmanager
def memory_engine(
    cases: list[Case], slots: int, *, ends: bool = False, tuning: EngineTuning = TUNING
) -> Iterator[MemoryEngine]:
    """An engine over cases, in a folder of its own; what memory is told comes from the cases alone.

    `ends` says that the streams end with the cases, so that a RUN which reaches the end closes.
    """
    shared = SHM if SHM.is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="stqsh-memory-", dir=shared))
    (folder / "updates").mkdir()
    try:
        # The stores are written by hand and go on without end, but there is no generator to extend them.
        unextended = mock.patch.object(EndlessStreams, "extend", lambda *_: None)
        often = mock.patch.multiple(tree_choice, _PAIRS=0.2, _LEAST=0.0, _FIRST_LOOK=2)
        with unextended, often, mock.patch.object(SheddingController, "decision", lambda *_: None):
            engine = MemoryEngine(folder, cases, slots, ends=ends, tuning=tuning)
            try:
                yield engine
            finally:
                engine.close()
    finally:
        shutil.rmtree(folder)


def run(
    session: Case | list[Case],
    slots: int,
    batches: Batches,
    restarts: Container[int] = (),
    look: AfterBatch = lambda engine, step: None,
    *,
    deaths: Mapping[int, Death] | None = None,
    tunings: Sequence[EngineTuning] = (TUNING,),
    chosen: Mapping[int, str | int] | None = None,
) -> Outcome:
    """Run one case, or several with one clock, in the given batches (first and last step of each).

    Everything is restarted before the batches in `restarts`, in every other one without shared memory, and
    in those that die as in `deaths`, each time with the next of `tunings`, in turns. Before batches in
    `chosen`, another index is chosen. `look` sees the engine
    after each last step.
    """
    cases = session if isinstance(session, list) else [session]
    later = cycle(tunings)
    with memory_engine(cases, slots, tuning=next(later)) as engine:
        engine.deaths, engine.later = deaths or {}, later
        for number, (first, last) in enumerate(batches):
            if number in restarts:
                engine.restart(arena=number % 2 == 1)
            if chosen and number in chosen:
                engine.choose(chosen[number])
            engine.take(first, last)
            look(engine, last)
        return engine.delivered()


def encode_area(area: Area) -> pa.RecordBatch:
    """The geometry of an area's members."""
    shapes = [shapely.MultiPolygon([(p[0], p[1:]) for p in polygons]) for polygons in area.members.values()]
    members = pa.array(list(area.members), pa.string())
    return pa.RecordBatch.from_arrays([members, pa.array(shapely.to_wkb(shapes))], ["member", "wkb"])


def decode(table: pa.Table | pa.RecordBatch) -> list[Row]:
    """The rows of a table as dicts; timestamps as int microseconds."""
    columns = {}
    for name, column in zip(table.schema.names, table.columns, strict=True):
        columns[name] = (
            column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        ).to_pylist()
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
