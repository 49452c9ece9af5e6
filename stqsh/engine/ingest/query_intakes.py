"""Query intakes: a thread for each query stream turns the rows of its source into queries.

The position in Kafka, or in the spool of a source that cannot be read again, is in control.db, where it
changes together with the queries (`stqsh.sources.query_rows`). So an intake that is killed continues after
the last row that counts. A post is answered after its rows have been applied.
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from stqsh.engine.ingest.http_streams import HttpIntake, RefusedError, Store, check_room, no_valid_line
from stqsh.engine.ingest.intakes import spool_input
from stqsh.engine.planning.live_inputs import TruncationWatch, why_waiting
from stqsh.errors import HomeError, StqshError
from stqsh.sources.live.decoding import MessageDecoder, PlacedRecords
from stqsh.sources.live.kafka_client import client_settings
from stqsh.sources.live.line_spool import SPOOL
from stqsh.sources.live.protocol import (
    LiveSource,
    MessageRange,
    MessageReader,
    Position,
    advance,
    ranges,
    with_new_parts,
    write_problem,
)
from stqsh.sources.live.record_spool import RecordReader
from stqsh.sources.live.registry import open_message_reader, open_source, trim
from stqsh.sources.query_rows import BadRowError, OtherPositionError, SourceRows, apply_rows, schema_of
from stqsh.spec.stream import DirectorySourceSpec, HttpSourceSpec, InsertsSourceSpec, KafkaSourceSpec
from stqsh.storage.control_log import ControlDb, get_meta
from stqsh.storage.home import SessionHome
from stqsh.storage.queries.query_streams import QueryStreamRow, live_query_streams, query_stream_by_id
from stqsh.storage.session_settings import session_settings

if TYPE_CHECKING:
    from stqsh.sources.live.kafka_reader import KafkaReader

log = logging.getLogger("stqsh.engine")

#: How often query streams and their sources are looked at, and how long a retry waits after a failure.
_LOOK_S, _FAILED_S = 0.2, 2.0
#: The most messages that are asked for at once.
_ROOM = 50_000
_STOP_WAIT_S = 5.0


class QueryIntakes:
    """The intakes of a session's query streams, which a thread of the engine starts and stops."""

    def __init__(self, home: SessionHome, control: ControlDb) -> None:
        self._home, self._control = home, control
        self._intakes: dict[int, tuple[threading.Thread, threading.Event]] = {}
        self._stopped = threading.Event()

    def start(self) -> None:
        """Start watching."""
        threading.Thread(target=self._run, name="query streams", daemon=True).start()

    def stop(self) -> None:
        """Stop all intakes; each completes the part that it is applying."""
        self._stopped.set()
        intakes = [*self._intakes.values()]
        for _, stop in intakes:
            stop.set()
        for thread, _ in intakes:
            thread.join(_STOP_WAIT_S)

    def look(self) -> None:
        """Start the intakes of new query streams, and stop those of dropped ones."""
        streams = live_query_streams(self._control)
        live = {each.id: each for each in streams if not isinstance(each.spec.rows.source, InsertsSourceSpec)}
        for id_ in self._intakes.keys() - live.keys():
            thread, stop = self._intakes.pop(id_)
            stop.set()
            thread.join(_STOP_WAIT_S)
            shutil.rmtree(self._home.stream(id_), ignore_errors=True)
        for id_ in live.keys() - self._intakes.keys():
            stop = threading.Event()
            work = self._work(live[id_])
            thread = threading.Thread(target=work, args=(stop,), name=live[id_].name, daemon=True)
            self._intakes[id_] = thread, stop
            thread.start()

    def _work(self, stream: QueryStreamRow) -> Callable[[threading.Event], None]:
        """Return the function that the thread of a query stream runs until an event is set."""
        if isinstance(stream.spec.rows.source, HttpSourceSpec):
            store = applied(self._home, self._control, stream)
            return HttpIntake(stream.spec.rows, self._home.stream(stream.id), store).listen
        return SourceIntake(self._home, self._control, stream).follow

    def _run(self) -> None:
        seen = -1
        while not self._stopped.wait(_LOOK_S):
            try:
                version = self._control.version()  # cheaper to read than the query streams
                if version != seen:
                    self.look()
                    seen = version
            except Exception:
                log.exception("the query streams are not watched for a moment")


def applied(home: SessionHome, control: ControlDb, stream: QueryStreamRow) -> Store:
    """Return what applies the rows of posts to a query stream, one post after the other."""
    turn = threading.Lock()

    def store(found: PlacedRecords) -> tuple[int, int]:
        check_room(home.path)
        rows = SourceRows(found.records, "http", found.places, found.dead)
        try:
            with turn:
                done = apply_rows(control, home, stream, rows, valid="one")
        except BadRowError as bad:
            raise no_valid_line(bad.line, bad.reason) from bad
        except HomeError:
            raise
        except StqshError as gone:
            raise RefusedError(HTTPStatus.GONE, gone.message) from gone
        return found.records.num_rows - len(done.dead), len(found.dead) + len(done.dead)

    return store


class SourceIntake:
    """Applies the rows of a query stream's source: in the order of each partition, of lines, or of files."""

    def __init__(self, home: SessionHome, control: ControlDb, stream: QueryStreamRow) -> None:
        self._home, self._control, self._id, self._spec = home, control, stream.id, stream.spec
        self._name, self._folder = stream.name, home.stream(stream.id)
        self._profile = get_meta(control, "profile") or ""
        self._settings = partial(client_settings, profile=self._profile)
        self._truncation = TruncationWatch()
        self._kafka: KafkaReader | None = None
        self._reported: str | None = None

    def follow(self, stop: threading.Event) -> None:
        """Apply rows as they arrive until `stop` is set; after a failure, try again."""
        (self._folder / SPOOL).mkdir(mode=0o700, parents=True, exist_ok=True)
        spool = spool_input(self._spec.rows, self._folder, keeps_lines=True)
        if spool is not None:
            threading.Thread(target=spool, args=(stop,), name=f"{self._name} spool", daemon=True).start()
        source = open_source(self._spec.rows, self._folder, self._profile)
        try:
            while not stop.wait(_LOOK_S):
                try:
                    self.look(source)
                except OtherPositionError:
                    continue
                except StqshError as problem:
                    self._report(f"the query stream waits: {problem.message}")
                    stop.wait(_FAILED_S)
                except Exception as error:
                    log.exception("the rows of query stream %s cannot be applied", self._name)
                    self._report(f"rows cannot be applied: {error}; it is tried again")
                    stop.wait(_FAILED_S)
        finally:
            source.close()
            if self._kafka is not None:
                self._kafka.close()

    def look(self, source: LiveSource) -> None:
        """Apply the rows that have arrived."""
        stream = query_stream_by_id(self._control, self._id)
        state = source.state()
        position = with_new_parts(stream.position, state) if stream.position else source.begin()
        if not position:
            self._report(state.message)
            return
        skips = session_settings(self._control).text("sources.gone") == "skip"
        if skips:
            position = {part: max(at, state.first.get(part, at)) for part, at in position.items()}
        if position != stream.position:  # where it begins, too, is part of what a kill must not change
            stream = self._apply(stream, self._nothing(), position)
        waits = why_waiting(state, position, self._truncation.find(self._id, position, state))
        self._report(waits or state.message)
        if not waits:
            for part in ranges(position, advance(position, state, _ROOM)):
                stream = self._read(stream, part, skips=skips)
            trim(self._folder, stream.position)

    def _read(self, stream: QueryStreamRow, part: MessageRange, *, skips: bool) -> QueryStreamRow:
        """Apply the rows of a range."""
        for rows, after in self._rows(part, skips=skips):
            stream = self._apply(stream, rows, {**stream.position, part.part: after})
        end = {**stream.position, part.part: part.stop}  # the last places of Kafka may hold no message
        return stream if end == stream.position else self._apply(stream, self._nothing(), end)

    def _rows(self, part: MessageRange, *, skips: bool) -> Iterator[tuple[SourceRows, int]]:
        """Yield the rows of a range, some at a time, each time with the place after them."""
        rows = self._spec.rows
        if isinstance(rows.source, DirectorySourceSpec):
            for found, file, after in RecordReader(self._folder / SPOOL).read_placed(part):
                yield SourceRows(found.records, file, found.places, found.dead), after
            return
        decoder = MessageDecoder.of(rows)
        if isinstance(rows.source, KafkaSourceSpec):
            from stqsh.sources.live.kafka_reader import KafkaReader  # slow: only for sessions with Kafka

            if self._kafka is None:
                self._kafka = KafkaReader(self._settings(rows.source.brokers))
            reader: MessageReader = self._kafka
            self._kafka.skips, self._kafka.wants_keys = skips, bool(decoder.meta)
        else:
            reader = open_message_reader(rows, self._folder / SPOOL, self._settings, skips=skips)
        for messages in reader.read(part):
            found = decoder.decode_placed(messages)
            # Lines are numbered from 1, so the place of the last one is the place after it.
            after = int(messages.offsets[-1]) + isinstance(rows.source, KafkaSourceSpec)
            yield SourceRows(found.records, messages.place, found.places, found.dead), after

    def _apply(self, stream: QueryStreamRow, rows: SourceRows, after: Position) -> QueryStreamRow:
        apply_rows(self._control, self._home, stream, rows, after)
        return query_stream_by_id(self._control, self._id)

    def _nothing(self) -> SourceRows:
        empty = pa.RecordBatch.from_pylist([], schema_of(self._spec).schema)
        return SourceRows(empty, "", np.zeros(0, np.int64), [])

    def _report(self, problem: str) -> None:
        """Record why the query stream waits; "" if it does not."""
        if problem != self._reported:
            write_problem(self._folder, problem)
            self._reported = problem
