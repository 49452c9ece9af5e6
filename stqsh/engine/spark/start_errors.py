"""Why Spark does not start, in a line, and what to do about it."""

from __future__ import annotations

import socket

from stqsh.engine.config import EngineSettings
from stqsh.engine.spark.cluster import PATIENCE_S, STANDALONE
from stqsh.errors import StqshError


def check_master(settings: EngineSettings) -> None:
    """Raise `StqshError` where spark.master is a standalone cluster that nobody answers for.

    Spark itself asks for a minute before it gives up.
    """
    named = STANDALONE.match(settings.master)
    if named is None:
        return
    try:
        socket.create_connection((named["host"], int(named["port"])), PATIENCE_S).close()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise StqshError(
            f"no Spark cluster at {settings.master}: {reason}",
            hint="start one, or name another: SET spark.master = 'spark://host:7077'; 'local[2]' for none",
        ) from error


def not_started(settings: EngineSettings, error: Exception) -> StqshError:
    """What to tell of an error that Spark raised at its start; its traces stay in the log."""
    hint = "stqsh doctor looks for the reason; stqsh logs has all that Spark said"
    if not settings.local:
        hint = f"spark.master is {settings.master}; {hint}"
    return StqshError(f"Spark does not start: {_reason(error)}", hint=hint)


def _reason(error: Exception) -> str:
    """The line of an error that says most: Java's own where py4j brings one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    java = next((line.removeprefix(": ") for line in lines if line.startswith(": ")), None)
    return java or (lines[0] if lines else type(error).__name__)
