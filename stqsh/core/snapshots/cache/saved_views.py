"""A slot's cache as an index and arrays, which clients store in files and read instead of building it again.

The index is a small structure; it names the arrays and tables, which never change once they are made: the
order of a time slot, the states of a view in a time slot, the lists of a time slot's words. So only new ones
have to be written. Reading copies nothing: arrays and tables refer to the bytes of the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
from xxhash import xxh3_64, xxh3_64_hexdigest

from stqsh.arrays import Array
from stqsh.core.aggregates.states import States
from stqsh.core.kernels.events.transitions import StoredArrays
from stqsh.core.kernels.text.packed_lists import PackedLists
from stqsh.core.snapshots.cache.cells import CellGrid, CellNode, Extent
from stqsh.core.snapshots.cache.event_views import EventViews
from stqsh.core.snapshots.cache.margins import Margins, Past
from stqsh.core.snapshots.cache.questions import Shape
from stqsh.core.snapshots.cache.selection import Asked
from stqsh.core.snapshots.cache.time_slots import TimeSlot, TimeSlots
from stqsh.core.snapshots.cache.view_set import QuestionHistory, ViewSet
from stqsh.core.snapshots.cache.views import View
from stqsh.core.snapshots.cache.word_lists import ColumnLists, SlotWords, WordLists

Rows: TypeAlias = tuple[int, int]
Content: TypeAlias = "Array | pa.Table"

_SAMPLED = 4096
"""The most rows by which events are recognized."""

_ALIGNED = 64
"""Arrays begin at multiples of this number of bytes."""

_MARGINS = ("cells", "parts", "limits", "corners", "used", "hits", "spared")
"""The arrays of margins; they are small, and the last ones change with each question."""


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where an array or a table is in the file: its first byte, its size, and its dtype; "" for a table."""

    begin: int
    size: int
    dtype: str


class _SavedSlot(msgspec.Struct, frozen=True, array_like=True):
    begin: int
    end: int
    low: int
    high: int
    ascends: bool


class _SavedView(msgspec.Struct, frozen=True, array_like=True):
    shape: Shape
    node: CellNode
    parts: list[Rows]
    expected: float
    benefit: float
    hits: int
    spared: int


class _SavedWords(msgspec.Struct, frozen=True, array_like=True):
    column: str
    lists: list[Rows]
    due: float
    hits: int
    spared: int


class _SavedHistory(msgspec.Struct, frozen=True, array_like=True):
    asked: int
    due: int
    spent: float
    allowed: float
    questions: list[Asked]
    seen: list[int]
    boxes: list[Past]


class SavedViews(msgspec.Struct, frozen=True, kw_only=True):
    """The index of a slot's cache; the fields are those of `EventViews` and its parts."""

    area: Extent
    depth: int
    seen: Extent
    slots: list[_SavedSlot]
    views: list[_SavedView]
    words: list[_SavedWords]
    width: float
    margins: dict[str, tuple[str, bytes]]
    listed: list[Rows]
    history: _SavedHistory


@dataclass(frozen=True)
class PackedViews:
    """The index of a slot's cache, and the arrays and tables that it names."""

    index: SavedViews
    contents: dict[str, Content]


def sample_of(stored: StoredArrays, end: int) -> int:
    """Return a checksum by which the first `end` events are recognized; it reads at most 4,096 of them."""
    rows = np.unique(np.linspace(0, max(0, end - 1), min(end, _SAMPLED)).astype(np.int64))
    found = xxh3_64()
    for column in (stored.ts, stored.x, stored.y):
        found.update(np.ascontiguousarray(column[rows]).tobytes())
    return found.intdigest()


def pack_views(views: EventViews) -> PackedViews:
    """Return a slot's cache as an index and its arrays."""
    contents: dict[str, Content] = {}
    for slot in views.slots.slots:
        contents |= {_name("order", slot.rows): slot.order, _name("starts", slot.rows): slot.starts}
    for view in views.views:
        for rows, states in view.parts.items():
            contents |= _packed_states(_name(_view_name(view.shape, view.node), rows), states)
    for column, lists in views.words.columns.items():
        for rows, words in lists.lists.items():
            name = _name(f"words {column}", rows)
            contents |= {
                f"{name} hashes": words.hashes,
                f"{name} starts": words.lists.starts,
                f"{name} data": words.lists.data,
            }
    margins = _margins_name(views.margins)
    for rows, (events, starts) in views.margins.lists.items():
        contents |= {_name(f"{margins} events", rows): events, _name(f"{margins} starts", rows): starts}
    return PackedViews(_index(views), contents)


def _index(views: EventViews) -> SavedViews:
    slots, history = views.slots, views.history
    return SavedViews(
        area=slots.grid.area,
        depth=slots.grid.depth,
        seen=slots.seen,
        slots=[_SavedSlot(one.begin, one.end, one.low, one.high, one.ascends) for one in slots.slots],
        views=[
            _SavedView(one.shape, one.node, [*one.parts], one.expected, one.benefit, one.hits, one.spared)
            for one in views.views
        ],
        words=[
            _SavedWords(name, [*one.lists], one.due, one.hits, one.spared)
            for name, one in views.words.columns.items()
        ],
        width=views.words.width,
        margins={
            name: (values.dtype.str, values.tobytes())
            for name in _MARGINS
            for values in [getattr(views.margins, name)]
        },
        listed=[*views.margins.lists],
        history=_SavedHistory(
            history.asked,
            history.due,
            history.spent,
            history.allowed,
            [*history.questions],
            [*history.seen],
            [*views.margins.history],
        ),
    )


def unpack_views(index: SavedViews, places: dict[str, Place], content: Array) -> EventViews:
    """Return a slot's cache.

    Args:
        index: its index.
        places: where arrays and tables are in `content`.
        content: the bytes of the file, uint8 (n,); must be writable, and is not changed outside this process.
    """
    file = _File(places, content)
    slots = [_unpacked_slot(one, file) for one in index.slots]
    end = slots[-1].end if slots else 0
    past = index.history
    history = QuestionHistory(past.asked, past.due, past.spent, past.allowed)
    history.questions.extend(past.questions)
    history.seen.extend(past.seen)
    return EventViews(
        TimeSlots(CellGrid(index.area, index.depth), slots, index.seen, end),
        ViewSet([_unpacked_view(one, file) for one in index.views]),
        _unpacked_margins(index, file),
        WordLists({one.column: _unpacked_words(one, file) for one in index.words}, index.width),
        history,
    )


def _unpacked_slot(saved: _SavedSlot, file: _File) -> TimeSlot:
    rows = saved.begin, saved.end
    order, starts = file.array(_name("order", rows)), file.array(_name("starts", rows))
    return TimeSlot(*rows, saved.low, saved.high, saved.ascends, order, starts)


def _unpacked_margins(index: SavedViews, file: _File) -> Margins:
    margins = Margins()
    for name, (dtype, values) in index.margins.items():
        own = np.frombuffer(values, np.dtype(dtype)).copy()
        setattr(margins, name, own.reshape(-1, 2) if name == "corners" else own)
    name = _margins_name(margins)
    for rows in index.listed:
        margins.lists[rows] = (
            file.array(_name(f"{name} events", rows)),
            file.array(_name(f"{name} starts", rows)),
        )
    margins.history.extend(index.history.boxes)
    return margins


def _unpacked_view(saved: _SavedView, file: _File) -> View:
    name = _view_name(saved.shape, saved.node)
    view = View(
        saved.shape,
        saved.node,
        expected=saved.expected,
        benefit=saved.benefit,
        hits=saved.hits,
        spared=saved.spared,
    )
    view.adopt({rows: _unpacked_states(_name(name, rows), file) for rows in saved.parts})
    return view


def _unpacked_words(saved: _SavedWords, file: _File) -> ColumnLists:
    lists = {}
    for rows in saved.lists:
        name = _name(f"words {saved.column}", rows)
        packed = PackedLists(file.array(f"{name} starts"), file.array(f"{name} data"))
        lists[rows] = SlotWords(file.array(f"{name} hashes"), packed)
    return ColumnLists(lists, saved.due, saved.hits, saved.spared)


def _packed_states(name: str, states: States) -> dict[str, Content]:
    """Return states as two tables: `by` and the totals have the same rows."""
    groups = states.by
    for column in states.totals.column_names:
        groups = groups.append_column(f"total {column}", states.totals[column])
    return {f"{name} groups": groups, f"{name} values": states.values}


def _unpacked_states(name: str, file: _File) -> States:
    groups = file.table(f"{name} groups")
    totals = [column for column in groups.column_names if column.startswith("total ")]
    named = groups.select(totals).rename_columns([column.removeprefix("total ") for column in totals])
    return States(groups.drop_columns(totals), named, file.table(f"{name} values"))


class _File:
    """The arrays and tables in the bytes of a file."""

    def __init__(self, places: dict[str, Place], content: Array) -> None:
        self._places, self._content = places, content

    def _bytes(self, name: str) -> Array:
        place = self._places[name]
        return self._content[place.begin : place.begin + place.size]

    def array(self, name: str) -> Array:
        return self._bytes(name).view(np.dtype(self._places[name].dtype))

    def table(self, name: str) -> pa.Table:
        content: Any = self._bytes(name)
        return pa.ipc.open_stream(pa.py_buffer(content)).read_all()


def lay_out(contents: dict[str, Content]) -> tuple[dict[str, Place], list[Any]]:
    """Return the places of arrays and tables in a file, and the parts of the file in sequence."""
    places, parts, at = dict[str, Place](), list[Any](), 0
    for name, content in contents.items():
        if isinstance(content, pa.Table):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, content.schema) as writer:
                writer.write_table(content)
            part, dtype = memoryview(sink.getvalue()), ""
        else:
            values: Any = np.ascontiguousarray(content).view(np.uint8)
            part, dtype = memoryview(values), content.dtype.str
        places[name] = Place(at, part.nbytes, dtype)
        padding = -part.nbytes % _ALIGNED
        parts += [part, bytes(padding)]
        at += part.nbytes + padding
    return places, parts


def _name(what: str, rows: Rows) -> str:
    return f"{what} {rows[0]}-{rows[1]}"


def _view_name(shape: Shape, node: CellNode) -> str:
    return f"view {xxh3_64_hexdigest(msgspec.msgpack.encode((shape, node)))}"


def _margins_name(margins: Margins) -> str:
    found = xxh3_64()
    for name in ("cells", "parts", "limits"):
        found.update(np.ascontiguousarray(getattr(margins, name)).tobytes())
    return f"margins {found.hexdigest()}"
