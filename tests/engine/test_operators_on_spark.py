"""The operators on Spark: state goes on from batch to batch, whatever is killed or lost in between."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from support.toy_engine import Adding, Counting, ToySource, batch_chunks

from stqsh.core.state.slot_state import SlotState
from stqsh.engine.config import EngineSettings
from stqsh.engine.operators.local_operators import LocalOperators
from stqsh.engine.operators.pipeline import run_batch
from stqsh.engine.operators.slot_task import OperatorContext, address_partials
from stqsh.engine.operators.spark_operators import stored_heads, with_operators
from stqsh.engine.spark.spark_internals import begin_checkpoint, initial_heads, last_commit
from stqsh.engine.spark.spark_session import remove_scratch, start_spark
from stqsh.spec.chunk import Chunk, from_table, unpack, unpack_json
from stqsh.storage.blobs import home_blobs, later_checkpoint

pytestmark = pytest.mark.spark

SLOTS = 2
FOLDS = (Adding(), Counting())
TESTS = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    home = tmp_path_factory.mktemp("home")
    settings = EngineSettings(home, memory="1g", slots=SLOTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(TESTS))
        patch.setenv("STQSH_TEST_DIE", str(home / "die"))
        session = start_spark(settings)
        session.dataSource.register(ToySource)
        yield session
        session.stop()
    remove_scratch(settings)


class Pipeline:
    """The toy source, two operators, and a list of what each batch delivered."""

    def __init__(self, spark: SparkSession, folder: Path, state: str) -> None:
        self.spark, self.folder = spark, folder
        self.context = OperatorContext(SLOTS, (folder / "arena",), folder, home_blobs(folder))
        self.checkpoint = home_blobs(folder / "checkpoint")
        self.operators = LocalOperators(*FOLDS, self.context) if state == "files" else None
        self.delivered: dict[int, list[Chunk]] = {}
        self.query: StreamingQuery | None = None
        self.allow(0)

    def allow(self, batches: int) -> None:
        (self.folder / "new").write_text(str(batches))
        (self.folder / "new").replace(self.folder / "allowed")

    def start(self) -> None:
        source = self.spark.readStream.format("toy").option("allowed", str(self.folder / "allowed"))
        chunks = source.option("slots", SLOTS).option("first", self.context.first_batch).load()
        if self.operators is None:
            heads = initial_heads(self.checkpoint)
            chunks = with_operators(self.spark, chunks, self.context, heads, FOLDS)
        writer = chunks.writeStream.option("checkpointLocation", str(self.checkpoint.folder))
        self.query = writer.foreachBatch(self._deliver).start()

    def go_on(self) -> None:
        """Start another query, with dealers, from where this one has stopped."""
        batch = last_commit(self.checkpoint) + 1
        heads = stored_heads(self.spark, self.checkpoint, SLOTS, FOLDS)
        self.checkpoint = later_checkpoint(home_blobs(self.folder), batch)
        begin_checkpoint(self.checkpoint, json.dumps({"batch": batch}), heads)
        self.context = replace(self.context, first_batch=batch)
        self.start()

    def _deliver(self, batch: DataFrame, of_query: int) -> None:
        number = self.context.first_batch + of_query
        self.delivered[number + 1] = from_table(run_batch(batch, number, self.operators))

    def run_to(self, batch: int) -> None:
        self.allow(batch)
        deadline = time.monotonic() + 200
        while len(self.delivered) < batch and time.monotonic() < deadline:
            assert self.query is not None
            assert self.query.exception() is None
            time.sleep(0.02)
        assert len(self.delivered) == batch
        while self.query is not None and self.query.status["isTriggerActive"]:
            time.sleep(0.02)

    def stop(self) -> None:
        assert self.query is not None
        self.query.stop()


@pytest.fixture(params=["files", "spark"])
def pipeline(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pipeline]:
    made = Pipeline(spark, tmp_path, request.param)
    made.start()
    yield made
    made.stop()


def expected(batches: int) -> dict[int, list[tuple[object, ...]]]:
    """What the same folds send without Spark, arena and state store."""
    folds = [(Adding(), {}), (Counting(), {})]
    result = {}
    for number in range(1, batches + 1):
        chunks = batch_chunks(number, SLOTS)
        for fold, states in folds:
            sent = [chunk for chunk in chunks if not fold.accepts(chunk)]
            for slot in range(SLOTS):
                taken = [chunk for chunk in chunks if fold.accepts(chunk) and chunk.slot == slot]
                state = states.setdefault(slot, SlotState.fresh(slot))
                sent += address_partials(fold.apply(state, taken), SLOTS)
            chunks = sent
        result[number] = content(chunks)
    return result


def content(chunks: list[Chunk]) -> list[tuple[object, ...]]:
    """Chunks without what may differ between two runs: order and times."""
    told = (chunk for chunk in chunks if chunk.kind not in ("stats", "timing"))
    return sorted((c.kind, c.slot, c.stream, c.first_step, str(readable(c))) for c in told)


def readable(chunk: Chunk) -> object:
    return unpack_json(chunk.payload) if chunk.kind == "clock" else unpack(chunk.payload).to_pydict()


def told(chunks: list[Chunk], kind: str) -> list[dict[str, object]]:
    return [unpack_json(chunk.payload) for chunk in chunks if chunk.kind == kind]


def test_state_goes_on_over_batches_restarts_kills_and_a_lost_arena(
    pipeline: Pipeline, spark: SparkSession
) -> None:
    pipeline.run_to(6)

    die = Path(os.environ["STQSH_TEST_DIE"])
    die.write_text(json.dumps([1, 8]))
    pipeline.run_to(9)
    assert not die.exists()
    rebuilt = {
        cost["slot"]: cost["rebuilt"]
        for cost in told(pipeline.delivered[8], "timing")
        if cost["at"] == "evaluate"
    }
    assert rebuilt == {0: False, 1: True}

    pipeline.stop()
    pipeline.start()
    pipeline.run_to(11)
    assert not any(cost["rebuilt"] for cost in told(pipeline.delivered[10], "timing"))

    pipeline.stop()
    shutil.rmtree(pipeline.folder / "arena")
    pipeline.start()
    pipeline.run_to(12)
    assert all(cost["rebuilt"] for cost in told(pipeline.delivered[12], "timing"))

    assert {number: content(chunks) for number, chunks in pipeline.delivered.items()} == expected(12)


@pytest.mark.timeout(900)
def test_another_query_with_dealers_goes_on_from_the_heads_of_one_without(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = Pipeline(spark, tmp_path, "spark")
    pipeline.start()
    pipeline.run_to(3)
    pipeline.stop()
    pipeline.go_on()
    pipeline.run_to(5)
    pipeline.stop()
    pipeline.start()
    pipeline.run_to(7)
    pipeline.stop()
    assert not any(cost["rebuilt"] for cost in told(pipeline.delivered[4], "timing"))
    assert {number: content(chunks) for number, chunks in pipeline.delivered.items()} == expected(7)
