"""The terms of a stream's texts on a slot: the vocabulary, and the codes of each text's terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.kernels.text.term_sets import CodedTexts, TermSpans, add_terms, pack_terms, recode
from stqsh.core.state.interner import Interner
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.string_dictionary import pool_of, remove_unused
from stqsh.core.state.table import ArraySpec, StateTable
from stqsh.core.texts.term_frequencies import TermFrequencies
from stqsh.core.texts.tokenizer import coded_terms
from stqsh.core.texts.value_terms import RequiredValue, ValueColumn, constant_term

_SPARE = 4096
"""The most unused terms or codes that may exist before they are removed."""

_BITS = 63
"""The most columns whose values are terms."""


class EventTerms(NamedTuple):
    """The terms of records before and after events, as rows of the spans, int32 (n,) each; -1 for none."""

    spans: TermSpans
    old: Array
    new: Array


class TermTable(StateTable):
    """The vocabulary of a stream's texts, and the terms of each text that was needed.

    Arrays: words/… is an interner of terms. begin and end have one element per string of the stream: the
    range of its terms in codes, which ascend within a text; begin 0 means that the text is not split yet.
    tidied is the number of terms after the last `tidy`. See `TermFrequencies` for counts, counted and
    places/…. The header's entry "value_columns" lists the columns whose values are terms, too.

    Terms are stored by text, not by record, so equal texts are split once, and expired records need no
    upkeep. For reports to a city (100 characters, 19 terms, three of four texts distinct) this takes 84 bytes
    per text, half as much as the text itself. Splitting a text again when it expires, or for each new query,
    would cost ten times as much as its probe.
    """

    begin = ArraySpec(np.int32, derived_from="strings")
    end = ArraySpec(np.int32, derived_from="strings")
    codes = ArraySpec(np.int32, "terms", length=1)
    tidied = ArraySpec(np.int64, length=1)

    def __init__(self, state: SlotState, stream: int) -> None:
        new = not has_terms(state, stream)
        super().__init__(state, f"s{stream}/terms")
        self._stream, self.words = stream, Interner(state, f"{self.prefix}/words")
        self.frequencies = TermFrequencies(state, self.prefix, self.words)
        if new:
            self.codes[:] = -1

    def __len__(self) -> int:
        return len(self.words)

    @property
    def spans(self) -> TermSpans:
        """The terms of texts, by the texts' codes; valid after `learn`."""
        return TermSpans(self.begin, self.end, self.codes)

    @property
    def has_texts(self) -> bool:
        """Whether any text was split."""
        return len(self.codes) > 1

    @property
    def value_columns(self) -> list[ValueColumn]:
        """The columns whose values any query has asked for."""
        return [ValueColumn(*column) for column in self.state.entry("value_columns").get(self._values, ())]

    @property
    def _values(self) -> str:
        return f"{self.prefix}/values"

    def require(self, values: Sequence[RequiredValue]) -> tuple[Array, int]:
        """Return the terms of values that a query requires, int32 (n,), and the bits of their columns.

        Columns after the 63rd have no terms.
        """
        terms, bits = list[Array](), 0
        for column, value in values:
            known = self.value_columns
            if column not in known and len(known) < _BITS:
                self.state.entry("value_columns")[self._values] = [*map(list, known), list(column)]
                known.append(column)
            if column in known:
                terms.append(self.words.intern(constant_term(column, value)))
                bits |= 1 << known.index(column)
        return np.concatenate([np.empty(0, np.int32), *terms]), bits

    def learn(self, texts: Array) -> None:
        """Split texts that are not split yet; `texts` are codes of the stream's strings, -1 for NULL."""
        pool = pool_of(self.state, self._stream)
        self.resize(len(pool))
        if not (texts >= 0).any():
            return
        begin, end = self.begin, self.end
        new = np.zeros(len(pool) + 1, np.bool_)
        new[texts] = True
        at = np.flatnonzero(new[:-1] & (begin == 0))
        if not len(at):
            return
        coded = self._coded(pool.take(at, pa.string()))
        before = len(self.codes)
        self.grow(codes=coded.codes)
        begin[at], end[at] = before + coded.start[:-1], before + coded.start[1:]

    def pack(self) -> None:
        """Close the gaps of texts that are no longer in the dictionary."""
        self.store(codes=pack_terms(self.spans))

    def of(self, phrases: list[str]) -> CodedTexts:
        """Return the terms of phrases; add new terms to the vocabulary."""
        return self._coded(pa.array(phrases, pa.string()))

    def of_events(self, old: Array, new: Array, values: Array | None = None) -> EventTerms:
        """Return the terms of records before and after events.

        Args:
            old: The codes of the texts before the events, int32 (n,), -1 for NULL.
            new: The codes of the texts after the events, like `old`.
            values: The terms of values before and after the events, int32 (columns, 2 * n); -1 for none.
        """
        self.learn(old)
        self.learn(new)
        if values is None:
            return EventTerms(self.spans, old, new)
        count, rows = len(old), np.arange(2 * len(old), dtype=np.int32)
        spans = add_terms(self.spans, np.concatenate([old, new]), values)
        return EventTerms(spans, rows[:count], rows[count:])

    def _coded(self, texts: pa.Array[Any]) -> CodedTexts:
        coded, terms = coded_terms(texts)
        return recode(coded, self.words.intern(terms))


def has_terms(state: SlotState, stream: int) -> bool:
    """Return whether a stream has a vocabulary on this slot."""
    return f"s{stream}/terms/begin" in state


def tidy(state: SlotState, stream: int, *, now: bool = True) -> None:
    """Remove unused terms, and the terms of texts that left the dictionary; call this after `vacuum`.

    The vocabulary changes only once half of it is unused. Unless `now`, nothing happens before it is twice as
    large as after the last call.
    """
    if not has_terms(state, stream):
        return
    terms = TermTable(state, stream)
    if not now and len(terms) <= 2 * terms.tidied[0] + _SPARE:
        return
    begin, end, codes = terms.spans
    if len(codes) > 2 * int((end - begin).sum()) + _SPARE:
        terms.pack()
    remove_unused(state, "terms", stream, f"{terms.prefix}/words", _SPARE)
    terms.tidied[0] = len(terms)
