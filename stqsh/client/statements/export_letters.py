"""EXPORT DEAD LETTERS: write the records that could not be read to a file of JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson
from msgspec.structs import asdict

from stqsh.client.results import Message, Outcome
from stqsh.client.show.subjects import dead_count, letter_folders
from stqsh.client.statements.context import StatementContext
from stqsh.errors import StqshError
from stqsh.fs import replacing
from stqsh.lang.ast import statements
from stqsh.lang.binder.administration import LettersExport
from stqsh.lang.binder.bind import bind
from stqsh.sources.dead_letters import read_dead_letters
from stqsh.storage.output_files import check_replaceable
from stqsh.storage.progress import stream_statuses

_BEGIN = b'{"stream":'
"""The start of every non-empty file of dead letters."""


def export_letters(context: StatementContext, statement: statements.ExportDeadLetters) -> Iterator[Outcome]:
    """Write the dead letters of a stream or table, or of all, in the order in which they occurred.

    Raises:
        StqshError: the file cannot be written.
    """
    wanted = bind(statement, context.view).spec
    assert isinstance(wanted, LettersExport), "it is what EXPORT binds to"
    file, written, counted = Path(wanted.file).expanduser(), 0, 0
    statuses = stream_statuses(context.connection.db)
    try:
        check_replaceable(file, _BEGIN, "a file of dead letters")
        with replacing(file) as new, new.open("wb") as lines:
            for row, folder in letter_folders(context.connection):
                if wanted.name not in (None, row.name):
                    continue
                counted += dead_count(row, statuses)
                for letter in read_dead_letters(folder):
                    found = {"stream": row.name, **asdict(letter)}
                    lines.write(orjson.dumps(found, option=orjson.OPT_APPEND_NEWLINE))
                    written += 1
    except OSError as problem:
        raise StqshError(f"cannot write {file}: {(problem.strerror or str(problem)).lower()}") from problem
    missing = "" if counted <= written else f"; of {counted - written:,} others the text is not kept"
    yield Message(f"{written:,} dead letter{'' if written == 1 else 's'} written to {wanted.file}{missing}")
