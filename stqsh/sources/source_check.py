"""What makes a source fail whatever its records are, found before a stream or a table is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.generator.replay import check_generator
from stqsh.sources.source_files import check_files, find_files, read_group


def check_source(spec: Mapping[str, Any]) -> None:
    """Check the options of a StreamSpec's or TableSpec's source, and the first of its files.

    Raises:
        OptionError: an option that there is not, or a value that makes no sense.
        SourceError: there is no file, its format is unknown, or a declared column is missing.
    """
    source = spec["source"]
    if source["type"] == "generator":
        check_generator(spec)
        return
    layout = RecordSchema.of(spec) if "tick_us" in spec else RecordSchema.of_table(spec)
    check_files(find_files(source)[:1], source, layout)


def first_time_us(spec: Mapping[str, Any]) -> int | None:
    """Give the earliest time at the beginning of a file stream's first file, µs; None where there is none."""
    source = spec["source"]
    for part in read_group(find_files(source)[:1], source, RecordSchema.of(spec)):
        return int(part.times.min()) if len(part.times) else None
    return None
