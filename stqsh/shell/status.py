"""Short texts about the engine's activity, for status lines and the toolbar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stqsh.client.engine_process import check_alive
from stqsh.client.read.accuracy import shedding_text
from stqsh.client.show.activity import wait_text
from stqsh.errors import EngineDeadError
from stqsh.shell.messages import RESTART_HINT, format_engine_death
from stqsh.storage import processes
from stqsh.storage.engine_info import COMPILING, has_process, is_alive, read_engine
from stqsh.units import format_instant, group_digits

if TYPE_CHECKING:
    from stqsh.storage.home import SessionHome
    from stqsh.storage.rows import Progress


READY = "engine ready"
NO_STEP = "no step yet"


def first_batch_text(seconds: float) -> str:
    """Return the text for a first batch under way, which takes longer than later ones."""
    return f"first batch under way… {seconds:.0f} s"


def engine_text(home: SessionHome) -> str:
    """Return the state of the session's engine; while it starts, its own message."""
    engine = read_engine(home)
    if engine is None:
        return "engine not started"
    if not is_alive(engine):
        reason = engine.message.partition("\n")[0]  # its hint is shown elsewhere, where there is room
        return f"engine failed: {reason}" if engine.state == "failed" else "engine stopped"
    if engine.state == "ready" and has_process(engine):
        return engine.message or READY
    waited = (processes.uptime_us() - engine.started_us) // 1_000_000
    return f"{engine.message or 'starting Spark'}… {max(0, waited)} s"


def restart_text(home: SessionHome) -> str:
    """Return how often the session's engine was restarted after a crash, and why the last time; else ""."""
    engine = read_engine(home)
    return f"engine restarted {engine.restarted}" if engine is not None and engine.restarted else ""


def explain_engine_death(home: SessionHome) -> str:
    """Return why the engine has ended, with the relevant last lines of its log, and how to restart it.

    Return "" if the engine runs, or was stopped on purpose, from another shell or by `stqsh stop`.
    """
    info = read_engine(home)
    if info is not None and info.state == "stopping":
        return f"the engine was stopped\nhint: {RESTART_HINT}"
    try:
        check_alive(home)
    except EngineDeadError as error:
        return format_engine_death(error)
    return ""


def alive_text(home: SessionHome, progress: Progress) -> str:
    """Return the engine's state until it takes steps, then the state of the streams."""
    engine = engine_text(home)
    return status_text(progress) if takes_steps(engine, progress) else engine


def takes_steps(engine: str, progress: Progress) -> bool:
    """Return whether an engine with this text is ready, or advances while it still compiles."""
    return engine == READY or (progress.step > 0 and engine.startswith(COMPILING))


def status_text(progress: Progress) -> str:
    """Return step, clock, rate and lag in one line."""
    if progress.step == 0:
        return waiting_part(progress) or NO_STEP
    return "  ".join(text for _, text in status_parts(progress))


def status_parts(progress: Progress) -> list[tuple[int, str]]:
    """Return the parts of that line, each with its weight; a narrow line drops the lightest first."""
    parts = [
        (5, f"step {group_digits(progress.step)}"),
        (4, clock_text(progress)),
        (2, rate_text(progress)),
        (7, lag_text(progress)),
        (8, shedding_part(progress)),
        (9, waiting_part(progress)),
    ]
    return [part for part in parts if part[1]]


def shedding_part(progress: Progress) -> str:
    """Return a warning while load is shed, such as `shedding: object, k 2, 12 % dropped`."""
    sheds = shedding_text(progress.stats.memory)
    return sheds and f"shedding: {sheds}"


def waiting_part(progress: Progress) -> str:
    """Return why a live stream waits, for example that its broker does not answer; "" if none waits."""
    return next((state.message for state in progress.stats.live.values() if state.message), "")


def waiting_text(home: SessionHome, progress: Progress) -> str:
    """Return why the session waits for a source, within a batch or between batches; "" if it does not."""
    engine = read_engine(home)
    within = engine.message if engine is not None and engine.state == "ready" else ""
    return within or waiting_part(progress)


def clock_text(progress: Progress) -> str:
    """Return the event time of the last step."""
    return format_instant(progress.at_us()) or ""


def rate_text(progress: Progress) -> str:
    """Return the records per second of the last batch, while streams advance."""
    rate = progress.stats.records_per_s
    return "" if rate is None or not is_moving(progress) else f"{group_digits(rate)} records/s"


def is_moving(progress: Progress) -> bool:
    """Return whether streams advance."""
    return not progress.ended and (progress.stats.playing or progress.stats.running)


def lag_text(progress: Progress) -> str:
    """Return the engine's lag behind its sources, what it waits for, or that the streams have ended."""
    if progress.ended:
        return "streams at their end"
    if not is_moving(progress):
        return "streams idle"
    if not progress.stats.backlog and (waits := wait_text(progress)):
        return waits
    lag, backlog = progress.stats.lag_s, progress.stats.backlog
    if lag is None:
        return f"{group_digits(backlog)} records to go" if backlog else "up to date"
    return f"lag {lag:.1f} s" + (f", {group_digits(backlog)} records" if backlog else "")
