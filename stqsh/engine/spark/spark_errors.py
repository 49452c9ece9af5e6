"""Summarize Spark's errors in one line: why it does not start, and why a query failed."""

from __future__ import annotations

import re
import socket

from stqsh.engine.config import TUNING, EngineSettings
from stqsh.engine.spark.cluster import STANDALONE
from stqsh.errors import StqshError
from stqsh.program import program
from stqsh.sources.live.protocol import SourceAwayError
from stqsh.storage.blobs import StorageAwayError


def check_master(settings: EngineSettings) -> None:
    """Raise `StqshError` if spark.master is a standalone cluster that does not respond.

    Spark itself tries for a minute before it gives up.
    """
    named = STANDALONE.match(settings.master)
    if named is None:
        return
    try:
        socket.create_connection((named["host"], int(named["port"])), TUNING.master_connect_s).close()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise StqshError(
            f"no Spark cluster at {settings.master}: {reason}",
            hint="start one, or name another: SET spark.master = 'spark://host:7077'; 'local[2]' for none",
        ) from error


def start_error(settings: EngineSettings, error: Exception) -> StqshError:
    """Return the error for users when Spark does not start; stack traces stay in the log."""
    hint = f"{program()} doctor looks for the reason; {program()} logs has all that Spark said"
    if not settings.local:
        hint = f"spark.master is {settings.master}; {hint}"
    return StqshError(f"Spark does not start: {_reason(error)}", hint=hint)


def _reason(error: Exception) -> str:
    """Return the most informative line of an error: Java's own if py4j provides one."""
    try:
        text = str(error)
    except Exception:  # py4j fetches the text from Java, which has exited: no exception of that helps more
        return "Java has ended: the cluster has not accepted the session, or asks for another secret"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    java = next((line.removeprefix(": ") for line in lines if line.startswith(": ")), None)
    return java or (lines[0] if lines else type(error).__name__)


#: After this text Spark describes the query: offsets, plan, and the state of its thread.
_DESCRIPTION = "=== Streaming Query ==="
_FRAME = re.compile(r"^(at |\.\.\. \d+ more|File \"|Traceback \(most recent)")
_NAMED = re.compile(r"^(?:[\w$]+\.)*(?P<name>\w*(?:Error|Exception|Busy|Exit))\b.*")
_INNER = re.compile(r"(?:[\w$]+\.)+\w*(?:Error|Exception): .*")
_WRAPPERS = ("org.apache.spark", "pyspark.", "py4j.")
_HINT = "hint: "
_CAUSE = "Caused by: "
_AWAY = (SourceAwayError.__name__, StorageAwayError.__name__)
_HADOOP_AWAY = re.compile(
    r"^.*(?:Call From \S+ to \S+ failed|SafeModeException|ConnectTimeoutException|AWSStatus500Exception"
    r"|AWSServiceThrottledException|AWSClientIOException|AWSServiceIOException|AWSApiCallTimeoutException).*$",
    re.MULTILINE,
)
"""A pattern of the lines in which Hadoop, which writes Spark's checkpoint, reports a store that fails."""
_MOST = 300

_NO_ROOM = (
    "there is no room left on the session's disk, in shared memory or for temporary files (stqsh doctor)"
)
_LATE = ("Python worker failed to connect back", "Timed out while waiting for the Python worker")
_IS_LATE = "a Python worker did not come up in time; other programs may keep the machine busy"
#: Replacements for Spark's texts that are meaningless to a user.
_PLAINLY = (
    *((sign, _IS_LATE) for sign in _LATE),
    ("OutOfMemoryError", "Java ran out of memory; SET engine.memory = '4g', or more, gives it more"),
    ("No space left on device", _NO_ROOM),
    ("database or disk is full", _NO_ROOM),
    (
        "Python worker exited unexpectedly",
        "a Python worker was killed; the machine may have run out of memory",
    ),
)


def reason(error: BaseException | None) -> str:
    """Return the relevant line of Spark's error: the last exception that is not Spark's own.

    Python's tracebacks end with it, and Java's causes follow each other. If all are Spark's own, return the
    last of them; if there is no exception, the first line. Frames, plans and states of threads are skipped.
    """
    if error is None:
        return "it ended without a reason"
    text = str(error)
    plain = next((words for sign, words in _PLAINLY if sign in text), None)
    cause = _cause_line(text)
    if remedy(error) is not None:
        return cause.partition(": ")[2]
    return plain or _shorten(cause or type(error).__name__)


def waits_for(error: BaseException | None) -> str | None:
    """Return the reason if a query failed because a live source or the storage does not respond.

    A retry succeeds once it does.
    """
    kind, _, why = _cause_line(str(error)).partition(": ")
    if kind.endswith(_AWAY):
        return why
    line = _HADOOP_AWAY.search(str(error).split(_DESCRIPTION, 1)[0])
    said = line and _shorten(line.group().strip().removeprefix(_CAUSE))
    return said and f"Spark's checkpoint is out of reach: {said}"


def has_late_worker(error: BaseException | None) -> bool:
    """Return whether a query failed because a Python worker did not start within ten seconds."""
    return any(sign in str(error) for sign in _LATE)


def remedy(error: BaseException | None) -> str | None:
    """Return the hint of the error that `reason` returns, None unless it is a stqsh error with a hint."""
    text = str(error)
    cause = _cause_line(text)
    if not cause.startswith("stqsh."):
        return None
    following = text.partition(cause)[2].lstrip().partition("\n")[0]
    return following.removeprefix(_HINT).strip() if following.startswith(_HINT) else None


def _cause_line(text: str) -> str:
    before = text.split(_DESCRIPTION, 1)[0]
    lines = [line.strip().removeprefix(_CAUSE) for line in before.splitlines()]
    lines = [line for line in lines if line and not _FRAME.match(line)]
    inner = [found.group() for line in lines[:1] if (found := _INNER.search(line))]
    named = [*inner, *(line for line in lines if _NAMED.match(line))]
    causes = [line for line in named if not line.startswith(_WRAPPERS)]
    if causes or named:
        return (causes or named)[-1]
    return lines[0] if lines else ""


def _shorten(line: str) -> str:
    return re.sub(r"^(?:[\w$]+\.)+(?=\w+(Error|Exception)\b)", "", line)[:_MOST]
