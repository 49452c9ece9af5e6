"""The table of output formats: the writer of each, by its name in `stqsh.settings.FORMATS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from stqsh.shell.writers.csv_writer import CsvWriter
from stqsh.shell.writers.geojson import GeoJsonWriter
from stqsh.shell.writers.jsonl import JsonLinesWriter
from stqsh.shell.writers.markdown import MarkdownWriter
from stqsh.shell.writers.update_table import TableWriter
from stqsh.shell.writers.vertical import VerticalWriter
from stqsh.shell.writers.writer import Target, Writer

WRITERS: Mapping[str, Callable[[Target], Writer]] = {
    "jsonl": JsonLinesWriter,
    "csv": partial(CsvWriter, separator=","),
    "tsv": partial(CsvWriter, separator="\t"),
    "geojson": GeoJsonWriter,
    "markdown": MarkdownWriter,
    "table": TableWriter,
    "vertical": VerticalWriter,
}
