"""The names of the output formats: how one is checked, and which one a file name asks for."""

from __future__ import annotations

import difflib

from stqsh.errors import CommandLineError
from stqsh.settings import FORMATS

SUFFIXES = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".geojson": "geojson",
    ".geojsonl": "geojson",
    ".md": "markdown",
}
"""The format that a file name asks for, by its suffix."""
COLUMNAR = (".arrow", ".parquet")
"""Files that are tables as a whole; see `stqsh.shell.writers.arrow_files`."""


def check_format(name: str) -> str:
    """Return the name of a format.

    Raises:
        CommandLineError: There is no such format; the hint is a similar name.
    """
    if name in FORMATS:
        return name
    if f".{name}" in COLUMNAR:
        raise CommandLineError(f"{name} is for files", hint=rf"--output FILE.{name}, or \o FILE.{name}")
    near = difflib.get_close_matches(name, FORMATS, n=1)
    hint = f"maybe you meant {near[0]}" if near else f"formats: {', '.join(FORMATS)}"
    raise CommandLineError(f"there is no format '{name}'", hint=hint)
