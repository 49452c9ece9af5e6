"""What an alert says of an update: its row in words, or its text with the row's values."""

from __future__ import annotations

import json
from typing import Any

from stqsh.client.results import Updates
from stqsh.shell.writers.columns import AnyColumn, head_columns, occurring, selected_columns
from stqsh.shell.writers.text_columns import NULL
from stqsh.sinks.alert_command import AlertFailedError
from stqsh.spec.aggregate import group_column
from stqsh.spec.expression import ColumnExpr
from stqsh.spec.message import message_parts


def row_in_words(update: Updates) -> str:
    """Return an update of one row in words: `near + 368: lon 116.4, status free`.

    The key comes first, and is not among the columns again; a group whose values are all among them has no
    need of it: `jams +: district north, cars 12`.
    """
    head, [query] = head_columns(update), occurring(update)
    op, why = _value(head.op), _value(head.why)
    columns = selected_columns(update, query)
    keys = _key_values(update)
    if (form := query.spec.aggregates) is not None:
        shown = [column.value for column in form.select]
        if all(group_column(number) in shown for number in range(len(form.groups))):
            keys = []
    else:
        key = ColumnExpr(update.stream.spec.key)
        listed = zip(columns, query.spec.select, strict=True)
        columns = [column for column, choice in listed if choice.value != key]
    said = ", ".join(f"{column.name} {_value(column)}" for column in columns)
    reason = f" ({why})" if op == "-" else ""
    beginning = " ".join(filter(None, (query.name, op, ", ".join(keys)))) + reason
    return f"{beginning}: {said}" if said else beginning


def filled(text: str, alert: str, update: Updates) -> str:
    """Return a text with the values of an update of one row.

    A text that begins as JSON does, with a brace or a bracket, gets them as JSON: a value between double
    quotes is escaped as such.

    Raises:
        AlertFailedError: the query has another select list than when the alert was made.
    """
    head, [query] = head_columns(update), occurring(update)
    known: dict[str, AnyColumn] = {column.name: column for column in head}
    known |= {column.name: column for column in selected_columns(update, query)}
    is_json = is_json_text(text)
    parts: list[str] = []
    for part in message_parts(text):
        if part.kind != "field":
            parts.append(part.text)
            continue
        if part.text in known:
            value = _value(known[part.text])
        elif part.text == "alert":
            value = alert
        elif part.text == "row":
            value = row_in_words(update)
        else:
            raise AlertFailedError(f"{query.name} has no column {part.text!r} for the text any more")
        parts.append(json.dumps(value, ensure_ascii=False)[1:-1] if is_json else value)
    return "".join(parts)


def is_json_text(text: str) -> bool:
    """Return whether a text is to become JSON: it begins with `{{` or `[`."""
    return text.lstrip().startswith(("{{", "["))


def _value(column: AnyColumn) -> str:
    """Return the only value of a column for people; `null` for a null."""
    [shown], [fragment] = column.readable(), column.json()
    return "null" if fragment == NULL else shown


def _key_values(update: Updates) -> list[str]:
    """Return the values of an update's key in words."""
    [text] = head_columns(update).key.json()
    key: Any = json.loads(text)
    values = key if isinstance(key, list) else [key]
    return [value if isinstance(value, str) else json.dumps(value) for value in values]
