"""Equal queries share what their members add up to: each gets its own copy, and may be left out."""

from __future__ import annotations

from unittest import mock

import msgspec
import numpy as np
import pyarrow as pa

from core.slots import TICK, UNIT, Slot, register
from core.test_views import EVENTS
from stqsh.core.aggregates.states import VALUES, States
from stqsh.core.groups.region_tallies import RegionTallies
from stqsh.core.groups.shared_queries import SharedQueries, taken_back
from stqsh.spec.aggregate import AggregateSpec, Measure

IDS = np.array([3, 5, 6, 9])


def shared(lots: list[int]) -> SharedQueries:
    """Queries at the positions 0 .. 3, of these lots."""
    queries = mock.Mock(id=IDS)
    with mock.patch("stqsh.core.groups.shared_queries._lots", return_value=np.array(lots)):
        return SharedQueries(queries, mock.Mock(), np.arange(4), np.zeros(4, np.bool_))


def states() -> States:
    """Two groups of query 3 and one of query 5; one value of the second, and two of the last."""
    by = pa.table({"query": [3, 3, 5], "step": [7, 7, 7], "key": pa.array([b"a", b"b", b"a"], pa.binary())})
    values = pa.table(
        {"row": [1, 2, 2], "measure": [0, 0, 0], "value": [b"x", b"y", b"z"], "n": [1, 2, 3]}
    ).cast(VALUES)
    return States(by, pa.table({"n": [1, 2, 4]}), values)


def listed(found: States) -> tuple[list, list]:
    """The rows of states, and the values with the query and the key of their rows."""
    by = found.by.to_pydict()
    rows = list(zip(by["query"], by["key"], found.totals["n"].to_pylist(), strict=True))
    values = [
        (by["query"][one["row"]], by["key"][one["row"]], one["value"], one["n"])
        for one in found.values.to_pylist()
    ]
    return sorted(rows), sorted(values)


def test_each_query_of_a_lot_gets_the_states_of_its_first() -> None:
    queries = shared([0, 1, 0, 1])
    assert queries.first.tolist() == [0, 1]
    found = queries.spread(states())
    assert found is not None
    rows, values = listed(found)
    assert rows == sorted(
        [(id_, key, n) for id_ in (3, 6) for key, n in ((b"a", 1), (b"b", 2))]
        + [(id_, b"a", 4) for id_ in (5, 9)]
    )
    assert values == sorted(
        [(id_, b"b", b"x", 1) for id_ in (3, 6)]
        + [(id_, b"a", value, n) for id_ in (5, 9) for value, n in ((b"y", 2), (b"z", 3))]
    )


def test_queries_that_end_are_left_out() -> None:
    queries = shared([0, 1, 0, 1])
    found = queries.spread(taken_back(states(), 9), np.array([False, False, True, False]))
    assert found is not None
    assert listed(found) == ([(6, b"a", -1), (6, b"b", -2)], [(6, b"b", b"x", -1)])
    assert set(found.by["step"].to_pylist()) == {9}
    assert queries.spread(states(), np.zeros(4, np.bool_)) is None


def test_queries_of_their_own_keep_their_states() -> None:
    found = states()
    assert shared([0, 1, 2, 3]).spread(found) is found


def test_only_one_of_equal_queries_looks_for_members() -> None:
    slot, counted = Slot(**EVENTS), AggregateSpec(measures=(Measure("count"),))
    form = msgspec.to_builtins(counted) | {"sync_us": TICK}
    more = {"kind": "aggregate", "aggregates": form}
    wide = UNIT | {"x2": 2.0}
    regions = [UNIT, wide, UNIT, UNIT]
    commands = [register(10 + i, region) for i, region in enumerate(regions)]
    commands = [one | {"query": one["query"] | more} for one in commands]
    commands[3]["query"]["condition"] = ["cmp", "=", ["col", "n"], ["lit", 2, "BIGINT"]]
    asked = []
    of = RegionTallies.of

    def noted(self, spec, positions):
        asked.append(positions.tolist())
        return of(self, spec, positions)

    with mock.patch.object(RegionTallies, "of", noted):
        # A batch with one refresh looks for members; one with several finds how they change.
        slot.batch(1, 1, [(1, "a", 0.5, 0.5, 1, "free", 1), (1, "b", 1.5, 0.5, 1, "free", 2)], commands)
        slot.batch(2, 2, [])
    assert asked
    assert all(positions == [0, 1, 3] for positions in asked)
