"""A source task's chunks as Spark's record batches, with the task's timings."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa

from stqsh.engine.ingest.record_replay import replay_reference
from stqsh.engine.ingest.task_reader import chunks
from stqsh.engine.planning.tasks import SourceTask
from stqsh.engine.spark.chunk_codec import in_groups, to_batch
from stqsh.engine.spark.worker_daemon import freeze_after_task
from stqsh.engine.state.payload_files import Spool, open_writer
from stqsh.spec.chunk import Chunk, ChunkKind, ChunkOrder, pack_json
from stqsh.spec.stats import TaskTiming


def read_task_batches(task: SourceTask, slots: int, spool: Spool | None) -> Iterator[pa.RecordBatch]:
    """Read one task in a worker and yield its chunks, the last of which are timings.

    `spool` receives large payloads; without it all go through Spark.
    """
    begun = time.perf_counter_ns()
    with open_writer(spool, "source") as outgoing:
        for some in in_groups(outgoing.put(chunk, replay_reference(task, chunk)) for chunk in chunks(task)):
            yield to_batch(some, slots)
    yield to_batch(source_timings(task, (time.perf_counter_ns() - begun) // 1000), slots)
    freeze_after_task()


def source_timings(task: SourceTask, took_us: int) -> list[Chunk]:
    """Return the timing chunks: of the task's reading, and of the planner's reading for all tasks."""
    timings = [TaskTiming("source", us=took_us)]
    if task.head is not None and task.head.read_us and task.only == 0:
        timings.append(TaskTiming("plan", us=task.head.read_us))
    slot, span = task.only or 0, (task.first_step, task.last_step)
    return [Chunk(slot, 0, ChunkKind.TIMING, ChunkOrder(), *span, 0, pack_json(timing)) for timing in timings]
