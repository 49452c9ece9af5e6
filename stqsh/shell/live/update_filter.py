"""A filter on the updates that scroll by: a text, `+` or `-`, or both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.shell.writers.columns import SIGNS, group_updates, head_columns, occurring
from stqsh.shell.writers.text_columns import instant, rounded, texts, whole
from stqsh.storage.update_log.reader import REASONS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stqsh.client.results import Updates
    from stqsh.shell.writers.text_columns import Column


@dataclass(frozen=True, slots=True)
class UpdateFilter:
    """A filter on updates.

    Attributes:
        sign: +1 or -1 for one op, 0 for both.
        text: A text to find in any shown column, ignoring case.
        names: Whether the names of queries are shown, too.
    """

    sign: int = 0
    text: str = ""
    names: bool = False

    def __bool__(self) -> bool:
        return bool(self.sign or self.text)

    @property
    def words(self) -> str:
        """The filter as the user types it."""
        return " ".join(word for word in (SIGNS.get(self.sign, ""), self.text) if word)

    def of(self, updates: Updates) -> Updates:
        """Return the matching updates, in order."""
        if not self or not updates.table.num_rows:
            return updates
        return replace(updates, table=updates.table.filter(pa.array(self._fitting(updates))))

    def _fitting(self, updates: Updates) -> NDArray[np.bool_]:
        ops = updates.table.column("op").to_numpy()
        fits = np.ones(len(ops), np.bool_) if not self.sign else np.asarray(ops == self.sign)
        return fits & self._mentioned(updates) if self.text else fits

    def _mentioned(self, updates: Updates) -> NDArray[np.bool_]:
        """Return which rows contain the text in their key, time, reason, query's name, or a value."""
        found = mentions(head_columns(updates).key.values, self.text)
        found |= self._named(updates) | self._timed(updates)
        for group in group_updates(updates):
            for column in group.selected():
                found[group.places] |= mentions(column.values, self.text)
        return found

    def _named(self, updates: Updates) -> NDArray[np.bool_]:
        """Return which rows contain the text in the name of their query or in their reason."""
        text = self.text.lower()
        reasons = [code for code, name in enumerate(REASONS) if code and text in name]
        queries = [one.id for one in occurring(updates) if self.names and text in one.name.lower()]
        table = updates.table
        named = np.isin(table.column("query").to_numpy(), queries)
        return np.asarray(named | np.isin(table.column("why").to_numpy(), reasons))

    def _timed(self, updates: Updates) -> NDArray[np.bool_]:
        """Return which rows contain the text in the time of their step."""
        at_us = updates.table.column("at_us").to_numpy()
        text = self.text.upper()
        return np.isin(at_us, [at for at in np.unique(at_us).tolist() if text in (instant(at) or "")])


ALL = UpdateFilter()


def wanted(typed: str, *, names: bool = False) -> UpdateFilter:
    """Parse a typed filter: `+`, `-`, `taxi-042`, `- left`; an empty text is no filter."""
    sign, space, text = typed.strip().partition(" ")
    if sign in ("+", "-"):
        return UpdateFilter(1 if sign == "+" else -1, text.strip(), names)
    return UpdateFilter(0, sign + space + text, names) if sign else ALL


def mentions(column: Column, text: str) -> NDArray[np.bool_]:
    """Return which values of a column contain the text as displayed, ignoring case."""
    is_written = pa.types.is_timestamp(column.type) or pa.types.is_list(column.type)
    shown: Any = pa.array(texts(column), pa.string()) if is_written else rounded(column)
    if not pa.types.is_string(shown.type) and not pa.types.is_large_string(shown.type):
        shown = pc.cast(shown, pa.string())
    fits: Any = pc.fill_null(pc.match_substring(shown, text, ignore_case=True), False)
    found: NDArray[np.bool_] = whole(fits).to_numpy(zero_copy_only=False)
    return found
