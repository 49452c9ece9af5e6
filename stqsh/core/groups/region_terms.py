"""What records add to the totals of their groups at a refresh, in the order in which regions find them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.core.aggregates.keys import Groups, encode_keys
from stqsh.core.groups.region_values import ListedMeasure
from stqsh.core.kernels.aggregates.exact_sums import UNIT_PLACE, double_places
from stqsh.core.kernels.groups.region_tallies import (
    DOUBLE,
    GREATEST,
    TOGETHER,
    WHOLE,
    PlaceOrder,
    RecordTerms,
    put_in_order,
    spread_doubles,
)
from stqsh.core.kernels.jit import frozen

Array = npt.NDArray[Any]

_WORDS, _PLACES = 24, 4
"""A record has about this many words; a sum of doubles takes words if it has at most this many places."""


class RankedExtremes(NamedTuple):
    """The values of a MIN or MAX: the total with which of them it is, 1 more than its place, 0 for none."""

    measure: int
    column: int
    values: pa.BinaryArray


class GroupTerms(NamedTuple):
    """What records add to groups.

    Attributes:
        terms: What they add to totals.
        names: The names of the totals, empty for those that are always 0.
        same: The names of totals that are the number of records, as no argument is NULL.
        extremes: Those of them that are extremes.
        listed: The measures of which all values count.
        keys: The keys of the groups.
    """

    terms: RecordTerms
    names: list[str]
    same: list[str]
    extremes: list[RankedExtremes]
    listed: list[ListedMeasure]
    keys: pa.BinaryArray


class _Word(NamedTuple):
    """What records add to a total; or the bits of doubles, and the place of the first limb of their sum."""

    names: list[str]
    values: Array
    low: int = -1


class _Value(NamedTuple):
    """Values of records that are not among the words: what is wanted of them, and the names of its totals.

    `low` is the place of the first of these.
    """

    names: list[str]
    values: Array
    sort: int
    low: int = 0


class Summands:
    """Collects what records, by number, add to totals beside their own number."""

    def __init__(self) -> None:
        self._words, self._values = list[_Word](), list[_Value]()
        self._extremes = list[tuple[int, pa.BinaryArray]]()
        self._same = list[str]()

    def count(self, name: str, column: Any) -> None:
        """Add the number of the values of an argument."""
        if column.null_count:
            there = column.is_valid().to_numpy(zero_copy_only=False)
            self._words.append(_Word([name], there.astype(np.int64)))
        else:
            self._same.append(name)

    def sum(self, name: str, column: Any) -> None:
        """Add the sum of an argument."""
        if pa.types.is_integer(column.type):
            wholes: Any = column.cast(pa.int64()).fill_null(0)
            values, sort = wholes.to_numpy(zero_copy_only=False), WHOLE
            places = range(UNIT_PLACE, UNIT_PLACE + 2)
        else:
            doubles: Any = pc.cast(column, pa.float64()).fill_null(0.0)
            values, sort = doubles.to_numpy(zero_copy_only=False).view(np.int64), DOUBLE
            low, high = double_places(frozen(values))
            places = range(low, high + 1)
        names = [f"{name}.{place}" for place in places]
        used = sum(len(word.names) for word in self._words)
        if not names:
            return
        if len(names) > _PLACES or used + len(names) > _WORDS:
            self._values.append(_Value(names, values, sort, places.start))
        elif sort == DOUBLE:
            self._words.append(_Word(names, values, places.start))
        else:
            self._words += [_Word(names[:1], values & 0xFFFFFFFF), _Word(names[1:], values >> 32)]

    def extreme(self, measure: int, function: str, column: Any) -> None:
        """Add the greatest or the least value of an argument."""
        values, keys = _ranked(column, function)
        self._values.append(_Value([f"x{measure}"], values, GREATEST))
        self._extremes.append((measure, keys))

    @property
    def width(self) -> int:
        """The number of totals."""
        return len(self._names_of_words()) + sum(len(value.names) for value in self._values)

    def _names_of_words(self) -> list[str]:
        names = ["n", *(name for word in self._words for name in word.names)]
        return [*names, *[""] * (-(len(names) - 1) % TOGETHER)]

    def terms(self, groups: Groups, listed: list[ListedMeasure], order: PlaceOrder) -> GroupTerms:
        """Return all that records add, put in an order, with the groups and listed values."""
        names, count = self._names_of_words(), len(groups.ids)
        words = np.zeros((count, len(names)), np.int64)
        words[:, 0] = put_in_order(frozen(groups.ids), order)
        column = 1
        for word in self._words:
            ordered = put_in_order(frozen(word.values), order)
            if word.low < 0:
                words[:, column] = ordered
            else:
                spread_doubles(ordered, word.low, words, column)
            column += len(word.names)
        values, place_0 = np.empty((count, len(self._values)), np.int64), list[int]()
        for s, value in enumerate(self._values):
            values[:, s] = put_in_order(frozen(value.values), order)
            place_0.append(len(names) - value.low)
            names += value.names
        extremes = [RankedExtremes(j, names.index(f"x{j}"), keys) for j, keys in self._extremes]
        sorts = np.array([value.sort for value in self._values], np.int8)
        columns = np.array(place_0, np.int64)
        terms = RecordTerms(words, values, sorts, columns, len(groups.keys), len(names))
        return GroupTerms(terms, names, self._same, extremes, listed, groups.keys)


def _ranked(column: Any, function: str) -> tuple[Array, pa.BinaryArray]:
    """Return the place of each value from 1 on, the wanted extreme last, 0 for NULL; and the values' keys."""
    coded: Any = column.dictionary_encode()
    keys = encode_keys([coded.dictionary])
    rising = pc.sort_indices(keys).to_numpy()
    order = rising if function == "max" else rising[::-1]
    place = np.zeros(len(keys) + 1, np.int64)
    place[order] = np.arange(1, len(keys) + 1)
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return place[codes], keys.take(pa.array(order))
