"""Evaluate: a slot's fold over batches of chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from time import perf_counter_ns
from typing import Any

import numpy as np
import pyarrow as pa

from stqsh.core.chunks import WHY, Chunk, in_order, pack, pack_json, unpack, unpack_json
from stqsh.core.clock import Timing
from stqsh.core.conditions.reference import let_go, take_in
from stqsh.core.kinds import KINDS
from stqsh.core.kinds.protocol import Merging, StreamBatch
from stqsh.core.matching.newcomers import Newcomers, unpack_alike
from stqsh.core.matching.queries import Commands, digest
from stqsh.core.objects.events import forget_expired, forget_notes, is_event
from stqsh.core.objects.movement import Movement
from stqsh.core.objects.table import ObjectTable
from stqsh.core.pieces import Piece, pieces
from stqsh.core.significance.settings import forget_memory, is_significant, remember
from stqsh.core.significance.step import close, take_out
from stqsh.core.significance.stretch import stretches
from stqsh.core.significance.tally import figures
from stqsh.core.slot.pool import vacuum
from stqsh.core.slot.state import SlotState
from stqsh.core.telling.report import Report, chunks_of, known_rows
from stqsh.core.texts.terms import tidy

Spec = dict[str, Any]

_PARTS = 1 << 12
"""Chunks of one kind in a piece of a batch at the most; pieces are numbered beyond."""

EXPIRED = WHY.index("expired")
DISCONNECTED = WHY.index("disconnected")


def evaluate(state: SlotState, chunks: list[Chunk]) -> list[Chunk]:
    """Take one batch in, and give the updates that it brings.

    A deterministic function of state and chunks: no clock, no order of hashes, no threads play a part.

    Args:
        state: the slot's state after the batch before; changed in place.
        chunks: the batch's chunks for this slot, exactly one of the kind "clock" among them; any order.

    Returns:
        Chunks of the kinds rows, updates, counts, notice, found, answer and stats. "define" is passed on,
        and by slot 0 "clock".

    Raises:
        ValueError: the chunks do not make a batch.
    """
    began = perf_counter_ns()
    evaluation = _Evaluation(state, in_order(chunks))
    out = evaluation.run()
    stats = evaluation.stats(perf_counter_ns() - began)
    return [*out, evaluation.chunk("stats", pack_json(stats))]


class _Evaluation:
    """One call of `evaluate`."""

    def __init__(self, state: SlotState, chunks: list[Chunk]) -> None:
        self.state, self.slot = state, int(state.header["slot"])
        clocks = [chunk for chunk in chunks if chunk.kind == "clock"]
        if len(clocks) != 1:
            raise ValueError(f"a batch has one clock chunk, not {len(clocks)}")
        self.clock_chunk, self.clock = clocks[0], unpack_json(clocks[0].payload)
        self.by_stream: dict[int, list[Chunk]] = {}
        for chunk in chunks:
            if chunk.kind != "clock":
                self.by_stream.setdefault(chunk.stream, []).append(chunk)
        self.memory: Spec = {}
        self.totals = dict.fromkeys(
            ("objects", "records", "stale", "updates", "decode_us", "kernel_us", "state_us"), 0
        )

    def run(self) -> list[Chunk]:
        """All streams, in order of their ids; those without chunks too, for time passes in them."""
        every = [chunk for chunks in self.by_stream.values() for chunk in chunks]
        defines = [chunk for chunk in every if chunk.kind == "define"]
        out = [*([self.clock_chunk] if self.slot == 0 else []), *defines]
        take_in(self.state, every)
        streams = self.state.header.setdefault("streams", {})
        for chunk in defines:
            streams.setdefault(str(chunk.stream), unpack_json(chunk.payload))
        for stream in sorted(map(int, streams)):
            out += self._stream(streams[str(stream)], self.by_stream.get(stream, []))
        let_go(self.state, every)
        clock = self.clock
        now = {"step": clock["last_step"], "base_tick": clock["base_tick"], "tick_us": clock["tick_us"]}
        self.state.header["clock"] = now
        return out

    def _stream(self, spec: Spec, chunks: list[Chunk]) -> list[Chunk]:
        out = self._lookups(spec, chunks) + self._answers(spec, chunks)
        whole = self._whole(spec, chunks)
        if whole.commands.memory is not None:
            remember(self.state, spec["id"], whole.commands.memory)
        there = 0
        for number, piece in enumerate(self._pieces(spec, whole)):
            told, there = self._piece(spec, piece)
            out += [self._renumbered(chunk, number) for chunk in told]
        self._add(objects=there)
        if is_significant(spec) and not whole.commands.stream_dropped:
            self.memory[str(spec["id"])] = figures(self.state, spec)
        return out

    def _pieces(self, spec: Spec, whole: Piece) -> Iterable[Piece]:
        if whole.commands.stream_dropped:
            return [whole]
        if is_significant(spec):
            return stretches(self.state, spec, whole)
        merges = self._merges(spec, whole.commands)
        return pieces(whole, partial(self._known, spec)) if merges else [whole]

    def _whole(self, spec: Spec, chunks: list[Chunk]) -> Piece:
        """All that came for a stream."""
        timing = self._timing(spec)
        commands = digest(_commands(chunks))
        _check(commands, timing)
        return Piece(timing, _batches("records", chunks), _batches("focal", chunks), commands)

    def _merges(self, spec: Spec, commands: Commands) -> bool:
        """Whether there are queries over a stream whose answers are merged; see `stqsh.core.pieces`."""
        merging = (name for name, kind in KINDS.items() if isinstance(kind, Merging))
        return any(
            len(commands.of_kind(name).registered) or KINDS[name].count(self.state, spec["id"])
            for name in merging
        )

    def _known(self, spec: Spec) -> int:
        return len(ObjectTable(self.state, f"s{spec['id']}/objects", spec))

    def _renumbered(self, chunk: Chunk, piece: int) -> Chunk:
        """A chunk of a piece as one of the batch."""
        first, last = self.clock["first_step"], self.clock["last_step"]
        return replace(chunk, part=chunk.part + piece * _PARTS, first_step=first, last_step=last)

    def _piece(self, spec: Spec, piece: Piece) -> tuple[list[Chunk], int]:
        """Take a piece in: what it tells, and how many objects there are then."""
        report, begun = Report(), perf_counter_ns()
        batch = self._batch(spec, piece)
        decoded = perf_counter_ns()
        kept = take_out(batch)
        for name, kind in KINDS.items():
            kind.step(replace(batch, commands=batch.commands.of_kind(name)), report)
        told = chunks_of(self.slot, batch.objects, report)
        kernel = perf_counter_ns()
        batch.objects.finish()
        batch.focal.finish()
        close(batch, kept)
        there = self._forget(spec["id"]) if batch.commands.stream_dropped else self._tidy(batch)
        self._add(
            records=len(batch.objects.rows) + piece.passed,
            stale=batch.objects.accepted.stale,
            updates=sum(chunk.rows for chunk in told if chunk.kind == "updates"),
            decode_us=(decoded - begun) // 1000,
            kernel_us=(kernel - decoded) // 1000,
            state_us=(perf_counter_ns() - kernel) // 1000,
        )
        return told, there

    def _batch(self, spec: Spec, piece: Piece) -> StreamBatch:
        timing, prefix = piece.timing, f"s{spec['id']}"
        objects = ObjectTable(self.state, f"{prefix}/objects", spec)
        focal = ObjectTable(self.state, f"{prefix}/focal", spec, columns=False)
        seeds, followed = _seeds_apart(piece.focal, timing)
        Movement(focal, seeds, timing).finish()
        _know_focals(focal, piece.commands)
        return StreamBatch(
            state=self.state,
            spec=spec,
            timing=timing,
            objects=Movement(objects, piece.records, timing),
            focal=Movement(focal, followed, timing),
            commands=piece.commands,
        )

    def _timing(self, spec: Spec) -> Timing:
        clock, event = self.clock, is_event(spec)
        first, last = clock["first_step"], clock["last_step"]
        base, tick = clock["base_tick"] or 0, clock["tick_us"] or 1
        us = spec["keep_us"] if event else spec["report_every_us"]
        return Timing(first, last, base, tick, -1 if us is None else us, EXPIRED if event else DISCONNECTED)

    def _lookups(self, spec: Spec, chunks: list[Chunk]) -> list[Chunk]:
        """The last records of looked-up keys, as they were before the batch."""
        keys = [key for payload in _payloads("lookup", chunks) for key in payload]
        if not keys:
            return []
        table = ObjectTable(self.state, f"s{spec['id']}/objects", spec)
        found = known_rows(Movement(table, [], self._timing(spec)), keys)
        return [self.chunk("found", pack(found), spec["id"], found.num_rows)] if found.num_rows else []

    def _answers(self, spec: Spec, chunks: list[Chunk]) -> list[Chunk]:
        """This slot's part of what snapshot queries ask, on the state before the batch."""
        asked = [ask for payload in _payloads("ask", chunks) for ask in payload]
        if not asked:
            return []
        from stqsh.core.snapshots.select import answer

        out = []
        for ask in asked:
            rows = answer(self.state, ask)
            if rows is not None:
                chunk = self.chunk("answer", pack(rows), spec["id"], rows.num_rows)
                out.append(replace(chunk, part=ask["ask"]))
        return out

    def _tidy(self, batch: StreamBatch) -> int:
        """Make room after a batch; how many objects have a record, and of events how many are there still."""
        stream, table = batch.spec["id"], batch.objects.table
        stored = len(table)
        if is_event(batch.spec):
            there = forget_expired(self.state, stream, batch.timing)
        else:
            there = int(np.count_nonzero(table.stored.known))
        if vacuum(self.state, stream, now=len(table) < stored and is_event(batch.spec)):
            tidy(self.state, stream)
        return there

    def _forget(self, stream: int) -> int:
        self.state.release(f"s{stream}/")
        del self.state.header["streams"][str(stream)]
        for arrays in ("codes", "by_code"):
            self.state.header.get(arrays, {}).pop(str(stream), None)
        forget_notes(self.state, stream)
        forget_memory(self.state, stream)
        templates = self.state.header.get("templates", {})
        self.state.header["templates"] = {
            prefix: shapes for prefix, shapes in templates.items() if not prefix.startswith(f"s{stream}/")
        }
        return 0

    def _add(self, **amounts: int) -> None:
        for name, amount in amounts.items():
            self.totals[name] += amount

    def chunk(self, kind: str, payload: bytes, stream: int = 0, rows: int = 1) -> Chunk:
        """A chunk of this slot and batch."""
        return Chunk(
            self.slot, stream, kind, 0, self.clock["first_step"], self.clock["last_step"], rows, payload
        )

    def stats(self, took_ns: int) -> Spec:
        """What the batch was and took; µs."""
        specs = self.state.header["streams"].values()
        return self.totals | {
            "slot": self.slot,
            "queries": sum(kind.count(self.state, spec["id"]) for kind in KINDS.values() for spec in specs),
            "bytes": self.state.nbytes,
            "total_us": took_ns // 1000,
            "memory": self.memory,
        }


def _batches(kind: str, chunks: Iterable[Chunk]) -> list[pa.RecordBatch]:
    return [unpack(chunk.payload) for chunk in chunks if chunk.kind == kind]


def _payloads(kind: str, chunks: Iterable[Chunk]) -> list[Any]:
    return [unpack_json(chunk.payload) for chunk in chunks if chunk.kind == kind]


def _commands(chunks: Iterable[Chunk]) -> Iterator[Spec | Newcomers]:
    """What chunks tell slots to do, in the log's order."""
    for chunk in chunks:
        if chunk.kind == "commands":
            yield from unpack_json(chunk.payload)
        elif chunk.kind == "register_alike":
            yield unpack_alike(chunk.payload)


def _check(commands: Commands, timing: Timing) -> None:
    """Commands take effect at a step, and queries are of a kind that there is."""
    if commands.any and timing.last < timing.first:
        raise ValueError("commands came in a batch without steps")
    for spec in commands.registered.patterns:
        if spec["kind"] not in KINDS:
            raise ValueError(f"no query kind {spec['kind']!r}; there are {', '.join(KINDS)}")


def _know_focals(focal: ObjectTable, commands: Commands) -> None:
    """Give every focal object of a new query its place in the table, before versions are numbered."""
    focal.intern(commands.registered.moving(focal.key_type)[1])


def _seeds_apart(
    batches: list[pa.RecordBatch], timing: Timing
) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
    """Records of focal objects from before the batch's first step, and those of its steps."""
    early: list[pa.RecordBatch] = []
    regular: list[pa.RecordBatch] = []
    for batch in batches:
        before = batch.column("_step").to_numpy() < timing.first
        for rows, target in ((before, early), (~before, regular)):
            if rows.any():
                target.append(batch if rows.all() else batch.filter(pa.array(rows)))
    return early, regular
