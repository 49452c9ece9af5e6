"""Upgrade queries that were stored before layout 16, when their parts were not yet separate.

Such a query had SYNC and WINDOW in its aggregates or in its LIMIT (`first`), and DWELL, `changes` and SINCE
NOW in its options. Versions before 0.2 also wrote the operands of AND and OR as further elements of an array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from stqsh.spec.query import MOST_MEMBERS, QuerySpec, SlotQuery, SnapshotSpec

_LOOKS = ("each_step", "sync_us", "window_us")
_PARTS: dict[str, tuple[str, ...]] = {
    "region": ("members", "region"),
    "condition": ("members", "condition"),
    "select": ("result", "select"),
    "aggregates": ("result", "aggregates"),
    "first": ("result",),
}
"""Where the parts of a query are now."""


def composed(old: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON object of an older query or snapshot as one with members, result and timing."""
    query = dict(old)
    options, first, groups = (query.pop(name, None) or {} for name in ("options", "first", "aggregates"))
    looks = {name: (first or groups).get(name) for name in _LOOKS}
    own = {name: query.pop(name, None) for name in ("window_us", "for_us", "order", "limit")}
    limit = first.get("limit", own["limit"])
    members = {name: query.pop(name, None) for name in ("region", "condition")}
    return query | {
        "members": _given(members | {name: options.get(name) for name in ("since_now", "min_accuracy")}),
        "result": _given(
            {
                "select": query.pop("select", None),
                "order": first.get("order", own["order"]),
                "limit": None if limit == MOST_MEMBERS else limit,
                "aggregates": {k: v for k, v in groups.items() if k not in (*_LOOKS, "over")} or None,
            }
        ),
        "timing": _given(
            looks
            | {"window_us": looks["window_us"] or own["window_us"], "for_us": own["for_us"]}
            | {name: options.get(name) for name in ("dwell_us", "changes")}
        ),
    }


def composed_path(path: Sequence[Any]) -> tuple[Any, ...]:
    """Return where a part of an older query is now, given its path."""
    return (*_PARTS.get(path[0], path[:1]), *path[1:])


def composed_items(items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the JSON of older commands or questions to slots, which logs of slots keep, as they are now."""
    return [
        {name: composed(part) if name in ("query", "before", "spec") else part for name, part in item.items()}
        for item in items
    ]


def upgraded(kind: str, text: str) -> str:
    """Return the JSON of a row of the log, or of a template, with its queries upgraded.

    The JSON stays as it is if it cannot be read: reading it then fails with the name of the row.

    Args:
        kind: The kind of the row, one of `UPGRADES`.
        text: Its JSON.
    """
    try:
        return msgspec.json.encode(UPGRADES[kind](msgspec.json.decode(text))).decode()
    except (msgspec.MsgspecError, KeyError, TypeError, AttributeError):
        return text


def _given(part: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if value is not None and value is not False}


def _struct(wanted: type[Any]) -> Callable[[Any], Any]:
    def upgraded(old: Any) -> Any:
        try:
            return msgspec.convert(composed(old), wanted)
        except msgspec.ValidationError:
            return msgspec.convert(composed(_with_operands(old)), wanted)

    return upgraded


def _with_operands(value: Any) -> Any:
    """Move the operands of AND and OR into a nested array."""
    if isinstance(value, dict):
        return {name: _with_operands(content) for name, content in value.items()}
    if not isinstance(value, list):
        return value
    content = [_with_operands(part) for part in value]
    return [content[0], content[1:]] if content[:1] in (["and"], ["or"]) else content


def _template(old: Any) -> Any:
    """Upgrade the JSON of a `QueryTemplate`, whose spec has holes."""
    holes = [[composed_path(path), hole] for path, hole in old["holes"]]
    return old | {"spec": composed(old["spec"]), "holes": holes}


def _block(old: Any) -> Any:
    return old | {"example": UPGRADES["register"](old["example"]), "template": _template(old["template"])}


def _altered(old: Any) -> Any:
    return old | {"query": UPGRADES["register"](old["query"]), "before": _struct(SlotQuery)(old["before"])}


UPGRADES: dict[str, Callable[[Any], Any]] = {
    "register": _struct(QuerySpec),
    "register_alike": _block,
    "alter_query": _altered,
    "ask": lambda old: old | {"spec": _struct(SnapshotSpec)(old["spec"])},
    "create_query_stream": lambda old: old | {"template": _template(old["template"])},
    "template": _template,
}
"""How the JSON of a row of the log with queries, or of a template, is upgraded, by the kind of the row."""
