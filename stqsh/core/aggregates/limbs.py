"""Sums as columns of limbs, `s{measure}.{place}`, so that tables with any ranges of places can be added."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.kernels.aggregates.exact_sums import (
    UNIT_PLACE,
    add_doubles,
    add_to_few,
    add_wholes,
    double_places,
    normalise,
    rounded,
    wholes,
)
from stqsh.core.kernels.jit import frozen

_FEW = 128
"""The most limbs for which terms are first added by exponent: such sums stay in the nearest cache."""

_BLOCK = 1 << 14
"""The number of rows whose limbs are gathered at a time, so that they stay in the processor's cache."""


def add_terms(
    name: str, column: pa.Array[Any], rows: Array, signs: Array | None, count: int
) -> dict[str, Array]:
    """Return the sums of terms as columns of limbs.

    Args:
        name: The name of the sum.
        column: The terms: numbers that are finite and not NULL, (n,).
        rows: The rows of the terms, int32 (n,).
        signs: The signs of the terms, int8 (n,); None if all are 1.
        count: The number of rows.
    """
    rows = frozen(rows)

    def given() -> Array:
        return frozen(np.ones(len(rows), np.int8) if signs is None else signs)

    if pa.types.is_integer(column.type):
        values: Any = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
        limbs, low = np.zeros((count, 2), np.int64), UNIT_PLACE
        add_wholes(frozen(values), rows, given(), limbs)
    else:
        doubles: Any = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        bits = frozen(doubles.view(np.int64))
        low, high = double_places(bits)
        limbs = np.zeros((count, max(high - low + 1, 0)), np.int64)
        if signs is None and 0 < limbs.size <= min(_FEW, len(bits)):
            add_to_few(bits, rows, low, limbs)
        else:
            add_doubles(bits, rows, given(), low, limbs)
    columns = np.ascontiguousarray(limbs.T)
    normalise(columns)
    return {f"{name}.{low + i}": column for i, column in enumerate(columns)}


def normalised(columns: dict[str, Array]) -> dict[str, Array]:
    """Return columns with each sum normalised and its places in order."""
    out = {name: column for name, column in columns.items() if "." not in name}
    for name in sorted({name.partition(".")[0] for name in columns if "." in name}):
        limbs, low = _limbs(columns, name)
        normalise(limbs)
        out |= {f"{name}.{low + i}": column for i, column in enumerate(limbs)}
    return out


def doubles_of(columns: dict[str, Array], name: str, rows: int) -> Array:
    """Return a sum rounded to doubles, float64 (rows,); infinite on overflow."""
    own, low = _places(columns, name, rows)
    doubles = np.empty(rows)
    for start in range(0, rows, _BLOCK):
        block = slice(start, min(start + _BLOCK, rows))
        doubles[block] = rounded(_side_by_side([column[block] for column in own], block.stop - start), low)
    return doubles


def wholes_of(columns: dict[str, Array], name: str, rows: int) -> tuple[Array, Array]:
    """Return a sum of whole numbers, int64 (rows,), and whether it fits, bool (rows,)."""
    needed = {f"{name}.{UNIT_PLACE + i}": np.zeros(rows, np.int64) for i in range(2)}
    limbs, low = _limbs(needed | columns, name)
    fits = np.ones(rows, np.bool_)
    normalise(limbs)
    return wholes(limbs, low, fits), fits


def _limbs(columns: dict[str, Array], name: str) -> tuple[Array, int]:
    """Return the limbs of a sum, int64 (places, rows), and the first place; missing places are 0."""
    own, low = _places(columns, name)
    return _side_by_side(own, len(own[0])), low


def _places(columns: dict[str, Array], name: str, rows: int = 0) -> tuple[list[Array], int]:
    """Return the columns of the places of a sum, and the first place."""
    own = {
        int(each.partition(".")[2]): column for each, column in columns.items() if each.startswith(f"{name}.")
    }
    low, high = min(own, default=UNIT_PLACE), max(own, default=UNIT_PLACE)
    missing = np.zeros(len(own[low]) if own else rows, np.int64)
    return [own.get(place, missing) for place in range(low, high + 1)], low


def _side_by_side(columns: list[Array], rows: int) -> Array:
    """Return columns as the rows of one array, int64 (columns, rows)."""
    return np.concatenate(columns).reshape(len(columns), rows)
