"""The measurement of Kafka in a small size: it accounts for every record, and probes come back."""

from __future__ import annotations

from pathlib import Path

import pytest

from stqsh.bench.peers import kafka_spark
from stqsh.bench.suite.kafka import KafkaOptions, measure
from stqsh.engine.spark.maven import LibraryMissingError

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.usefixtures("kafka_jars")
def test_all_records_are_counted_and_probes_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STQSH_HOME", str(tmp_path))
    options = KafkaOptions(("json", "damaged"), queries=20, objects=500, records=20_000, seconds=3)
    whole, damaged, fresh = measure(options, lambda _: None)
    assert whole["dead"] == 0
    assert damaged["dead"] == pytest.approx(2_000, rel=0.1)
    assert 10 < fresh["probes"] <= 36  # of 60, without the warm-up and those that a busy machine is late with


@pytest.mark.usefixtures("kafka_jars")
def test_the_readers_of_spark_and_flink_give_the_same_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        kafka_spark.bring_reader()
    except LibraryMissingError as problem:
        pytest.skip(str(problem))
    monkeypatch.setenv("STQSH_HOME", str(tmp_path))
    ours, sparks, *_ = measure(  # and Flink's, where there is PyFlink
        KafkaOptions((), queries=20, objects=500, seconds=0, peer_records=20_000), lambda _: None
    )
    assert ours["dead"] == 0
    assert len(sparks["records_per_s"]) == 4
