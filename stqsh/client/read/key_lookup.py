"""Look up keys of present objects in the slots' states; imports numpy, pyarrow and lark."""

from __future__ import annotations

from stqsh.core.snapshots.select import nothing, part, whole
from stqsh.core.state.slot_state import SlotState
from stqsh.lang.binder.bind import bind
from stqsh.lang.catalogue import Catalogue
from stqsh.lang.syntax.parse import parse
from stqsh.spec.query import SnapshotSpec
from stqsh.spec.stream import StreamSpec


def first_keys(states: list[SlotState], stream: StreamSpec, prefix: str, most: int) -> tuple[str, ...]:
    """Return the answer of `SELECT key FROM stream WHERE key LIKE 'prefix%' LIMIT …` on the slots' states."""
    spec = _snapshot(stream, prefix, most)
    shares = [share for share in (part(state, spec) for state in states) if share is not None]
    found = whole(shares or [nothing(stream, spec)], spec).column(0).to_pylist()
    return tuple(key for key in map(str, found) if key.startswith(prefix))[:most]


def _snapshot(stream: StreamSpec, prefix: str, most: int) -> SnapshotSpec:
    key = '"' + stream.key.replace('"', '""') + '"'
    name = '"' + stream.name.replace('"', '""') + '"'
    types = stream.types
    like = types[stream.key] == "STRING" and prefix and not set(prefix) & set("%_\\")
    condition = f" WHERE {key} LIKE '" + prefix.replace("'", "''") + "%'" if like else ""
    limit = f" LIMIT {most}" if like or not prefix else ""
    [statement] = parse(f"SELECT {key} FROM {name}{condition}{limit}")
    spec: SnapshotSpec = bind(statement, Catalogue({stream.name: stream})).spec
    return spec
