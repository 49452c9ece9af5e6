"""Audit a session's home before its engine starts: check that its files belong together.

Each batch writes in this order: Spark's offset, the slots' states, the update log's file, progress and the
list of update files, Spark's commit. So the last commit, the last delivered batch and the last offset are of
the same batch or of two consecutive batches. A power failure, a copy of a home in use, or a deleted file may
break this order, and a session that continued then would give wrong answers.

The audit checks names and the files that Spark wrote last. Other content is checked when it is first used.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from msgspec import DecodeError
from msgspec.json import decode

from stqsh.checksums import DamagedFileError
from stqsh.engine.config import EngineSettings
from stqsh.engine.spark.spark_internals import (
    commit_file,
    first_batch,
    has_metadata,
    is_intact,
    last_commit,
    last_offset,
    offset_file,
    read_offset,
    remove_file,
    write_metadata,
)
from stqsh.errors import EngineError
from stqsh.program import program
from stqsh.spec.offset import Offset
from stqsh.spec.savepoint import StagedSession
from stqsh.storage.blobs import Blobs, checkpoint_blobs
from stqsh.storage.catalogue import added_kinds
from stqsh.storage.control_log import ControlDb, get_meta, last_seq
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import read_progress

log = logging.getLogger("stqsh.engine")

_HINT = "put the session's folder back from a backup as a whole; or DUMP what it defines, for a new session"


class AuditError(EngineError):
    """A session whose files do not belong together."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the session's files do not belong together: {what}", hint=_HINT)


def check_kinds(control: ControlDb) -> None:
    """Raise `EngineError` if queries have a kind from a package that the engine cannot find."""
    wanted = added_kinds(control)
    if not wanted:
        return
    from stqsh.core.kinds import missing_kinds  # numba, which other sessions import while Spark starts

    if missing := missing_kinds(wanted):
        raise EngineError(
            f"this session has queries of the kind {missing[0]!r}, which no installed package adds",
            hint=f"install the package again, for {sys.executable}, or see why it cannot be loaded:"
            f" {program()} doctor",
        )


def audit_home(home: SessionHome, control: ControlDb, settings: EngineSettings) -> None:
    """Check that a session can continue from its files; only log lost updates, because the engine needs none.

    Raises:
        AuditError: the session cannot continue.
    """
    delivered, checkpoint = read_progress(control).batch, checkpoint_blobs(home.path)
    _drop_unfinished(checkpoint, delivered)
    committed, planned = last_commit(checkpoint), last_offset(checkpoint)
    first = first_batch(checkpoint)
    if planned >= 0 and not has_metadata(checkpoint):
        log.warning("checkpoint/metadata is damaged or gone, and is written again: it only names the query")
        write_metadata(checkpoint)
    if not committed <= delivered <= planned or planned > committed + 1:
        raise AuditError(
            f"Spark has planned {_batches(planned)} and completed {_batches(committed)},"
            f" but {_batches(delivered)} are recorded as delivered"
        )
    if committed >= 0:
        _check_intact(checkpoint, commit_file(committed, first))
        _check_intact(checkpoint, offset_file(committed, first))
    if planned >= 0:
        _check_intact(checkpoint, offset_file(planned, first))
        _check_numbers(checkpoint, control, planned)
    if settings.local and delivered >= 0:
        _check_slots(home, control, settings.slots, committed)
    if missing := missing_updates(home, control):
        log.error(
            "%d files of the update log are gone, the first is updates/%s: their updates cannot be read",
            len(missing),
            missing[0],
        )


def _drop_unfinished(checkpoint: Blobs, delivered: int) -> None:
    """Remove files that Spark had not fully written when the machine failed, if their batch is repeatable.

    A delivered batch without its commit is repeated with the same result. An undelivered one is planned
    again, and slots that have stored it go back to the previous batch.
    """
    committed, planned = last_commit(checkpoint), last_offset(checkpoint)
    first = first_batch(checkpoint)
    commit, offset = commit_file(committed, first), offset_file(planned, first)
    if 0 <= delivered == committed == planned and not is_intact(checkpoint, commit):
        damaged = commit
    elif delivered == committed == planned - 1 and not is_intact(checkpoint, offset):
        damaged = offset
    else:
        return
    log.warning("%s is damaged, and is removed: its batch is done again", f"checkpoint/{damaged}")
    remove_file(checkpoint, damaged)


def _check_intact(checkpoint: Blobs, name: str) -> None:
    try:
        intact = is_intact(checkpoint, name)
    except DamagedFileError:
        raise AuditError(f"checkpoint/{name} is gone") from None
    if not intact:
        raise AuditError(f"checkpoint/{name} is damaged")


def describe_staged(control: ControlDb, files: Path) -> StagedSession:
    """Describe the savepoint that was staged between two batches.

    Args:
        control: the session's control log.
        files: the folder with the staged files.

    Raises:
        AuditError: the files are not of one step.
        DamagedFileError: a slot's head is damaged.
    """
    from stqsh.engine.state.file_store import sealed_files  # numba: a session that starts needs it later

    progress, checkpoint = read_progress(control), checkpoint_blobs(files)
    batches = last_commit(checkpoint), last_offset(checkpoint), progress.batch
    if len(set(batches)) > 1 or progress.batch < 0:
        raise AuditError(f"batch {progress.batch} is not complete")
    return StagedSession(
        progress.batch,
        progress.step,
        progress.at_us(),
        int(get_meta(control, "slots") or 0),
        get_meta(control, "state") or "",
        sealed_files(SessionHome(files).state),
    )


def missing_updates(home: SessionHome, control: ControlDb) -> list[str]:
    """Return the names of listed files of the update log that are missing."""
    listed = [f"base-{batch:012d}.arrow" for (batch,) in control.query("SELECT batch FROM update_base")]
    listed += [f"{batch:012d}.arrow" for (batch,) in control.query("SELECT batch FROM update_files")]
    there: set[str] = set()
    if home.updates.is_dir():
        with os.scandir(home.updates) as entries:
            there = {entry.name for entry in entries}
    return sorted(name for name in listed if name not in there)


def _check_numbers(checkpoint: Blobs, control: ControlDb, batch: int) -> None:
    """Check that the control log has all rows to which the last offset refers."""
    try:
        offset = Offset.from_json(decode(read_offset(checkpoint, batch)))
    except (ValueError, DecodeError) as error:
        raise AuditError(f"checkpoint/offsets/{batch} is damaged") from error
    if (last := last_seq(control)) < offset.names:
        raise AuditError(
            f"batch {batch} has taken in {offset.names} statements, but the log ends with {last}"
        )


def _check_slots(home: SessionHome, control: ControlDb, slots: int, batch: int) -> None:
    """Check that each slot has its state, unless the start of the query rebuilds it.

    Each slot checks itself that the state is of the right batch.
    """
    for slot in range(slots):
        head = home.state / f"evaluate-{slot}" / "head"
        if not head.exists() and not _is_rebuilt(home, control, batch):
            raise AuditError(f"{head.relative_to(home.path)} is gone, which records what slot {slot} holds")


def _is_rebuilt(home: SessionHome, control: ControlDb, batch: int) -> bool:
    """Return whether slots can be rebuilt as they were after the last complete batch."""
    from stqsh.engine.launch.slot_rebuild import Committed, NotRebuiltError, check_rebuildable

    if batch < 0:
        return False
    try:
        offset = Offset.from_json(decode(read_offset(checkpoint_blobs(home.path), batch)))
        check_rebuildable(home, control, Committed(batch, offset))
    except (NotRebuiltError, DamagedFileError):
        return False
    return True


def _batches(last: int) -> str:
    """Return the number of batches up to a batch number, as text."""
    return "1 batch" if last == 0 else f"{last + 1} batches"
