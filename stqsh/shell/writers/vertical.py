r"""One value per line, for rows wider than the screen: `FORMAT vertical`, or `\G` instead of `;`.

-- 1: + make_way ------
step  12
at    2008-02-02T15:00:12Z
key   taxi-042
speed 11.2
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from stqsh.shell.writers.aligned_text import row_count
from stqsh.shell.writers.columns import (
    UpdateGroup,
    answer_columns,
    head_columns,
    mark_text,
    render_in_order,
    row_columns,
)
from stqsh.shell.writers.text_columns import escaped

if TYPE_CHECKING:
    from stqsh.client.results import Answer, Rows, SnapshotMark, Updates
    from stqsh.shell.writers.writer import Target

_RULE = 40


class VerticalWriter:
    """Writes records, one value per line; records are numbered within each answer."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._count = 0

    def updates(self, updates: Updates) -> None:
        """Write a record for each update, in their order."""
        if updates.table.num_rows:
            self._target.draw("".join(render_in_order(updates, self._group_records)))
            self._count += updates.table.num_rows

    def mark(self, mark: SnapshotMark) -> None:
        """Write a line where the answer begins or ends."""
        self._target.draw(f"{mark_text(mark)}\n")

    def rows(self, statement: int, rows: Rows) -> None:
        """Write a record for each row, and their number."""
        del statement
        self._numbered(
            [(column.title, escaped(column.texts(), "\n")) for column in row_columns(rows)], len(rows.rows)
        )

    def answer(self, statement: int, answer: Answer) -> None:
        """Write a record for each row, and their number."""
        del statement
        columns = [(column.title, column.readable(keep="\n")) for column in answer_columns(answer)]
        self._numbered(columns, answer.table.num_rows)

    def script(self, text: str) -> None:
        """Write the script unchanged."""
        self._target.write_script(text)

    def _numbered(self, columns: Sequence[tuple[str, list[str]]], count: int) -> None:
        records = _records(map(str, range(1, count + 1)), columns)
        self._target.draw("".join(records) + f"({row_count(count)})\n")

    def _group_records(self, group: UpdateGroup) -> list[str]:
        """Return the records of updates, numbered by their positions."""
        head = head_columns(group.updates)
        parts = zip(head.op.texts(), head.query.readable(), head.why.texts(), strict=True)
        titles = (
            f"{place + self._count + 1}: {' '.join(filter(None, words))}"
            for place, words in zip(group.places.tolist(), parts, strict=True)
        )
        shown = [(column.title, column.readable(keep="\n")) for column in (head.key, *group.selected())]
        return _records(titles, [("step", head.step.texts()), ("at", head.at.texts()), *shown])


def _records(titles: Iterable[str], columns: Sequence[tuple[str, list[str]]]) -> list[str]:
    """Return records with a title and a line per value; further lines of a value are indented."""
    width = max((len(name) for name, _ in columns), default=0) + 2
    padded = [name.ljust(width) for name, _ in columns]
    inner = "\n" + " " * width
    records = []
    for title, row in zip(titles, zip(*(values for _, values in columns), strict=True), strict=True):
        lines = [f"-- {title} ".ljust(_RULE, "-")]
        lines += [
            (name + value.replace("\n", inner)).rstrip() for name, value in zip(padded, row, strict=True)
        ]
        records.append("\n".join(lines) + "\n")
    return records
