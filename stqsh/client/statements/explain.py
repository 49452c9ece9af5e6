"""EXPLAIN: how a query or snapshot is evaluated, its estimated cost, and its measured cost so far.

Estimates are computed from the slots' current state (`stqsh.core.snapshots.query_cost`); they assume that a
record is a candidate with the same probability as the objects present.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stqsh.client.catalogue_view import SessionCatalogue
from stqsh.client.read.accuracy import BY_SLOTS, accuracies, accuracy_shown, topk_text
from stqsh.client.read.parts_text import members_text, result_text, timing_text
from stqsh.client.read.past import archive_use, with_past
from stqsh.client.read.spec_text import area_text, box_text, query_region_text, region_text
from stqsh.client.results import Rows
from stqsh.client.statements.context import StatementContext
from stqsh.core.contract.query_kind import ExplainInput
from stqsh.core.kinds import KINDS
from stqsh.core.matching.keyword_queries import words_needed
from stqsh.lang.binder.queries import AnalysedSelect, Explained
from stqsh.spec.expression import ExtentTestExpr, find_nodes, moving_regions
from stqsh.spec.measure import QueryMeasure
from stqsh.spec.query import BoundQuery, QuerySpec, SnapshotSpec, join_texts
from stqsh.spec.region import (
    EVERYWHERE,
    EverywhereSpec,
    Key,
    MovingCircleSpec,
    MovingRectangleSpec,
    NearestSpec,
    RectangleSpec,
)
from stqsh.spec.stream import StreamSpec
from stqsh.storage.archive_files import archived_files
from stqsh.storage.catalogue import query_by_id
from stqsh.storage.session_settings import index_choice, session_settings

if TYPE_CHECKING:
    from stqsh.core.contract.query_kind import KindExplanation
    from stqsh.core.snapshots.cache.event_views import Usage

Item = tuple[str, Any]
_OPERATOR_COLUMNS = ("operator", "rows in", "rows out", "ms", "rows/s")
_MOST_WORDS = 5
"""The maximum number of words that are named."""


def explain_query(context: StatementContext, spec: QuerySpec, *, analyze: bool) -> Rows:
    """Answer EXPLAIN [ANALYZE] of a registered query."""
    stream = _stream_of(context.view, spec)
    measured = context.snapshots.measure(spec)
    kind = _kind_explanation(context, spec, stream, measured)
    items = [
        ("query", spec.name),
        ("kind", f"continuous {spec.shown_kind}"),
        *_parts(spec, stream, is_paused=query_by_id(context.connection.db, spec.id).state == "paused"),
        *_place(spec, stream, measured),
        *_kept(context, spec, stream),
        ("slots", context.snapshots.asked.text(stream, spec, _slots(measured))),
        ("index", _index(kind, measured)),
        ("candidates per record", _candidates(kind, measured)),
        *_sent(spec, stream),
        *_order(spec, kind, measured, "a change of an object"),
        *([("refreshes", kind.refreshes)] if kind.refreshes else []),
    ]
    if analyze:
        items += _so_far(measured)
    return Rows(f"explain {spec.name}", ("item", "value"), tuple(items))


def explain_select(context: StatementContext, spec: SnapshotSpec) -> Rows:
    """Answer EXPLAIN of a SELECT: its evaluation as a snapshot, and its cost as a registered query."""
    stream = _stream_of(context.view, spec)
    spec = with_past(spec, stream)
    measured = context.snapshots.measure(spec)
    kind = _kind_explanation(context, spec, stream, measured)
    usage = context.snapshots.planned(spec) if stream.is_event else None
    items = [
        ("kind", f"snapshot {_aggregate(spec)}{spec.kind}"),
        *_parts(spec, stream),
        *_kept(context, spec, stream),
        *_place(spec, stream, measured),
        ("slots", _asked(context, spec, stream, measured)),
        ("access", _access(spec, kind, measured, usage)),
        *_from_kept(spec, stream, usage),
        *_from_archive(context, spec, stream),
        *([("approximate", about)] if (about := topk_text(spec.aggregates)) else []),
        *_order(spec, kind, measured, "the snapshot"),
        ("registered: index", _index(kind, measured)),
        ("registered: candidates per record", _candidates(kind, measured)),
    ]
    return Rows("explain", ("item", "value"), tuple(items))


def _parts(spec: BoundQuery, stream: StreamSpec, *, is_paused: bool = False) -> list[Item]:
    """Return the three parts of a query: which objects, what of them, and when."""
    return [
        ("members", members_text(spec, stream)),
        ("result", result_text(spec)),
        ("timing", timing_text(spec, is_paused=is_paused)),
    ]


def _aggregate(spec: SnapshotSpec) -> str:
    """Return the aggregation of a snapshot's members, as a text before the name of its kind."""
    if spec.aggregates is not None:
        return "aggregate of "
    return "count of " if spec.aggregate == "count" else ""


def analyse_select(context: StatementContext, spec: SnapshotSpec) -> Iterator[Rows]:
    """Answer EXPLAIN ANALYZE of a SELECT: EXPLAIN, and the measured work of each operator."""
    rows, stream = explain_select(context, spec), _stream_of(context.view, spec)
    runs = context.snapshots.analyse(with_past(spec, stream), stream)
    total = [("rows", runs[-1].rows), ("execution time", _ms(runs[-1].seconds))]
    yield replace(rows, rows=(*rows.rows, *total))
    yield Rows(
        "operators",
        _OPERATOR_COLUMNS,
        tuple(_operator(run.name, run.taken, run.rows, run.seconds) for run in runs),
    )


def _operator(name: str, taken: int, left: int | None, seconds: float) -> tuple[Any, ...]:
    """Return the row of an operator: rows in and out, milliseconds, and input rows per second."""
    rate = round(taken / seconds) if seconds > 0 else None
    return (name, taken, left, round(1000 * seconds, 3), rate)


def _last_batch(context: StatementContext) -> Rows | None:
    """Return the operators of the last batch with records, for all queries together; None if there is none.

    Operators of several slots run concurrently; their times are summed over the slots.
    """
    stats = context.connection.progress().stats
    if stats.time is None or not stats.records:
        return None
    decoded, kernel, state = (
        sum(getattr(slot, name) for slot in stats.slots) for name in ("decode_us", "kernel_us", "state_us")
    )
    records, updates = stats.records, stats.updates
    operators = (
        ("scan of the source", records, records, stats.time.source_us),
        ("decode", records, records, decoded),
        ("index probe, filter, k nearest, aggregate", records, updates, kernel),
        ("store of the state", records, records, state),
        ("deliver", updates, updates, stats.time.deliver_us),
        ("the whole batch", records, updates, stats.time.total_us),
    )
    rows = tuple(_operator(name, taken, left, us / 1e6) for name, taken, left, us in operators)
    return Rows("operators of the last batch, for all queries", _OPERATOR_COLUMNS, rows)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.3f} ms"


def explain(context: StatementContext, spec: Explained | AnalysedSelect | SnapshotSpec) -> Iterator[Rows]:
    """Answer a bound EXPLAIN of a registered query or of a SELECT."""
    if isinstance(spec, AnalysedSelect):
        yield from analyse_select(context, spec.spec)
        return
    if isinstance(spec, Explained):
        yield explain_query(context, spec.query, analyze=spec.analyze)
        operators = _last_batch(context) if spec.analyze else None
        if operators is not None:
            yield operators
    else:
        yield explain_select(context, spec)


def _stream_of(view: SessionCatalogue, spec: BoundQuery) -> StreamSpec:
    stream = view.stream(spec.stream)
    assert stream is not None, "a stream with queries cannot be dropped without them"
    return stream


def _kind_explanation(
    context: StatementContext, spec: BoundQuery, stream: StreamSpec, measure: QueryMeasure
) -> KindExplanation:
    """Return the explanation of a query or snapshot by its kind."""
    indexes = index_choice(session_settings(context.connection.db, context.profile))
    found = KINDS[spec.kind].explain(ExplainInput(spec, stream, measure, _shared_operators(spec), indexes))
    if isinstance(spec, QuerySpec) and spec.adds_up_rows:
        return replace(found, operators=(*found.operators, "dwell", "hash aggregate"))
    return found


def _place(spec: BoundQuery, stream: StreamSpec, measured: QueryMeasure) -> list[Item]:
    """Return the stream, and the region with its box, its size and the current content of the box."""
    box = measured.box
    return [
        ("stream", f"{stream.name} ({stream.kind})"),
        ("region", query_region_text(spec)),
        *_extents(spec, stream),
        *_moving(spec),
        ("box", box_text(box) if box is not None else None),
        ("area of the box", area_text(box, stream.planar) if box is not None else None),
        ("objects present", measured.objects),
        ("objects in the box", f"{measured.boxed} ({_share(measured.boxed, measured.objects)})"),
    ]


def _from_archive(context: StatementContext, spec: SnapshotSpec, stream: StreamSpec) -> list[Item]:
    """Return the archive files that an answer needs, for streams with an archive."""
    if stream.archive is None:
        return []
    if not spec.past:
        return [("archive", "not read: the condition does not bound the time, so what is kept is asked")]
    now_us = context.connection.progress().at_us() or 0
    use = archive_use(archived_files(context.connection.db, stream.id), spec, stream, now_us)
    return [("archive", f"{use.text()}: those whose times meet the condition's")]


def _extents(spec: BoundQuery, stream: StreamSpec) -> list[Item]:
    """Return how extents are tested; empty for objects that are points."""
    if stream.extent is None:
        return []
    relations = dict.fromkeys(node.relation for node in find_nodes(spec.condition, ExtentTestExpr))
    if spec.region.is_nearest:
        how = "the objects with the nearest boxes are measured"
    elif spec.region == EVERYWHERE or (isinstance(spec.region, MovingCircleSpec) and spec.region.meets):
        how = "every object is a candidate"
    else:
        how = "the objects whose first corner is in the region are candidates"
    tested = " and ".join(relation.upper() for relation in relations)
    return [("extents", f"of {stream.extent}; {how}{f', tested for {tested}' if tested else ''}")]


def _moving(spec: BoundQuery) -> list[Item]:
    """Return the moving regions of the condition, each with its focal object; empty if there are none."""
    around = [region_text(region) for region in dict.fromkeys(moving_regions(spec.condition))]
    if not around:
        return []
    looks = "; an object is tested again when it reports, or when one of these comes over it or goes"
    return [("regions in the condition", ", ".join(around) + looks)]


def _from_kept(spec: SnapshotSpec, stream: StreamSpec, usage: Usage | None) -> list[Item]:
    """Return what this client would use of its cache for snapshots of events."""
    if spec.past:
        return [("kept", "not used: the events are scanned, with those that are not archived yet")]
    if usage is None:
        is_scanned = stream.is_event and spec.adds_up
        return [("kept", "nothing that helps: the events are scanned")] if is_scanned else []
    stood_for = f"{usage.views} views with {usage.rows} rows stand for {usage.spared} events"
    views = stood_for if spec.adds_up else ""
    words = f"word lists stand for {usage.listed} texts" if usage.listed else ""
    counted = f"{usage.counted} are counted by cell" if usage.counted else ""
    margins = f"{usage.margins} margins of cells spare the test of {usage.untested}" if usage.margins else ""
    parts = (views, words, counted, margins, f"{usage.read} events are read")
    return [("kept", ", ".join(part for part in parts if part))]


def _kept(context: StatementContext, spec: BoundQuery, stream: StreamSpec) -> list[Item]:
    """Return the effect of RETAIN SIGNIFICANT on the answer; empty for other streams."""
    if not stream.is_significant:
        return []
    if isinstance(spec, SnapshotSpec):
        return [("answers from", "what registered queries need to be kept; other objects are not there")]
    query = query_by_id(context.connection.db, spec.id)
    accuracy = accuracies(context.connection, [query])[query.id]
    neighbours = [("neighbours", BY_SLOTS)] if accuracy.by_slots else []
    return [("answers from", "what is significant: in a query's region or cache area"),
            ("accuracy", accuracy_shown(accuracy)), *neighbours]  # fmt: skip


def _sent(spec: QuerySpec, stream: StreamSpec) -> list[Item]:
    """Return which records slots receive for a query, if its stream sends only records that are needed."""
    if not stream.is_sifted:
        return []
    words = words_needed(spec, stream)
    if not words:
        return [("records sent for it", "all in its region: it has no words that one of must be there")]
    named = " or ".join(repr(word) for word in words[:_MOST_WORDS])
    more = f" or {len(words) - _MOST_WORDS} others" if len(words) > _MOST_WORDS else ""
    return [("records sent for it", f"those with {named}{more}, others only if most are of use to the slot")]


def _slots(measured: QueryMeasure) -> str:
    return f"{measured.holders} of {measured.slots}: objects are on all of them"


def _asked(context: StatementContext, spec: SnapshotSpec, stream: StreamSpec, measured: QueryMeasure) -> str:
    """Return how many slots a snapshot queries, and why."""
    found = context.snapshots.count_asked(spec, stream)
    if found is None or found.asked == found.touched:
        return context.snapshots.asked.text(stream, spec, _each(measured))
    how_many = f"{found.asked} of {found.slots}"
    if spec.lookup is not None:
        return f"{how_many}: those that may have the object {spec.lookup!r}"
    if spec.region.is_nearest:
        return f"{how_many}: those that may have objects as near as the first that were found"
    among = f" of the {found.touched} whose cells it touches" if found.touched < found.slots else ""
    return f"{how_many}: those that may have objects in the region{among}"


def _each(measured: QueryMeasure) -> str:
    return f"{measured.slots} of {measured.slots}: each answers for its own objects"


def _access(spec: SnapshotSpec, kind: KindExplanation, measured: QueryMeasure, usage: Usage | None) -> str:
    """Return how a snapshot finds its candidates."""
    if spec.lookup is not None:
        return f"key: one look into the hash table of each slot asked for {spec.lookup!r}, no scan"
    if usage is not None:
        return f"scan of {usage.read} of {measured.objects} events; what is kept stands for the others"
    return kind.access


def _index(kind: KindExplanation, measured: QueryMeasure) -> str:
    """Return the index of a registered query, and the part of it that the query's region touches."""
    side, instead = measured.sides.get(kind.index), f"; {kind.may_be_in}" if kind.may_be_in else ""
    if side is None:
        return kind.index + instead
    cells = side[0] * side[0]
    return f"{kind.index}: {min(side[1], cells)} of {cells} cells{instead}"


def _candidates(kind: KindExplanation, measured: QueryMeasure) -> str:
    """Return the estimated number of candidates per record: the probability that it is a candidate."""
    if not measured.objects:
        return "unknown: nothing is present"
    if kind.terms and measured.texts and measured.terms:
        shares = [seen / measured.texts for seen in measured.terms.values()]
        texts = math.prod(shares) if kind.terms == "all" else min(1.0, sum(shares))
        rare = min(measured.terms, key=lambda term: int(measured.terms[term]))
        return f"{kind.chance * texts:.2g} (box {kind.chance:.2g}, terms {texts:.2g}; rarest term {rare!r})"
    return f"{kind.chance:.2g}"


def _lookup(spec: BoundQuery) -> Key | None:
    """Return the key of the one object that a snapshot selects, None for other queries."""
    return spec.lookup if isinstance(spec, SnapshotSpec) else None


def _shared_operators(spec: BoundQuery) -> tuple[str, ...]:
    """Return the operators that all kinds share, in order (SOLE section 7)."""
    steps = ["key lookup"] if _lookup(spec) is not None else []
    steps.append("box filter")
    if not isinstance(spec.region, EverywhereSpec | RectangleSpec | MovingRectangleSpec | NearestSpec):
        steps.append("region filter")
    joins = join_texts(spec)
    steps += [f"hash join with {join}" for join in joins]
    if spec.condition is not None:
        steps.append(f"filter, with {_of_tables(len(joins))} columns" if joins else "filter")
    return tuple(steps)


def _of_tables(count: int) -> str:
    return "the table's" if count == 1 else "the tables'"


def _order(spec: BoundQuery, kind: KindExplanation, measured: QueryMeasure, what: str) -> list[Item]:
    """Return the operators in their order, and why: each reads the output of the one before it."""
    items: list[Item] = [("plan", " -> ".join(kind.operators)), ("why", _reason(spec, kind, measured, what))]
    if measured.sampled:
        share = _share(measured.satisfied, measured.sampled)
        items.append(("of the box in the answer", f"{share} (of {measured.sampled} objects looked at)"))
    return items


def _reason(spec: BoundQuery, kind: KindExplanation, measured: QueryMeasure, what: str) -> str:
    if _lookup(spec) is not None:
        return "the key leaves one object, whatever the region and the condition"
    if spec.join is not None:
        left = _share(measured.boxed, measured.objects)
        return f"the region leaves {left} of the objects; a table's row is looked up for those only"
    if kind.reason is not None:
        return kind.reason
    if kind.terms:
        return "terms are rarer than places: a text is looked at where the query's rarest term occurs"
    return f"a box costs {what} four comparisons, the rest far more"


def _so_far(measured: QueryMeasure) -> list[Item]:
    """Return the cost of a query since it was registered."""
    mine, everything = measured.own, measured.all
    if mine is None:
        return [("so far", "nothing: no step was taken since")]
    return [
        ("candidates so far", mine.tested),
        (
            "matches so far",
            f"{mine.matched} ({_share(mine.matched, mine.tested)} of the candidates)",
        ),
        ("updates so far", mine.updates),
        ("share of time so far", f"about {_share(mine.tested, everything.tested)}, by candidates"),
    ]


def _share(part: int, of: int) -> str:
    return "0 %" if not of else f"{100 * part / of:.3g} %"
