"""Explain empty answers, as far as the slots and the stream's files show why; imports numpy and pyarrow."""

from __future__ import annotations

import difflib
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, TypeAlias

from stqsh.client.read.kept_events import keep_text
from stqsh.client.read.slot_answers import first_keys, frequent_values, placed
from stqsh.client.read.swapped_axes import meet
from stqsh.core.snapshots.absence import Absence, Sighting, absence, sighting
from stqsh.core.state.slot_state import SlotState
from stqsh.errors import StqshError
from stqsh.sources.measuring import measure_store
from stqsh.spec.expression import ColumnExpr, CompareExpr, LiteralExpr, conjuncts, extent_tests
from stqsh.spec.query import SnapshotSpec
from stqsh.spec.source_facts import SourceFacts, extent_text
from stqsh.spec.stream import FileSourceSpec, StreamSpec
from stqsh.units import counted, format_duration, format_instant

if TYPE_CHECKING:
    from collections.abc import Callable

    from stqsh.client.connection import Connection
    from stqsh.client.read.snapshots import SnapshotReader
    from stqsh.spec.region import Key

Measured: TypeAlias = "Callable[[], SourceFacts | None]"
"""Measures the content of a stream's store; None without a store."""

_NAMED = 5
"""The maximum number of values of a column that are named."""
_LOOKED_AT = 50
"""The maximum number of keys that are compared with an unknown one."""


def empty_reason(
    connection: Connection, reader: SnapshotReader, spec: SnapshotSpec, stream: StreamSpec
) -> str:
    """Return why a snapshot's answer is empty, as a sentence; "" if the reason is unknown.

    Args:
        connection: to the session.
        reader: reads the states of the slots.
        spec: the snapshot.
        stream: its stream.
    """
    step = connection.progress().step
    if spec.result.limit == 0:
        return ""
    if not step:
        return f"nothing of {stream.name} has been read yet: RUN or PLAY lets time go on"
    measured = partial(_stored, connection, stream)
    found = reader.read(lambda states: _reason(states, spec, stream, measured), step)
    return found or ""


def unknown_key(connection: Connection, reader: SnapshotReader, stream: StreamSpec, key: Key) -> str:
    """Explain why an object is not present; "" if it is present, or nothing is known."""
    step = connection.progress().step
    found = reader.read(lambda states: _of_key(states, stream, key), step) if step else None
    return found or ""


def _reason(states: list[SlotState], spec: SnapshotSpec, stream: StreamSpec, measured: Measured) -> str:
    if spec.lookup is not None:
        away = _of_key(states, stream, spec.lookup)
        return away or f"{spec.lookup!r} is present, but not in the region, or it fails the condition"
    focal = spec.region.focal_key
    if focal is not None and (away := _of_key(states, stream, focal)):
        return f"{away}; an answer around it is empty as long as it is not there"
    return _of_members(states, spec, stream, measured)


def _of_members(states: list[SlotState], spec: SnapshotSpec, stream: StreamSpec, measured: Measured) -> str:
    """Return why no object is both in the region and satisfies the condition; "" if some object is."""
    spec, place = placed(states, spec)
    found = reduce(Absence.plus, (absence(state, spec, place) for state in states))
    noun = "event" if stream.is_event else "object"
    if not found.present:
        return f"no {noun} of {stream.name} is present" + _silence(stream)
    tests = extent_tests(spec.condition)
    if not found.inside:
        among = f"none of the {counted(found.present, noun)} present"
        if tests and found.touching:
            verb = "is" if found.touching == 1 else "are"
            return f"{among} is entirely in the region; {found.touching} of them {verb} found with INTERSECTS"
        where = "intersects the region" if tests else "is in the region"
        return _outside(found, stream, _unknown if tests else measured) or f"{among} {where}"
    if not found.satisfied:
        verb = "is" if found.inside == 1 else "are"
        among = "present" if spec.region.is_nearest or found.box is None else "in the region"
        if any(test.relation == "intersects" for test in tests):
            verb, among = "intersects" if found.inside == 1 else "intersect", "the region"
        lacking = _lacking(states, spec, stream)
        return f"{counted(found.inside, noun)} {verb} {among}, and none satisfies the condition{lacking}"
    return ""


def _of_key(states: list[SlotState], stream: StreamSpec, key: Key) -> str:
    """Return why an object is not present; "" if it is."""
    seen = [one for one in (sighting(state, stream.id, key) for state in states) if one is not None]
    noun = "event" if stream.is_event else "object"
    if not seen:
        kept = "is kept" if stream.is_event else "has reported so far"
        return f"no {noun} {key!r} of {stream.name} {kept}{_near(states, stream, key)}"
    last: Sighting = max(seen, key=lambda one: (one.is_present, one.at_us))
    if last.is_present:
        return ""
    at = format_instant(last.at_us)
    if stream.is_event:
        return f"event {key!r} of {stream.name} is from {at} and has expired"
    if not last.is_placed:
        return f"{key!r} left {stream.name} with its record of {at}"
    return f"{key!r} reported last at {at}{_silence(stream)}"


def _silence(stream: StreamSpec) -> str:
    """Return when objects that stop reporting are removed."""
    lasts = stream.keep_us if stream.is_event else stream.report_every_us
    if stream.keep_bytes is not None:
        return f": beyond KEEP {keep_text(stream)} the oldest expire"
    if lasts is None:
        return ""
    verb = "expires" if stream.is_event else "is disconnected"
    return f": who is older than {format_duration(lasts)} {verb}"


def _near(states: list[SlotState], stream: StreamSpec, key: Any) -> str:
    """Return a hint with a similar key that is present."""
    if not isinstance(key, str) or not key:
        return ""
    starts = {key[: len(key) - 1], key[: len(key) // 2], key[:1], ""}
    known = {one for start in starts for one in first_keys(states, stream, start, _LOOKED_AT)}
    return _maybe(key, known)


def _maybe(text: str, known: Any) -> str:
    folded = {one.casefold(): one for one in sorted(known, reverse=True)}
    near = difflib.get_close_matches(text.casefold(), folded, n=1)
    return f"; maybe you meant {folded[near[0]]!r}" if near else ""


def _stored(connection: Connection, stream: StreamSpec) -> SourceFacts | None:
    """Return the measured content of the stream's store; None without a store."""
    if not isinstance(stream.source, FileSourceSpec):
        return None
    try:
        return measure_store(connection.home.stream(stream.id), stream)
    except StqshError:  # the engine reports the error
        return None


def _unknown() -> SourceFacts | None:
    return None


def _outside(found: Absence, stream: StreamSpec, measured: Measured) -> str:
    """Return a sentence if the region is outside all data, with a hint if swapped axes would explain it.

    A store is only measured if the region is outside the places of the slots' objects, as that reads a file.
    """
    if found.box is None or (found.extent is not None and meet(found.box, found.extent)):
        return ""
    facts = measured()
    extents = [one for one in (found.extent, None if facts is None else facts.extent) if one is not None]
    if not extents or any(meet(found.box, extent) for extent in extents):
        return ""
    where = facts if facts is not None and facts.extent is not None else SourceFacts(0, extent=found.extent)
    x, y = ("x", "y") if stream.planar else ("longitude", "latitude")
    x1, y1, x2, y2 = found.box
    swapped = any(meet((y1, x1, y2, x2), extent) for extent in extents)
    hint = f"; with {x} and {y} swapped it would not: {x} comes first" if swapped else ""
    plane = SourceFacts(0, extent=where.extent, leaves_out=where.leaves_out, is_planar=stream.planar)
    return f"the region lies outside of the data: {stream.name} has {extent_text(plane)}{hint}"


def _lacking(states: list[SlotState], spec: SnapshotSpec, stream: StreamSpec) -> str:
    """Return the existing values of a column if no object has the value that a condition requires."""
    for part in conjuncts(spec.condition):
        match part:
            case CompareExpr("=", ColumnExpr(column), LiteralExpr(str(value), "STRING")):
                if value in frequent_values(states, stream, column, value, _LOOKED_AT):
                    continue
                known = frequent_values(states, stream, column, "", _LOOKED_AT)
                named = ", ".join(map(repr, known[:_NAMED])) + (", …" if len(known) > _NAMED else "")
                return f": {column} is {named or 'NULL'} now{_maybe(value, known)}"
    return ""
