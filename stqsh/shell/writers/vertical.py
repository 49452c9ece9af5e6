r"""One value a line, for rows that are wider than the screen: `FORMAT vertical`, or `\G` for a `;`.

-- 1: + make_way ------
step  12
at    2008-02-02T15:00:12Z
key   taxi-042
speed 11.2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stqsh.shell.writers.text_columns import (
    alike,
    escaped,
    instant,
    occurring,
    outputs,
    rounded,
    selected,
    texts,
)
from stqsh.shell.writers.update_columns import cell, head_columns

if TYPE_CHECKING:
    from stqsh.client.results import Answer, Rows, SnapshotMark, Updates
    from stqsh.shell.writers.text_columns import Column
    from stqsh.shell.writers.writer import Target

_RULE = 40


class VerticalWriter:
    """A `Writer` of records, one value a line; records are counted for each answer."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._count = 0

    def updates(self, updates: Updates) -> None:
        """One record an update, in their order."""
        if not updates.table.num_rows:
            return
        ids = updates.table.column("query").to_numpy()
        records = [""] * len(ids)
        for group in alike(occurring(updates)):
            places = np.flatnonzero(np.isin(ids, [query.id for query in group]))
            own = replace(updates, table=updates.table.take(places))
            for place, record in zip(places.tolist(), self._own(own, places.tolist()), strict=True):
                records[place] = record
        self._count += len(records)
        self._draw("".join(records))

    def _own(self, updates: Updates, places: Sequence[int]) -> list[str]:
        """The records of updates of queries that select alike; `places` tell their numbers."""
        query = occurring(updates)[0]
        named, step, at, op, why, _ = head_columns(updates)
        values = [_values(column) for column in (updates.table.column("key"), *selected(updates, query))]
        names = ("step", "at", "key", *outputs(query))
        titles = [
            f"{place + self._count + 1}: {' '.join(filter(None, parts))}"
            for place, parts in zip(places, zip(op, named, why, strict=True), strict=True)
        ]
        return _records(titles, names, [step, at, *values])

    def mark(self, mark: SnapshotMark) -> None:
        """A line that says where the answer as it stands begins or ends."""
        at = instant(mark.at_us)
        if mark.edge == "begin":
            text = f"{mark.query.name}: the answer after step {mark.step}" + (f" ({at})" if at else "")
        else:
            text = "the changes since then"
        self._draw(f"-- {text}\n")

    def rows(self, statement: int, rows: Rows) -> None:
        """One record a row."""
        del statement
        columns = [[cell(row[place]) for row in rows.rows] for place in range(len(rows.columns))]
        titles = [str(number) for number in range(1, len(rows.rows) + 1)]
        self._draw("".join(_records(titles, rows.columns, columns)) + _total(len(rows.rows)))

    def answer(self, statement: int, answer: Answer) -> None:
        """One record a row, and below how many there are."""
        del statement
        table = answer.table
        columns = [_values(table.column(place)) for place in range(table.num_columns)]
        titles = [str(number) for number in range(1, table.num_rows + 1)]
        self._draw("".join(_records(titles, answer.names, columns)) + _total(table.num_rows))

    def script(self, text: str) -> None:
        """The script as it is."""
        self._draw(text.rstrip("\n") + "\n")

    def _draw(self, text: str) -> None:
        self._target.draw(text)


def _records(titles: Sequence[str], names: Sequence[str], columns: Sequence[Sequence[str]]) -> list[str]:
    """The text of each record: its title, then a line a value; further lines of a value are set in."""
    width = max(map(len, names), default=0) + 2
    padded = [name.ljust(width) for name in names]
    inner = "\n" + " " * width
    records = []
    for title, row in zip(titles, zip(*columns, strict=True), strict=True):
        lines = [f"-- {title} ".ljust(_RULE, "-")]
        lines += [
            (name + value.replace("\n", inner)).rstrip() for name, value in zip(padded, row, strict=True)
        ]
        records.append("\n".join(lines) + "\n")
    return records


def _values(column: Column) -> list[str]:
    """A column's values; those of several lines keep them."""
    return escaped(texts(rounded(column)), but="\n")


def _total(count: int) -> str:
    return f"({count} row{'' if count == 1 else 's'})\n"
