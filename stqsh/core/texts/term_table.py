"""The terms of a stream's texts on a slot: codes of terms for codes of texts, and how often terms come."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stqsh.core.kernels.jit import frozen
from stqsh.core.kernels.text.term_sets import CodedTexts, TermSpans, count_terms, packed, renamed
from stqsh.core.state.interner import Interner
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.string_dictionary import drop_unused, follows_codes, pool_of
from stqsh.core.texts.tokenizer import coded_terms

Array = npt.NDArray[Any]

_SPARE = 4096
"""Terms or codes without use that are not worth the work of dropping them."""

_MEMORY = 1 << 20
"""So many records are counted in full; then all counts are halved, so that what is usual now weighs more."""


class TermTable:
    """The vocabulary of a stream's texts, and the terms of each text that was asked for.

    Arrays beneath `s{stream}/terms`: words/… (an interner); begin, end int32, one element a text of the
    stream's pool (begin 0: not split yet), which lead to codes int32, ascending within a text; seen int64,
    in how many records each term came, and total int64 (1,), the number of those records.

    Terms are kept by text, not by record: equal texts are split once, expired records need no upkeep, and
    moving objects and events are alike. On reports to a city (100 characters, 19 terms, three of four texts
    distinct) this takes 84 bytes a text, half as much as the text itself; to split a text again when it
    expires, or for each new query, would cost ten times what its probe costs.
    """

    def __init__(self, state: SlotState, stream: int) -> None:
        self._state, self._stream, self._prefix = state, stream, f"s{stream}/terms"
        self.words = Interner(state, f"{self._prefix}/words")
        if f"{self._prefix}/begin" not in state:
            for name in ("begin", "end"):
                state.create(f"{self._prefix}/{name}", np.int32)
                follows_codes(state, stream, f"{self._prefix}/{name}")
            state.create(f"{self._prefix}/codes", np.int32, 1)[:] = -1
            state.create(f"{self._prefix}/seen", np.int64)
            state.create(f"{self._prefix}/total", np.int64, 1)

    def __len__(self) -> int:
        return len(self.words)

    def _array(self, name: str) -> Array:
        return self._state.array(f"{self._prefix}/{name}")

    @property
    def spans(self) -> TermSpans:
        """The terms of texts, by the texts' codes; after `learn`."""
        return TermSpans(self._array("begin"), self._array("end"), self._array("codes"))

    @property
    def seen(self) -> Array:
        """In how many records each term came. int64 (terms,)."""
        return self._state.resize(f"{self._prefix}/seen", len(self))

    @property
    def total(self) -> int:
        """How many records were counted."""
        return int(self._array("total")[0])

    def learn(self, texts: Array) -> None:
        """Split those texts that were not split yet; texts: codes of the stream's pool, -1 for NULL."""
        pool = pool_of(self._state, self._stream)
        begin, end = (self._state.resize(f"{self._prefix}/{name}", len(pool)) for name in ("begin", "end"))
        new = np.zeros(len(pool) + 1, np.bool_)
        new[texts] = True
        at = np.flatnonzero(new[:-1] & (begin == 0))
        if not len(at):
            return
        coded = self._coded(pool.take(at, pa.string()))
        before = len(self._array("codes"))
        self._state.append(f"{self._prefix}/codes", coded.codes)
        begin[at], end[at] = before + coded.start[:-1], before + coded.start[1:]

    def count(self, texts: Array) -> None:
        """Take records into the statistics; texts: their codes, known to `learn`, -1 for NULL."""
        seen, total = self.seen, self._array("total")
        count_terms(self.spans, frozen(texts), seen)
        total[0] += len(texts)
        if total[0] > _MEMORY:
            seen >>= 1
            total >>= 1

    def pack(self) -> None:
        """Close the gaps of texts that have left the pool."""
        self._state.replace(f"{self._prefix}/codes", packed(self.spans))

    def of(self, phrases: list[str]) -> CodedTexts:
        """The terms of phrases; new ones become part of the vocabulary."""
        return self._coded(pa.array(phrases, pa.string()))

    def _coded(self, texts: pa.Array[Any]) -> CodedTexts:
        coded, terms = coded_terms(texts)
        return renamed(coded, self.words.intern(terms))


def holds_terms(state: SlotState, name: str) -> None:
    """Note that an array of a stream, `s{id}/…`, consists of codes of its terms, -1 for none."""
    _note(state, "term_arrays", name)


def follows_terms(state: SlotState, name: str) -> None:
    """Note that an array of a stream, `s{id}/…`, has one element for each of its terms; it may be shorter."""
    _note(state, "by_term", name)


def _note(state: SlotState, list_: str, name: str) -> None:
    kept = [other for other in state.header.get(list_, []) if other in state and other != name]
    state.header[list_] = [*kept, name]


def tidy(state: SlotState, stream: int) -> None:
    """Drop the terms of texts that have left the pool, and terms that nothing names; after a `vacuum`.

    The vocabulary is let be until half of it has no use.
    """
    prefix = f"s{stream}/terms"
    if f"{prefix}/begin" not in state:
        return
    terms = TermTable(state, stream)
    begin, end, codes = terms.spans
    if len(codes) > 2 * int((end - begin).sum()) + _SPARE:
        terms.pack()
    names = {
        list_: [name for name in state.header[list_] if name.startswith(f"s{stream}/") and name in state]
        for list_ in ("term_arrays", "by_term")
        if list_ in state.header
    }
    coded = [f"{prefix}/codes", *names.get("term_arrays", [])]
    drop_unused(state, f"{prefix}/words", coded, [f"{prefix}/seen", *names.get("by_term", [])], _SPARE)
