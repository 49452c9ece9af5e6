"""Contributions of records to the totals of groups at a refresh, in the order in which regions read them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.arrays import Array
from stqsh.core.aggregates.keys import Groups, encode_keys
from stqsh.core.groups.region_values import ListedMeasure
from stqsh.core.kernels.aggregates.exact_sums import UNIT_PLACE, double_places
from stqsh.core.kernels.groups.packed_words import (
    WORD_BITS,
    WordFields,
    double_bits,
    pack_digits,
)
from stqsh.core.kernels.groups.region_members import (
    PlaceOrder,
    first_words,
    put_in_order,
)
from stqsh.core.kernels.groups.region_tallies import (
    DOUBLE,
    GREATEST,
    TOGETHER,
    WHOLE,
    RecordTerms,
)
from stqsh.core.kernels.jit import frozen

_LIMB, _UNITS = 32, 32 * UNIT_PLACE
"""The bits of a limb of a sum, and the bit that counts units."""

_WORDS, _WIDEST = 24, 128
"""The approximate number of totals in words, and the most bits that the values of a sum in words span."""

_NOTHING = np.empty(0, np.int64)


class RankedExtremes(NamedTuple):
    """The values of a MIN or MAX measure, and the total that selects one: its place plus 1, 0 for none."""

    measure: int
    column: int
    values: pa.BinaryArray


class GroupTerms(NamedTuple):
    """The contributions of records to groups.

    Attributes:
        terms: The contributions to totals.
        names: The names of the totals.
        same: The names of totals that equal the number of records, because no argument is NULL.
        extremes: The totals that are extremes.
        listed: The measures that need all values.
        keys: The keys of the groups.
    """

    terms: RecordTerms
    names: list[str]
    same: list[str]
    extremes: list[RankedExtremes]
    listed: list[ListedMeasure]
    keys: pa.BinaryArray


class _Word(NamedTuple):
    """The contributions of records to a total, or to a sum, as whole numbers or the bits of doubles.

    Attributes:
        name: The name of the total, or of the sum.
        values: int64 (n,).
        low, high: The range of bits of a sum's values: the lowest bit, and one above the highest.
        is_sum: Whether it is a sum.
        is_double: Whether the values are doubles.
    """

    name: str
    values: Array
    low: int = 0
    high: int = 1
    is_sum: bool = False
    is_double: bool = False


class _Value(NamedTuple):
    """Values of records that are not packed into words: how to aggregate them, and the names of the totals.

    `low` is the place of the first total.
    """

    names: list[str]
    values: Array
    sort: int
    low: int = 0


class Summands:
    """Collects the contributions of records to totals, except the number of records."""

    def __init__(self) -> None:
        self._words, self._values = list[_Word](), list[_Value]()
        self._extremes = list[tuple[int, pa.BinaryArray]]()
        self._same = list[str]()

    def count(self, name: str, column: Any) -> None:
        """Count the values of an argument that are not NULL."""
        if column.null_count:
            there = column.is_valid().to_numpy(zero_copy_only=False)
            self._words.append(_Word(name, there.astype(np.int64)))
        else:
            self._same.append(name)

    def sum(self, name: str, column: Any) -> None:
        """Sum an argument."""
        if pa.types.is_integer(column.type):
            wholes: Any = _without_nulls(column.cast(pa.int64()), 0)
            values = wholes.to_numpy(zero_copy_only=False)
            widest = max(int(values.max(initial=0)), -int(values.min(initial=0)))
            self._add_sum(_Word(name, values, _UNITS, _UNITS + widest.bit_length(), is_sum=True))
        else:
            doubles: Any = _without_nulls(column.cast(pa.float64()), 0.0)
            values = doubles.to_numpy(zero_copy_only=False).view(np.int64)
            self._add_sum(_Word(name, values, *double_bits(frozen(values)), is_sum=True, is_double=True))

    def _add_sum(self, word: _Word) -> None:
        """Add a sum to the words, or to the values if it spans too many bits or there are too many words."""
        if word.low >= word.high:
            return
        if word.high - word.low <= _WIDEST and len(self._words) < _WORDS:
            self._words.append(word)
            return
        low, high = UNIT_PLACE, UNIT_PLACE + 1
        if word.is_double:
            low, high = double_places(frozen(word.values))
        names = [f"{word.name}.{place}" for place in range(low, high + 1)]
        self._values.append(_Value(names, word.values, DOUBLE if word.is_double else WHOLE, low))

    def extreme(self, measure: int, function: str, column: Any) -> None:
        """Find the greatest or least value of an argument."""
        values, keys = _ranked(column, function)
        self._values.append(_Value([f"x{measure}"], values, GREATEST))
        self._extremes.append((measure, keys))

    @property
    def width(self) -> int:
        """The approximate number of totals."""
        limbs = sum((word.high - word.low) // _LIMB + 4 if word.is_sum else 1 for word in self._words)
        return 1 + limbs + sum(len(value.names) for value in self._values)

    def terms(self, groups: Groups, listed: list[ListedMeasure], order: PlaceOrder, most: int) -> GroupTerms:
        """Return all contributions, put in an order, with the groups and listed values.

        `most` is an upper bound of the number of members of a region.
        """
        layout, count = _Layout(most), len(groups.ids)
        layout.add(_Word("n", _NOTHING))
        parts = [layout.add(word) for word in self._words]
        names, fields = layout.names, layout.fields()
        words = first_words(frozen(groups.ids), order, 1 + layout.words + layout.words % TOGETHER)
        for word, part in zip(self._words, parts, strict=True):
            own = WordFields(*(column[part] for column in fields))
            pack_digits(frozen(word.values), order, word.is_double, word.low, own, words)
        packed = len(names)
        values, place_0 = np.empty((count, len(self._values)), np.int64), list[int]()
        for s, value in enumerate(self._values):
            values[:, s] = put_in_order(frozen(value.values), order)
            place_0.append(words.shape[1] - 1 + len(names) - packed - value.low)
            names += value.names
        extremes = [RankedExtremes(j, names.index(f"x{j}"), keys) for j, keys in self._extremes]
        sorts = np.array([value.sort for value in self._values], np.int8)
        columns = np.array(place_0, np.int64)
        terms = RecordTerms(words, fields, values, sorts, columns, len(groups.keys), packed, len(names))
        return GroupTerms(terms, names, self._same, extremes, listed, groups.keys)


class _Layout:
    """Packs contributions of records into words of 64 bits, so that one addition adds several totals.

    Invariant: each field has enough spare bits for the sum over `most` members, so that no field overflows
    into the next.

    Attributes:
        names: The names of the totals.
        words: The number of words.
    """

    def __init__(self, most: int) -> None:
        self._more = most.bit_length()  # the bits by which a sum may be wider than its terms
        self.names, self.words = list[str](), 0
        self._used = list[int]()
        self._rows = list[tuple[int, ...]]()

    def add(self, word: _Word) -> slice:
        """Reserve fields for a total, or for the digits of a sum; return the slice of these fields.

        A wide sum is split into digits of at most `every` bits. Each digit, with spare bits and a sign, is
        put into the first word that has room.
        """
        begin, column, every = len(self._rows), len(self.names), WORD_BITS - 1 - self._more
        bits, position, limbs, room = word.high - word.low, word.low % _LIMB, 0, 0
        digits = [min(every, bits - done) for done in range(0, bits, every)]
        if word.is_sum:
            limbs = -(-(position + bits + self._more + 1) // _LIMB)
            room = max(limbs, (position + every * (len(digits) - 1)) // _LIMB + 3)
            self.names += [f"{word.name}.{word.low // _LIMB + i}" for i in range(room)]
        else:
            self.names.append(word.name)
        for number, digit in enumerate(digits):
            size = digit + self._more + 1
            at = next((i for i, used in enumerate(self._used) if used + size <= WORD_BITS), len(self._used))
            if at == len(self._used):
                self._used.append(0)
            self._rows.append((at + 1, self._used[at], size, column, limbs, room, position + number * every))
            self._used[at] += size
        self.words = len(self._used)
        return slice(begin, len(self._rows))

    def fields(self) -> WordFields:
        """Return all fields."""
        return WordFields(*(np.array(column, np.int64) for column in zip(*self._rows, strict=True)))


def _without_nulls(column: Any, value: float) -> Any:
    """Replace NULL by a value; a column without NULL is not copied."""
    return column.fill_null(value) if column.null_count else column


def _ranked(column: Any, function: str) -> tuple[Array, pa.BinaryArray]:
    """Rank values from 1 on, the wanted extreme last, 0 for NULL; return the ranks and the sorted keys."""
    coded: Any = column.dictionary_encode()
    keys = encode_keys([coded.dictionary])
    rising = pc.sort_indices(keys).to_numpy()
    order = rising if function == "max" else rising[::-1]
    place = np.zeros(len(keys) + 1, np.int64)
    place[order] = np.arange(1, len(keys) + 1)
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return place[codes], keys.take(pa.array(order))
