"""The first law from a typed statement to a printed line: the whole system but for Spark and processes."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Container
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.budget import share
from support.local import local_session
from support.running import Together, agree, parsed, run_script
from support.scripts import ScriptCase
from support.seeded import significant_script
from support.strategies import EVERY, script_cases, slots

sizes = st.sampled_from([1, 7, 400_000])
ALL = EVERY | {"snapshots"}
FEATURES: dict[str, frozenset[str]] = {
    "rectangles": frozenset(),
    "regions": frozenset({"circles", "polygons", "inside", "snapshots"}),
    "neighbours": frozenset({"nearest", "expressions", "snapshots"}),
    "events": frozenset({"events", "text", "nearest", "snapshots"}),
    "joins": frozenset({"joins", "expressions", "dwell", "snapshots"}),
    "all": ALL,
}
every = script_cases(features=ALL)


def reaches_over(script: ScriptCase) -> bool:
    """Whether a fixed region reaches over the 180th meridian, where this oracle ends; others go on."""
    statements = " ".join(said.text for said in script.said("", 0))
    return any(float(number) > 180 for number in re.findall(r"-?(\d{3}\.\d+)", statements))


def output(script: ScriptCase | Together, count: int, records: int, mishaps: Container[int] = ()) -> bytes:
    """What the script prints on `count` slots, with at most about `records` records in a batch."""
    with tempfile.TemporaryDirectory() as name, local_session(Path(name), count, records, mishaps) as session:
        file = script.write(Path(name))
        return run_script(session, file.read_text(encoding="utf-8"), file)


@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
@share(8)
@given(data=st.data(), count=slots, records=sizes)
def test_a_script_prints_what_the_oracle_says(
    features: frozenset[str], data: st.DataObject, count: int, records: int
) -> None:
    script: ScriptCase = data.draw(script_cases(features=features))
    assume(script.case.spec["planar"] or not reaches_over(script))
    agree(parsed(output(script, count, records)), script.lines())


@pytest.mark.parametrize(("count", "records"), [(1, 400_000), (4, 7)])
def test_a_stream_that_retains_what_is_significant_prints_what_the_oracle_says(
    count: int, records: int
) -> None:
    script = significant_script(count)
    agree(parsed(output(script, count, records, {2})), script.lines())


@share(10)
@given(every, slots, sizes)
def test_output_is_the_same_to_the_byte(script: ScriptCase, count: int, records: int) -> None:
    assert output(script, count, records) == output(script, 1, 400_000)


@share(8)
@given(every, slots, sizes, st.sets(st.integers(0, 12), min_size=1))
def test_a_batch_that_is_done_twice_prints_once(
    script: ScriptCase, count: int, records: int, mishaps: set[int]
) -> None:
    agree(parsed(output(script, count, records, mishaps)), script.lines())


several = st.lists(script_cases((1_000_000,), ALL), min_size=2, max_size=3)
created = st.lists(st.sampled_from([1, 2, 3, 5, 9]), min_size=2, max_size=2)


@share(10)
@given(st.builds(Together.of, several, created), slots, sizes)
def test_streams_share_a_clock_and_nothing_else(together: Together, count: int, records: int) -> None:
    agree(parsed(output(together, count, records)), together.lines())
