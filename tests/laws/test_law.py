"""The first law without a JVM: whatever cuts, slots and restarts, the updates are the oracle's."""

from __future__ import annotations

from collections import Counter
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import memory, oracle
from support.budget import share
from support.cases import Case
from support.deaths import Death, deaths
from support.strategies import BATCHES, cases, cores, cut, cuts, in_slices, restarts, slots
from support.worked import EXAMPLES

from stqsh.core.retention import object_retention


@share(2)
@given(cases(), cuts, slots, restarts)
def test_updates_are_the_oracles(case: Case, size: int | None, count: int, again: set[int]) -> None:
    expected, stale = oracle.run(case), oracle.stale(case)
    outcome = memory.run(case, count, cut(case, size), again)
    assert outcome.updates == expected
    sizes = {query: len(keys) for query, keys in oracle.fold(expected).items() if keys}
    assert {query: size for query, size in outcome.sizes.items() if size} == sizes
    assert outcome.stats == Counter(records=len(case.records), stale=stale, updates=len(expected))


@share(2)
@given(
    cases(),
    cuts,
    slots,
    restarts,
    st.dictionaries(st.integers(0, 12), deaths, max_size=3),
    cores,
)
def test_however_many_slices_a_batch_is_read_in_and_repeated_on_other_cores_updates_are_the_oracles(
    case: Case, size: int | None, count: int, again: set[int], died: dict[int, Death], parts: list[int]
) -> None:
    tunings = [in_slices(part) for part in parts]
    outcome = memory.run(case, count, cut(case, size), again, deaths=died, tunings=tunings)
    assert outcome.updates == oracle.run(case)


@share(4)
@given(cases(), cuts, slots)
def test_forgetting_silent_objects_after_each_batch_changes_no_update(
    case: Case, size: int | None, count: int
) -> None:
    with mock.patch.object(object_retention, "_SPARE", -len(case.records) - 1):
        assert memory.run(case, count, cut(case, size)).updates == oracle.run(case)


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("size", BATCHES)
def test_examples_worked_out_by_hand(name: str, size: int | None) -> None:
    example, expected = EXAMPLES[name]
    updates = memory.run(example, 2, cut(example, size)).updates
    assert [(u.step, u.op, u.key, u.why) for u in updates] == expected
