"""The words that completion offers: names in the session, and words of every session."""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from stqsh import extensions
from stqsh.client.statements.source_paths import file_columns
from stqsh.docs import TOPICS, manual
from stqsh.extensions import extension_names, package_of
from stqsh.lang.ast_builder.commands import PARTITIONINGS, REBALANCINGS
from stqsh.lang.printer.values import column_name, identifier
from stqsh.lang.syntax.expected import expected
from stqsh.lang.types import TYPES
from stqsh.settings import FORMATS, KEYS
from stqsh.shell.repl.completion.context import (
    CursorContext,
    column_types,
    compared_column,
    declared,
    followed_in,
    named_file,
    options_of,
    relations,
    wanted_value,
)
from stqsh.spec.functions import FUNCTIONS, PLACES
from stqsh.units import format_instant

if TYPE_CHECKING:
    from stqsh.shell.repl.session_thread import SessionSummary

Word = tuple[str, str]
"""A text that is valid at the cursor, and its meaning."""
LiveKeys = Callable[[str, str, str], tuple[str, ...]]
"""Returns the present values of a stream's column, or of its key, that begin with a prefix."""

_FORMS = {
    "RECT": ("RECT(", "(x1, y1, x2, y2), or (w, h) AROUND key"),
    "CIRCLE": ("CIRCLE(", "(x, y, radius), or (radius) AROUND key"),
    "POLYGON": ("POLYGON((", "((x y, x y, x y, x y))"),
    "KNN": ("KNN (", "(k, x, y) or ('M', k, key)"),
    "NEAREST": ("NEAREST", "k TO (x, y) or k TO key"),
    "INSIDE": ("INSIDE", "a region: (x1, y1, x2, y2), CIRCLE(…), RECT(…) AROUND key, a name"),
    "INTERSECTS": ("INTERSECTS", "a region with which an object's extent shares a point"),
}
_FUNCTIONS = {
    "AVG": "AVG(x): the mean",
    "COUNT": "COUNT(*): how many rows; COUNT(x), COUNT(DISTINCT x): how many values",
    "MAX": "MAX(x): the greatest value",
    "MIN": "MIN(x): the least value",
    "REGION": "REGION(zones): which region of a set",
    "SUM": "SUM(x): the exact sum",
    "TOPK": "TOPK(text [, k]): the most frequent terms",
    "CAST": "CAST(x AS type): x as another type, NULL where it is none",
    **{one.name: f"{one.syntax}: {one.meaning}" for one in FUNCTIONS.values()},
    **{name: ": ".join(said) for name, said in PLACES.items()},
}
_MOST = 60
_FIRST = (
    "column",
    "stream",
    "table",
    "region",
    "view",
    "relation",
    "query",
    "query stream",
    "sink",
    "alert",
    "object",
    "setting",
    "option",
)
_NAMED = ("stream", "table", "region", "view", "query", "query stream", "sink", "alert")

_SEVERAL = {
    "relation": ("stream", "table", "view", "query"),
    "filled": ("stream", "query stream"),
    "object": _NAMED,
}
"""The kinds of names that FROM, INSERT INTO and statements about any object accept."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Finds the words that are valid at a cursor.

    Attributes:
        summary: The summary of the session.
        keys: Looks up the column values of present objects, which is slow; None disables it.
    """

    summary: SessionSummary
    keys: LiveKeys | None = field(default=None)

    def values(self, cursor: CursorContext) -> list[Word]:
        """Return the possible values of a string at the cursor, without quotes."""
        wanted = wanted_value(cursor)
        if wanted == "key" or (wanted is None and self.compared(cursor)):
            return self._live_values(cursor)
        if wanted == "member":
            members = dict(self.summary.members).get(cursor.words[-2].strip('"'), ())
            return [(member, f"of {cursor.words[-2]}") for member in members]
        if wanted == "generator":
            return [("network", "objects that drive on the roads of a made-up town")]
        if wanted == "option":
            return _option_values(cursor.last(2).lower())
        if wanted == "instant" and self.summary.progress is not None:
            at = format_instant(self.summary.progress.at_us())
            return [(at, "the clock now")] if at else []
        return []

    def compared(self, cursor: CursorContext) -> str | None:
        """Return the column of the statement's stream that is compared at the cursor; None for none."""
        stream = self._stream(cursor)
        column = compared_column(cursor)
        columns = dict(dict(self.summary.columns).get(stream[0], ())) if stream else {}
        is_key = stream is not None and column == stream[1]
        return column if is_key or columns.get(column or "") == "STRING" else None

    def _stream(self, cursor: CursorContext) -> tuple[str, str] | None:
        """Return the statement's stream and its key column."""
        keys = {name: (name, key) for name, key in self.summary.keys}
        names = list(self._relations(cursor).values())
        if cursor.first == "FOLLOW":
            names = [followed_in(cursor) or next(iter(keys), "")]
        found = [keys[name] for name in names if name in keys]
        return found[0] if found else None

    def _live_values(self, cursor: CursorContext) -> list[Word]:
        stream = self._stream(cursor)
        if stream is None or self.keys is None:
            return []
        column = self.compared(cursor) or stream[1]
        return [(value, f"in {stream[0]} now") for value in self.keys(stream[0], column, cursor.typed)]

    def is_plain(self, cursor: CursorContext) -> bool:
        """Return whether the values at the cursor are numbers, which need no quotes."""
        stream = self._stream(cursor)
        columns = dict(dict(self.summary.columns).get(stream[0], ())) if stream else {}
        column = self.compared(cursor) or (stream[1] if stream else "")
        return bool(stream) and columns.get(column, "STRING") != "STRING"

    def named(self, category: str, cursor: CursorContext) -> list[Word]:
        """Return the words of a category of `stqsh.lang.syntax.expected`; keywords are categories, too."""
        if category.isupper() and category[0].isalpha():
            return [_FORMS.get(category, (category, _statement_help(category, cursor)))]
        if category == "column":
            return list(self._columns(cursor))
        if category == "option":
            return _options(options_of(cursor))
        if category == "strategy" and cursor.first == "REBALANCE":
            category = "adjuster"
        if category in _SEVERAL:
            return [pair for kind in _SEVERAL[category] for pair in self._names(kind)]
        own = self._functions(cursor) if category == "function" else ()
        return self._names(category) if category in _NAMED else [*own, *_fixed().get(category, ())]

    def _names(self, kind: str) -> list[Word]:
        summary = self.summary
        names = {
            "stream": summary.streams,
            "table": summary.tables,
            "region": summary.regions,
            "view": summary.views,
            "query": summary.queries,
            "query stream": summary.query_streams,
            "sink": summary.sinks,
            "alert": summary.alerts,
        }
        return [(_name(name), kind) for name in names[kind]]

    def _functions(self, cursor: CursorContext) -> list[Word]:
        """Return the functions of the session; after DROP FUNCTION, without parentheses."""
        called = "" if cursor.first == "DROP" else "("
        return [(f"{name}{called}", "function of this session") for name in self.summary.functions]

    def _columns(self, cursor: CursorContext) -> Iterator[Word]:
        """Yield columns of suitable type: declared in a CREATE, else of the relations in FROM, else all."""
        if cursor.first == "TAIL":
            yield from self._followed(cursor)
            return
        if cursor.first == "INSERT":
            yield from self._inserted(cursor)
            return
        fitting = column_types(cursor)
        listed = declared(cursor)
        derived = " AS " in cursor.before.upper()
        own = (*_of_file(cursor), *listed) if derived or not listed else listed
        held = dict(self.summary.columns)
        aliases = self._relations(cursor)
        qualifier, dot, _ = cursor.typed.rpartition(".")
        tables = [(aliases[qualifier], qualifier + dot)] if qualifier in aliases else []
        tables = tables or [(name, "") for name in (aliases.values() if aliases else held)]
        for column, kind in own:
            if not fitting or kind in fitting:
                yield _column(column), kind
        for name, before in [] if own else tables:
            for column, kind in held.get(name, ()):
                if not fitting or kind in fitting:
                    yield f"{before}{_column(column)}", f"{kind} of {name}"
        places = {"CIRCLE", "NEAREST", "KNN"} & {word.upper() for word in (*cursor.words, *cursor.after)}
        if places and not qualifier:
            yield "DISTANCE", "metres from the centre"

    def _relations(self, cursor: CursorContext) -> dict[str, str]:
        """Return the statement's relations by alias or name; of ALTER QUERY, those of its query."""
        if cursor.first != "ALTER" or len(cursor.words) < len(("ALTER", "QUERY", "name")):
            return relations(cursor)
        query = cursor.words[2].strip('"')
        return {one: one for name, _, over in self.summary.selected if name == query for one in over}

    def _inserted(self, cursor: CursorContext) -> Iterator[Word]:
        """Yield the columns that INSERT INTO may list; its values are not columns."""
        stream = cursor.words[2].strip('"') if len(cursor.words) > 2 else ""
        is_listing = all(word.upper() != "VALUES" for word in cursor.words[3:])
        derived = dict(self.summary.derived).get(stream, ())
        for column, kind in dict(self.summary.columns).get(stream, ()) if is_listing else ():
            if column not in derived:
                yield _column(column), f"{kind} of {stream}"

    def _followed(self, cursor: CursorContext) -> Iterator[Word]:
        """Yield columns for the condition of a TAIL: those its query selects, then those of its relations."""
        query = cursor.words[1].strip('"') if len(cursor.words) > 1 else ""
        for name, outputs, over in self.summary.selected:
            if name == query:
                held = dict(self.summary.columns)
                yield from ((_column(output), f"selected by {query}") for output in outputs)
                columns = [(column, kind, one) for one in over for column, kind in held.get(one, ())]
                yield from ((_column(c), f"{kind} of {one}") for c, kind, one in columns if c not in outputs)


def _of_file(cursor: CursorContext) -> tuple[Word, ...]:
    """Return the columns of the file that a CREATE names."""
    named = named_file(cursor)
    if named is None:
        return ()
    return file_columns(*named)


def _name(name: str) -> str:
    """Return the name of a stream, query … as written in a statement, quoted if needed."""
    return identifier(name)


def _column(name: str) -> str:
    """Return the name of a column as written in a statement, where hardly any word is a keyword."""
    return column_name(name)


@cache
def _fixed() -> dict[str, tuple[Word, ...]]:
    """Return the words of every session, by category."""
    added = extension_names(extensions.FUNCTIONS)
    functions = {name.upper(): f"of {package_of(extensions.FUNCTIONS, name)}" for name in added} | _FUNCTIONS
    return {
        "setting": tuple((key.name, key.help) for key in KEYS if key.is_settable),
        "format": tuple(
            (name, "format") for name in (*FORMATS, *_SOURCE_FORMATS, *extension_names(extensions.FORMATS))
        ),
        "strategy": tuple((name, "strategy") for name in PARTITIONINGS),
        "adjuster": tuple((name, "adjuster") for name in REBALANCINGS),
        "type": tuple((name, "type") for name in TYPES),
        "function": tuple((f"{name}(", meaning) for name, meaning in sorted(functions.items())),
        "topic": (
            *((one.name, one.summary) for one in (*manual.statements(), *manual.parts())),
            *TOPICS.items(),
        ),
    }


_SOURCE_FORMATS = ("json", "parquet")


def _options(owner: str) -> list[Word]:
    return [(f"{name} => ", meaning) for name, meaning in manual.options().get(owner, {}).items()]


def _option_values(option: str) -> list[Word]:
    if option == "zone":
        return [(name, "zone") for name in sorted(zoneinfo.available_timezones())]
    if option == "timestamp":
        return [("s", "seconds"), ("ms", "milliseconds"), ("us", "microseconds"), ("%Y-%m-%d %H:%M:%S", "")]
    if option == "decimal":
        return [(",", "comma"), (".", "point")]
    if option == "encoding":
        return [("utf-8", ""), ("cp1252", "Windows"), ("latin-1", ""), ("utf-16", "")]
    if option == "separator":
        return [(",", "comma"), (";", "semicolon"), ("\\t", "tab"), (" ", "space"), ("|", "bar")]
    return []


def _statement_help(keyword: str, cursor: CursorContext) -> str:
    """Return the description of the statement that begins with a keyword."""
    if cursor.words:
        return ""
    return next((one.summary for one in manual.statements() if one.name == keyword), "")


def setting_values(cursor: CursorContext) -> list[Word]:
    """Return the possible values of the setting before a `=`, the default first."""
    name = "".join(cursor.words[1:-1])
    return [(value, f"for {name}") for key in KEYS if key.name == name for value in key.choices]


def candidates_at(cursor: CursorContext, words: Candidates) -> list[Word]:
    """Return the valid words that begin with the typed text: values, then names, then keywords."""
    if cursor.first == "SET" and cursor.last(1) == "=":
        return fitting(setting_values(cursor), cursor.typed)
    categories = expected(cursor.before)
    found: list[Word] = []
    if categories & {"string", "number"}:
        plain = words.is_plain(cursor)
        found += [
            (value if plain else "'" + value.replace("'", "''") + "'", meaning)
            for value, meaning in words.values(cursor)
            if value.startswith(cursor.typed)
        ]
    for category in sorted(categories, key=lambda one: (_FIRST.index(one) if one in _FIRST else 99, one)):
        found += fitting(words.named(category, cursor), cursor.typed)
    return list(dict.fromkeys(found))[:_MOST]


def fitting(words: list[Word], typed: str) -> list[Word]:
    """Return the words that begin with the typed text; a quoted name may be typed without quotes."""
    start = typed.casefold()
    plain = ((word, word[0].casefold().removeprefix('"')) for word in words)
    return [word for word, text in plain if text.startswith(start) and text != start][:_MOST]


def topics_at(cursor: CursorContext, words: Candidates) -> Iterator[tuple[str, str, int]]:
    """Yield the topics of HELP that begin with the words typed so far: name, meaning, characters typed."""
    typed = " ".join((*cursor.words[1:], cursor.typed)).upper().strip()
    shown = len(cursor.before.partition(cursor.words[0])[2].lstrip()) + len(cursor.typed)
    for name, meaning in words.named("topic", cursor):
        if name.upper().startswith(typed) and name.upper() != typed:
            yield name, meaning, shown
