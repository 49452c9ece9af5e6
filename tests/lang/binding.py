"""Binding a text in one call, for the tests of the binder."""

from __future__ import annotations

from typing import Any

from stqsh.lang.binder.bind import Bound, Catalogue, bind
from stqsh.lang.syntax.parse import parse


def bound(text: str, catalogue: Catalogue, **options: Any) -> Bound:
    """What the one statement of a text binds to."""
    [statement] = parse(text)
    return bind(statement, catalogue, **options)
