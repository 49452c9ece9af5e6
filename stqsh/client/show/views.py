"""SHOW CACHE, the part about snapshots: this client's cache for snapshots of events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from stqsh.client.read.snapshots import SnapshotReader
from stqsh.client.read.spec_text import box_text, expression_text
from stqsh.client.results import Rows
from stqsh.storage.catalogue import live_streams
from stqsh.storage.control_log import ControlDb

if TYPE_CHECKING:
    from stqsh.core.snapshots.cache.event_views import EventViews
    from stqsh.core.snapshots.cache.views import View
    from stqsh.spec.aggregate import Measure

MARGIN_COLUMNS = ("stream", "slot", "margins", "events", "bytes", "hits", "spared", "most spared by")
SLOT_COLUMNS = ("stream", "slot", "events", "time slots", "bytes", "questions", "views", "bytes of views")
WORD_COLUMNS = ("stream", "slot", "column", "events", "time slots", "words", "bytes", "hits", "spared")
VIEW_COLUMNS = ("stream", "slot", "area", "only", "by", "of", "rows", "bytes", "hits", "spared", "benefit")


def show_views(db: ControlDb, snapshots: SnapshotReader) -> Iterator[Rows]:
    """Yield the contents of the cache for snapshots of events, and each view; nothing if it is empty."""
    names = {stream.id: stream.name for stream in live_streams(db)}
    events = [stream.id for stream in live_streams(db) if stream.spec.is_event]
    kept = [one for one in snapshots.opened(events).all() if one[1] in names]
    if not kept:
        return
    yield Rows(
        "kept for snapshots",
        SLOT_COLUMNS,
        tuple((names[stream], slot, *_slot_row(views)) for slot, stream, views in kept),
    )
    found = [
        (names[stream], slot, *_view_row(views, view))
        for slot, stream, views in kept
        for view in sorted(views.views, key=lambda view: -view.benefit)
    ]
    if found:
        yield Rows("views", VIEW_COLUMNS, tuple(found))
    listed = [(names[stream], slot, *row) for slot, stream, views in kept for row in _word_rows(views)]
    if listed:
        yield Rows("word lists", WORD_COLUMNS, tuple(listed))
    cut = [(names[stream], slot, *_margin_row(views)) for slot, stream, views in kept if views.margins]
    if cut:
        yield Rows("margins of cells", MARGIN_COLUMNS, tuple(cut))


def _slot_row(views: EventViews) -> tuple[int, ...]:
    slots = views.slots
    return (
        slots.end,
        len(slots.slots),
        slots.nbytes,
        views.history.asked,
        len(views.views),
        views.views.nbytes,
    )


def _view_row(views: EventViews, view: View) -> tuple[Any, ...]:
    is_whole = view.node.level == 0
    return (
        "everywhere" if is_whole else box_text(views.slots.grid.area_of(view.node)),
        " AND ".join(map(expression_text, view.shape.conditions)) or None,
        ", ".join(expression_text(group.value) for group in view.shape.groups) or None,
        ", ".join(["COUNT(*)", *map(_measure, view.shape.measures)]),
        *(view.rows, view.nbytes, view.hits, view.spared, round(view.benefit)),
    )


def _word_rows(views: EventViews) -> Iterator[tuple[Any, ...]]:
    """Yield the word lists of each text column, and the work that they have saved."""
    for name, column in sorted(views.words.columns.items()):
        if column.lists:
            events = sum(end - begin for begin, end in column.lists)
            words = sum(len(one.hashes) for one in column.lists.values())
            yield name, events, len(column.lists), words, column.nbytes, column.hits, column.spared


def _margin_row(views: EventViews) -> tuple[Any, ...]:
    """Return the number, size and saved work of the margins, and the place of the most useful one."""
    from stqsh.core.snapshots.cache.margins import PARTS, margin_area

    margins = views.margins
    best = int(margins.spared.argmax())
    place = f"{PARTS[margins.parts[best]]}: {box_text(margin_area(margins, best, views.slots.grid))}"
    spared = int(margins.spared.sum())
    return (
        *(len(margins), int(margins.counts.sum()), margins.nbytes, int(margins.hits.sum()), spared),
        place if spared else None,
    )


def _measure(measure: Measure) -> str:
    argument = "*" if measure.argument is None else expression_text(measure.argument)
    if measure.function == "distinct":
        return f"COUNT(DISTINCT {argument})"
    return f"{measure.function.upper()}({argument})"
