"""Check a source before a stream or a table is created from it, and find the unit of its numeric times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import msgspec
import pyarrow as pa

from stqsh.sources.formats.casting import cast_column
from stqsh.sources.formats.pyarrow_typing import Array, pc
from stqsh.sources.formats.record_parser import FileBlock, parse
from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.formats.time_formats import UNIT_NAMES, UNITS
from stqsh.sources.generator.replay import check_generator
from stqsh.sources.source_files import check_files, file_source, find_files, read_first_block
from stqsh.spec.stream import FileSourceSpec, GeneratorSourceSpec, StreamSpec, TableSpec

#: Numbers are considered milliseconds or similar if all are between these years, in seconds.
_FROM_1990, _TO_2100 = 631_152_000, 4_102_444_800


class CheckedSource(NamedTuple):
    """The result of a check: the unit of numeric times ("" if there are none), and remarks."""

    unit: str
    notes: tuple[str, ...]


def check_source(spec: StreamSpec | TableSpec) -> CheckedSource:
    """Check the options of a StreamSpec's or TableSpec's source, and the beginning of its files.

    Raises:
        OptionError: an option is unknown, or a value makes no sense.
        SourceError: there is no file, its format is unknown, or a declared column is missing.
    """
    if isinstance(spec, StreamSpec) and isinstance(spec.source, GeneratorSourceSpec):
        check_generator(spec)
        return CheckedSource("", ())
    layout, source = _layout(spec), file_source(spec)
    files = find_files(source)
    check_files(files, source, layout)
    first = next((block for file in files if (block := read_first_block(file, source, layout))), None)
    if first is None:
        return CheckedSource("", ())
    if "timestamp" in source.options:
        return CheckedSource("", tuple(_all_set_aside(first, layout)))
    name, unit, layout = number_unit(first, layout)
    notes = [f"{name}: {UNIT_NAMES[unit]} since the epoch"] if unit else []
    return CheckedSource(unit, (*notes, *_all_set_aside(first, layout)))


def with_unit(spec: StreamSpec | TableSpec, unit: str) -> StreamSpec | TableSpec:
    """Return the spec of a file source whose times are numbers in a unit, such as "ms"."""
    if unit in ("", "s") or not isinstance(spec.source, FileSourceSpec):
        return spec
    options = spec.source.options | {"timestamp": unit}
    return msgspec.structs.replace(spec, source=msgspec.structs.replace(spec.source, options=options))


def _layout(spec: StreamSpec | TableSpec) -> RecordSchema:
    return RecordSchema.of(spec) if isinstance(spec, StreamSpec) else RecordSchema.of_table(spec)


class NumberUnit(NamedTuple):
    """The first column of numeric times, their unit ("" if there is none), and a layout that reads it."""

    column: str
    unit: str
    layout: RecordSchema


def number_unit(first: FileBlock, layout: RecordSchema) -> NumberUnit:
    """Determine the unit of numbers in time columns from the first records.

    The unit is seconds unless another unit is the only one by which all numbers are between 1990 and 2100.
    """
    given = layout.in_files
    names = [name for name, kind in given.columns if kind == "TIMESTAMP"]
    for name in sorted(names, key=lambda name: name != layout.time):
        numbers = _numbers(first.block.columns[given.position(name)])
        if len(numbers):
            least, most = pc.min(numbers).as_py(), pc.max(numbers).as_py()
            fitting = (unit for unit, k in UNITS.items() if _FROM_1990 * k <= least and most < _TO_2100 * k)
            unit = next(fitting, "s")
            times = replace(layout.times, per_second=UNITS[unit])
            return NumberUnit(name, unit, replace(layout, times=times))
    return NumberUnit("", "", layout)


def _numbers(raw: Array) -> Array:
    """Return the finite numbers in a column."""
    if pa.types.is_temporal(raw.type):
        return pa.array([], pa.float64())
    values = cast_column(raw, "DOUBLE").values
    return values.filter(pc.is_finite(values))


def _all_set_aside(first: FileBlock, layout: RecordSchema) -> Iterator[str]:
    """Yield a remark if none of the first records can be read."""
    records = parse([first], layout)
    if records.dead and not len(records.places):
        count = (
            "the first record"
            if len(records.dead) == 1
            else f"all of the first {len(records.dead):,} records"
        )
        yield f"{count} of {first.path} will be set aside: {records.dead[0].reason}"
