"""Why a query failed, in one line, out of what Spark says in a hundred."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from stqsh.checksums import DamagedFileError
from stqsh.engine.config import EngineSettings
from stqsh.engine.spark.spark_errors import reason, remedy, start_error, waits_for

#: The shape of what Spark 4.3 says: headline, Java's frames and causes, then the query with its plan.
SPARK = """[STREAM_FAILED] Query [id = 5e, runId = 7a] terminated with exception: \
Job aborted due to stage failure: Task 0 in stage 9.0 failed 4 times, \
most recent failure: Lost task 0.3 in stage 9.0 (TID 21) \
(127.0.0.1 executor 0): {lost}
\tat org.apache.spark.api.python.BasePythonRunner.compute(PythonRunner.scala:202)
\t... 17 more
{cause}
Driver stacktrace: SQLSTATE: XXKST
=== Streaming Query ===
Identifier: stqsh [id = 5e, runId = 7a]
Current Committed Offsets: {{}}
Current State: ACTIVE
Thread State: RUNNABLE

Logical Plan:
~WriteToMicroBatchDataSourceV1 ForeachBatchSink, 5e, [queryName=stqsh], Append
+- Project [slot#1, java.lang.Error: no error]
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[STREAM_FAILED] Query [id = 1] terminated\nTraceback (most recent call last):\n"
         '  File "x.py", line 1\nstqsh.core.Odd.OddError: the slot is odd\n', "OddError: the slot is odd"),
        ("org.apache.spark.SparkException: Job aborted", "SparkException: Job aborted"),
        ("plain words", "plain words"),
        ("", "RuntimeError"),
        ("first words\nlast words", "first words"),
        (SPARK.format(lost="java.io.IOException: the lake has no water", cause=""),
         "IOException: the lake has no water"),
        (SPARK.format(lost="org.apache.spark.SparkException: odd",
                      cause="Caused by: java.lang.IllegalStateException: the lake is dry"),
         "IllegalStateException: the lake is dry"),
        (SPARK.format(lost="org.apache.spark.SparkException: only Spark's own", cause=""),
         "SparkException: only Spark's own"),
    ],
)  # fmt: skip
def test_the_reason_is_the_line_that_matters(text: str, expected: str) -> None:
    assert reason(RuntimeError(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("stqsh.storage.blobs.StorageAwayError: the session's storage s3://b fails: 503",
         "the session's storage s3://b fails: 503"),
        ("java.net.ConnectException: Call From vm/10.0.0.2 to vm:9000 failed on connection exception",
         "Spark's checkpoint is out of reach: ConnectException: Call From vm/10.0.0.2 to vm:9000 failed on"
         " connection exception"),
        ("org.apache.hadoop.fs.s3a.AWSStatus500Exception: put on s3a://b/offsets/3: Service: 500",
         "Spark's checkpoint is out of reach: AWSStatus500Exception: put on s3a://b/offsets/3: Service: 500"),
        ("java.lang.IllegalStateException: the lake is dry", None),
        ("stqsh.storage.blobs.StorageError: the session's storage s3://b fails: ACCESS_DENIED", None),
    ],
)  # fmt: skip
def test_a_query_waits_for_a_store_that_fails_but_not_for_one_that_refuses(
    text: str, expected: str | None
) -> None:
    assert (
        waits_for(
            RuntimeError(
                SPARK.format(lost="org.apache.spark.SparkException: odd", cause=f"Caused by: {text}")
            )
        )
        == expected
    )


@pytest.mark.parametrize(
    ("lost", "part"),
    [
        ("org.apache.spark.SparkException: Python worker failed to connect back.", "did not come up in time"),
        ("java.lang.OutOfMemoryError: Java heap space", "SET engine.memory"),
        ("java.io.IOException: No space left on device", "no room left on the session's disk"),
        ("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)", "was killed"),
    ],
)
def test_what_spark_says_to_itself_is_said_plainly(lost: str, part: str) -> None:
    assert part in reason(RuntimeError(SPARK.format(lost=lost, cause="")))


def test_an_error_of_ours_keeps_its_sentence_and_its_hint() -> None:
    try:
        raise DamagedFileError("state/evaluate-0/log.3")
    except DamagedFileError:
        error = RuntimeError(SPARK.format(lost=traceback.format_exc(), cause=""))
    assert reason(error) == "the session's file state/evaluate-0/log.3 is damaged"
    assert (remedy(error) or "").startswith("put the session's folder back from a backup")
    assert remedy(RuntimeError("plain words")) is None


def test_a_query_that_just_ended_has_no_reason() -> None:
    assert reason(None) == "it ended without a reason"


def test_an_error_whose_text_java_took_along_is_told_all_the_same(tmp_path: Path) -> None:
    class Gone(Exception):
        def __str__(self) -> str:
            raise ConnectionRefusedError(111, "Connection refused")

    told = start_error(EngineSettings(tmp_path, "spark://host:7077"), Gone())
    assert told.message.startswith("Spark does not start: Java has ended: the cluster has not accepted")
