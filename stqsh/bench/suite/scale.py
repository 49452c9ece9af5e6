"""Measure what a batch costs driver and tasks at numbers of slots, and what as many cores would take.

The engine runs in this process without Spark (`stqsh.bench.harness.serial_engine`), with as many slices as
slots. Its tasks run one after the other, so that their thread time is that of a core of their own, as far as
cores do not slow each other down. Objects report in turn; the queries are uniform squares of 1 % side, of
which one in a hundred counts its objects, so that Aggregate has work. Batches of two sizes tell what a batch
costs, and what a million records do.

With S slots on S cores, batches of n million records take

    spark + driver + n driver/M + source + n source/M / S + evaluate + n evaluate/M / S + aggregate + …

seconds. `spark` is what Spark takes for a batch: it is not measured here, see `stqsh bench batch`. n is what
the engine takes: as much as keeps the tasks busy for 2 s, or longer if all else takes longer than 1 s. Of the
tasks of a stage the slowest counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pyarrow.csv import write_csv

from stqsh.bench.figures import LESS, MORE, Better, Row
from stqsh.bench.harness.drive import Say, create_stream, execute, temporary_folder
from stqsh.bench.harness.serial_engine import BatchTimes, SerialEngine, serial_session
from stqsh.bench.harness.workload import Motion, ticks_to_fill
from stqsh.bench.options import option
from stqsh.bench.suite.register import SQUARE, squares
from stqsh.client.api import Session
from stqsh.engine.planning.batch_size import TARGET_US
from stqsh.engine.spark.worker_daemon import keep_freed_memory

_STAGES = ("driver", "source", "evaluate", "aggregate")
COLUMNS = {
    "queries": "queries",
    "slots": "slots",
    "driver_s": "driver s/M",
    "driver_ms": "ms a batch",
    "source_s": "source s/M",
    "source_ms": "ms a task",
    "evaluate_s": "evaluate s/M",
    "evaluate_ms": "ms a slot",
    "aggregate_s": "aggregate s/M",
    "aggregate_ms": "ms a slot",
    "batch_m": "batch M",
    "records_per_s": "records/s",
}
KEY = ("queries", "slots")
FIGURES: dict[str, Better] = {
    "records_per_s": MORE,
    "driver_s": LESS,
    "source_s": LESS,
    "evaluate_s": LESS,
    "aggregate_s": LESS,
}
_SMALL = 10
"""A small batch is one tick, a large one has so many."""
_COUNTED = 100
"""One query in so many counts."""


@dataclass(frozen=True)
class ScaleOptions:
    """What to measure; see the help of each option."""

    slots: tuple[int, ...] = option((2, 8, 32, 64), "Numbers of slots, and of cores.")
    queries: tuple[int, ...] = option((10_000, 100_000), "Numbers of queries.")
    objects: int = option(1_000_000, "Moving objects.")
    per_tick: int = option(200_000, "Records of a small batch; a large one has ten times as many.")
    batches: int = option(5, "Batches of each size.")
    spark_s: float = option(0.3, "What Spark takes for a batch, in seconds.")


FULL = ScaleOptions()
QUICK = ScaleOptions(queries=(10_000,), objects=200_000, per_tick=50_000, batches=2)


@dataclass(frozen=True)
class StageCost:
    """What a stage costs.

    Attributes:
        task_s: seconds of a task, whatever its records.
        million_s: seconds of all tasks for a million records.
    """

    task_s: float
    million_s: float

    def at(self, millions: float, cores: int) -> float:
        """Return the seconds of a stage for some million records on a number of cores."""
        return self.task_s + self.million_s * millions / cores


def measure(options: ScaleOptions, say: Say) -> list[Row]:
    """Return a row for each number of queries and of slots."""
    keep_freed_memory()
    say(
        "seconds of a batch of n million records on as many cores as slots:"
        f" {options.spark_s:g} of Spark + the driver's + those of the slowest task of each stage"
    )
    return list(_rows(options, say))


def _rows(options: ScaleOptions, say: Say) -> Iterator[Row]:
    filling = ticks_to_fill(options.objects, options.per_tick)
    ticks = filling + 1 + (options.batches + 1) * (1 + _SMALL)
    with temporary_folder() as folder:
        Motion(options.objects, options.per_tick, ticks).write(folder / "reports.parquet")
        for queries in options.queries:
            for slots in options.slots:
                say(f"{queries:,} queries, {slots} slots")
                with serial_session(folder / f"{queries}-{slots}", slots) as (session, engine):
                    _fill(session, engine, folder, queries, filling)
                    small, large = _measured(session, engine, options.batches)
                yield {"queries": queries, "slots": slots, **_row(small, large, slots, options.spark_s, say)}


def _fill(session: Session, engine: SerialEngine, folder: Path, queries: int, ticks: int) -> None:
    """Take every object in once, then the queries."""
    execute(session, create_stream(folder / "reports.parquet"))
    _run(session, engine, ticks)
    boxes, counted = squares(queries), max(1, queries // _COUNTED)
    parts = {"oid": boxes.slice(counted), "COUNT(*)": boxes.slice(0, counted)}
    for number, (select, some) in enumerate(parts.items()):
        file = folder / f"{queries}-{number}.csv"
        write_csv(some, file)
        text = f"REGISTER QUERIES FROM FILE '{file}' AS SELECT {select} FROM m {SQUARE};"
        execute(session, text)
    _run(session, engine, 1)


def _measured(
    session: Session, engine: SerialEngine, batches: int
) -> tuple[list[BatchTimes], list[BatchTimes]]:
    """Run batches of each size in turns, of which the first warm up; return the small and the large ones."""
    small, large = list[BatchTimes](), list[BatchTimes]()
    for _ in range(batches + 1):
        for ticks, found in ((1, small), (_SMALL, large)):
            _run(session, engine, ticks)
            found.append(engine.batches[-1])
    return small[1:], large[1:]


def _run(session: Session, engine: SerialEngine, ticks: int) -> None:
    execute(session, f"RUN {ticks} STEPS;")
    engine.advance()


def _row(
    small: Sequence[BatchTimes], large: Sequence[BatchTimes], slots: int, spark_s: float, say: Say
) -> Row:
    costs = {stage: cost_of(small, large, stage) for stage in _STAGES}
    fixed_s = spark_s + sum(cost.task_s for cost in costs.values())
    parallel_s = sum(costs[stage].million_s for stage in _STAGES[1:]) / slots
    aim_s = TARGET_US / 1e6
    millions = min(max(aim_s, 2 * fixed_s), 2 * aim_s) / (costs["driver"].million_s + parallel_s)
    seconds = {stage: cost.at(millions, 1 if stage == "driver" else slots) for stage, cost in costs.items()}
    batch_s = spark_s + sum(seconds.values())
    parts = " + ".join(f"{seconds[stage]:.2f} {stage}" for stage in _STAGES)
    rate = millions * 1e6 / batch_s
    say(f"  {millions:.1f} M records in {spark_s:.2f} Spark + {parts} = {batch_s:.2f} s")
    row: dict[str, float] = {"records_per_s": rate, "batch_m": millions}
    for stage, cost in costs.items():
        row |= {f"{stage}_s": cost.million_s, f"{stage}_ms": 1000 * cost.task_s}
    return row


def cost_of(small: Sequence[BatchTimes], large: Sequence[BatchTimes], stage: str) -> StageCost:
    """Return the cost of a stage by the slowest task of batches of two sizes."""
    (few, short), (many, long) = (
        (np.median([one.records for one in some]), np.median([_slowest(one, stage) for one in some]))
        for some in (small, large)
    )
    tasks = 1 if stage == "driver" else len(getattr(large[0], stage)) or 1
    slope = max(0.0, float((long - short) / (many - few)))
    return StageCost(max(0.0, float(short - slope * few)), slope * 1e6 * tasks)


def _slowest(times: BatchTimes, stage: str) -> float:
    found = getattr(times, stage)
    return found if stage == "driver" else max(found, default=0.0)
