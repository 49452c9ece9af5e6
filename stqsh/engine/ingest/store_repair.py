"""Repair of replay stores before the query starts: a store is a cache of its source.

A store that lacks a file, or that a reader marked as damaged, is prepared again beside the old one. The new
store replaces the old one if its manifest, which has the checksums of all records, equals the one recorded
when the stream was first prepared. Otherwise the session cannot continue: the engine does not start, because
steps without the stream's records would give different answers.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from stqsh.checksums import DamagedFileError
from stqsh.errors import SourceError
from stqsh.sources.replay_store.manifest import MANIFEST, Manifest, manifest_seal, read_manifest, stored_name
from stqsh.sources.replay_store.preparation import prepare
from stqsh.sources.replay_store.segments import DAMAGED, check_segment
from stqsh.storage.catalogue import live_streams
from stqsh.storage.control_log import ControlDb
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import stream_statuses
from stqsh.storage.rows import StreamRow, StreamStatus

log = logging.getLogger("stqsh.engine")

_HINT = (
    "put the session's folder streams/ back from a backup; or DUMP what the session defines, for a new one"
)


def repair_stores(home: SessionHome, control: ControlDb) -> None:
    """Check the replay stores of a session, and prepare damaged ones again.

    Args:
        home: the session's home.
        control: its control log.

    Raises:
        DamagedFileError: a store is damaged, and its source no longer yields the same records.
    """
    statuses = stream_statuses(control)
    for stream in live_streams(control):
        status = statuses.get(stream.id)
        if status is None or status.state not in ("ready", "endless"):
            continue
        try:
            check_store(home.stream(stream.id))
        except DamagedFileError as error:
            log.warning("%s; stream %s is prepared again", error.message, stream.name)
            _prepare_again(home.stream(stream.id), stream, status, error)
            log.warning("stream %s is prepared again, with the same records as before", stream.name)


def check_store(directory: Path) -> Manifest:
    """Return the manifest of a store whose files all exist; verify their content only if the store is marked.

    Raises:
        DamagedFileError: a file is missing or damaged.
    """
    manifest = read_manifest(directory)
    if manifest is None:
        raise DamagedFileError(stored_name(directory, MANIFEST), "is gone", _HINT)
    mark = directory / DAMAGED
    for segment in manifest.segments:
        check_segment(directory, segment, content=mark.exists())
    mark.unlink(missing_ok=True)  # the damaged file was restored
    return manifest


def _prepare_again(
    directory: Path,
    stream: StreamRow,
    status: StreamStatus,
    error: DamagedFileError,
) -> None:
    error.hint = _HINT
    if not status.seal:  # the stream is endless, or an older version prepared it
        raise error
    fresh = directory.with_name(f".{directory.name}.again")
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        prepare(stream.spec, fresh, report=lambda *_: None)
    except SourceError as problem:
        raise DamagedFileError(error.file, f"is damaged or gone, and {problem.message}", _HINT) from problem
    if manifest_seal(fresh) != status.seal:
        shutil.rmtree(fresh)
        damage = f"is damaged or gone, and the source of stream {stream.name} gives other records than before"
        raise DamagedFileError(error.file, damage, _HINT)
    shutil.rmtree(directory, ignore_errors=True)
    fresh.replace(directory)
