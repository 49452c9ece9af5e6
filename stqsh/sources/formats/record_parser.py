"""Turn raw blocks into typed, checked records; bad rows become dead letters with reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.arrays import Mask
from stqsh.core.state.interner import SeenKeys
from stqsh.sources.dead_letters import DeadLetter
from stqsh.sources.formats.casting import cast_numbers, without_infinite
from stqsh.sources.formats.pyarrow_typing import Array, pc
from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.spec.expression import Expr

if TYPE_CHECKING:
    from stqsh.core.conditions.resolver import Located

#: The number of characters of a bad row that are kept, so that the row can be corrected and fed again.
TEXT_LIMIT = 4000
#: The number of characters of a bad value that are quoted in its reason.
QUOTE_LIMIT = 200

Reason = Callable[[int], str]


@dataclass(frozen=True, slots=True)
class BadRows:
    """Rows that contain no valid record.

    Attributes:
        places: the places of the rows, int64 (n,).
        reasons: the reason for each row.
    """

    places: NDArray[np.int64]
    reasons: list[str]

    @staticmethod
    def of(pairs: Sequence[tuple[int, str]]) -> BadRows:
        """Return bad rows from pairs of a place and a reason."""
        return BadRows(np.array([place for place, _ in pairs], np.int64), [reason for _, reason in pairs])

    @staticmethod
    def joined(parts: Sequence[BadRows]) -> BadRows:
        """Return the rows of several parts in the order of their places.

        >>> BadRows.joined([BadRows.of([(3, "c")]), BadRows.of([(1, "a"), (2, "b")])]).reasons
        ['a', 'b', 'c']
        """
        if len(parts) == 1:
            return parts[0]
        places = np.concatenate([np.zeros(0, np.int64), *(part.places for part in parts)])
        reasons = [reason for part in parts for reason in part.reasons]
        if (places[1:] < places[:-1]).any():
            order = np.argsort(places, kind="stable")
            places, reasons = places[order], [reasons[at] for at in order.tolist()]
        return BadRows(places, reasons)


class RowLocation(NamedTuple):
    """The line and the text of a bad row."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Rows of one file, as its reader returns them.

    Attributes:
        columns: the declared columns in order, (n,) each, as binary text to be parsed, or typed.
        ordinals: the places of the rows in the block, int64 (n,), increasing.
        locate: returns the lines and texts of ordinals; called only for bad rows.
        number: the place of the block in its file.
        dead: rows that could not be split into columns.
        size: the number of bytes read.
    """

    columns: list[Array]
    ordinals: NDArray[np.int64]
    locate: Callable[[NDArray[np.int64]], list[RowLocation]]
    number: int = 0
    dead: tuple[tuple[RowLocation, str], ...] = ()
    size: int = 0


@dataclass(frozen=True, slots=True)
class ParsedRecords:
    """The m good records of some files in order, and the bad ones.

    Attributes:
        columns: the declared columns in their types.
        times: int64 (m,), µs, 0 in a table.
        files: indices into the sorted list of files, int32 (m,).
        places: int64 (m,), increasing within a file.
        rows: the number of rows, good and bad; where the key is the row's number, it counts from 1 within
            these records.
        lines: the physical lines where they begin, int64 (m,), if they were asked for.
    """

    columns: list[Array]
    times: NDArray[np.int64]
    files: NDArray[np.int32]
    places: NDArray[np.int64]
    dead: list[DeadLetter]
    rows: int = 0
    lines: NDArray[np.int64] | None = None

    def numbered_from(self, before: int, key: int) -> ParsedRecords:
        """Return the records with their row numbers, in column `key`, shifted by the rows `before` them."""
        columns = [*self.columns]
        columns[key] = pc.add(columns[key], before)
        return replace(self, columns=columns)


class RowCheck(NamedTuple):
    """Which rows (n,) fail a check, and a function for the reason of one of them."""

    mask: Mask
    reason: Reason


class FileBlock(NamedTuple):
    """A block with its file: the file's index in the sorted list, and its path."""

    file: int
    path: str
    block: RowBlock


def parse(blocks: Sequence[FileBlock], layout: RecordSchema, known: SeenKeys | None = None) -> ParsedRecords:
    """Turn blocks with columns of the same types, in order of file and place, into records.

    Args:
        known: the keys of earlier records, if keys must be unique.
    """
    if not blocks:
        nothing = [pa.nulls(0, field.type) for field in layout.schema]
        return ParsedRecords(nothing, np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int64), [])
    raw = {
        name: _concat([each.block.columns[i] for each in blocks])
        for i, name in enumerate(layout.in_files.names)
    }
    if layout.numbers_rows:
        raw[layout.key] = pa.array(_numbers(blocks))
    columns, checks = _typed(raw, layout)
    checks += _value_checks(columns, layout)
    bad = np.zeros(len(columns[0]), dtype=np.bool_)
    for check in checks:
        bad |= check.mask
    if known is not None:
        checks.append(_key_check(columns[layout.position(layout.key)], bad, known, layout.key))
        bad |= checks[-1].mask
    dead = [DeadLetter(path, at.line, why, at.text) for _, path, block in blocks for at, why in block.dead]
    files, places = _origins(blocks)
    if bad.any():
        dead += _dead_rows(blocks, np.flatnonzero(bad), checks)
        good = pa.array(~bad)
        columns = [column.filter(good) for column in columns]
        files, places = files[~bad], places[~bad]
    in_order = sorted(dead, key=lambda each: (each.file, each.line))
    rows = sum(len(each.block.ordinals) + len(each.block.dead) for each in blocks)
    return ParsedRecords(columns, _times(columns, layout), files, places, in_order, rows)


def _typed(raw: dict[str, Array], layout: RecordSchema) -> tuple[list[Array], list[RowCheck]]:
    """Return all columns in order, in their types, (n,) each, with the checks of their values.

    Derived columns are computed from typed ones. The checks of the columns of the source come first, because
    a bad value may be why another cannot be computed.
    """
    found: dict[str, Array] = {}
    checks: list[RowCheck] = []
    types = dict(layout.columns)
    derived = {one.name: one.value for one in layout.derived}
    for name in [*(name for name in layout.names if name in raw), *derived]:
        if name in raw:
            values = raw[name]
        else:
            values, failed = _compute_column(derived[name], types[name], found, layout)
            if failed:
                checks.append(_failures(name, failed, len(values)))
        if name == layout.extent:
            found[name], check = _extents(name, values, layout)
            checks.append(check)
            continue
        cast = cast_numbers(values, types[name], layout.times)
        found[name] = cast.values if name in (layout.x, layout.y) else without_infinite(cast.values)
        if cast.bad is not None:
            checks.append(_type_check(name, types[name], values, cast.bad, layout))
    return [found[name] for name in layout.names], checks


def _extents(name: str, values: Array, layout: RecordSchema) -> tuple[Array, RowCheck]:
    """Return the extents of records as WKT, and the check of their values."""
    from stqsh.sources.formats.geometries import extent_texts  # shapely: only when needed

    extents = extent_texts(values, geodetic=layout.geodetic)
    return extents.texts, RowCheck(extents.bad, lambda row: f"{name}: {extents.reason(row)}")


def _compute_column(
    value: Expr, kind: str, columns: Mapping[str, Array], location: Located
) -> tuple[Array, dict[int, str]]:
    """Return the values of a derived column, (n,), and why functions failed for rows that have none.

    A value depends on its own row only, so it is the same however records are divided into blocks.

    Args:
        value: the bound expression; it reads neither NOW nor tables nor named regions.
        kind: the type of the column.
        columns: the columns before it, in their types, (n,) each, at least one.
        location: which of them are the location.
    """
    # numba: only when needed
    from stqsh.core.conditions.evaluation import compute
    from stqsh.core.conditions.resolver import Resolver
    from stqsh.core.conditions.user_functions import by_row
    from stqsh.core.state.slot_state import SlotState

    with by_row() as failed:
        found = compute(value, columns, 0, Resolver(SlotState.fresh(0), location))
    if kind == "TIMESTAMP":
        found = found.view(pa.timestamp("us", tz="UTC"))  # expressions compute with µs
    return found, {row: why for row, why in failed.items() if not found[row].is_valid}


def _failures(name: str, failed: dict[int, str], rows: int) -> RowCheck:
    mask = np.zeros(rows, np.bool_)
    mask[list(failed)] = True
    return RowCheck(mask, lambda row: f"{name}: {failed[row][:QUOTE_LIMIT]}")


def _numbers(blocks: Sequence[FileBlock]) -> NDArray[np.int64]:
    """Return the row numbers of some blocks, from 1, int64 (n,); bad rows are numbered, too."""
    sizes = [len(each.block.ordinals) + len(each.block.dead) for each in blocks]
    begins = np.cumsum([1, *sizes[:-1]])
    numbers = [begin + each.block.ordinals for begin, each in zip(begins, blocks, strict=True)]
    return np.concatenate(numbers).astype(np.int64)


def _times(columns: list[Array], layout: RecordSchema) -> NDArray[np.int64]:
    if not layout.time:
        return np.zeros(len(columns[0]), np.int64)
    return columns[layout.position(layout.time)].cast(pa.int64()).to_numpy()


def _concat(arrays: list[Array]) -> Array:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def _origins(blocks: Sequence[FileBlock]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return each row's file (n,) and its place there (n,): the block's number, then the row's ordinal."""
    counts = [len(each.block.ordinals) for each in blocks]
    files = np.repeat(np.array([each.file for each in blocks], dtype=np.int32), counts)
    places = [(np.int64(each.block.number) << 32) + each.block.ordinals for each in blocks]
    return files, np.concatenate(places)


def find_lines(blocks: Sequence[FileBlock], places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the lines where records of one file begin, int64 (m,), by their places; slow.

    `blocks` are the blocks that were parsed.
    """
    numbers, ordinals = places >> 32, places & 0xFFFFFFFF
    lines = np.zeros(len(places), np.int64)
    for each in blocks:
        mine = numbers == each.block.number
        lines[mine] = [at.line for at in each.block.locate(ordinals[mine])]
    return lines


def _dead_rows(
    blocks: Sequence[FileBlock], rows: NDArray[np.int64], checks: Sequence[RowCheck]
) -> list[DeadLetter]:
    """Return a dead letter with the first reason for each bad row (k,), counted over all blocks."""
    starts = np.cumsum([0, *(len(each.block.ordinals) for each in blocks)])
    dead: list[DeadLetter] = []
    for each, start, stop in zip(blocks, starts[:-1], starts[1:], strict=True):
        mine = rows[(rows >= start) & (rows < stop)]
        for row, where in zip(mine, each.block.locate(each.block.ordinals[mine - start]), strict=True):
            reason = next(check.reason(int(row)) for check in checks if check.mask[row])
            dead.append(DeadLetter(each.path, where.line, reason, where.text))
    return dead


# -- checks --------------------------------------------------------------------------------------------------


def _type_check(name: str, kind: str, values: Array, bad: Mask, layout: RecordSchema) -> RowCheck:
    wanted = layout.times.wording if kind == "TIMESTAMP" else f"not a valid {kind}"
    return RowCheck(bad, _type_reason(name, kind, values, wanted))


def _type_reason(name: str, kind: str, values: Array, wanted: str) -> Reason:
    def reason(row: int) -> str:
        [value] = python_values(values.slice(row, 1))
        if kind == "STRING" and isinstance(value, bytes | str):
            return f"{name}: not valid UTF-8"
        shown = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
        return f"{name}: {shown[:QUOTE_LIMIT]!r} is {wanted}"

    return reason


def python_values(column: Array) -> list[Any]:
    """Return a column as Python values; values that Python cannot represent become text.

    These are times after the year 9999 and, alone or in lists, text that is not valid UTF-8.
    """
    try:
        return column.to_pylist()
    except (OverflowError, ValueError):
        pass
    try:
        texts = column.cast(pa.string()).cast(pa.binary()).to_pylist()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return [column.slice(row, 1).to_string(skip_new_lines=True) for row in range(len(column))]
    return [None if text is None else text.decode(errors="replace") for text in texts]


def _value_checks(columns: list[Array], layout: RecordSchema) -> Iterator[RowCheck]:
    if layout.key:
        key = columns[layout.position(layout.key)]
        yield RowCheck(_is_empty(key), lambda row: f"{layout.key}: the key is empty")
    if layout.time:
        time = columns[layout.position(layout.time)]
        yield RowCheck(_is_empty(time), lambda row: f"{layout.time}: the time is empty")
    if layout.located:
        yield from _location_checks(columns, layout)


def _key_check(keys: Array, bad: Mask, known: SeenKeys, name: str) -> RowCheck:
    """Check that the keys of good rows are new."""
    again = np.zeros(len(keys), dtype=np.bool_)
    again[~bad] = known.seen(keys.filter(pa.array(~bad)) if bad.any() else keys)
    return RowCheck(again, lambda row: f"{name}: {keys[row].as_py()!r} occurs again")


def _is_empty(column: Array) -> Mask:
    empty = column.is_null()
    if pa.types.is_string(column.type):
        empty = pc.or_(empty, pc.fill_null(pc.equal(pc.binary_length(column), 0), False))
    return _mask(empty)


def _location_checks(columns: list[Array], layout: RecordSchema) -> Iterator[RowCheck]:
    """Check that places have both coordinates or neither, finite and, in degrees, on the globe.

    An event always has both.
    """
    arrays = [columns[layout.position(name)] for name in (layout.x, layout.y)]
    empty = [_mask(array.is_null()) for array in arrays]
    for name, other, mine, others in (
        (layout.x, layout.y, empty[0], empty[1]),
        (layout.y, layout.x, empty[1], empty[0]),
    ):
        yield RowCheck(mine & ~others, _one_sided(name, other))
    if layout.event:
        yield RowCheck(empty[0] & empty[1], lambda row: "no location")
    for name, array, nothing, limit in zip((layout.x, layout.y), arrays, empty, (180.0, 90.0), strict=True):
        values = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        yield RowCheck(~np.isfinite(values) & ~nothing, _place_reason(name, values, "is not a coordinate"))
        if layout.geodetic:
            with np.errstate(invalid="ignore"):
                yield RowCheck(
                    np.abs(values) > limit, _place_reason(name, values, f"is beyond {limit:g} degrees")
                )


def _one_sided(name: str, other: str) -> Reason:
    return lambda row: f"{name}: empty, while {other} is not"


def _place_reason(name: str, values: NDArray[np.float64], what: str) -> Reason:
    return lambda row: f"{name}: {values[row]} {what}"


def _mask(array: Array) -> Mask:
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.bool_)
