"""Which objects load shedding drops: in order, and never below a query's least accuracy."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stqsh.core.kernels.retention.drop_choice import QueryLoad, locked_queries, shed_objects

LEAST = st.sampled_from([0.0, 0.25, 0.5, 0.8, 0.9, 1.0])


@st.composite
def crowds(draw):
    """Interested queries of each object, how many more objects each query holds and lacks, its minimum."""
    queries = draw(st.integers(1, 6))
    wants = st.lists(st.integers(0, queries - 1), min_size=1, unique=True).map(sorted)
    objects = draw(st.lists(wants, max_size=12))
    others = [(draw(st.integers(0, 8)), draw(st.integers(0, 3)), draw(LEAST)) for _ in range(queries)]
    return objects, others


def standing_of(objects, others):
    held = [more + sum(q in wants for wants in objects) for q, (more, _, _) in enumerate(others)]
    shed = [lacks for _, lacks, _ in others]
    kinds = (np.int64, np.int64, np.float64)
    columns = (held, shed, [least for _, _, least in others])
    return QueryLoad(*(np.array(column, kind) for column, kind in zip(columns, kinds, strict=True)))


def dropped(objects, standing):
    start = np.cumsum([0, *map(len, objects)], dtype=np.int64)
    return shed_objects(start, np.array([q for wants in objects for q in wants], np.int32), standing)


def accuracy(held, shed):
    return held / (held + shed) if held + shed else 1.0


@given(crowds())
def test_objects_are_dropped_as_a_plain_loop_drops_them(crowd):
    objects, others = crowd
    standing, plain = standing_of(objects, others), standing_of(objects, others)
    expected = []
    for wants in objects:
        locked = any(plain.held[q] - 1 < plain.least[q] * (plain.held[q] + plain.shed[q]) for q in wants)
        expected.append(not locked)
        for q in wants if not locked else ():
            plain.held[q] -= 1
            plain.shed[q] += 1
    assert dropped(objects, standing).tolist() == expected
    for name in QueryLoad._fields:
        assert getattr(standing, name).tolist() == getattr(plain, name).tolist()


def test_no_drop_takes_a_query_below_its_minimum():
    losses = 0

    @given(crowds())
    def holds(crowd):
        nonlocal losses
        objects, others = crowd
        standing, before = standing_of(objects, others), standing_of(objects, others)
        dropped(objects, standing)
        for q, least in enumerate(standing.least.tolist()):
            lost = standing.held[q] < before.held[q]
            losses += lost
            assert not lost or accuracy(standing.held[q], standing.shed[q]) >= least - 1e-12
            assert standing.held[q] + standing.shed[q] == before.held[q] + before.shed[q]

    holds()
    assert losses > 0


def test_the_first_objects_go_until_a_query_is_locked():
    standing = standing_of([[0]] * 5, [(0, 0, 0.6)])
    assert dropped([[0]] * 5, standing).tolist() == [True, True, False, False, False]
    assert locked_queries(standing).tolist() == [True]


def test_an_object_of_a_locked_query_stays_whoever_else_wants_it():
    objects = [[0, 1], [1], [0]]
    standing = standing_of(objects, [(8, 0, 0.0), (0, 0, 1.0)])
    assert dropped(objects, standing).tolist() == [False, False, True]


def test_a_query_without_a_minimum_is_never_locked():
    standing = standing_of([[0]], [(0, 4, 0.0)])
    assert dropped([[0]], standing).tolist() == [True]
    assert (standing.held.tolist(), standing.shed.tolist()) == ([0], [5])
    assert locked_queries(standing).tolist() == [False]
