"""The output formats by name: how a name is checked, which one a file asks for, and how a writer opens."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from stqsh.errors import CommandLineError
from stqsh.settings import FORMATS

if TYPE_CHECKING:
    from stqsh.shell.writers.writer import Target, Writer

SUFFIXES = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".geojson": "geojson",
    ".geojsonl": "geojson",
    ".md": "markdown",
}
"""The format that a file's name asks for."""
COLUMNAR = (".arrow", ".parquet")
"""Files that are tables as a whole; see `stqsh.shell.writers.arrow_files`."""


def check_format(name: str) -> str:
    """The format's name if there is such a format; raises `CommandLineError` with a near name otherwise."""
    if name in FORMATS:
        return name
    if f".{name}" in COLUMNAR:
        raise CommandLineError(f"{name} is for files", hint=rf"--output FILE.{name}, or \o FILE.{name}")
    near = difflib.get_close_matches(name, FORMATS, n=1)
    hint = f"maybe you meant {near[0]}" if near else f"formats: {', '.join(FORMATS)}"
    raise CommandLineError(f"there is no format '{name}'", hint=hint)


def open_writer(name: str, target: Target) -> Writer:
    """Return a writer of the format called `name`; raises as `check_format`."""
    from stqsh.shell.writers.registry import WRITERS

    return WRITERS[check_format(name)](target)
