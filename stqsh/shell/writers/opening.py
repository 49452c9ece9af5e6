"""Open a writer by the name of its format, and write the outcomes of statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from stqsh.client.results import Answer, Rows, Script, SnapshotMark, Updates
from stqsh.shell.writers.csv_writer import CsvWriter
from stqsh.shell.writers.geojson import GeoJsonWriter
from stqsh.shell.writers.jsonl import JsonLinesWriter
from stqsh.shell.writers.markdown import MarkdownWriter
from stqsh.shell.writers.update_table import TableWriter
from stqsh.shell.writers.vertical import VerticalWriter
from stqsh.shell.writers.writer import Target, Writer, check_format

Data: TypeAlias = Rows | Answer | Script
"""The immediate output data of a statement."""

WRITERS: Mapping[str, Callable[[Target], Writer]] = {
    "jsonl": JsonLinesWriter,
    "csv": partial(CsvWriter, separator=","),
    "tsv": partial(CsvWriter, separator="\t"),
    "geojson": GeoJsonWriter,
    "markdown": MarkdownWriter,
    "table": TableWriter,
    "vertical": VerticalWriter,
}
"""The writer of each format in `stqsh.settings.FORMATS`."""


def open_writer(name: str, target: Target) -> Writer:
    """Return a writer of the format called `name`.

    Raises:
        CommandLineError: There is no such format.
    """
    return WRITERS[check_format(name)](target)


def write_item(writer: Writer, item: Updates | SnapshotMark) -> int:
    """Write updates or a mark; return the number of updates."""
    if isinstance(item, SnapshotMark):
        writer.mark(item)
        return 0
    writer.updates(item)
    return item.table.num_rows


def write_data(writer: Writer, data: Data, statement: int) -> None:
    """Write the output data of a statement; `statement` is its number in the script."""
    match data:
        case Rows():
            writer.rows(statement, data)
        case Answer():
            writer.answer(statement, data)
        case Script():
            writer.script(data.text)
