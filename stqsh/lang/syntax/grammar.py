"""The LALR parser, generated from grammar.lark once and stored in the user's cache folder.

A cached parser loads in a few milliseconds. If the folder cannot be used, each process generates the parser,
which takes 0.2 s more.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lark import Lark
from platformdirs import user_cache_path

from stqsh.fs import replacing
from stqsh.lang.ast_builder import RULES
from stqsh.lang.syntax.building import recording
from stqsh.lang.syntax.driver import Driver
from stqsh.lang.syntax.lexer import StqlLexer
from stqsh.lang.syntax.parse_table import States


@cache
def grammar() -> Lark:
    """Return the parser for one statement, which builds the statement's tree."""
    text = files("stqsh.lang.syntax").joinpath("grammar.lark").read_text(encoding="utf-8")
    kept = _cache_file(text)
    if kept is None:
        return _make(text, None)
    if kept.exists():
        return _make(text, kept)
    try:
        with replacing(kept) as fresh:
            return _make(text, fresh)
    except OSError:  # the folder is not writable
        return _make(text, None)


@cache
def driver() -> Driver:
    """Return the parser loop for the tables of the grammar."""
    return Driver(grammar().parser)


def states() -> States:
    """Return the parse table."""
    frontend: Any = grammar().parser
    return frontend.parser._parse_table.states  # type: ignore[no-any-return]


def start_state() -> int:
    """Return the initial state of the parser."""
    frontend: Any = grammar().parser
    return frontend.parser._parse_table.start_states["start"]  # type: ignore[no-any-return]


def _make(text: str, kept: Path | None) -> Lark:
    transformer: Any = SimpleNamespace(**{name: recording(build) for name, build in RULES.items()})
    return Lark(
        text,
        parser="lalr",
        lexer=StqlLexer,
        transformer=transformer,
        cache=False if kept is None else str(kept),
    )


def _cache_file(text: str) -> Path | None:
    """Return the file for this grammar's tables; None if no cache folder is available."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    try:
        return user_cache_path("stqsh", appauthor=False, ensure_exists=True) / f"grammar-{digest}.tables"
    except OSError:
        return None
