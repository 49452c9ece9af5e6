"""What EXPLAIN answers: how a query or snapshot is evaluated, what it costs by estimate, what it has cost.

Estimates come from the slots' state as it is now (`stqsh.core.snapshots.query_cost`): a record's chance to be
a candidate is taken for that of the objects present.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from stqsh.client.catalogue_view import SessionCatalogue
from stqsh.client.read.accuracy import BY_SLOTS, accuracies, accuracy_shown
from stqsh.client.read.region_text import area_text, box_text, region_text
from stqsh.client.results import Rows
from stqsh.client.statements.context import StatementContext
from stqsh.spec.stream import StreamSpec
from stqsh.storage.catalogue import query_by_id
from stqsh.storage.rows import Spec

Item = tuple[str, Any]


def explain_query(desk: StatementContext, spec: Spec, *, analyze: bool) -> Rows:
    """EXPLAIN [ANALYZE] of a registered query, by its QuerySpec."""
    stream = _stream_of(desk.view, spec)
    told = desk.snapshots.measure(spec)
    items = [
        ("query", spec["name"]),
        ("kind", f"continuous {spec['kind']}"),
        *_place(spec, stream, told),
        *_kept(desk, spec, stream),
        ("slots", _slots(told, stream)),
        ("index", _index(spec, stream, told)),
        ("candidates a record", _candidates(spec, stream, told)),
        *_order(spec, stream, told, "a change of an object"),
    ]
    if analyze:
        items += _so_far(told)
    return Rows(f"explain {spec['name']}", ("item", "value"), tuple(items))


def explain_select(desk: StatementContext, spec: Spec) -> Rows:
    """EXPLAIN of a SELECT: as a snapshot, and what it would cost as a registered query."""
    stream = _stream_of(desk.view, spec)
    told = desk.snapshots.measure(spec)
    lookup = spec["lookup"] is not None
    items = [
        ("kind", f"snapshot {'count of ' if spec['aggregate'] == 'count' else ''}{spec['kind']}"),
        *_kept(desk, spec, stream),
        *_place(spec, stream, told),
        ("slots", f"{told['of_slots']} of {told['of_slots']}: each answers for its own objects"),
        ("access", _access(spec, told)),
        *_order(spec, stream, told, "the snapshot", first="key" if lookup else None),
        ("registered: index", _index(spec, stream, told)),
        ("registered: candidates a record", _candidates(spec, stream, told)),
    ]
    return Rows("explain", ("item", "value"), tuple(items))


def explain(desk: StatementContext, spec: Spec) -> Iterator[Rows]:
    """What a bound EXPLAIN answers: of a query where spec has "query", else of a SELECT."""
    if "query" in spec:
        yield explain_query(desk, spec["query"], analyze=spec["analyze"])
    else:
        yield explain_select(desk, spec)


def _stream_of(view: SessionCatalogue, spec: Spec) -> StreamSpec:
    stream = view.stream(spec["stream"])
    assert stream is not None, "a stream with queries cannot be dropped without them"
    return stream


def _place(spec: Spec, stream: StreamSpec, told: Spec) -> list[Item]:
    """The stream, and the region with its box, its size and what lies in the box now."""
    box = told["box"]
    return [
        ("stream", f"{stream.name} ({stream.kind})"),
        ("region", region_text(spec["region"])),
        ("box", box_text(box) if box is not None else None),
        ("area of the box", area_text(box, stream.planar) if box is not None else None),
        ("objects present", told["objects"]),
        ("objects in the box", f"{told['boxed']} ({_share(told['boxed'], told['objects'])})"),
    ]


def _kept(desk: StatementContext, spec: Spec, stream: StreamSpec) -> list[Item]:
    """What a stream that keeps significant objects only means for the answer; nothing of other streams."""
    if not stream.is_significant:
        return []
    if "id" not in spec:
        return [("answers from", "what registered queries need to be kept; other objects are not there")]
    query = query_by_id(desk.link.db, spec["id"])
    accuracy = accuracies(desk.link, [query])[query.id]
    neighbours = [("neighbours", BY_SLOTS)] if accuracy.by_slots else []
    return [("answers from", "what is significant: in a query's region or cache area"),
            ("accuracy", accuracy_shown(accuracy)), *neighbours]  # fmt: skip


def _slots(told: Spec, stream: StreamSpec) -> str:
    event = stream.is_event
    spread = "those whose cells the region touches" if event else "objects are on all of them"
    return f"{told['slots']} of {told['of_slots']}: {spread}"


def _access(spec: Spec, told: Spec) -> str:
    """How a snapshot comes by its candidates."""
    if spec["lookup"] is not None:
        return f"key: one look into each slot's hash table for {spec['lookup']!r}, no scan"
    if spec["kind"] == "nearest":
        return f"scan of {told['objects']} objects within a box that shrinks to the k-th distance so far"
    return f"scan of {told['objects']} objects against the box"


def _index(spec: Spec, stream: StreamSpec, told: Spec) -> str:
    """The index in which a registered query hangs, and how much of it its region touches."""
    if _hangs_by(spec, stream):
        name = "keyword index"
    elif "focal" in spec["region"] or spec["kind"] == "nearest":
        name = "moving cells"
    else:
        name = "grid"
    side = told["sides"].get(name)
    if side is None:
        return name
    cells = side[0] * side[0]
    return f"{name}: {min(side[1], cells)} of {cells} cells"


def _candidates(spec: Spec, stream: StreamSpec, told: Spec) -> str:
    """The estimated number of this query's candidates for each record: its chance to come into the box."""
    if not told["objects"]:
        return "unknown: nothing is present"
    if spec["kind"] == "nearest":
        chance = min(1.0, (spec["region"]["k"] + 1) / told["objects"])
    else:
        chance = told["boxed"] / told["objects"]
    asked = _keywords(spec, stream)
    if asked and told["total"] and told["terms"]:
        shares = [seen / told["total"] for seen in told["terms"].values()]
        texts = math.prod(shares) if asked == "all" else min(1.0, sum(shares))
        rare = min(told["terms"], key=lambda term: int(told["terms"][term]))
        return f"{chance * texts:.2g} (box {chance:.2g}, terms {texts:.2g}; rarest term {rare!r})"
    return f"{chance:.2g}"


def _order(spec: Spec, stream: StreamSpec, told: Spec, what: str, first: str | None = None) -> list[Item]:
    """The operators in their order, and why. SOLE section 7: each looks at what the one before it left."""
    contains = _keywords(spec, stream)
    steps = [first] if first else []
    steps += ["region's box"]
    if spec["region"]["type"] not in ("all", "rect", "moving_rect", "nearest"):
        steps.append("exact region")
    if spec["join"] is not None:
        steps.append(
            f"look-up in {spec['join']['table']} by {spec['join']['key']} = {spec['join']['column']}"
        )
    if spec["condition"] is not None:
        steps.append("condition, with the table's columns" if spec["join"] is not None else "condition")
    if spec["kind"] == "nearest":
        steps = [*steps[:-1], "condition", "k nearest"] if spec["condition"] else ["k nearest"]
    items: list[Item] = [("order", " -> ".join(steps)), ("why", _reason(spec, told, what, first, contains))]
    if told["sampled"]:
        share = _share(told["satisfied"], told["sampled"])
        items.append(("of the box in the answer", f"{share} (of {told['sampled']} objects looked at)"))
    return items


def _reason(spec: Spec, told: Spec, what: str, first: str | None, contains: str | None) -> str:
    if first == "key":
        return "the key leaves one object, whatever the region and the condition"
    if spec["join"] is not None:
        left = _share(told["boxed"], told["objects"])
        return f"the region leaves {left} of the objects; a table's row is looked up for those only"
    if spec["kind"] == "nearest" and spec["condition"] is not None:
        return "the k nearest that satisfy it: ever more of the nearest are looked at until k do"
    if contains:
        return "terms are rarer than places: a text is looked at where the query's rarest term occurs"
    return f"a box costs {what} four comparisons, the rest far more"


def _so_far(told: Spec) -> list[Item]:
    """What a query has cost since it was registered."""
    mine, everything = told["query"], told["all"]
    if mine is None:
        return [("so far", "nothing: no step was taken since")]
    return [
        ("candidates so far", mine["tested"]),
        (
            "matches so far",
            f"{mine['matched']} ({_share(mine['matched'], mine['tested'])} of the candidates)",
        ),
        ("updates so far", mine["told"]),
        ("share of time so far", f"about {_share(mine['tested'], everything['tested'])}, by candidates"),
    ]


def _keywords(spec: Spec, stream: StreamSpec) -> str | None:
    """How a range query hangs in the keyword index: by "all" of its terms, by "any", None: not at all."""
    return _hangs_by(spec, stream) if spec["kind"] == "range" else None


def _hangs_by(spec: Spec, stream: StreamSpec) -> str | None:
    """The same of any query; circles of kNN queries hang there too."""
    from stqsh.core.matching.keyword_queries import keyword_part, text_column

    part = keyword_part(spec, text_column(stream)) if spec["kind"] in ("range", "nearest") else None
    return None if part is None else "all" if part.every else "any"


def _share(part: int, of: int) -> str:
    return "0 %" if not of else f"{100 * part / of:.3g} %"
