"""The column model of all output formats: named columns of updates, snapshots and SHOW.

A column has a name and a type, and renders itself as plain text, as text for people, or as JSON. Writers
only arrange columns. `OutputColumn` has Arrow values; `CellColumn` has the Python values of a SHOW.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from stqsh.client.python.tables import cell_array
from stqsh.client.read.group_keys import group_types, group_values, is_group_key
from stqsh.client.read.projection import project
from stqsh.client.read.selected_values import lengths_in
from stqsh.control_characters import escape_controls
from stqsh.shell.writers import text_columns
from stqsh.shell.writers.text_columns import UTC, Column, dumps, instant
from stqsh.storage.update_log.reader import REASONS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stqsh.client.results import Answer, Rows, SnapshotMark, Updates
    from stqsh.spec.query import SelectColumn
    from stqsh.storage.rows import QueryRow

T = TypeVar("T")
SIGNS = {1: "+", -1: "-"}


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of Arrow values; `in_metres` marks lengths in metres."""

    name: str
    values: Column
    in_metres: bool = False

    @property
    def title(self) -> str:
        """The name for people, with control characters escaped."""
        return escape_controls(self.name, keep="")

    @property
    def is_numeric(self) -> bool:
        """Whether the column holds numbers."""
        return text_columns.is_numeric(self.values)

    def texts(self) -> list[str]:
        """Return each value as plain text; nulls are empty."""
        return text_columns.texts(self.values)

    def empty_texts(self) -> list[bool]:
        """Return which values are texts without characters, which are no nulls."""
        return text_columns.empty_texts(self.values)

    def readable(self, keep: str = "") -> list[str]:
        """Return each value for people: rounded, with control characters other than `keep` escaped."""
        if self.in_metres:
            return text_columns.metres(self.values)
        return text_columns.escaped(text_columns.texts(text_columns.rounded(self.values)), keep)

    def json(self) -> list[bytes]:
        """Return each value as a JSON text."""
        return text_columns.json_fragments(self.values)


@dataclass(frozen=True, slots=True)
class ListColumn(OutputColumn):
    """A column of texts that already are JSON lists: the keys of groups."""

    def json(self) -> list[bytes]:
        """Return each value as a JSON text."""
        return [text.encode() for text in text_columns.texts(self.values)]


@dataclass(frozen=True, slots=True)
class CellColumn:
    """A column of Python values: str, int, float, bool or None, possibly mixed."""

    name: str
    values: Sequence[Any]

    @property
    def title(self) -> str:
        """The name for people, with control characters escaped."""
        return escape_controls(self.name, keep="")

    @property
    def is_numeric(self) -> bool:
        """Whether the column holds numbers and nulls only."""
        return bool(self.values) and self._kinds <= {int, float}

    def texts(self) -> list[str]:
        """Return each value as plain text; None is empty."""
        return [str(one).lower() if isinstance(one, bool) else _text(one) for one in self.values]

    def empty_texts(self) -> list[bool]:
        """Return which values are texts without characters, which are no nulls."""
        return [value == "" for value in self.values]

    def readable(self) -> list[str]:
        """Return each value for people: `yes` and `no`, six digits, control characters escaped."""
        return list(map(_readable, self.values))

    def json(self) -> list[bytes]:
        """Return each value as a JSON text."""
        return text_columns.value_fragments(self.values)

    def arrow(self) -> pa.Array[Any]:
        """Return the values as an Arrow array, as text if their types differ."""
        return cell_array(self.values)

    @property
    def _kinds(self) -> set[type]:
        return {type(value) for value in self.values if value is not None}


AnyColumn: TypeAlias = OutputColumn | CellColumn


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _readable(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else text_columns.escaped([_text(value)], keep="\n")[0]


class UpdateHead(NamedTuple):
    """The columns of every update."""

    query: OutputColumn
    step: OutputColumn
    at: OutputColumn
    op: OutputColumn
    why: OutputColumn
    key: OutputColumn


class UpdateGroup(NamedTuple):
    """Updates of queries with the same select list; `places` are their positions, int64 (n,)."""

    places: NDArray[np.int64]
    updates: Updates
    query: QueryRow

    def selected(self) -> list[OutputColumn]:
        """Return the columns of the select list."""
        return selected_columns(self.updates, self.query)


def head_columns(updates: Updates) -> UpdateHead:
    """Return the head of updates; repeated texts are dictionary-encoded."""
    table, queries = updates.table, occurring(updates)
    ids = np.array([query.id for query in queries], np.int64)
    at: Any = table.column("at_us").cast(UTC)
    names: list[str | None] = [query.name for query in queries]
    return UpdateHead(
        OutputColumn("query", _coded(np.searchsorted(ids, _numbers(table, "query")), names)),
        OutputColumn("step", table.column("step")),
        OutputColumn("at", at),
        OutputColumn("op", _coded(_numbers(table, "op") > 0, ["-", "+"])),
        OutputColumn("why", _coded(_numbers(table, "why"), [None, *REASONS[1:]])),
        _group_keys(updates)
        if is_group_key(table.column("key"))
        else OutputColumn("key", table.column("key")),
    )


def _group_keys(updates: Updates) -> ListColumn:
    """Return the keys of aggregates: the values of GROUP BY, as JSON lists."""
    ids, keys = _numbers(updates.table, "query"), text_columns.whole(updates.table.column("key"))
    alike: dict[tuple[str, ...], list[int]] = {}
    for query in occurring(updates):
        alike.setdefault(group_types(query), []).append(query.id)
    texts: Any = np.full(len(ids), "[]", dtype=object)
    for types, queries in alike.items():
        mine: Any = np.flatnonzero(np.isin(ids, queries))
        coded: Any = keys.take(mine).dictionary_encode()
        columns = [text_columns.json_fragments(one) for one in group_values(coded.dictionary, types)]
        lists = [f"[{b','.join(row).decode()}]" for row in zip(*columns, strict=True)]
        if lists:
            texts[mine] = np.array(lists, dtype=object)[coded.indices.to_numpy()]
    return ListColumn("key", pa.array(texts, pa.string()))


def selected_columns(updates: Updates, query: QueryRow) -> list[OutputColumn]:
    """Return the select list of a query, for all rows of the updates."""
    in_metres = lengths_in(query.spec, planar=updates.stream.spec.planar)
    found = enumerate(zip(selected_names(query), project(updates, query.spec.result.select), strict=True))
    return [OutputColumn(name, values, place in in_metres) for place, (name, values) in found]


def selected_names(query: QueryRow) -> tuple[str, ...]:
    """Return the names in a query's select list."""
    return tuple(column.name for column in query.spec.result.select)


def answer_columns(answer: Answer) -> list[OutputColumn]:
    """Return the columns of a snapshot; two may have the same name."""
    found = enumerate(zip(answer.names, answer.table.itercolumns(), strict=True))
    return [OutputColumn(name, values, place in answer.in_metres) for place, (name, values) in found]


def row_columns(rows: Rows) -> list[CellColumn]:
    """Return the columns of a SHOW or DESCRIBE."""
    return [CellColumn(name, [row[place] for row in rows.rows]) for place, name in enumerate(rows.columns)]


def occurring(updates: Updates) -> list[QueryRow]:
    """Return the queries with rows among these updates, by id."""
    ids = np.unique(_numbers(updates.table, "query")).tolist()
    return [updates.queries[number] for number in ids]


def only_query(updates: Updates, *, one_query: bool) -> QueryRow | None:
    """Return the query whose select list becomes columns; None if several queries share the output."""
    queries = occurring(updates)
    return queries[0] if one_query and len(queries) == 1 else None


def group_updates(updates: Updates) -> list[UpdateGroup]:
    """Group updates by the select lists of their queries."""
    queries: dict[tuple[SelectColumn, ...], list[QueryRow]] = {}
    for query in occurring(updates):
        queries.setdefault(query.spec.result.select, []).append(query)
    if len(queries) == 1:
        [[query, *_]] = queries.values()
        return [UpdateGroup(np.arange(updates.table.num_rows), updates, query)]
    ids, groups = _numbers(updates.table, "query"), []
    for alike in queries.values():
        places = np.flatnonzero(np.isin(ids, [query.id for query in alike]))
        groups.append(UpdateGroup(places, replace(updates, table=updates.table.take(places)), alike[0]))
    return groups


def render_in_order(updates: Updates, render: Callable[[UpdateGroup], Sequence[T]]) -> list[T]:
    """Render each group of updates to one value per update; return the values in the updates' order."""
    groups = group_updates(updates)
    if len(groups) == 1:
        return list(render(groups[0]))
    rendered: Any = np.empty(updates.table.num_rows, dtype=object)
    for group in groups:
        rendered[group.places] = render(group)
    values: list[T] = rendered.tolist()
    return values


def json_template(columns: Sequence[AnyColumn]) -> bytes:
    """Return a template (`%`) of a JSON object, to be filled with the JSON text of each column's value."""
    return b"{%b}" % b",".join(dumps(one.name).replace(b"%", b"%%") + b":%b" for one in columns)


def json_objects(columns: Sequence[AnyColumn], template: bytes) -> list[bytes]:
    """Fill a template with the JSON texts of columns, row by row."""
    return list(map(template.__mod__, zip(*(column.json() for column in columns), strict=True)))


def json_rows(updates: Updates) -> list[str]:
    """Return the select list of each update as one JSON object."""

    def render(group: UpdateGroup) -> list[bytes]:
        columns = group.selected()
        return json_objects(columns, json_template(columns))

    return [row.decode() for row in render_in_order(updates, render)]


def mark_text(mark: SnapshotMark) -> str:
    """Return the line at the beginning or end of a TAIL's initial answer."""
    if mark.edge == "end":
        return "-- the changes since then"
    at = instant(mark.at_us)
    return f"-- {escape_controls(mark.query.name)}: the answer after step {mark.step}" + (
        f" ({at})" if at else ""
    )


def _numbers(table: pa.Table, name: str) -> NDArray[Any]:
    numbers: NDArray[Any] = table.column(name).to_numpy()
    return numbers


def _coded(codes: NDArray[Any], names: list[str | None]) -> pa.Array[Any]:
    indices: Any = codes.astype(np.int32)
    return pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.string()))
