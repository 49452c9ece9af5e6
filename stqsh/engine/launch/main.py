"""The process of a session's engine, which runs until SIGTERM.

Its parent, `stqsh.engine.launch.parent`, starts it, and restarts it if it exits with the code `CRASHED`. To
run it alone: `python -m stqsh.engine.launch.main --home DIR`.

Spark's Java process, the first compilation of the kernels and the preparation of streams run in parallel.
An error is reported in one line in engine.json; the details are in engine.log.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from stqsh.core import compile_kernels
from stqsh.engine.config import CRASHED, STACKS_SIGNAL, STATE_FORMATS, TUNING, EngineSettings
from stqsh.engine.launch.audit import audit_home, check_kinds
from stqsh.engine.launch.heartbeat import Heartbeat, Origin, running_alone
from stqsh.engine.launch.sink_keeper import SinkKeeper
from stqsh.engine.launch.supervisor import JvmDiedError, StreamingQuery, Supervisor
from stqsh.engine.launch.watchdog import LocalParts, Watchdog
from stqsh.engine.spark.spark_errors import check_master, start_error
from stqsh.engine.spark.spark_internals import java_exit_code, java_process, last_commit, last_offset
from stqsh.engine.spark.spark_session import prepare_hosts, remove_scratch, start_spark, start_workers
from stqsh.errors import OtherVersionError, StqshError
from stqsh.fs import DURABILITY
from stqsh.garbage import collect_seldom
from stqsh.storage.arena_cleanup import claim_arena, name_arena, remove_lost_arenas
from stqsh.storage.blobs import StorageAwayError, checkpoint_blobs, open_blobs, place_checkpoint
from stqsh.storage.control_log import ControlDb, get_meta, session_uuid, set_meta
from stqsh.storage.control_mirror import ControlMirror, mirror_of
from stqsh.storage.engine_info import COMPILING
from stqsh.storage.home import TEMPORARY_PREFIX, SessionHome
from stqsh.storage.orphans import is_orphaned
from stqsh.storage.progress import read_progress
from stqsh.storage.session_settings import session_settings
from stqsh.storage.staging import remove_left

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stqsh.engine.operators.located_snapshots import LocatedSnapshots
    from stqsh.spec.stats import TaskTiming

log = logging.getLogger("stqsh.engine")

#: The parts that an engine waits for before it reports that it is ready.
KERNELS, FIRST_BATCH = "kernels compiled", "first batch"
_KERNEL_NICENESS = 10
"""The niceness of compiling kernels, except those of first answers, to yield to Spark and the workers."""


def main(arguments: list[str] | None = None) -> int:
    """Run an engine and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="stqsh.engine.launch.main", description="Run the engine of a session."
    )
    parser.add_argument("--home", type=Path, required=True, help="the session's directory")
    parser.add_argument("--parent", type=int, default=0, help="the process that restarts this one")
    parser.add_argument("--restarts", type=int, default=0, help="how often it has done so")
    parser.add_argument("--last-crash", default="", help="why it last did so")
    given = parser.parse_args(arguments)
    collect_seldom()
    home = SessionHome(given.home.absolute())
    os.umask(0o077)  # files of this process and its children are readable by this user only
    faulthandler.enable()
    faulthandler.register(STACKS_SIGNAL, file=sys.stderr, all_threads=True)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    try:
        with running_alone(home.path):
            return Engine(home, Origin(given.parent, given.restarts, given.last_crash)).run()
    except StqshError as error:
        log.error("%s", error)
        return error.exit_code


class Engine:
    """One engine: from the start of Spark to a clean stop."""

    def __init__(self, home: SessionHome, origin: Origin | None = None) -> None:
        self._home = home
        self._heart = Heartbeat(home, origin, self._stop_by_itself)
        self._restarts = origin.restarts if origin else 0
        self._is_ready = False
        self._mendings = 0
        self._begun = time.monotonic()
        self._missing = {KERNELS, FIRST_BATCH}
        self._lock = threading.Lock()

    def run(self) -> int:
        """Run until SIGTERM or failure, and return the exit code."""
        self._heart.start()
        try:
            self._run()
        except StqshError as error:
            log.error("%s", error)
            return self._failed(error, crashed=isinstance(error, JvmDiedError) or self._may_return(error))
        except Exception as error:
            log.exception("the engine failed")
            return self._failed(error, crashed=self._is_ready)
        finally:
            self._heart.stop()
        return 0

    def _failed(self, error: Exception, *, crashed: bool) -> int:
        """Report the reason why the engine exits, and return the exit code."""
        text = str(error)
        if not isinstance(error, StqshError):
            text = f"{type(error).__name__}: {error}".splitlines()[0]
        if crashed and self._heart.has_parent:
            self._heart.tell("starting", text)
            return CRASHED
        self._heart.tell("failed", text)
        return 1

    def _may_return(self, error: StqshError) -> bool:
        """Return whether a storage fails with which the session has run before."""
        return isinstance(error, StorageAwayError) and (self._is_ready or self._restarts > 0)

    def _stop_by_itself(self, why: str) -> None:
        log.warning("%s: the engine stops", why)
        os.kill(os.getpid(), signal.SIGTERM)

    def _run(self) -> None:
        threading.Thread(target=self._warm_up, name="warm-up", daemon=True).start()
        control = ControlDb(self._home.path)
        settings = engine_settings(self._home, control)
        self._heart.cluster = not settings.local
        if not settings.local and not settings.blobs.at_home:
            place_checkpoint(self._home.path, settings.blobs)
        audit_home(self._home, control, settings)
        check_kinds(control)
        os.environ[DURABILITY] = durability = session_settings(control).text("durability")
        if durability == "disk":
            control.set_durable(True)
            os.sync()  # data written before the SET
        self._heart.tell("starting", "starting Spark")
        spark = _start_spark(settings)
        log.info("Spark is up after %.1f s", self._age())
        try:
            self._serve(spark, settings, control)
        except JvmDiedError:
            log.error("Java's exit code is %s", java_exit_code(spark))
            raise
        finally:
            if _alive(spark):
                self._heart.tell("stopping")
            _leave(spark, settings)

    def _serve(self, spark: SparkSession, settings: EngineSettings, control: ControlDb) -> None:
        from stqsh.engine.delivery.deliver import Delivery
        from stqsh.engine.ingest.stream_preparer import (
            ReportedRows,
            SessionFiles,
            StreamPreparer,
            has_dealers,
        )
        from stqsh.engine.operators.located_snapshots import LocatedSnapshots, on_executors
        from stqsh.engine.operators.pipeline import payload_spool, start_query
        from stqsh.engine.state.attendance import forget_unplanned

        self._mend(control, settings)
        checkpoint = checkpoint_blobs(self._home.path)
        planned = last_offset(checkpoint)
        if last_commit(checkpoint) == planned:
            forget_unplanned(self._home.state, planned)
        remove_left(self._home)
        claim_arena(self._home)
        if not settings.local:
            name_arena(self._home)
        if lost := remove_lost_arenas():
            log.info("%d arenas of sessions that are gone were removed", lost)
        self._wake(spark, settings)
        reported = ReportedRows(settings.slots, partial(has_dealers, control))
        logged = None if settings.local else reported.first
        files = SessionFiles.of(self._home, control, blobs=settings.blobs, logged=logged)
        preparer = StreamPreparer(files)
        preparer.start()
        self._heart.tell("starting", "starting the query")
        spool = payload_spool(settings)
        snapshots = LocatedSnapshots(self._home, settings.slots, on_executors(spark.sparkContext))

        def on_timings(timings: list[TaskTiming]) -> None:
            snapshots.delivered(timings)
            reported.delivered(timings)

        delivery = Delivery(
            self._home,
            control,
            spool=spool,
            mirror=self._mirror(settings, control),
            on_first=lambda: self._came_up(FIRST_BATCH),
            on_timings=None if settings.local else on_timings,
        )
        if not settings.local:
            delivery.balancer.ask = snapshots.table
        watchdog = Watchdog(LocalParts(lambda: _java_pid(spark) if settings.local else None))

        def start() -> StreamingQuery:
            self._mend(control, settings)
            return start_query(spark, settings, delivery, spool, watchdog.batch, supervisor.outgrown)

        supervisor = Supervisor(
            self._home.path,
            start,
            batches=lambda: read_progress(control).batch,
            jvm_alive=lambda: _alive(spark),
            on_waiting=lambda why: self._heart.tell("ready", why),
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: supervisor.stop())
        threading.Thread(
            target=self._leave_with_owner, args=(control, supervisor), name="owner", daemon=True
        ).start()
        delivery.retention.start()
        watchdog.start()
        try:
            with self._outside(control), _on_cluster(spark, settings, control, snapshots):
                supervisor.run()
        finally:
            watchdog.stop()
            preparer.stop()
            delivery.retention.stop()

    @contextmanager
    def _outside(self, control: ControlDb) -> Iterator[None]:
        """Run what writes the session's sinks and what reads its query streams."""
        from stqsh.engine.ingest.query_intakes import QueryIntakes

        sinks, queries = SinkKeeper(self._home, control), QueryIntakes(self._home, control)
        sinks.start()
        queries.start()
        try:
            yield
        finally:
            queries.stop()
            sinks.stop()

    def _mirror(self, settings: EngineSettings, control: ControlDb) -> ControlMirror | None:
        """Start the mirror of the control log in the session's storage, if that is not the home."""
        from stqsh.sources.session_rebuild import publish_name

        mirror, storage = mirror_of(self._home, control, settings.blobs), get_meta(control, "storage")
        if mirror is not None and storage and not self._home.path.name.startswith(TEMPORARY_PREFIX):
            publish_name(open_blobs(storage), self._home.name, session_uuid(control))
            mirror.publish()
        return mirror

    def _wake(self, spark: SparkSession, settings: EngineSettings) -> None:
        """Start workers while the query is planned. The hosts of a cluster must be ready before planning."""
        if settings.local:
            wake = threading.Thread(
                target=start_workers, args=(spark, settings.slots), name="wake", daemon=True
            )
            wake.start()
            return
        self._heart.tell("starting", f"waiting for the executors of {settings.master}")
        prepare_hosts(spark, settings)
        log.info("the cluster's hosts are ready after %.1f s", self._age())

    def _leave_with_owner(self, control: ControlDb, supervisor: Supervisor) -> None:
        """Stop once the client of a temporary session has exited, for whatever reason."""
        while not _is_left(control):
            time.sleep(TUNING.owner_look_s)
        log.info("the session's client is gone")
        supervisor.stop()

    def _came_up(self, part: str) -> None:
        """Record that a part has started; with the last one the engine is ready."""
        log.info("%s after %.1f s", part, self._age())
        with self._lock:
            self._missing.discard(part)
            # Under the lock: if two parts finish at once, the last one reports.
            if not self._missing:
                self._is_ready = True
                self._heart.tell("ready")
            elif self._missing == {KERNELS}:
                self._heart.tell("starting", COMPILING)

    def _tell_compiled(self, number: int, whole: int) -> None:
        """Report the number of compiled kernels once the engine waits for nothing else."""
        with self._lock:
            if self._missing == {KERNELS}:
                self._heart.tell("starting", f"{COMPILING}: {number} of {whole}")

    def _mend(self, control: ControlDb, settings: EngineSettings) -> None:
        """Rebuild damaged stores and slots; if the query has failed, verify the content of files, too."""
        from stqsh.engine.ingest.store_repair import repair_stores
        from stqsh.engine.launch.slot_rebuild import mend_slots

        repair_stores(self._home, control)
        if settings.local:
            mend_slots(self._home, control, settings, self._tell_rebuilt, content=self._mendings > 1)
        self._mendings += 1

    def _tell_rebuilt(self, share: int) -> None:
        """Report how much of the slots is rebuilt, in per cent."""
        self._heart.tell("starting", f"rebuilding the slots: {share} %")

    def _warm_up(self) -> None:
        """Compile the kernels while Spark starts, and import what the query needs.

        Kernels are cached on disk for the workers. Those that first batches call come first. Workers wait for
        kernels being compiled, and compile any others that they need themselves.
        """
        try:
            compile_kernels(_KERNEL_NICENESS, self._tell_compiled)
        except Exception:
            # The workers compile the kernels that they need: slower, but no reason to fail.
            log.exception("the kernels were not compiled")
        self._came_up(KERNELS)
        _import_query()

    def _age(self) -> float:
        return time.monotonic() - self._begun


def _import_query() -> None:
    """Import the modules of the query while Spark starts: that saves more than half a second afterwards.

    Spark needs pandas as soon as a function is mapped over batches.
    """
    for name in ("pandas", "stqsh.engine.ingest.store_repair", "stqsh.engine.operators.pipeline"):
        import_module(name)


def _start_spark(settings: EngineSettings) -> SparkSession:
    check_master(settings)
    try:
        return start_spark(settings)
    except StqshError:
        raise
    except Exception as error:
        log.exception("Spark does not start")
        raise start_error(settings, error) from error


def _leave(spark: SparkSession, settings: EngineSettings) -> None:
    if _alive(spark):
        spark.stop()
    remove_scratch(settings)


@contextmanager
def _on_cluster(
    spark: SparkSession, settings: EngineSettings, control: ControlDb, snapshots: LocatedSnapshots
) -> Iterator[None]:
    """Run what asks the executors of a cluster; there is nothing to run on one machine."""
    if settings.local:
        yield
        return
    from stqsh.engine.launch.slot_transfer import ClusterSaves
    from stqsh.engine.operators.spark_operators import stored_heads

    saves = ClusterSaves(settings, control, partial(stored_heads, spark))
    snapshots.start()
    saves.start()
    try:
        yield
    finally:
        saves.stop()
        snapshots.stop()


def engine_settings(home: SessionHome, control: ControlDb) -> EngineSettings:
    """Return the settings of a session's engine; the slots' number and state stay as at its first start.

    Raises:
        StqshError: the state is at another location than the engine would use.
    """
    settings = EngineSettings.from_profile(home.path, session_settings(control))
    slots, stored = get_meta(control, "slots"), settings.for_session(session_uuid(control))
    if slots is None:
        set_meta(control, "slots", str(settings.slots))
        set_meta(control, "state", settings.state)
        set_meta(control, "storage", settings.storage)
        return stored
    check_state(get_meta(control, "state"), settings)
    check_storage(get_meta(control, "storage") or "", settings)
    return stored.with_slots(int(slots))


def check_storage(known: str, settings: EngineSettings) -> None:
    """Raise `StqshError` if the files of a session are in another storage than the settings name.

    `known` is "" for the home, and for sessions older than this record.
    """
    if known != settings.storage:
        places = [
            f"session.storage = {place}" if place else "its home" for place in (known, settings.storage)
        ]
        raise StqshError(
            f"this session keeps its files in {places[0]}: it cannot be continued with {places[1]}",
            hint="start it with the session.storage that it had",
        )


def check_state(mark: str | None, settings: EngineSettings) -> None:
    """Raise `StqshError` if a session's state is elsewhere or has another format.

    `mark` is None for sessions older than this record.
    """
    if mark == settings.state:
        return
    kind, _, number = (mark or "").partition("/")
    if number != str(STATE_FORMATS.get(kind)):
        raise OtherVersionError
    where = "on a cluster" if settings.local else "on one machine"
    raise StqshError(
        f"this session has run {where}: its state cannot be continued with spark.master = {settings.master}",
        hint="start it with the spark.master that it had, or DUMP its definitions and start a new session",
    )


def _is_left(control: ControlDb) -> bool:
    """Return whether the session's client has exited; False while the database cannot be read."""
    try:
        return is_orphaned(control)
    except Exception:
        log.exception("whether the session's client is there is not known; it is asked again")
        return False


def _java_pid(spark: SparkSession) -> int | None:
    process = java_process(spark)
    return None if process is None else process.pid


def _alive(spark: SparkSession) -> bool:
    """Return whether Spark's Java process is alive."""
    return java_exit_code(spark) is None


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of py4j may hang on a dead Java process; they have no work left.
    os._exit(code)
