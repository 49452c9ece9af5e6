"""SAVE TO: a savepoint of the whole session, while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from stqsh.client.results import Message, Outcome, WaitNotice
from stqsh.client.statements.context import StatementContext
from stqsh.errors import EngineError
from stqsh.lang.ast import statements
from stqsh.lang.binder.bind import bind
from stqsh.spec.savepoint import Savepoint, StagedSession
from stqsh.storage.rows import Progress
from stqsh.storage.savepoint import (
    SavepointError,
    check_free,
    remember_savepoint,
    savepoint_blobs,
    write_savepoint,
)
from stqsh.storage.staging import Staging, requested
from stqsh.units import counted, format_size

_TELL_S = 5.0
"""How often a long copy reports its progress."""


def save(context: StatementContext, statement: statements.Save) -> Iterator[Outcome]:
    """Execute SAVE TO.

    Raises:
        SavepointError: something already exists at the URI, or the session cannot be saved.
        StorageError: the URI names no store, or the store fails.
    """
    uri: str = bind(statement, context.view).spec
    blobs = savepoint_blobs(uri)
    check_free(blobs, uri)
    begun = time.monotonic()
    context.connection.wake()
    with requested(context.connection.home) as staging:
        if staging.answer() is None:
            text = "waiting for the end of the batch … (Ctrl-C leaves)"
            yield WaitNotice(text, lambda tell: _staged(context, staging, tell))
        staged = _staged(context, staging)
        told = begun
        for found in write_savepoint(blobs, context.connection.home.name, staging.files, staged):
            if isinstance(found, Savepoint):
                saved = found
            elif time.monotonic() - told > _TELL_S and found.whole:
                told = time.monotonic()
                share = 100 * found.copied // found.whole
                yield Message(f"{share} % of {format_size(found.whole)} saved")
    remember_savepoint(context.connection.db, uri, saved)
    files = counted(len(saved.files), "file")
    yield Message(
        f"session {saved.session} saved as of step {staged.step:,}:"
        f" {format_size(saved.size)} in {files}, {time.monotonic() - begun:.1f} s"
    )


def _staged(
    context: StatementContext, staging: Staging, tell: Callable[[Progress], None] | None = None
) -> StagedSession:
    """Wait until the engine has staged the session.

    Raises:
        EngineError: the engine has died.
        SavepointError: it cannot stage the session.
    """
    for progress in context.connection.watch():
        staged = staging.answer()
        if staged is not None and staged.problem:
            raise SavepointError(f"the session is not saved: {staged.problem}")
        if staged is not None:
            return staged
        if tell is not None:
            tell(progress)
    raise EngineError("the session's engine has ended")
