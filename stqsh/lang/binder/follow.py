"""Bind FOLLOW: all columns of the object that has a key."""

from __future__ import annotations

from typing import NamedTuple

from stqsh.lang.ast.expressions import Column, Comparison, Literal, Parameter
from stqsh.lang.ast.statements import Follow, Relation, Select, SelectItem
from stqsh.lang.binder.literals import key_value
from stqsh.lang.binder.names import stream_named
from stqsh.lang.catalogue import CatalogueView
from stqsh.lang.errors import BindError
from stqsh.spec.stream import StreamSpec

_SHOWN = 5


class BoundFollow(NamedTuple):
    """An object to follow: its stream, and the SELECT of its last record."""

    stream: StreamSpec
    select: Select


def follow(statement: Follow, catalogue: CatalogueView) -> BoundFollow:
    """Return what to follow.

    Raises:
        BindError: the stream is unknown or not named, or has no such keys.
    """
    stream = _stream(statement, catalogue)
    if stream.is_event:
        raise BindError(
            f"{stream.name} is an EVENT stream, and FOLLOW is for objects that move", statement.key.span
        )
    if isinstance(statement.key, Parameter):
        raise BindError(f":{statement.key.name} has no value here", statement.key.span)
    value, kind = key_value(statement.key, stream.types[stream.key]), stream.types[stream.key]
    key = Literal(value, "STRING" if kind == "STRING" else "INTEGER", span=statement.key.span)
    select = Select(
        tuple(SelectItem(Column(name)) for name, _ in stream.columns),
        (Relation(stream.name),),
        where=Comparison("=", Column(stream.key), key),
        piece=statement.piece,
    )
    return BoundFollow(stream, select)


def _stream(statement: Follow, catalogue: CatalogueView) -> StreamSpec:
    """Return the stream that is named, else the only one of moving objects."""
    if statement.stream is not None:
        return stream_named(statement.stream, catalogue)
    found = [catalogue.stream(name) for name in catalogue.names("stream")]
    moving = [stream for stream in found if stream is not None and not stream.is_event]
    if len(moving) == 1:
        return moving[0]
    if not moving:
        raise BindError(
            "there is no stream of moving objects",
            statement.key.span,
            hint="make one with CREATE MOVING STREAM",
        )
    key = statement.key.value if isinstance(statement.key, Literal) else ""
    ways = "; ".join(f"FOLLOW '{key}' IN {stream.name}" for stream in moving[:_SHOWN])
    raise BindError(
        "there are several streams of moving objects", statement.key.span, hint=f"say which: {ways}"
    )
