"""Binding a text in one call, for the tests of the binder."""

from __future__ import annotations

from typing import Any

from support.typed import plain

from stqsh.lang.binder.bind import Bound, Catalogue, bind
from stqsh.lang.syntax.parse import parse


def bound(text: str, catalogue: Catalogue, **options: Any) -> Bound:
    """What the one statement of a text binds to, that of a query as JSON has it, with its parts as one."""
    [statement] = parse(text)
    found = bind(statement, catalogue, **options)
    return found if found.kind.startswith("create_") else found._replace(spec=_together(plain(found.spec)))


def _together(spec: Any) -> Any:
    """The fields of a query and of its members, result and timing, no two of which have the same name."""
    if not isinstance(spec, dict) or "members" not in spec:
        return spec
    parts = [spec.pop(name) for name in ("members", "result", "timing")]
    together = _LACKING | spec
    for part in parts:
        assert spec.keys().isdisjoint(part)
        together |= part
    return together


_LACKING = {"condition": None, "select": [], "order": [], "limit": None, "aggregates": None}
