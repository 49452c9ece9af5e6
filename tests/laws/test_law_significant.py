"""RETAIN SIGNIFICANT held to its law: what is kept and told, and what caches and shedding promise."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import memory, oracle
from support.budget import share
from support.cases import Case, by_step
from support.crowds import significant_crowd
from support.group_updates import updates
from support.oracle import significant
from support.oracle.significant import Significant, SignificantGroups, Warmth
from support.retention_cases import Kept, homes, kept, should_keep
from support.strategies import BATCHES, cut, cuts
from support.strategies.groups import dwelling, forms_over, values_of
from support.strategies.significant import MOVING, honest_cases, retaining_all, wild_cases
from support.worked_kinds import nearest
from support.worked_significant import (
    EXAMPLES,
    FIFTEEN,
    TEN,
    drive_past,
    line,
    seven,
    significant_case,
    timed,
)

from stqsh.core.retention import object_retention

slots = st.sampled_from([1, 2, 4])
restarts = st.sets(st.integers(0, 12), max_size=3)
RANGES: dict[str, frozenset[str]] = {
    "rectangles": frozenset(),
    "moving regions in conditions": frozenset({"circles", "around"}),
    "shapes": frozenset({"circles", "polygons", "inside"}),
    "dwell and joins": MOVING - {"nearest"},
}


@pytest.fixture(autouse=True)
def _close_ranks_at_once() -> Any:
    """Rows of forgotten objects make room at once, and not only where there are a thousand."""
    with mock.patch.object(object_retention, "_SPARE", 0):
        yield


# --- the oracle, by itself ---


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_oracle_does_as_sole_says(name: str) -> None:
    example, refs = EXAMPLES[name], {}

    def look(state: Significant, n: int) -> None:
        assert set(state.stored) == set(state.refs)
        refs[n] = {key: len(ids) for key, ids in state.refs.items()}

    updates = significant.run(example.case, look)
    assert [(u.step, u.query, u.op, u.key, u.why) for u in updates] == example.told
    assert {n: refs[n] for n in example.kept} == example.kept


@pytest.mark.parametrize(("least", "s"), [(0.0, {1: 7, 2: 5, 3: 3}), (0.6, {1: 5, 2: 4, 3: 3})])
def test_locked_objects_are_left_out_of_s(least: float, s: dict[int, int]) -> None:
    case, seen = significant_case(1, seven(least), FIFTEEN), {}
    significant.run(case, lambda state, n: seen.update({n: dict(significant.histogram(state, n))}))
    assert seen == {1: s}
    (found,) = _kept_after(case, 1)[1]
    assert found.histogram == s
    assert found.locked == ({1, 7} if least else set())
    assert {id_: sum(counts) for id_, counts in found.queries.items()} == {
        int(name[1:]): sum(low <= x <= high for x in FIFTEEN.values()) for name, (low, high) in TEN.items()
    }


@share(6, least=8)
@given(honest_cases(frozenset({"circles", "polygons", "around"}), sheds=True))
def test_after_one_report_of_peace_nothing_is_missing(case: Case) -> None:
    _hold_to_all(case)


@share(6, least=8)
@given(honest_cases(frozenset({"nearest"}), silent=False))
def test_after_one_report_of_peace_no_neighbour_is_missing(case: Case) -> None:
    _hold_to_all(case)


@pytest.mark.parametrize(("factor", "misses"), [(1.0, False), (0.75, False), (0.7, True)])
def test_a_narrower_cache_misses_what_a_focal_object_drives_up_to(factor: float, misses: bool) -> None:
    case = drive_past(factor)
    told, everything = memory.run(case, 1, cut(case, None)).updates, oracle.run(retaining_all(case))
    assert told == significant.run(case)
    assert ({u[:4] for u in told} != {u[:4] for u in everything}) == misses


def _hold_to_all(case: Case) -> None:
    """Warm queries have the answers of RETAIN ALL."""
    every, warmth = oracle.Oracle.of(retaining_all(case)), Warmth()
    records, commands = by_step(case.records), by_step(case.commands)

    def look(state: Significant, n: int) -> None:
        every.step(n, commands.get(n, []), records.get(n, []))
        for id_ in warmth.look(state, n):
            query = state.queries[id_].spec
            assert state.answer(query, n) == every.answer(query, n)

    significant.run(case, look)


# --- the core ---


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("size", BATCHES)
def test_a_slot_does_as_sole_says(name: str, size: int | None) -> None:
    example = EXAMPLES[name]
    updates = memory.run(example.case, 1, cut(example.case, size)).updates
    assert [(u.step, u.query, u.op, u.key, u.why) for u in updates] == example.told
    found = _kept_after(example.case, 1, size)
    assert {n: found[n][0].refs for n in example.kept if n in found}.items() <= example.kept.items()


@pytest.mark.slow
@pytest.mark.parametrize("features", RANGES.values(), ids=RANGES)
@share(6, least=8)
@given(data=st.data(), size=cuts, count=slots, again=restarts)
def test_what_is_kept_and_told_is_the_oracles(
    features: frozenset[str], data: st.DataObject, size: int | None, count: int, again: set[int]
) -> None:
    case: Case = data.draw(wild_cases(features))
    agree(case, count, size, again)


@pytest.mark.slow
@share(6, least=8)
@given(wild_cases(MOVING - {"nearest", "dwell"}, sheds=True), cuts, slots, restarts)
def test_shedding_takes_what_the_oracle_takes(
    case: Case, size: int | None, count: int, again: set[int]
) -> None:
    agree(case, count, size, again)


@pytest.mark.slow
@share(6, least=8)
@given(wild_cases(MOVING, sheds=True), cuts, restarts)
def test_neighbours_on_one_slot_are_the_oracles(case: Case, size: int | None, again: set[int]) -> None:
    agree(case, 1, size, again)


@st.composite
def added_up(draw: st.DrawFn, features: frozenset[str]) -> Case:
    """A wild case of aggregates with DWELL."""
    case = draw(wild_cases(features))
    forms = draw(st.lists(forms_over(values_of(case)), min_size=1, max_size=2))
    commands = []
    for step, command in case.commands:
        changed = {}
        if command["op"] == "register":
            query = {name: part for name, part in command["query"].items() if name != "first"}
            form = draw(st.sampled_from(forms)) | {"each_step": query["region"]["type"] != "nearest"}
            query |= {"aggregates": form, "select": [], "options": {}}
            dwell_us = draw(st.sampled_from([1, 2, 3])) * case.clock.tick_us + draw(st.integers(0, 1))
            changed = {"query": dwelling(query, dwell_us)}
        commands.append((step, command | changed))
    return replace(case, commands=commands)


@pytest.mark.slow
@pytest.mark.parametrize("is_near", [False, True])
@share(6, least=8)
@given(data=st.data(), size=cuts, count=slots, again=restarts)
def test_rows_that_are_held_are_added_up(
    is_near: bool, data: st.DataObject, size: int | None, count: int, again: set[int]
) -> None:
    case = data.draw(added_up(MOVING if is_near else MOVING - {"nearest"}))
    count = 1 if is_near else count
    start = SignificantGroups.of(case)
    start.home = homes(case, count)
    assert updates(case, count, cut(case, size), again) == significant.run(case, start=start)


@pytest.mark.slow
@share(12, least=8)
@given(wild_cases(frozenset({"circles"}), sheds=True, accurate=True), slots, cuts)
def test_no_drop_takes_a_query_below_its_least_accuracy(case: Case, count: int, size: int | None) -> None:
    found = _kept_after(case, count, 1)
    start = Significant.of(case)
    start.home = homes(case, count)
    start.seen = {n: {key for slot in each for key in slot.refs} for n, each in found.items()}
    told = agree(case, count, 1, (), start)
    assert memory.run(case, count, cut(case, size)).updates == told


@pytest.mark.slow
def test_neighbours_on_any_slots_are_those_of_retain_all() -> None:
    members_compared = 0
    records = [item for n in range(1, 7) for item in line(n, {"a": 0.0, "b": 0.25, "c": 0.5})]
    still = timed(6, [(1, nearest(2, 2, x=0, y=0.5))], records)

    # Queries that know all have members in few drawn cases: a run with few examples might compare none.
    @share(6, least=8)
    @given(honest_cases(frozenset({"nearest"}), silent=False), cuts, slots)
    @example(still, None, 2)
    def holds(case: Case, size: int | None, count: int) -> None:
        nonlocal members_compared
        warmth, warm = Warmth(), {}
        significant.run(case, lambda state, n: warm.update({n: warmth.look(state, n)}))
        told = by_step([(u.step, u) for u in memory.run(case, count, cut(case, size)).updates])
        every, held = oracle.Oracle.of(retaining_all(case)), {}
        records, commands = by_step(case.records), by_step(case.commands)
        for n in range(1, case.steps + 1):
            every.step(n, commands.get(n, []), records.get(n, []))
            for u in told.get(n, []):
                members = held.setdefault(u.query, set())
                (members.add if u.op == "+" else members.remove)(u.key)
            for id_ in warm[n]:
                answer = every.answer(every.queries[id_].spec, n)
                assert held.get(id_, set()) == answer
                members_compared += len(answer)

    holds()
    assert members_compared > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_crowd_is_kept_and_told_of_as_the_oracle_says(seed: int) -> None:
    case = significant_crowd(seed, objects=200, queries=40, steps=16)
    expected = significant.run(case)
    assert len(expected) > 300
    for count, size in ((1, None), (4, 7)):
        agree_on_updates(memory.run(case, count, cut(case, size), {3}).updates, expected)


def agree(
    case: Case, count: int, size: int | None, again: Container[int], start: Significant | None = None
) -> list[oracle.Update]:
    """Raise AssertionError unless updates, and after each batch what is kept, are the oracle's."""
    start = start or Significant.of(case)
    start.home = homes(case, count)
    batches = cut(case, size)
    ends, right = {last for _, last in batches}, {}

    def look(state: Significant, n: int) -> None:
        if n in ends:
            right[n] = should_keep(state, n, count)

    expected, found = significant.run(case, look, start), {}
    look_at = lambda engine, n: found.update({n: kept(engine, case.spec)})  # noqa: E731
    updates = memory.run(case, count, batches, again, look_at).updates
    agree_on_updates(updates, expected)
    for n in sorted(ends):
        for slot, (there, wanted) in enumerate(zip(found[n], right[n], strict=True)):
            assert there == wanted, f"after step {n} on slot {slot}"
    return updates


def agree_on_updates(updates: list[oracle.Update], expected: list[oracle.Update]) -> None:
    """Raise AssertionError unless both are the same, but for the last digits of distances."""
    assert [u[:5] for u in updates] == [u[:5] for u in expected]
    for told, right in zip(updates, expected, strict=True):
        assert oracle.alike(told, right), (told, right)


def _kept_after(case: Case, count: int, size: int | None = 1) -> dict[int, list[Kept]]:
    """What is kept after each batch."""
    found: dict[int, list[Kept]] = {}
    memory.run(
        case, count, cut(case, size), look=lambda engine, n: found.update({n: kept(engine, case.spec)})
    )
    return found
