"""Queries, regions and expressions keep their meaning through JSON."""

from typing import Any

import msgspec
import pytest
from support.typed import query_spec, snapshot_spec

from stqsh.spec.command import DropCommand, MemoryCommand, RegisterCommand, unpack_commands
from stqsh.spec.expression import (
    AndExpr,
    ColumnExpr,
    CompareExpr,
    ContainsExpr,
    DistanceExpr,
    Expr,
    InExpr,
    LiteralExpr,
    NotExpr,
    conjuncts,
    find_nodes,
    has_node,
    rewrite,
)
from stqsh.spec.older_queries import composed
from stqsh.spec.query import QuerySpec, Result, SlotQuery, Timing, slot_query
from stqsh.spec.region import Region

REGIONS = [
    {"type": "all"},
    {"type": "rect", "x1": 1.0, "y1": 2.0, "x2": 3.0, "y2": 4.0},
    {"type": "circle", "x": 1.0, "y": 2.0, "radius": 3.5},
    {"type": "polygon", "rings": [[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]]},
    {"type": "area", "area": 3, "name": "zones", "member": "a"},
    {"type": "area", "area": 3, "name": "zone", "member": None},
    {"type": "moving_rect", "focal": "a", "xdist": 1.0, "ydist": 2.0},
    {"type": "moving_circle", "focal": 368, "radius": 2.0},
    {"type": "nearest", "k": 3, "x": 1.0, "y": 2.0},
    {"type": "nearest", "k": 3, "focal": "a"},
]
EXPRESSIONS = [
    ["col", "speed"],
    ["join", 4, "zone", "name"],
    ["lit", None, "STRING"],
    ["lit", 2**63 - 1, "BIGINT"],
    ["lit", True, "BOOLEAN"],
    ["arith", "-", ["now"], ["dur", 60_000_000]],
    ["neg", ["distance"]],
    ["between", ["col", "n"], ["lit", 1, "INT"], ["lit", 2.5, "DOUBLE"]],
    ["in", ["col", "n"], [["lit", 1, "INT"], ["col", "m"]]],
    ["like", ["col", "name"], "a%"],
    ["contains", ["col", "text"], "free taxi", "any"],
    ["contains", ["col", "text"], ["col", "\0000"], "all"],
    ["not", ["isnull", ["fn", "DATE", ["col", "ts"], [], ""]]],
    ["inside", {"type": "circle", "x": 1.0, "y": 2.0, "radius": 3.0}],
    ["and", [["cmp", "=", ["col", "n"], ["lit", 1, "INT"]], ["or", [["col", "b"], ["col", "c"]]]]],
    ["among", ["col", "n"], ["col", "\0000"]],
    ["inside_each", "rect", [["col", "\0000"]], 0],
]
QUERY: dict[str, Any] = {
    "id": 7,
    "kind": "range",
    "region": REGIONS[1],
    "condition": ["cmp", ">", ["col", "speed"], ["lit", 3.5, "DOUBLE"]],
    "select": [["oid", ["col", "oid"]], ["far", ["distance"]]],
    "for_us": None,
    "options": {"dwell_us": 5_000_000},
    "aggregates": {
        "groups": [[["fn", "HOUR", ["col", "ts"], [], ""], "BIGINT"]],
        "measures": [["count", None, "BIGINT", 0], ["topk", ["col", "body"], "STRING", 3]],
        "select": [["n", ["col", "m0"], "BIGINT"], ["top", ["col", "m1"], "TOPK"]],
        "order": [[["col", "g0"], True, False]],
        "limit": 5,
        "sync_us": 60_000_000,
    },
    "stream": "taxis",
    "stream_id": 1,
    "text": "SELECT …",
    "join": {"table": "t", "table_id": 2, "key": "k", "column": "zone"},
    "areas": [3],
    "name": "q",
}


def expression(value: Any) -> Any:
    return msgspec.convert(value, Expr)


@pytest.mark.parametrize("region", REGIONS)
def test_a_region_is_written_as_it_was_read(region: dict[str, Any]) -> None:
    read = msgspec.convert(region, Region)
    assert msgspec.json.decode(msgspec.json.encode(read)) == region
    assert read.focal_key == region.get("focal")
    assert hash(read) == hash(msgspec.convert(region, Region))


@pytest.mark.parametrize("value", EXPRESSIONS)
def test_an_expression_is_written_as_it_was_read(value: list[Any]) -> None:
    text = msgspec.json.encode(value)
    assert msgspec.json.encode(msgspec.json.decode(text, type=Expr)) == text


def test_a_query_is_written_as_it_was_read() -> None:
    query = query_spec(QUERY)
    text = msgspec.json.encode(query)
    assert msgspec.json.decode(text, type=QuerySpec) == query
    assert msgspec.json.decode(text, type=SlotQuery) == slot_query(query)


def test_what_is_missing_has_a_default() -> None:
    shortest = {"stream": "s", "stream_id": 1, "text": "", "kind": "range", "region": {"type": "all"}}
    snapshot = snapshot_spec(shortest)
    assert (snapshot.condition, snapshot.result, snapshot.timing) == (None, Result(), Timing())


def test_an_unknown_node_is_refused() -> None:
    with pytest.raises(ValueError, match="wrong"):
        query_spec(QUERY | {"condition": ["wrong", 1]})


def test_commands_are_told_by_their_op() -> None:
    query = {"id": 3, "kind": "range", "region": {"type": "all"}}
    told = [{"op": "register", "query": composed(query)}, {"op": "drop", "id": 4}, {"op": "memory", "k": 2}]
    register, drop, memory = unpack_commands(msgspec.json.encode(told))
    assert isinstance(register, RegisterCommand) and register.query.id == 3
    assert drop == DropCommand(id=4)
    assert isinstance(memory, MemoryCommand) and (memory.k, memory.factor) == (2, 1.0)


def test_nodes_are_found_outermost_first() -> None:
    value = expression(["neg", ["neg", ["col", "a"]]])
    assert [node.operand for node in find_nodes(value, type(value))] == [value.operand, ColumnExpr("a")]
    inside = InExpr(ColumnExpr("a"), (ColumnExpr("b"), DistanceExpr()))
    assert [node.name for node in find_nodes(inside, ColumnExpr)] == ["a", "b"]
    assert has_node(inside, DistanceExpr)
    assert not has_node(None, DistanceExpr)


def test_conjuncts_are_taken_apart_at_any_depth() -> None:
    a, b, c = (ColumnExpr(name) for name in "abc")
    assert conjuncts(AndExpr((a, AndExpr((b, NotExpr(c)))))) == (a, b, NotExpr(c))
    assert conjuncts(None) == ()


def test_a_rewrite_goes_in_the_order_of_the_fields() -> None:
    seen: list[Any] = []

    def change(node: Expr) -> Expr | None:
        if not isinstance(node, LiteralExpr):
            return None
        seen.append(node.value)
        return ColumnExpr(f"p{len(seen)}")

    value = AndExpr((
        CompareExpr("<", LiteralExpr(1, "INT"), ColumnExpr("a")),
        InExpr(ColumnExpr("a"), (LiteralExpr(2, "INT"), LiteralExpr(3, "INT"))),
        ContainsExpr(ColumnExpr("t"), "x", "all"),
    ))  # fmt: skip
    changed = rewrite(value, change)
    assert seen == [1, 2, 3]
    assert [node.name for node in find_nodes(changed, ColumnExpr)] == ["p1", "a", "a", "p2", "p3", "t"]
    assert rewrite(value, lambda _: None) is value
