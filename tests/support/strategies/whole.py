"""Whole cases, in memory and as scripts, and the ways to cut a run into batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import hypothesis
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from stqsh.engine.config import TUNING, EngineTuning
from stqsh.settings import INDEXES, WINDOWS
from support.cases import Case, Clock, Row, Spec
from support.oracle import accepted, moments
from support.scripts import ScriptCase, replayed
from support.strategies.queries import schedules, snapshots, typed_schedules
from support.strategies.regions import areas, tables
from support.strategies.streams import TICKS_US, Scope, rows, specs, timelines, used_keys

SLOTS = [1, 2, 3, 4, 7]
BATCHES = [1, 7, None]
PLAIN: frozenset[str] = frozenset()

cuts = st.sampled_from(BATCHES)
slots = st.sampled_from(SLOTS)
restarts = st.sets(st.integers(0, 12), max_size=3)
"""The batches before which all restarts."""
chosen = st.dictionaries(st.integers(0, 4), st.sampled_from([*INDEXES, *WINDOWS, 1, 3, 1000]), max_size=4)
"""The batches before which an index is chosen, and which; a number limits the queries of a CH-tree."""
cores = st.lists(st.integers(1, 6), min_size=1, max_size=4)
"""How many cores Spark has, in turns: other ones after each restart."""
clocks = st.builds(Clock, st.sampled_from([0, -3, 1_201_956_300, -2_000_000]), st.sampled_from(TICKS_US))


@st.composite
def scopes(draw: st.DrawFn, spec: Spec, clock: Clock, used: list[Any], features: frozenset[str]) -> Scope:
    """What the queries of a case may speak of: the stream, and named things for them."""
    instants = [clock.at(1), clock.at(3) + 1]
    named = draw(areas(spec)) if "polygons" in features else {}
    joins = draw(tables(spec, used, instants)) if "joins" in features else {}
    return Scope(spec, clock, used, features, joins, named)


@st.composite
def cases(
    draw: st.DrawFn, features: frozenset[str] = PLAIN, clock: Clock | None = None, stream_id: int = 1
) -> Case:
    """A stream with its records and the queries over it."""
    clock = clock or draw(clocks)
    spec = draw(specs(clock.tick_us, features, stream_id))
    steps = draw(timelines())
    used = draw(used_keys(spec))
    records = [
        (step, row)
        for step in steps
        for row in draw(st.lists(rows(spec, clock, step, used), min_size=1, max_size=6))
    ]
    last = steps[-1] + draw(st.sampled_from([1, 4, 2_000]))
    scope = draw(scopes(spec, clock, used, features))
    commands = draw(schedules(scope, steps, first_id=10 * stream_id))
    records = accepted(spec, clock, records)
    return Case(spec, clock, last, records, commands, scope.tables, scope.areas)


@st.composite
def sessions(draw: st.DrawFn, features: frozenset[str]) -> list[Case]:
    """Two streams with one clock; their queries share tables and regions of different names."""
    clock = draw(clocks)
    both = [draw(cases(features, clock, stream_id)) for stream_id in (1, 2)]
    steps = max(case.steps for case in both)
    return [replace(case, steps=steps) for case in both]


@st.composite
def looks(draw: st.DrawFn, case: Case, features: frozenset[str]) -> list[tuple[int, Spec]]:
    """Snapshots of a case's stream: after which step, and what is asked."""
    used = sorted({row[case.spec["key"]] for _, row in case.records})
    scope = Scope(case.spec, case.clock, used, features, case.tables, case.areas)
    steps = sorted({step for step, _ in case.records})
    return draw(st.lists(st.tuples(st.sampled_from(steps), snapshots(scope)), max_size=5))


@st.composite
def script_cases(
    draw: st.DrawFn,
    ticks_us: tuple[int, ...] = (1_000_000, 250_000, 60_000_000),
    features: frozenset[str] = PLAIN,
) -> ScriptCase:
    """A case that can be typed: records in files, commands and snapshots between RUNs."""
    tick_us = draw(st.sampled_from(ticks_us))
    spec = draw(specs(tick_us, features)) | {"order": draw(st.sampled_from(["time", "arrival"]))}
    for lasts in ("report_every_us", "keep_us"):
        if spec[lasts]:
            spec[lasts] = max(1000, spec[lasts] // 1000 * 1000)
    clock = Clock(draw(st.sampled_from([0, -3, 1_201_956_300])), tick_us)
    form = draw(st.sampled_from(["jsonl", "csv", "parquet"]))
    used = draw(used_keys(spec).filter(lambda keys: keys != [""]))
    used = [key for key in used if key != ""]
    steps = draw(timelines())
    lines = [
        row for step in steps for row in draw(st.lists(rows(spec, clock, step, used), min_size=1, max_size=6))
    ]
    lines = [_plain(row, form) for row in lines]
    half = draw(st.integers(0, len(lines)))
    if spec["kind"] == "event":  # one record at least is taken
        lines[0] = {**lines[0], "x": 0.5, "y": 0.5}
    files = [part for part in (lines[:half], lines[half:]) if part] if draw(st.booleans()) else [lines]
    records = replayed(spec, files)
    clock, steps = records.clock, sorted({step for step, _ in records.taken})
    scope = draw(scopes(spec, clock, used, features))
    commands = [(s, _typeable(c)) for s, c in draw(typed_schedules(scope, steps))]
    last = max([steps[-1], *(step for step, _ in commands)])
    case = Case(spec, clock, last, records.taken, commands, scope.tables, scope.areas)
    asked = draw(looks(case, features)) if "snapshots" in features and case.records else []
    return ScriptCase(case, files, form, [(step, _typeable(select)) for step, select in asked])


def _plain(row: Row, form: str) -> Row:
    """A row that the format can carry: CSV has one way to write both nothing and an empty string."""
    return {
        name: None if form == "csv" and content in ("", "\n") else content for name, content in row.items()
    }


def _typeable(part: Any) -> Any:
    """A command as the language takes it: whole milliseconds, real latitudes, no lengths of 0."""
    if isinstance(part, dict):
        lengths = {name: part[name] or 0.5 for name in ("xdist", "ydist", "radius") if name in part}
        if part.get("type") == "rect":
            lengths = {name: min(90.0, max(-90.0, part[name])) for name in ("y1", "y2")}
        if "dwell_us" in part:
            lengths = {"dwell_us": max(1000, part["dwell_us"] // 1000 * 1000)}
        return {name: _typeable(content) for name, content in part.items()} | lengths
    if isinstance(part, list):
        if part[:1] == ["dur"]:
            return ["dur", part[1] // 1000 * 1000]
        return [_typeable(content) for content in part]
    return part


def in_slices(count: int, tuning: EngineTuning = TUNING) -> EngineTuning:
    """The tunables of an engine that has cores, and reads every batch in slices, however small."""
    return replace(
        tuning,
        slices=count,
        slice_records=1,
        slice_messages=1,
        by_slot_records=0,
        by_slot_slots=0,
        by_slot_messages=0,
    )


def cut(session: Case | list[Case], size: int | None) -> list[tuple[int, int]]:
    """First and last step of each batch: `size` eventful steps a batch, or all of them (None).

    A command takes effect at the first step of a batch, so each step with commands begins one.
    """
    cases = session if isinstance(session, list) else [session]
    begins = {step for case in cases for step, _ in case.commands} | {1}
    if size:
        begins |= set(sorted({step for case in cases for step in moments(case)})[::size])
    ordered = sorted(b for b in begins if b <= cases[0].steps)
    return list(zip(ordered, [*(b - 1 for b in ordered[1:]), cases[0].steps], strict=True))


def sampled(strategy: st.SearchStrategy[Any], count: int, seed: int) -> list[Any]:
    """The same `count` examples each time, for tests that are too slow to draw their own."""
    out: list[Any] = []

    @hypothesis.seed(seed)
    @settings(max_examples=2 * count, database=None, phases=[Phase.generate])
    @given(strategy)
    def collect(example: Any) -> None:
        out.append(example)

    collect()
    return out[-count:]  # the first ones are the simplest


def drawn_until(strategy: st.SearchStrategy[Any], enough: Callable[[list[Any]], bool]) -> list[Any]:
    """Twenty examples, and twenty more while they are not enough, at most twenty times.

    `enough` gets the newest twenty, and remembers what it has seen in those before.

    Hypothesis takes numbers for its examples from the code that is loaded, so that a change of the code, or
    another order of the tests, brings other examples. How many of twenty show something is thus no constant.
    """
    out: list[Any] = []
    for seed in range(20):
        newest = sampled(strategy, 20, seed)
        out += newest
        if enough(newest):
            break
    return out
