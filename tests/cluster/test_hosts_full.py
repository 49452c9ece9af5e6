"""Hosts that share nothing with the driver but a URI: the same bytes as one machine prints."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.clusters import Cluster, cluster, start_hdfs, start_s3
from support.local import local_session
from support.mixed import mixed_script
from support.running import run_script
from support.s3 import CREDENTIALS

from stqsh.engine.spark.maven import LibraryMissingError
from stqsh.engine.spark.object_store import s3_jars

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]


@pytest.fixture(scope="session")
def s3() -> None:
    """Skip where the jars cannot be had by which Spark writes to S3."""
    try:
        s3_jars()
    except LibraryMissingError as problem:
        pytest.skip(f"no S3: {problem}")


def printed_by_one_machine(folder: Path, file: Path) -> bytes:
    with local_session(folder / "local", slots=2, published=True) as session:
        return run_script(session, file.read_text(encoding="utf-8"), file)


def printed_while_an_executor_dies(made: Cluster, profile: Path, file: Path) -> bytes:
    """What the script prints on the cluster; an executor is killed after the script's first updates."""
    out = file.with_suffix(".jsonl")
    process = made.start(profile, ["run", str(file), "--format", "jsonl"], out)
    deadline = time.monotonic() + 600
    while not out.stat().st_size:
        assert process.poll() is None and time.monotonic() < deadline, problem(made, out)
        time.sleep(0.1)
    made.kill_executor("worker-1")
    assert process.wait(600) == 0, problem(made, out)
    return out.read_bytes()


def problem(made: Cluster, out: Path) -> str:
    return out.with_suffix(".err").read_text() + made.said()


@pytest.mark.parametrize("store", ["hdfs", "s3"])
def test_all_kinds_of_questions_print_what_one_machine_prints(
    folder: Path, unpacked: Path, store: str, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(store)
    start: Callable[[Cluster], str] = {"hdfs": start_hdfs, "s3": start_s3}[store]
    file = mixed_script(folder, seed=1)
    expected = printed_by_one_machine(folder, file)
    assert expected.count(b"\n") > 1000
    with cluster(folder, workers=2, binds={"stqsh": unpacked}, environ=CREDENTIALS) as made:
        settings = {"spark.pyspark.python": "/srv/stqsh/bin/python", "session.storage": start(made)}
        assert printed_while_an_executor_dies(made, made.profile("hosts", settings), file) == expected
        for host in made.workers.values():
            assert host.run("sh", "-c", f"ls -A {folder} || true") == "", "a host made a home of its own"
