"""What updates look like as columns of whole texts: shared by the formats that people read or paste."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import orjson

from stqsh.shell.writers.text_columns import (
    SIGNS,
    alike,
    integers,
    is_numeric,
    json_fragments,
    occurring,
    outputs,
    selected,
    steps_at,
    texts,
)
from stqsh.storage.update_log.reader import REASONS

if TYPE_CHECKING:
    from stqsh.client.results import Updates


@dataclass(frozen=True, slots=True)
class UpdateColumns:
    """Columns of text, each with its name and whether it holds numbers."""

    names: tuple[str, ...]
    columns: list[list[str]]
    numeric: list[bool]


HEAD = ("query", "step", "at", "op", "why", "key")


def head_columns(updates: Updates) -> list[list[str]]:
    """The columns of `HEAD` as texts."""
    table = updates.table
    named = {query.id: query.name for query in occurring(updates)}
    return [
        [named[number] for number in integers(table, "query")],
        texts(table.column("step")),
        steps_at(table),
        [SIGNS[op] for op in integers(table, "op")],
        [REASONS[code] if code else "" for code in integers(table, "why")],
        texts(table.column("key")),
    ]


def update_columns(updates: Updates, *, one_query: bool) -> UpdateColumns:
    """`HEAD` and the select list; of several queries `row`, which has the select list's values as JSON."""
    head, queries = head_columns(updates), occurring(updates)
    numeric = [False, True, False, False, False, is_numeric(updates.table.column("key"))]
    if one_query and len(queries) == 1:
        shown = selected(updates, queries[0])
        return UpdateColumns(
            (*HEAD, *outputs(queries[0])),
            [*head, *map(texts, shown)],
            [*numeric, *map(is_numeric, shown)],
        )
    return UpdateColumns((*HEAD, "row"), [*head, _as_json(updates)], [*numeric, False])


def cell(value: object) -> str:
    """A value of a SHOW as plain text."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def holds_numbers(values: Sequence[object]) -> bool:
    """Whether a column of a SHOW is to stand to the right: numbers, and perhaps nothing."""
    kinds = {type(value) for value in values if value is not None}
    return bool(values) and kinds <= {int, float}


def _as_json(updates: Updates) -> list[str]:
    """Each update's row as one JSON object."""
    ids = updates.table.column("query").to_numpy()
    made = [""] * len(ids)
    for group in alike(occurring(updates)):
        places = np.flatnonzero(np.isin(ids, [query.id for query in group]))
        own = replace(updates, table=updates.table.take(places))
        names = [orjson.dumps(name) for name in outputs(group[0])]
        columns = [json_fragments(column) for column in selected(own, group[0])]
        for place, values in zip(places.tolist(), zip(*columns, strict=True), strict=True):
            pairs = (name + b":" + value for name, value in zip(names, values, strict=True))
            made[place] = "{" + b",".join(pairs).decode() + "}"
    return made
