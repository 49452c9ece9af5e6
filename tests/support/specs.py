"""Streams, tables and regions as the binder makes them, in few words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from stqsh.spec.log import ENTRY_TYPES, LogKind
from stqsh.spec.older_queries import UPGRADES
from stqsh.spec.stream import AreaSpec, FileSourceSpec, StreamSpec, TableSpec
from stqsh.storage.rows import LogRow

_FILES = {"type": "file", "glob": "none", "format": None, "options": {}}
_ROLES = {"key": "oid", "x": "x", "y": "y", "time": "ts"}


def stream_spec(*given: Mapping[str, Any], **changes: Any) -> StreamSpec:
    """A stream with some fields given; the others are those of a moving stream without columns."""
    fields: dict[str, Any] = {"name": "s", "columns": [], **_ROLES, "source": _FILES}
    for some in (*given, changes):
        fields |= some
    return msgspec.convert(fields, StreamSpec)


def kafka_stream(columns: Mapping[str, str], brokers: str, topic: str) -> StreamSpec:
    """The stream `b` of JSON lines from a topic."""
    source = {"type": "kafka", "brokers": brokers, "topics": [topic], "format": "jsonl"}
    return stream_spec(name="b", columns=[*columns.items()], x="lon", y="lat", source=source)


def table_spec(given: Mapping[str, Any], **changes: Any) -> TableSpec:
    return msgspec.convert({"name": "t", "source": _FILES, **given, **changes}, TableSpec)


def area_spec(given: Mapping[str, Any], **changes: Any) -> AreaSpec:
    return msgspec.convert({**given, **changes}, AreaSpec)


def files(glob: object, format_: str | None = None, **options: Any) -> FileSourceSpec:
    return FileSourceSpec(str(glob), format_, options)


def entry(kind: LogKind, content: Mapping[str, Any] | None = None) -> Any:
    """What a row of the log says, in the form that `append` takes."""
    made = {"create_stream": stream_spec, "create_table": table_spec, "create_area": area_spec}
    content = content or {}
    if kind in UPGRADES:
        content = msgspec.to_builtins(UPGRADES[kind](content))
    return made[kind](content) if kind in made else msgspec.convert(content, ENTRY_TYPES[kind])


def plain_entry(row: LogRow) -> Any:
    """What a row of the log says, as JSON has it."""
    return msgspec.to_builtins(row.entry)
