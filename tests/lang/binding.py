"""Binding a text in one call, for the tests of the binder."""

from __future__ import annotations

from typing import Any

from support.typed import plain

from stqsh.lang.binder.bind import Bound, Catalogue, bind
from stqsh.lang.syntax.parse import parse


def bound(text: str, catalogue: Catalogue, **options: Any) -> Bound:
    """What the one statement of a text binds to, that of a query as JSON has it."""
    [statement] = parse(text)
    found = bind(statement, catalogue, **options)
    return found if found.kind.startswith("create_") else found._replace(spec=plain(found.spec))
