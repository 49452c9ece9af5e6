"""Check a source before a stream or a table is made of it."""

from __future__ import annotations

from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.generator.replay import check_generator
from stqsh.sources.source_files import check_files, file_source, find_files, read_group
from stqsh.spec.stream import GeneratorSourceSpec, StreamSpec, TableSpec


def check_source(spec: StreamSpec | TableSpec) -> None:
    """Check the options of a StreamSpec's or TableSpec's source, and the first of its files.

    Raises:
        OptionError: an unknown option, or a value that makes no sense.
        SourceError: there is no file, its format is unknown, or a declared column is missing.
    """
    if isinstance(spec, StreamSpec) and isinstance(spec.source, GeneratorSourceSpec):
        check_generator(spec)
        return
    layout = RecordSchema.of(spec) if isinstance(spec, StreamSpec) else RecordSchema.of_table(spec)
    source = file_source(spec)
    check_files(find_files(source)[:1], source, layout)


def first_time_us(spec: StreamSpec) -> int | None:
    """Return the earliest time at the beginning of a stream's first file, µs; None where there is none."""
    source = file_source(spec)
    for part in read_group(find_files(source)[:1], source, RecordSchema.of(spec)):
        return int(part.times.min()) if len(part.times) else None
    return None
