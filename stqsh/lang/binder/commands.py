"""Statements of running and administration to what they ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stqsh.errors import NotSupportedError
from stqsh.lang.ast import statements
from stqsh.lang.ast.expressions import Column, Literal, Name, Quantity
from stqsh.lang.ast.source import Span
from stqsh.lang.binder.literals import duration_us, timestamp_us
from stqsh.lang.binder.names import area_named, kind_of, query_named, stream_named, table_named
from stqsh.lang.catalogue import CatalogueView, Spec
from stqsh.lang.errors import BindError, near
from stqsh.lang.printer.values import constant
from stqsh.settings import KEYS
from stqsh.spec.stream import AreaSpec, StreamSpec, TableSpec

SETTINGS_TO_COME = frozenset({"cache.views", "cache.objects"})
"""Settings of the language that are not built yet."""


def run(statement: statements.Run) -> Spec:
    """The mode of a RUN and how far it goes."""
    if statement.until is not None:
        return {"mode": "until", "t_us": timestamp_us(str(statement.until.value), statement.until.span)}
    if statement.duration is not None:
        return {"mode": "for", "us": duration_us(statement.duration, "RUN FOR")}
    if statement.steps is None:
        return {"mode": "end"}
    if statement.steps == 0:
        raise BindError("RUN takes one step or more", statement.span)
    return {"mode": "steps", "n": statement.steps}


def play(statement: statements.Play, catalogue: CatalogueView) -> Spec:
    """The stream and its pace."""
    stream = stream_named(statement.stream, catalogue)
    pace = statement.pace
    return {**_stream_ids(stream), "pace": pace.lower() if isinstance(pace, str) else pace}


def pause(statement: statements.Pause, catalogue: CatalogueView) -> Spec:
    """The stream."""
    return _stream_ids(stream_named(statement.stream, catalogue))


def change_query(statement: statements.PauseQuery | statements.ResumeQuery, catalogue: CatalogueView) -> Spec:
    """The query of a PAUSE QUERY or RESUME QUERY."""
    return _query_ids(query_named(statement.name, catalogue))


def drop(statement: statements.Drop, catalogue: CatalogueView) -> tuple[str, Spec | None]:
    """The log's kind of a DROP, and what is to go: None where IF EXISTS was said and it is not there."""
    kind, find, ids = _DROPPED[statement.kind]
    name = statement.name
    if statement.if_exists and kind_of(name.text, catalogue) is None:
        return kind, None
    found = find(name, catalogue)
    if isinstance(found, AreaSpec) and found.set != (statement.kind == "REGIONS"):
        what = "a set of regions" if found.set else "a single region"
        right = found.word.upper()
        raise BindError(f"{name.text} is {what}", name.span, near=f"DROP {right} {name.text}")
    return kind, ids(found)


def describe(statement: statements.Describe, catalogue: CatalogueView) -> Spec:
    """What the name stands for: {"kind": "stream", "query", "table" or "region", "name"}."""
    name = statement.name
    kind = kind_of(name.text, catalogue)
    if kind is not None:
        return {"kind": kind, "name": name.text}
    known = [known for kind in ("stream", "query", "table", "region") for known in catalogue.names(kind)]
    raise BindError(f"nothing is called {name.text!r}", name.span, near=near(name.text, known))


def show_query(statement: statements.ShowQuery, catalogue: CatalogueView) -> Spec:
    """The query."""
    return _query_ids(query_named(statement.name, catalogue))


def watch(statement: statements.Watch, catalogue: CatalogueView) -> Spec:
    """The queries, each once."""
    names = [query_named(name, catalogue)["name"] for name in statement.names]
    return {"queries": list(dict.fromkeys(names))}


def set_setting(statement: statements.SetSetting, catalogue: CatalogueView) -> Spec:
    """The setting's key and its value as a JSON value; a quantity as the user wrote it."""
    key = statement.key.text
    if key in catalogue.settings:
        value = _plain(statement.value)
        _check_value(key, str(value), statement.value.span)
        return {"key": key, "value": value}
    if key in SETTINGS_TO_COME:
        raise NotSupportedError(f"SET {key}")
    known = (*catalogue.settings, *SETTINGS_TO_COME)
    raise BindError(
        f"unknown setting {key!r}", statement.key.span, near=near(key, known), hint="SHOW SETTINGS lists them"
    )


def _check_value(key: str, text: str, span: Span) -> None:
    """Raise `BindError` for a value that the setting cannot have."""
    for known in KEYS:
        if known.name == key:
            try:
                known.read(text)
            except ValueError as error:
                close = near(text, known.choices) if text.isalpha() else None
                raise BindError(f"{key} is {text!r}, expected {error}", span, near=close) from None


def _plain(value: Literal | Quantity | Column) -> Any:
    if isinstance(value, Quantity):
        return constant(value)
    return value.name if isinstance(value, Column) else value.value


def _stream_ids(stream: StreamSpec) -> Spec:
    return {"id": stream.id, "stream_id": stream.id, "name": stream.name}


def _query_ids(query: Spec) -> Spec:
    return {"id": query["id"], "stream_id": query["stream_id"], "name": query["name"]}


def _ids(found: TableSpec | AreaSpec) -> Spec:
    return {"id": found.id, "name": found.name}


_DROPPED: dict[str, tuple[str, Callable[[Name, CatalogueView], Any], Callable[[Any], Spec]]] = {
    "STREAM": ("drop_stream", stream_named, _stream_ids),
    "TABLE": ("drop_table", table_named, _ids),
    "REGION": ("drop_area", area_named, _ids),
    "REGIONS": ("drop_area", area_named, _ids),
    "QUERY": ("drop", query_named, _query_ids),
}
"""What a DROP is in the control log, how what it names is found, and what the log keeps of that."""
