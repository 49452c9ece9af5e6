"""The files of a session that workers open: the planner publishes them before a task refers to them.

If the session's storage is its home, workers open the home's own files. Otherwise the planner publishes the
files that they need: a store's segments once written, tables, and a batch's part of a spool. A lost home is
rebuilt from these files, so a restored session also publishes what its earlier batches have read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from stqsh.checksums import DamagedFileError, Seal
from stqsh.engine.planning.tasks import LiveSlice, SourceTask
from stqsh.sources.live.line_spool import SPOOL, WHOLE
from stqsh.sources.live.protocol import MessageRange
from stqsh.sources.live.registry import is_from_kafka, spool_parts
from stqsh.sources.replay_store.manifest import Manifest, manifest_seal, publish_manifest, read_manifest
from stqsh.sources.replay_store.segments import DAMAGED, SEGMENT, STATE, state_path, ticks_path
from stqsh.sources.table_files import CONTENT, SEAL
from stqsh.spec.offset import LivePosition
from stqsh.spec.stream import StreamSpec
from stqsh.storage.blobs import Blobs
from stqsh.storage.home import SessionHome

log = logging.getLogger("stqsh.engine")

_REPLACED = (SEGMENT, STATE)
"""The beginnings of the names of a store's files that a later manifest may no longer have."""


class SharedFiles:
    """The files that the planner has published for workers.

    Args:
        home: the session's home.
        blobs: the session's files, as workers access them.
    """

    def __init__(self, home: SessionHome, blobs: Blobs) -> None:
        self._home, self._blobs = home, blobs
        self._previous: set[int] = set()
        self._names: dict[str, set[str]] = {}
        self._stores: dict[int, Manifest] = {}

    def keep_previous(self, ids: Iterable[int], streams: Mapping[int, StreamSpec]) -> None:
        """Ensure a file with the previous row of each row of replayed streams, by id; see `previous_rows`."""
        for stream in ids:
            spec = streams[stream]
            if stream in self._previous or spec.needs_dealer:
                continue
            # Imports numba, which most sessions can do without here.
            from stqsh.sources.replay_store.previous_rows import keep_previous_rows, previous_name

            directory = self._home.stream(stream)
            path = keep_previous_rows(directory, spec.key, spec.time)
            if not self._blobs.at_home:
                files = self._stream(stream)
                self._put(files, previous_name(files, manifest_seal(directory)), path, None)
            self._previous.add(stream)

    def publish(self, tasks: list[SourceTask], tables: Iterable[int]) -> list[SourceTask]:
        """Publish the files that tasks read, unless workers read the home; return tasks that name new files.

        Args:
            tasks: the tasks of a batch.
            tables: the tables that the batch sends to the slots.

        Raises:
            DamagedFileError: a file of the home is missing or damaged.
            StorageError: the storage fails for longer than retries last.
        """
        if self._blobs.at_home:
            return tasks
        for table in tables:
            self._publish_table(table)
        stops = {piece.stream_id: piece.stop for task in tasks for piece in task.slices}
        for piece in (piece for task in tasks for piece in task.slices):
            stops[piece.stream_id] = max(piece.stop, stops[piece.stream_id])
        for stream, spec in tasks[0].streams.items():
            if not spec.is_live:
                self._publish_store(stream, stops.get(stream, 0))
        return self._with_spools(tasks)

    def publish_read(self, tables: Iterable[int], stores: Iterable[int]) -> None:
        """Publish tables and stores that earlier batches have read elsewhere.

        Args:
            tables: the ids of tables, of which no later batch would publish those that are prepared.
            stores: the ids of streams that have stores.

        Raises:
            DamagedFileError: a file of the home is missing or damaged.
            StorageError: the storage fails for longer than retries last.
        """
        for table in tables:
            if (self._home.table(table) / CONTENT).exists():
                self._publish_table(table)
        for stream in stores:
            self._publish_store(stream, 0)

    def trim(self, live: Mapping[int, LivePosition]) -> None:
        """Delete the published spool parts of committed batches, by the streams' positions.

        The last part of each stays: from it, another host knows where the spool of a lost home ended.
        """
        if self._blobs.at_home:
            return
        for stream, position in live.items():
            spool = self._stream(stream).below(SPOOL)
            taken = max(position.next.values(), default=0)
            parts = {name.partition("/")[0] for name in self._known(spool)}
            gone = {part for part in parts if int(part.split("-")[1]) <= taken} - {max(parts, default="")}
            names = {name for name in self._known(spool) if name.partition("/")[0] in gone}
            spool.delete(names)
            self._known(spool).difference_update(names)

    def _stream(self, stream: int) -> Blobs:
        return self._blobs.below(f"streams/{stream}")

    def _known(self, files: Blobs) -> set[str]:
        """Return the names in a folder of the storage, which is listed once."""
        if files.uri not in self._names:
            self._names[files.uri] = set(files.names())
        return self._names[files.uri]

    def _put(self, files: Blobs, name: str, path: Path, seal: Seal | None) -> None:
        """Publish a file unless it is published already; a damaged file is not published."""
        known = self._known(files)
        if name in known:
            return
        try:
            with pa.memory_map(str(path)) as mapped:
                content = mapped.read_buffer()
        except FileNotFoundError:
            raise DamagedFileError(f"{files.within}{name}", "is gone") from None
        if seal is not None:
            seal.check(memoryview(content), f"{files.within}{name}")
        files.put(name, [content])
        known.add(name)

    def _publish_table(self, table: int) -> None:
        directory, files = self._home.table(table), self._blobs.below(f"tables/{table}")
        if (directory / SEAL).exists():
            self._put(files, SEAL, directory / SEAL, None)
        self._put(files, CONTENT, directory / CONTENT, None)

    def _publish_store(self, stream: int, stop: int) -> None:
        """Publish a store's rows before `stop`, or all rows once the store is complete."""
        known = self._stores.get(stream)
        if known is not None and (known.complete or known.rows >= stop):
            return
        directory, files = self._home.stream(stream), self._stream(stream)
        manifest = read_manifest(directory)
        if manifest is None or manifest == known:
            return
        names = self._known(files)
        if known is None and DAMAGED in names:
            log.warning("the published files of %s are damaged; they are published again", files.within)
            files.delete(names)
            names.clear()
        while not self._publish_whole(files, directory, manifest):  # the stream is generated meanwhile
            manifest = read_manifest(directory) or manifest
        listed = {name for name, _, _ in _files_of(directory, manifest)}
        gone = {name for name in names if name.startswith(_REPLACED) and name not in listed}
        files.delete(gone)
        names -= gone
        self._stores[stream] = manifest

    def _publish_whole(self, files: Blobs, directory: Path, manifest: Manifest) -> bool:
        """Publish a store's manifest after its files; return False if it has been replaced by a newer one."""
        try:
            for name, path, seal in _files_of(directory, manifest):
                self._put(files, name, path, seal)
        except DamagedFileError:
            if read_manifest(directory) == manifest:
                raise
            return False
        return publish_manifest(files, directory, manifest)

    def publish_spools(self, streams: Mapping[int, StreamSpec], live: Iterable[LiveSlice]) -> dict[int, str]:
        """Publish the parts of spools that a batch reads; return their folders by stream, "" for Kafka.

        It is called before an offset refers to them, so that they are there if the home is lost after that.
        """
        if self._blobs.at_home:
            return {}
        ranges: dict[int, list[MessageRange]] = {}
        for piece in live:
            if not piece.ahead:
                ranges.setdefault(piece.stream_id, []).extend(piece.ranges)
        return {stream: self._publish_spool(streams[stream], found) for stream, found in ranges.items()}

    def _with_spools(self, tasks: list[SourceTask]) -> list[SourceTask]:
        """Return tasks that refer to published parts of spools."""
        folders = self.publish_spools(tasks[0].streams, (piece for task in tasks for piece in task.live))
        return [
            replace(task, live=tuple(replace(p, spool=folders.get(p.stream_id, "")) for p in task.live))
            for task in tasks
        ]

    def _publish_spool(self, spec: StreamSpec, ranges: list[MessageRange]) -> str:
        if is_from_kafka(spec):
            return ""
        start, stop = min(found.start for found in ranges), max(found.stop for found in ranges)
        folder, spool = f"{start:015d}-{stop:015d}", self._stream(spec.id).below(SPOOL)
        known = self._known(spool)
        if f"{folder}/{WHOLE}" not in known:
            parts = spool_parts(spec, self._home.stream(spec.id), start, stop)
            for name, content in (*parts, (WHOLE, b"")):
                spool.put(f"{folder}/{name}", [content])
                known.add(f"{folder}/{name}")
        return folder


def _files_of(directory: Path, manifest: Manifest) -> Iterator[tuple[str, Path, Seal | None]]:
    """Yield the files of a store that belong to a manifest: name, path and seal."""
    if not manifest.complete:
        path = state_path(directory, manifest.generated)
        yield path.name, path, None
    for segment in manifest.segments:
        path = directory / segment.file
        yield path.name, path, segment.seal
        yield ticks_path(path).name, ticks_path(path), segment.ticks_seal
