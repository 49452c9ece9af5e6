"""The words that records must contain to be useful to slots: those that the slots' queries need.

In Tornado's textual summaries (section 3.1) a router has for each evaluator a set with one keyword of each of
its queries. An object with none of these keywords satisfies no query there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.core.kernels.jit import frozen
from stqsh.core.kernels.text.term_hashes import add_hashes
from stqsh.core.matching.keyword_queries import keyword_parts, text_column
from stqsh.core.texts.tokenizer import have_any_term, needed_words
from stqsh.routing.table import RoutingTable
from stqsh.routing.text_leaves import SoughtTerms
from stqsh.spec.command import RegisterCommand
from stqsh.spec.query import SlotQuery
from stqsh.spec.query_rows import QueryRows, filled
from stqsh.spec.stream import StreamSpec

Hashes: TypeAlias = "NDArray[np.uint64]"
NewQuery: TypeAlias = "RegisterCommand | QueryRows"

FOR_EVER = np.iinfo(np.int64).max
"""The last step of a query without FOR."""
_ROOM, _SPARSE = 1 << 10, 2
"""The minimum capacity of a set of terms, and its capacity as a multiple of its terms."""
_MARK = re.compile("\0([0-9]+)\0")


class NeededTerms(NamedTuple):
    """The terms that queries need, one row for each query and term: arrays (n,).

    Attributes:
        query: the query's id, int64.
        box: a box around its region, float64 (n, 4).
        until: the last step in which it is alive, int64.
        term: the hash of the term, uint64.
        is_open: whether records without any term may satisfy the query, which then has a single row.
    """

    query: NDArray[np.int64]
    box: NDArray[np.float64]
    until: NDArray[np.int64]
    term: Hashes
    is_open: NDArray[np.bool_]

    @staticmethod
    def of(
        queries: Sequence[NewQuery],
        boxes: NDArray[np.float64],
        until: NDArray[np.int64],
        stream: StreamSpec,
    ) -> NeededTerms:
        """Return the terms that some queries need.

        Args:
            queries: the queries, (n,) together.
            boxes: float64 (n, 4).
            until: int64 (n,).
            stream: their stream.
        """
        count, words = _words_of(queries, stream)
        rows = np.repeat(np.arange(len(count)), np.maximum(count, 1))
        is_open = (count == 0)[rows]
        term = np.zeros(len(rows), np.uint64)
        term[~is_open] = hash_keys(words)
        ids = np.concatenate([np.empty(0, np.int64), *map(ids_of, queries)])
        return NeededTerms(ids[rows], boxes[rows], until[rows], term, is_open)

    @property
    def sought(self) -> SoughtTerms:
        """The needs of each row, as if it were a separate query."""
        return SoughtTerms(np.cumsum(np.append(0, ~self.is_open)), self.term[~self.is_open])

    def those(self, rows: NDArray[np.bool_] | slice) -> NeededTerms:
        """Return some of the rows."""
        return NeededTerms._make(column[rows] for column in self)

    def and_more(self, more: NeededTerms) -> NeededTerms:
        """Return these rows and others."""
        return NeededTerms._make(map(np.concatenate, zip(self, more, strict=True)))


class TermSet:
    """A set of terms that grows.

    Attributes:
        table: their hashes, see `add_hashes`.
        count: their number.
    """

    def __init__(self) -> None:
        self.table, self.count = np.zeros(_ROOM, np.uint64), 0

    def add(self, hashes: Hashes) -> None:
        """Add terms by their hashes, uint64 (n,)."""
        most = _SPARSE * (self.count + len(hashes))
        if most > len(self.table):
            known = self.table[self.table != 0]
            self.table, self.count = np.zeros(1 << most.bit_length(), np.uint64), 0
            self.add(known)
        self.count += add_hashes(self.table, frozen(hashes))


class SlotTerms(NamedTuple):
    """The records that are useful to each slot; a single entry applies to all slots.

    Attributes:
        is_open: whether each slot needs all records.
        terms: the terms of which each slot needs records.
    """

    is_open: list[bool]
    terms: list[TermSet]

    @staticmethod
    def of_nothing(slots: int) -> SlotTerms:
        """Return the needs of slots without queries."""
        return SlotTerms([False] * slots, [TermSet() for _ in range(slots)])

    def add(self, new: NeededTerms, table: RoutingTable | None) -> None:
        """Add the needs of new queries to the slots that know these queries.

        Args:
            new: the queries.
            table: the routing of queries to slots; None if all slots know all queries and share one entry.
        """
        everyone = np.ones((len(new.query), 1), np.bool_)
        touched = everyone if table is None else table.slots_touching(new.box, new.sought)
        for slot, mine in enumerate(touched.T):
            self.is_open[slot] |= bool((mine & new.is_open).any())
            self.terms[slot].add(new.term[mine & ~new.is_open])

    def needs_all(self, slot: int) -> bool:
        """Return whether a slot may need any record."""
        return self.is_open[self._entry(slot)]

    def are_useful(self, slot: int, texts: pa.Array[Any]) -> NDArray[np.bool_]:
        """Return which records a slot may need by their texts, bool (n,), if it does not need all."""
        known = self.terms[self._entry(slot)]
        return have_any_term(texts, known.table) if known.count else np.zeros(len(texts), np.bool_)

    def _entry(self, slot: int) -> int:
        return slot if len(self.terms) > 1 else 0


def sought_terms(queries: Sequence[NewQuery], stream: StreamSpec) -> SoughtTerms:
    """Return for each of some queries the terms of which a record must have one to satisfy it."""
    count, words = _words_of(queries, stream)
    return SoughtTerms(np.cumsum(np.append(0, count)), hash_keys(words))


def sought_words(words: Sequence[str]) -> SoughtTerms:
    """Return the terms of one query from its words."""
    return SoughtTerms(np.array([0, len(words)]), hash_keys(pa.array(words, pa.string())))


def _words_of(queries: Sequence[NewQuery], stream: StreamSpec) -> tuple[NDArray[np.int64], pa.StringArray]:
    """Return the words that queries need, like `needed_words`; none if any record may satisfy a query."""
    column = text_column(stream)
    parts = keyword_parts([spec_of(one) for one in queries], column)
    phrases: list[Any] = [pa.array([], pa.string())]
    every = [np.empty(0, np.bool_)]
    for number, one in enumerate(queries):
        part = parts.get(number)
        phrases.append(_phrases(one, column, "" if part is None else part.phrase))
        every.append(np.full(len(phrases[-1]), part is not None and part.every))
    return needed_words(pa.concat_arrays(phrases), np.concatenate(every))


def _phrases(queries: NewQuery, column: str | None, shared: str) -> Any:
    """Return the phrase of each query, a string array (n,).

    Phrases that differ among queries of a template are located by marks inserted in their places.

    Args:
        queries: a query, or those of a template.
        column: the column that the queries search.
        shared: the phrase of the query, or of the template's pattern; "" if it needs no words.
    """
    if isinstance(queries, RegisterCommand):
        return pa.array([shared])
    pairs = zip(queries.paths, queries.values, strict=True)
    own = [(path, some.cast(pa.string())) for path, some in pairs if not pa.types.is_primitive(some.type)]
    pattern = msgspec.to_builtins(queries.pattern)
    if not own or not shared:
        return pa.repeat(shared, len(queries.ids))
    if b"\\u0000" in msgspec.json.encode(pattern):
        return pa.repeat("", len(queries.ids))  # could be mistaken for a mark
    marks = [f"\0{number}\0" for number in range(len(own))]
    marked = msgspec.convert(filled(pattern, [path for path, _ in own], marks), SlotQuery)
    pieces: list[Any] = _MARK.split(keyword_parts([marked], column)[0].phrase)
    pieces[1::2] = [own[int(number)][1] for number in pieces[1::2]]
    join: Any = pc.binary_join_element_wise
    return join(*pieces, " ") if len(pieces) > 1 else pa.repeat(shared, len(queries.ids))


def spec_of(queries: NewQuery) -> SlotQuery:
    """Return the spec of a query, or the pattern of those of a template."""
    return queries.query if isinstance(queries, RegisterCommand) else queries.pattern


def ids_of(queries: NewQuery) -> NDArray[Any]:
    """Return the ids of queries, int64 (n,)."""
    return np.array([queries.query.id]) if isinstance(queries, RegisterCommand) else queries.ids
