"""Word lists: the events of a time slot whose texts contain each word (SSTD section 6.1).

SSTD keeps an inverted list for the objects of each partition. Here each time slot has word lists for the
columns that are searched. The places in a list are positions in the time slot's order, so a binary search
finds the events of consecutive cells that contain a word, and no text is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.contract.snapshot_selection import NOWHERE, PresentObjects, StoredRows
from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.core.kernels.jit import frozen
from stqsh.core.kernels.text.packed_lists import PackedLists, list_terms, unpack_list
from stqsh.core.kernels.text.term_sets import recode
from stqsh.core.snapshots.cache.questions import Phrase
from stqsh.core.snapshots.cache.time_slots import TimeSlot
from stqsh.core.texts.tokenizer import coded_terms, contains
from stqsh.spec.expression import ColumnExpr

Rows = tuple[int, int]

LISTING_COST = 3.0
"""The cost of listing an event's words, in events whose words are searched."""


@dataclass(frozen=True)
class SlotWords:
    """The words of one column of a time slot's events, by their hashes.

    Attributes:
        hashes: the hashes of the words, ascending, uint64 (words,).
        lists: the places of each word, in the time slot's order.
    """

    hashes: Array
    lists: PackedLists

    @staticmethod
    def of(texts: Any) -> SlotWords | None:
        """Return the words of texts in the time slot's order; None if two words have the same hash.

        NULL has no words.
        """
        texts = texts.dictionary_encode()
        coded, words = coded_terms(texts.dictionary)
        hashes = hash_keys(words)
        order = np.argsort(hashes, kind="stable")
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        hashes = hashes[order]
        if (hashes[1:] == hashes[:-1]).any():
            return None
        numbers = frozen(texts.indices.fill_null(-1).to_numpy())
        return SlotWords(hashes, list_terms(recode(coded, frozen(rank)), numbers, len(words)))

    def places_of(self, hashed: np.uint64) -> Array:
        """Return the places of the word with a hash, int32 (n,), ascending."""
        at = int(np.searchsorted(self.hashes, hashed))
        if at == len(self.hashes) or self.hashes[at] != hashed:
            return np.empty(0, np.int32)
        starts, data = self.lists
        return unpack_list(frozen(data[starts[at] : starts[at + 1]]))

    @property
    def nbytes(self) -> int:
        """The bytes of all lists."""
        return int(self.hashes.nbytes + self.lists.starts.nbytes + self.lists.data.nbytes)


@dataclass(frozen=True)
class WordUse:
    """Word lists that show which events of some time slots contain the words that a question searches for.

    Attributes:
        found: the places of each word, by time slot (its rows) and then by phrase.
        phrases: the phrases.
        share: the expected share of the events of these time slots that contain the words.
    """

    found: dict[Rows, list[list[Array]]]
    phrases: tuple[Phrase, ...]
    share: float

    def rows_of(self, slots: Sequence[TimeSlot], begin: Array, end: Array) -> Array:
        """Return the rows of the events in runs of cells that contain the words, int32 (n,).

        Args:
            slots: time slots that have lists.
            begin, end: the first cell of each run, and the cell after its last, int64 (runs,).
        """
        pieces = [np.empty(0, np.int32)]
        for slot in slots if len(begin) else []:
            first, last = slot.starts[begin], slot.starts[end]
            each = [
                self._having(phrase, [_within(places, first, last) for places in lists])
                for phrase, lists in zip(self.phrases, self.found[slot.rows], strict=True)
            ]
            pieces.append(slot.order[reduce(_both, each)])
        return np.concatenate(pieces)

    @staticmethod
    def _having(phrase: Phrase, lists: list[Array]) -> Array:
        if phrase.every:
            return reduce(_both, sorted(lists, key=len))
        return lists[0] if len(lists) == 1 else np.unique(np.concatenate(lists))


def _both(one: Array, other: Array) -> Array:
    """Return the intersection of two ascending arrays without repeats; faster if one is short."""
    short, long = (one, other) if len(one) <= len(other) else (other, one)
    if not len(short):
        return short
    at = np.minimum(np.searchsorted(long, short), len(long) - 1)
    common: Array = short[long[at] == short]
    return common


def _within(places: Array, first: Array, last: Array) -> Array:
    """Return the places in ranges from `first` to before `last`; the ranges are disjoint and ascending."""
    begin, end = np.searchsorted(places, first), np.searchsorted(places, last)
    lengths = end - begin
    if len(first) == 1:
        return places[begin[0] : end[0]]
    shift = np.repeat(begin - (np.cumsum(lengths) - lengths), lengths)
    return places[shift + np.arange(len(shift))]


def _places(
    phrase: Phrase, words: Sequence[SlotWords], slots: Sequence[TimeSlot], present: PresentObjects
) -> list[list[Array]]:
    """Return the places of each of a phrase's words in each of some time slots.

    Lists are found by hash. A list belongs to the word if one of its texts contains the word, because words
    with equal hashes are not listed in one time slot.
    """
    hashes = hash_keys(pa.array(phrase.words))
    found = [list(map(one.places_of, hashes)) for one in words]
    some = [(i, k) for i, lists in enumerate(found) for k, places in enumerate(lists) if len(places)]
    rows = np.array([slots[i].order[found[i][k][0]] for i, k in some], np.int32)
    texts = StoredRows(present, rows, NOWHERE).value(ColumnExpr(phrase.column))
    has_word = contains(texts, pa.array([phrase.words[k] for _, k in some], pa.string()), "all")
    for (i, k), is_it in zip(some, has_word.to_pylist(), strict=True):
        if not is_it:
            found[i][k] = found[i][k][:0]
    return found


def _expected(phrases: tuple[Phrase, ...], found: list[list[Array]]) -> int:
    """Return an upper bound of the events of a time slot with the words, from the words' places by phrase."""
    counts = zip(phrases, found, strict=True)
    return min((min if phrase.every else sum)(map(len, lists)) for phrase, lists in counts)


@dataclass
class ColumnLists:
    """The word lists of one column.

    Attributes:
        lists: the lists of time slots, by their rows.
        due: how many texts questions have searched, minus the cost of building lists, in such texts.
        hits: how many questions the lists have helped to answer.
        spared: how many texts were not searched because of the lists.
    """

    lists: dict[Rows, SlotWords] = field(default_factory=dict)
    due: float = 0.0
    hits: int = 0
    spared: int = 0

    @property
    def nbytes(self) -> int:
        """The bytes of all lists."""
        return sum(words.nbytes for words in self.lists.values())


@dataclass
class WordLists:
    """The word lists of a slot's events.

    Attributes:
        columns: the lists of each column whose words were searched.
        width: the bytes per event of the list built last.
    """

    columns: dict[str, ColumnLists] = field(default_factory=dict)
    width: float = 0.0

    def find(
        self, phrases: tuple[Phrase, ...], slots: Iterable[TimeSlot], present: PresentObjects
    ) -> WordUse | None:
        """Return the lists that replace the texts of some time slots; None if there are none."""
        asked = [self.columns.get(phrase.column, ColumnLists()).lists for phrase in phrases]
        listed = [slot for slot in slots if all(slot.rows in lists for lists in asked)] if asked else []
        if not listed:
            return None
        places = [
            _places(phrase, [lists[slot.rows] for slot in listed], listed, present)
            for phrase, lists in zip(phrases, asked, strict=True)
        ]
        found = {slot.rows: [each[i] for each in places] for i, slot in enumerate(listed)}
        events = sum(slot.end - slot.begin for slot in listed)
        return WordUse(
            found, phrases, min(1.0, sum(map(_expected, repeat(phrases), found.values())) / events)
        )

    def note_search(self, phrases: Iterable[Phrase], texts: int) -> None:
        """Record that a question searched texts for phrases."""
        for column in {phrase.column for phrase in phrases}:
            self.columns.setdefault(column, ColumnLists()).due += texts

    def note_use(self, phrases: Iterable[Phrase], texts: int) -> None:
        """Record that lists replaced texts in an answer."""
        for column in {phrase.column for phrase in phrases}:
            self.columns[column].hits += 1
            self.columns[column].spared += texts

    def forget(self, slots: Iterable[TimeSlot]) -> None:
        """Drop the lists of time slots that no longer exist."""
        for slot in slots:
            for column in self.columns.values():
                column.lists.pop(slot.rows, None)

    def empty(self) -> None:
        """Drop all lists, because events have been renumbered."""
        for column in self.columns.values():
            column.lists.clear()

    def build(self, slots: Sequence[TimeSlot], present: PresentObjects, room: float) -> None:
        """List the words of time slots within a number of bytes, latest time slots first.

        The lists cost no more than the searches of these texts so far.
        """
        for name, column in self.columns.items():
            for slot in reversed(slots):
                events = slot.end - slot.begin
                is_due = LISTING_COST * events <= column.due and slot.rows not in column.lists
                if is_due and self.width * events <= room - self.nbytes:
                    column.due -= LISTING_COST * events
                    made = SlotWords.of(StoredRows(present, slot.order, NOWHERE).coded(ColumnExpr(name)))
                    if made is not None:
                        column.lists[slot.rows] = made
                        self.width = made.nbytes / events

    def fit(self, budget: float) -> None:
        """Drop the lists of the oldest time slots until the rest fits a budget of bytes."""
        oldest_first = sorted((rows, name) for name, column in self.columns.items() for rows in column.lists)
        for rows, name in oldest_first:
            if self.nbytes <= budget:
                return
            del self.columns[name].lists[rows]

    @property
    def nbytes(self) -> int:
        """The bytes of all lists."""
        return sum(column.nbytes for column in self.columns.values())
