"""Check which rows of REGISTER QUERIES make valid queries, whole columns at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.arrays import Mask
from stqsh.lang.binder.parameters import MOST_IN_PATTERN, Hole
from stqsh.lang.binder.regions import ANTIMERIDIAN, MOST_NEIGHBOURS, POLE
from stqsh.lang.types import WHOLE_RANGES
from stqsh.sources.formats.pyarrow_typing import Array, pc
from stqsh.sources.parameter_rows import ParameterBlock, RowFault
from stqsh.storage.queries.bulk_register import MOST
from stqsh.storage.queries.query_templates import NAMES, QueryTemplate

Places = NDArray[np.int64]
_MOST_SHOWN = 20
_TERM = r"[\pL\pN]"


class RowCheck(NamedTuple):
    """Rows (n,) that fail, and the reason for one of them."""

    failing: Mask
    reason: Callable[[int], str]


class RowChecks:
    """The checks of one REGISTER QUERIES, and their findings so far.

    `key` is the column with the names; without one a query is named after its file, else `prefix`, and the
    number of its row. `registered` and `refused` count the rows so far.
    """

    def __init__(self, template: QueryTemplate, key: str | None, prefix: str) -> None:
        self._template, self._key, self._prefix = template, key, prefix
        self._names: set[str] = set()
        self.registered = self.refused = 0
        self._faults: list[RowFault] = []

    def good_rows(self, block: ParameterBlock) -> Iterator[tuple[pa.RecordBatch, Places]]:
        """Yield the valid rows of a block, at most `MOST` at a time, with their places; note the others."""
        self.refused += len(block.faults)
        self._faults += block.faults[:_MOST_SHOWN]
        names = self._names_of(block)
        bad = self._note(
            block, [*_cast_checks(block), *value_checks(self._template, block.columns), *_name_checks(names)]
        )
        good = np.flatnonzero(~bad)
        again = self._again(names.take(_at(good)))
        self._note(
            block, [_spread(good[again], len(names), lambda row: f"the name {names[row]} occurs twice")]
        )
        good = good[~again]
        parameters = dict.fromkeys(self._template.parameters)
        whole = pa.RecordBatch.from_arrays(
            [names, *(block.columns[name] for name in parameters)], names=[NAMES, *parameters]
        )
        for start in range(0, len(good), MOST):
            places = good[start : start + MOST]
            self.registered += len(places)
            yield whole.take(_at(places)), places

    def names_in_use(self, block: ParameterBlock, rows: pa.RecordBatch, places: Places, in_use: Mask) -> None:
        """Note which of the rows from `good_rows` make no query because their name is in use."""
        names = dict(zip(places.tolist(), rows.column(NAMES), strict=True)) if in_use.any() else {}
        self.registered -= int(in_use.sum())
        count = len(block.numbers)
        self._note(block, [_spread(places[in_use], count, lambda row: f"the name {names[row]} is in use")])

    def faults(self) -> tuple[str, ...]:
        """Return the first faults over all rows, in the order of their places."""
        faults = sorted(self._faults, key=lambda fault: (fault.file, fault.line))[:_MOST_SHOWN]
        return tuple(fault.text() for fault in faults)

    def _names_of(self, block: ParameterBlock) -> Array:
        if self._key is not None:
            return block.columns[self._key].cast(pa.string())
        stem = re.sub(r"\W", "_", Path(block.file).name.split(".")[0]) or self._prefix
        numbered: Array = pc.binary_join_element_wise(stem, pa.array(block.numbers).cast(pa.string()), "_")
        return numbered

    def _again(self, names: Array) -> Mask:
        """Return which names, (n,), have occurred before."""
        known, before = self._names, []
        listed: list[Any] = names.to_pylist()
        for name in listed:
            before.append(name in known)
            known.add(name)
        return np.array(before, np.bool_)

    def _note(self, block: ParameterBlock, checks: list[RowCheck]) -> Mask:
        """Note the rows of a block that fail a check, each with the first reason; return which these are."""
        bad = np.zeros(len(block.numbers), np.bool_)
        for check in checks:
            bad |= check.failing
        self.refused += int(bad.sum())
        shown = np.flatnonzero(bad)[: max(_MOST_SHOWN - len(self._faults), 0)]
        for row, line in zip(shown.tolist(), block.lines(shown) if len(shown) else (), strict=True):
            reason = next(check.reason(row) for check in checks if check.failing[row])
            self._faults.append(RowFault(block.file, line, reason))
        return bad


def _cast_checks(block: ParameterBlock) -> Iterator[RowCheck]:
    kinds = {
        pa.float64(): "number",
        pa.int64(): "whole number",
        pa.bool_(): "truth value",
        pa.string(): "text",
    }
    for name, bad in block.bad.items():
        word = kinds.get(block.columns[name].type, "time")
        yield RowCheck(bad, _cast_reason(block, name, word))


def _cast_reason(block: ParameterBlock, name: str, word: str) -> Callable[[int], str]:
    return lambda row: f"{name}: {block.shown(name, row)} is not a {word}"


def value_checks(template: QueryTemplate, columns: Mapping[str, Array]) -> Iterator[RowCheck]:
    """Yield the checks of the values of a template's parameters, given as columns (n,) by name."""
    holes = dict.fromkeys(hole for _, hole in template.holes if hole.constant is None)
    for hole in holes:
        values = columns[hole.column]
        yield RowCheck(_mask(values.is_null()), lambda _, name=hole.column: f"{name}: the value is missing")  # type: ignore[misc]
        check = _CHECKS.get(hole.content)
        if check is not None:
            failing, reason = check(hole, values)
            yield RowCheck(failing, lambda row, hole=hole, of=reason: f"{hole.column}: {of(row)}")  # type: ignore[misc]


def reach_beyond(
    template: QueryTemplate, rows: pa.RecordBatch, members: Mapping[Hole, frozenset[str]]
) -> Mask:
    """Return which valid rows have a region over the 180th meridian.

    Args:
        template: the template of the queries.
        rows: the rows.
        members: for each parameter that names a region of a set, those that reach over it.
    """
    beyond = np.zeros(rows.num_rows, np.bool_)
    for _, hole in template.holes:
        if hole.content == "longitude" and hole.constant is not None:
            beyond |= abs(hole.constant) > ANTIMERIDIAN
        elif hole.content == "longitude":
            beyond |= abs(_numbers(rows.column(hole.column))) > ANTIMERIDIAN
        elif hole.content == "member":
            names: Array = rows.column(hole.column).cast(pa.string())
            over = pa.array(sorted(members.get(hole, ())), pa.string())
            beyond |= _mask(pc.is_in(names, value_set=over))
    return beyond


def _name_checks(names: Array) -> Iterator[RowCheck]:
    missing = pc.or_kleene(names.is_null(), pc.equal(names, ""))
    yield RowCheck(_mask(missing), lambda row: "the name is missing")


def _finite(_: Hole, values: Array) -> RowCheck:
    numbers = _numbers(values)
    return RowCheck(~np.isfinite(numbers), lambda row: f"{numbers[row]:g} is not a finite number")


def _latitude(_: Hole, values: Array) -> RowCheck:
    numbers = _numbers(values)
    return RowCheck(~(abs(numbers) <= POLE), lambda row: f"a latitude of {numbers[row]:g} is beyond 90")


def _length(_: Hole, values: Array) -> RowCheck:
    numbers = _numbers(values)
    failing = ~((numbers > 0) & np.isfinite(numbers))
    return RowCheck(failing, lambda row: f"a length must be more than 0, and {numbers[row]:g} is not")


def _count(_: Hole, values: Array) -> RowCheck:
    return _within(values, 1, MOST_NEIGHBOURS)


def _int(_: Hole, values: Array) -> RowCheck:
    return _within(values, *WHOLE_RANGES["INT"])


def _within(values: Array, least: int, most: int) -> RowCheck:
    inside = pc.and_(pc.greater_equal(values, least), pc.less_equal(values, most))
    return RowCheck(~_mask(inside, True), lambda row: f"{values[row]} is not within {least} and {most}")


def _terms(_: Hole, values: Array) -> RowCheck:
    found = pc.match_substring_regex(values.cast(pa.string()), _TERM)
    return RowCheck(~_mask(found, True), lambda row: f"there is no word to look for in '{values[row]}'")


def _pattern(_: Hole, values: Array) -> RowCheck:
    lengths = pc.utf8_length(values.cast(pa.string()))
    reason = f"a pattern has at most {MOST_IN_PATTERN:,} characters"
    return RowCheck(~_mask(pc.less_equal(lengths, MOST_IN_PATTERN), True), lambda row: reason)


def _member(hole: Hole, values: Array) -> RowCheck:
    found = pc.is_in(values.cast(pa.string()), value_set=pa.array(hole.members, pa.string()))
    return RowCheck(~_mask(found), lambda row: f"there is no region '{values[row]}'")


_CHECKS: dict[str, Callable[[Hole, Array], RowCheck]] = {
    "number": _finite,
    "DOUBLE": _finite,
    "longitude": _finite,
    "latitude": _latitude,
    "length": _length,
    "count": _count,
    "INT": _int,
    "terms": _terms,
    "pattern": _pattern,
    "member": _member,
}


def _numbers(values: Array) -> NDArray[np.float64]:
    numbers: NDArray[np.float64] = pc.fill_null(values.cast(pa.float64()), 1.0).to_numpy()
    return numbers


def _at(places: Places) -> Any:
    """Return positions as an Arrow array."""
    return pa.array(places)


def _mask(values: Array, nothing: bool = False) -> Mask:
    return np.asarray(pc.fill_null(values, nothing).to_numpy(zero_copy_only=False), np.bool_)


def _spread(rows: Places, count: int, reason: Callable[[int], str]) -> RowCheck:
    """Return a check that some rows of a block, given by their places, fail."""
    failing = np.zeros(count, np.bool_)
    failing[rows] = True
    return RowCheck(failing, reason)
