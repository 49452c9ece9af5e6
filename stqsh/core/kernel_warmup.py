"""Compile every kernel by evaluating a tiny stream in which everything happens."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from stqsh.core.aggregate import aggregate
from stqsh.core.aggregates.keys import canonical
from stqsh.core.base.clock import BatchTiming
from stqsh.core.evaluate import evaluate
from stqsh.core.kernels.aggregates.exact_sums import add_to_few
from stqsh.core.kernels.events.latest_updates import latest_updates
from stqsh.core.kernels.events.record_keys import find_previous
from stqsh.core.kernels.events.size_floors import KeyRecords
from stqsh.core.kernels.events.versions import count_each, number_wholes, read
from stqsh.core.kernels.geometry.boxes import are_beside
from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.core.kernels.index.static_rects import CandidatePairs
from stqsh.core.kernels.jit import frozen
from stqsh.core.kernels.text.term_hashes import add_hashes
from stqsh.core.objects.kept_keys import KeptEventKeys
from stqsh.core.objects.kept_sizes import KeptSizes, SizedRecords
from stqsh.core.objects.presence import may_hold
from stqsh.core.snapshots.cache.word_lists import SlotWords
from stqsh.core.state.columns import DTYPES
from stqsh.core.state.slot_state import SlotState
from stqsh.core.texts.access_path import clear_without_words
from stqsh.core.texts.keyword_index import KeywordIndex
from stqsh.core.texts.term_table import TermTable
from stqsh.core.texts.tokenizer import have_any_term
from stqsh.spec.aggregate import AggregateSpec, GroupColumn, GroupOutput, Measure, measure_column
from stqsh.spec.chunk import Chunk, ChunkOrder, columns_schema, pack, pack_json
from stqsh.spec.clock import BatchClock
from stqsh.spec.command import (
    DropCommand,
    MemoryCommand,
    PauseCommand,
    RegisterCommand,
    ResumeCommand,
    SlotCommand,
)
from stqsh.spec.expression import (
    AndExpr,
    ArithmeticExpr,
    ColumnExpr,
    CompareExpr,
    ContainsExpr,
    DistanceExpr,
    DurationExpr,
    Expr,
    InsideExpr,
    IsNullExpr,
    JoinExpr,
    LiteralExpr,
    NotExpr,
    NowExpr,
    OrExpr,
)
from stqsh.spec.indexes import IndexChoice
from stqsh.spec.query import (
    AGGREGATE,
    RANGE,
    TOP_N,
    AskSpec,
    Members,
    OrderColumn,
    Result,
    SelectColumn,
    SlotQuery,
    SnapshotSpec,
    Timing,
    kind_of_region,
    with_members,
)
from stqsh.spec.region import (
    CircleSpec,
    Key,
    MovingCircleSpec,
    MovingRectangleSpec,
    NearestSpec,
    PolygonSpec,
    RectangleSpec,
    Region,
)
from stqsh.spec.stream import ColumnSpec, FileSourceSpec, StreamSpec, TableSpec

_TICK = 1_000_000
_COLUMNS = (
    ColumnSpec("x", "DOUBLE"),
    ColumnSpec("y", "DOUBLE"),
    ColumnSpec("ts", "TIMESTAMP"),
    ColumnSpec("s", "STRING"),
    ColumnSpec("n", "BIGINT"),
    ColumnSpec("i", "INT"),
    ColumnSpec("f", "FLOAT"),
    ColumnSpec("b", "BOOLEAN"),
)
_MOVING = StreamSpec(
    id=1,
    name="m",
    columns=(ColumnSpec("key", "STRING"), *_COLUMNS),
    key="key",
    x="x",
    y="y",
    time="ts",
    planar=True,
    report_every_us=2 * _TICK,
    source=FileSourceSpec(""),
)
Asked: TypeAlias = tuple[Region, Expr | None]
"""A region and a condition."""

_LOOK_S = 0.5
"""The seconds between two checks of the processes that compile."""

_FIRST_ASKS = 2
"""The number of snapshots that a first session needs: the rows in a rectangle, and their number."""

_STREAMS = (
    _MOVING,
    replace(_MOVING, id=2, planar=False, columns=(ColumnSpec("key", "BIGINT"), *_COLUMNS)),
    replace(_MOVING, id=3, planar=False, kind="event", report_every_us=None, keep_us=2 * _TICK, text="s"),
    replace(_MOVING, id=5, retain="significant", max_speed=0.01),
)
_KEYS = 40
"""Objects per stream: enough for hash tables to grow."""

_TABLE = TableSpec(
    id=4,
    name="t",
    columns=(ColumnSpec("n", "BIGINT"), ColumnSpec("s", "STRING")),
    key="n",
    source=FileSourceSpec(""),
)
_DWELLING = 1
"""The id of the query that has DWELL."""

_LIMITED = 2
"""The id of the query that has FOR."""

_CHANGING = 4
"""The id of a query that is paused, resumed and dropped; a keyword query if the stream has a TEXT."""

_SHEDDING = {
    2: MemoryCommand(k=2),
    3: MemoryCommand(k=99),
    4: MemoryCommand(area=0.5, cache=0.5),
    5: MemoryCommand(),
}
"""The memory commands of the stream that retains significant objects, by step."""

_TEXT = ColumnExpr("s")
_FREE_WORD = LiteralExpr("free", "STRING")
_RECENT = CompareExpr(">", ColumnExpr("ts"), ArithmeticExpr("-", NowExpr(), DurationExpr(_TICK)))
_FREE = CompareExpr("=", _TEXT, _FREE_WORD)
_DEFAULT_INDEXES = IndexChoice()
_RARE = ContainsExpr(_TEXT, "rare", "all")
_RECTANGLE = RectangleSpec(0.0, 0.0, 1.0, 1.0)
_CIRCLE = CircleSpec(0.0, 0.0, 1.0)
_POLYGON = PolygonSpec((((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 0.0)),))
_NEAREST = NearestSpec(k=2, x=0.0, y=0.0)
_CONDITIONS: list[Expr | None] = [
    None,
    _RECENT,
    _FREE,
    ContainsExpr(_TEXT, "free", "all"),
    AndExpr((ContainsExpr(_TEXT, "free bus", "any"), _RECENT)),
    NotExpr(IsNullExpr(JoinExpr(_TABLE.id, "n", "n"))),
    OrExpr((InsideExpr(_CIRCLE), CompareExpr("=", JoinExpr(_TABLE.id, "n", "s"), _FREE_WORD))),
]


_NUMBER = GroupOutput("c", measure_column(0), "BIGINT")
_GROUPED = AggregateSpec(
    groups=(GroupColumn(_TEXT, "STRING"),),
    measures=(
        Measure("sum", ColumnExpr("n"), "BIGINT"),
        Measure("avg", ColumnExpr("x"), "DOUBLE"),
        Measure("max", ColumnExpr("n"), "BIGINT"),
        Measure("topk", _TEXT, "STRING", 2),
    ),
    select=(_NUMBER,),
)
_AGGREGATES = (
    (AggregateSpec(measures=(Measure("count"),), select=(_NUMBER,)), Timing()),
    (_GROUPED, Timing()),
    (_GROUPED, Timing(sync_us=_TICK)),
)


def compile_in_two_processes(niceness: int = 0, on_progress: Callable[[], None] | None = None) -> None:
    """Compile all kernels in two processes, those of a session's first answers first.

    The processes work from opposite ends of the list. When they meet, each finds on disk what the other has
    compiled.

    Args:
        niceness: Added to the niceness of each process after the kernels of the first answers.
        on_progress: Called twice a second while they work.

    Raises:
        subprocess.CalledProcessError: a process failed; its traceback is on standard error.
    """
    code = (
        "import os; from stqsh.core.kernel_warmup import warm_up, warm_up_first_answers;"
        "warm_up_first_answers(backwards={1}); os.nice({0}); warm_up(backwards={1})"
    )
    commands = [[sys.executable, "-c", code.format(niceness, backwards)] for backwards in (False, True)]
    processes = [subprocess.Popen(command) for command in commands]
    for command, process in zip(commands, processes, strict=True):
        while process.poll() is None:
            if on_progress is not None:
                on_progress()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_S)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)


def warm_up(*, backwards: bool = False) -> None:
    """Compile all kernels, or load them from numba's cache on disk.

    Args:
        backwards: Begin with the last stream.
    """
    for stream in reversed(_STREAMS) if backwards else _STREAMS:
        _evaluate(stream, _all_queries(stream), _asks(stream))
    _warm_up_rare_paths()


def warm_up_first_answers(*, backwards: bool = False) -> None:
    """Compile what the usual queries of a first session need: half of the compile time of all kernels.

    The two largest groups, nearest neighbours and moving regions, are at opposite ends of the list.
    """
    moving, events = _STREAMS[0], _STREAMS[2]
    joined = NotExpr(IsNullExpr(JoinExpr(_TABLE.id, "n", "n")))
    parts: list[tuple[StreamSpec, list[Asked]]] = [
        (moving, [(_NEAREST, None), (_NEAREST, _FREE)]),
        (events, [(_CIRCLE, ContainsExpr(_TEXT, "free", "all"))]),
        (moving, [(_POLYGON, _FREE), (_RECTANGLE, joined)]),
        (moving, [(MovingCircleSpec(_keys(moving)[0], 1.0), None)]),
    ]
    for stream, asked in reversed(parts) if backwards else parts:
        _evaluate(stream, _queries(asked), _asks(stream)[:_FIRST_ASKS])


def _evaluate(
    stream: StreamSpec,
    queries: list[SlotQuery],
    asks: list[AskSpec],
    indexes: IndexChoice = _DEFAULT_INDEXES,
) -> None:
    """Evaluate a tiny stream with queries and with snapshots at each step."""
    state, sizes = SlotState.fresh(0), SlotState.fresh(0)
    for step in range(1, 7):
        chunks = [
            _clock(step, indexes),
            *(_table() if step == 1 else ()),
            *_stream(stream, queries, asks, step),
        ]
        aggregate(sizes, evaluate(state, chunks))
    may_hold(state, stream.id, np.zeros(4))


def _warm_up_rare_paths() -> None:
    """Run the code that few sessions need: many keywords, live events, new routings, the far east."""
    _evaluate(_STREAMS[2], _queries([(_CIRCLE, _FREE)]), [], IndexChoice(queries="chtree"))
    state = SlotState.fresh(0)
    _warm_up_keywords(TermTable(state, 1), f"s1/{RANGE.name}/keywords")
    asked = np.zeros(2, np.uint64)
    add_hashes(asked, frozen(np.ones(1, np.uint64)))
    have_any_term(pa.array(["a"]), asked)
    words = SlotWords.of(pa.array(["a"]).dictionary_encode())
    assert words is not None, "a single word"
    words.places_of(hash_keys(pa.array(["a"]))[0])
    are_beside(*np.zeros((4, 1)))
    number_wholes(frozen(np.zeros(1, np.int64)), 1)
    _warm_up_snapshots()
    latest_updates(np.zeros(2, np.int64), np.zeros(2, np.int32), np.arange(2), 1)
    none = np.zeros(1, np.int64)
    KeptEventKeys(state, "kept", None).duplicates(pa.array(["a"]), none, none)
    sizes, place = KeptSizes(state, "sizes"), frozen(np.zeros(1, np.int32))
    sized = SizedRecords(none, none, none + 1)
    sizes.find_duplicates(KeyRecords(place, frozen(none), frozen(none)), none - 1, sized, 1, 1)
    counted = pa.RecordBatch.from_arrays([pa.array(none)] * 3, ["step", "tick", "bytes"])
    sizes.count([counted], 1, BatchTiming(1, 1, 1, 1, -1))
    find_previous(frozen(np.zeros(1, np.int32)), frozen(none), 0, none.copy(), none.copy(), none.copy())


def _warm_up_snapshots() -> None:
    """Run the kernels of snapshots: columns of each type, and sums for few groups of many records."""
    one = frozen(np.zeros(1, np.int32))
    for dtype in sorted({np.dtype(kind).str for kind in DTYPES.values()}):
        read(frozen(np.zeros(1, dtype)), frozen(np.ones(1, np.bool_)), one)
    for kind in (pa.float32(), pa.float64()):
        canonical(pa.array([0.5], kind))
    count_each(one, 1)
    add_to_few(frozen(np.zeros(1, np.int64)), one, 0, np.zeros((1, 3), np.int64))


def _warm_up_keywords(terms: TermTable, prefix: str) -> None:
    """Run the kernels that need many records: keyword index maintenance, and keyword queries in the grid."""
    index, one = KeywordIndex(terms.state, prefix, terms), np.zeros(1, np.int32)
    index.rebuild_if_worn(None)
    terms.pack()
    index.add(np.ones(1, np.int64), ["rare"], [True])
    pairs = CandidatePairs(one, one, np.ones(1, np.uint8))
    clear_without_words(index, pairs, terms.of_events(one - 1, one - 1))


def _clock(step: int, indexes: IndexChoice) -> Chunk:
    clock = BatchClock(first_step=step, last_step=step, base_tick=1, tick_us=_TICK, indexes=indexes)
    return Chunk(0, 0, "clock", ChunkOrder(), step, step, 1, pack_json(clock))


def _table() -> list[Chunk]:
    """Return the chunks of a joined table."""
    rows = pa.RecordBatch.from_pylist([{"n": 1, "s": "free"}], columns_schema(_TABLE.columns))
    return [
        Chunk(0, _TABLE.id, "table_define", ChunkOrder(), 1, 1, 1, pack_json(_TABLE)),
        Chunk(0, _TABLE.id, "table", ChunkOrder(number=1), 1, 1, 1, pack(rows)),
    ]


def _keys(spec: StreamSpec) -> list[Key]:
    """Return the keys of a stream's objects; moving regions and snapshots are centred on the first."""
    if spec.columns[0].type == "STRING":
        return [f"key {i}" for i in range(_KEYS)]
    return [*range(_KEYS)]


def _stream(spec: StreamSpec, queries: list[SlotQuery], asks: list[AskSpec], step: int) -> Iterator[Chunk]:
    stream, keys = spec.id, _keys(spec)
    if step == 1:
        yield Chunk(0, stream, "define", ChunkOrder(), step, step, 1, pack_json(spec))
    yield Chunk(0, stream, "ask", ChunkOrder(number=4), step, step, 1, pack_json(asks))
    commands = pack_json(_commands(spec, queries, step))
    yield Chunk(0, stream, "commands", ChunkOrder(number=1), step, step, 1, commands)
    if step < 4:
        records = pack(_records(spec, keys, step))
        yield Chunk(0, stream, "records", ChunkOrder(number=2), step, step, _KEYS, records)
        if not spec.is_event:
            yield Chunk(0, stream, "focal", ChunkOrder(number=3), step, step, _KEYS, records)


def _commands(spec: StreamSpec, queries: list[SlotQuery], step: int) -> list[SlotCommand]:
    """Return the commands of a step: queries are registered at step 2, and one of them changes later."""
    commands: dict[int, list[SlotCommand]] = {2: [RegisterCommand(query=query) for query in queries]}
    if len(queries) >= _CHANGING:
        commands[3] = [PauseCommand(id=_CHANGING)]
        commands[4] = [ResumeCommand(id=_CHANGING)]
        commands[5] = [DropCommand(id=_CHANGING)]
    shedding = [_SHEDDING[step]] if spec.is_significant and step in _SHEDDING else []
    return [*commands.get(step, []), *shedding]


def _all_queries(spec: StreamSpec) -> list[SlotQuery]:
    """Return queries of every kind; queries around an object only if the stream's objects move."""
    asked: list[Asked] = [(_RECTANGLE, condition) for condition in _CONDITIONS]
    asked += [(region, condition) for region in (_CIRCLE, _POLYGON, _NEAREST) for condition in (None, _FREE)]
    asked.append((_NEAREST, _RARE))
    if not spec.is_event:
        around = _around(_keys(spec)[0])
        asked += [(region, condition) for region in around for condition in (None, _FREE)]
    queries = _queries(asked)
    members = Members(region=_RECTANGLE)
    first = Result(order=(OrderColumn(ColumnExpr("n"), is_descending=True),), limit=2)
    queries.append(SlotQuery(id=len(queries) + 1, kind=TOP_N.name, members=members, result=first))
    return queries + [
        SlotQuery(
            id=id_, kind=AGGREGATE.name, members=members, result=Result(aggregates=groups), timing=timing
        )
        for id_, (groups, timing) in enumerate(_AGGREGATES, start=len(queries) + 1)
    ]


def _queries(asked: list[Asked]) -> list[SlotQuery]:
    """Return a query for each region and condition, by number."""
    return [
        SlotQuery(
            id=id_,
            kind=kind_of_region(region).name,
            members=Members(
                region=region, condition=condition, min_accuracy=None if id_ == _DWELLING else 0.01
            ),
            result=Result(select=(SelectColumn("d", DistanceExpr()),) if region.has_centre else ()),
            timing=Timing(
                dwell_us=_TICK if id_ == _DWELLING else None, for_us=3 * _TICK if id_ == _LIMITED else None
            ),
        )
        for id_, (region, condition) in enumerate(asked, start=1)
    ]


def _around(focal: Key) -> list[Region]:
    """Return regions that move with an object."""
    return [MovingRectangleSpec(focal, 1.0, 1.0), MovingCircleSpec(focal, 1.0), NearestSpec(k=2, focal=focal)]


def _asks(spec: StreamSpec) -> list[AskSpec]:
    """Return snapshots, which use scans, the simple ones first, and a request for the cost of a snapshot."""
    rectangle = SnapshotSpec(
        stream_id=spec.id, kind=kind_of_region(_RECTANGLE).name, members=Members(region=_RECTANGLE)
    )
    snapshots = [
        rectangle,
        replace(rectangle, aggregate="count"),
        with_members(rectangle, region=_CIRCLE),
        replace(with_members(rectangle, region=_NEAREST), kind=kind_of_region(_NEAREST).name),
        replace(rectangle, measure=0),
    ]
    asks = [AskSpec(ask=number, spec=snapshot) for number, snapshot in enumerate(snapshots)]
    if not spec.is_event:
        around = with_members(rectangle, region=MovingRectangleSpec(_keys(spec)[0], 1.0, 1.0))
        asks.append(AskSpec(ask=len(asks), spec=around, place=(0.0, 0.0)))
    return asks


def _records(spec: StreamSpec, keys: list[Key], step: int) -> pa.RecordBatch:
    schema = columns_schema(spec.columns)
    row = {"s": "free", "n": 1, "i": 1, "f": 0.5, "b": True, "ts": step * _TICK}
    rows = [row | {"key": key, "x": 0.1 * i * step, "y": 0.2} for i, key in enumerate(keys)]
    batch = pa.RecordBatch.from_pylist(rows, schema)
    steps: Any = pa.array([step] * len(rows), pa.int64())
    hashes: Any = pa.array(hash_keys(batch.column("key")))
    columns = [*batch.columns, steps, hashes]
    return pa.RecordBatch.from_arrays(columns, names=[*schema.names, "_step", "_hash"])


if (
    __name__ == "__main__"
):  # beside an installation (Makefile); Ctrl-C ends it, although shells start it without
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    warm_up_first_answers()
