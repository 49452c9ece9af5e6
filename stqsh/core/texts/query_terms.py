"""What keyword queries ask for: a row a query, in the order of their ids."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stqsh.core.kernels.join.keyword_join import AskedTerms
from stqsh.core.kernels.text.term_sets import CodedTexts
from stqsh.core.state.slot_state import SlotState
from stqsh.core.texts.term_table import holds_terms

Array = npt.NDArray[Any]

_ASKED: dict[str, Any] = {
    "id": np.int64,  # ascending
    "every": np.bool_,
    "checked": np.bool_,
    "hung": np.int32,
    "position": np.int32,  # among the queries of the kind
}


class QueryTerms:
    """Terms of keyword queries.

    Arrays beneath `prefix`: `_ASKED`, and start, terms and box (flat) as in `keyword_join.AskedTerms`.
    """

    def __init__(self, state: SlotState, prefix: str) -> None:
        self._state, self._prefix = state, prefix
        if f"{prefix}/id" in state:
            return
        for name, dtype in {**_ASKED, "start": np.int32, "terms": np.int32, "box": np.float64}.items():
            state.create(f"{prefix}/{name}", dtype)
        state.resize(f"{prefix}/start", 1)
        for name in ("terms", "hung"):
            holds_terms(state, f"{prefix}/{name}")

    def __len__(self) -> int:
        return len(self.ids)

    def _array(self, name: str) -> Array:
        return self._state.array(f"{self._prefix}/{name}")

    @property
    def ids(self) -> Array:
        """The queries, ascending. int64 (n,)."""
        return self._array("id")

    @property
    def positions(self) -> Array:
        """Where these queries are among those of the kind. int32 (n,)."""
        return self._array("position")

    @property
    def rows(self) -> AskedTerms:
        """What each asks for."""
        start, terms, every, box, checked, hung = (
            self._array(name) for name in ("start", "terms", "every", "box", "checked", "hung")
        )
        return AskedTerms(start, terms, every, box.reshape(-1, 4), checked, hung)

    def put(self, ids: Array, coded: CodedTexts, every: npt.ArrayLike) -> None:
        """Take in new queries, whose ids are beyond all others; each has its terms and hangs nowhere yet."""
        state, prefix, known = self._state, self._prefix, len(self._array("terms"))
        state.append(f"{prefix}/start", coded.start[1:] + known)
        state.append(f"{prefix}/terms", coded.codes)
        for name, values in (("id", ids), ("every", every), ("box", np.full(4 * len(ids), np.nan))):
            state.append(f"{prefix}/{name}", values)
        for name in ("checked", "hung", "position"):
            state.resize(f"{prefix}/{name}", len(self))
        self._array("hung")[-len(ids) :] = -1

    def keep(self, there: Array) -> None:
        """Forget the rows that are not there any more. there: bool (n,)."""
        if there.all():
            return
        state, prefix, counts = self._state, self._prefix, np.diff(self._array("start"))
        state.replace(f"{prefix}/terms", self._array("terms")[np.repeat(there, counts)])
        state.replace(f"{prefix}/start", offsets(counts[there]))
        state.replace(f"{prefix}/box", self._array("box")[np.repeat(there, 4)])
        for name in _ASKED:
            state.replace(f"{prefix}/{name}", self._array(name)[there])

    def chosen(self, ids: Array) -> tuple[CodedTexts, Array]:
        """The terms of some queries, and whether each wants them all. ids: ascending, all kept here."""
        rows, asked = np.searchsorted(self.ids, ids), self.rows
        chosen, counts = np.zeros(len(self), np.bool_), np.diff(asked.start)
        chosen[rows] = True
        codes = asked.terms[np.repeat(chosen, counts)]
        return CodedTexts(offsets(counts[rows]), codes), asked.every[rows]


def offsets(counts: Array) -> Array:
    """Where stretches of these lengths begin, and where the last one ends. int32 (n + 1,)."""
    return np.append(0, np.cumsum(counts)).astype(np.int32)
