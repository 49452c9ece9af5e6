"""The number of records that a script's run could not read: they stop no stream, so they are reported."""

from __future__ import annotations

from pathlib import Path

from stqsh.client.connection import Connection
from stqsh.client.show.subjects import letter_folders
from stqsh.control_characters import shorten
from stqsh.sources.dead_letters import read_dead_letters
from stqsh.spec.source_facts import MUCH
from stqsh.storage.progress import stream_statuses
from stqsh.units import counted, group_digits

_REASON_SHOWN = 200


class UnreadRecords:
    """Counts the dead letters of a session's streams and tables from now on.

    Args:
        connection: to the session.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._before = self._counts()

    def text(self) -> str:
        """Return a line for each stream and table with new dead letters, with one as an example."""
        counts, lines = self._counts(), []
        for row, folder in letter_folders(self._connection):
            found = counts.get(row.id, 0) - self._before.get(row.id, 0)
            if found > 0:
                lines.append(f"{counted(found, 'record')} of {row.name} could not be read{_example(folder)}")
        return "\n".join(lines)

    def _counts(self) -> dict[int, int]:
        return {id_: status.dead for id_, status in stream_statuses(self._connection.db).items()}


def much_unread(connection: Connection) -> str:
    """Return a sentence about streams with more than a tenth of their records unreadable, else ""."""
    statuses, parts = stream_statuses(connection.db), []
    for row, folder in letter_folders(connection):
        status = statuses.get(row.id)
        if status is None or status.dead <= MUCH * (status.dead + status.rows):
            continue
        share = f"{counted(status.dead, 'record')} of {group_digits(status.dead + status.rows)}"
        parts.append(f"{share} of {row.name} could not be read{_example(folder)}")
    return "; ".join(parts)


def _example(folder: Path) -> str:
    """Return the first stored dead letter, as the end of a sentence."""
    letter = next(read_dead_letters(folder), None)
    if letter is None:
        return ""
    place = f"{letter.file}:{letter.line}" if letter.line else letter.file
    return f", such as {place}: {shorten(letter.reason, _REASON_SHOWN)}"
