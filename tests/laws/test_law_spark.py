"""The first law through Spark: cases that ask for all there is, as streams of one session."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.kinds import covering, kinds
from support.local import local_session
from support.running import Together, agree, parsed, run_script
from support.scripts import ScriptCase
from support.strategies import EVERY, in_slices, sampled, script_cases

from stqsh.client.api import connect

MAX_RECORDS = {1: 400_000, 7: 2}
SPOOL_BYTES = {1: 16_384, 7: 1}
FEATURES = [
    {"circles", "polygons", "joins", "expressions"},
    {"circles", "nearest", "dwell"},
    {"circles", "polygons", "nearest", "events", "text"},
    {"polygons", "joins", "dwell", "events", "text"},
    EVERY,
]
PLACES = ("rect", "circle", "polygon", "area", "nearest")
FOLLOWING = ("moving_rect around", "moving_circle around", "nearest around")
MORE = ("words", "join", "dwell")
WANTED = {f"register moving {kind}" for kind in (*PLACES, *FOLLOWING, *MORE, "for")}
WANTED |= {f"register event {kind}" for kind in (*PLACES, *MORE)}
WANTED |= {
    f"select {stream} {kind}" for stream in ("moving", "event") for kind in ("nearest", "key", "count")
}
WANTED |= {"pause", "resume", "drop", "moving by time", "moving by arrival", "event by time"}


def every_kind() -> list[ScriptCase]:
    """Few cases with all kinds of queries, snapshots and commands; the same ones each time."""
    drawn: list[ScriptCase] = []
    for seed in range(2, 12):
        for features in FEATURES:
            drawn += sampled(script_cases((1_000_000,), frozenset(features | {"snapshots"})), 6, seed)
        if set().union(*map(kinds, drawn)) >= WANTED:
            break
    return covering(drawn, WANTED)


@pytest.fixture(scope="module")
def together() -> Together:
    """The same cases of all kinds for all engines."""
    return Together.of(every_kind())


@pytest.fixture(scope="module")
def reference(together: Together, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What the engine without Spark prints."""
    folder = tmp_path_factory.mktemp("reference")
    file = together.write(folder)
    with local_session(folder) as session:
        return run_script(session, file.read_text(encoding="utf-8"), file)


def test_the_reference_is_what_the_oracle_says(together: Together, reference: bytes) -> None:
    agree(parsed(reference), together.lines())


@pytest.mark.parametrize("cores", [1, 3, 8])
def test_the_same_bytes_come_out_however_many_slices_a_batch_is_read_in(
    cores: int, together: Together, reference: bytes, tmp_path: Path
) -> None:
    file = together.write(tmp_path)
    with local_session(tmp_path, 7, tuning=in_slices(cores)) as session:
        assert run_script(session, file.read_text(encoding="utf-8"), file) == reference


def test_the_cases_ask_for_all_there_is(together: Together) -> None:
    assert set().union(*map(kinds, together.scripts)) >= WANTED


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("slots", MAX_RECORDS)
def test_spark_prints_the_same_bytes_on_any_number_of_slots(
    slots: int, together: Together, reference: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STQSH_ENGINE_SLOTS", str(slots))
    monkeypatch.setenv("STQSH_ENGINE_MAX_RECORDS_PER_BATCH", str(MAX_RECORDS[slots]))
    monkeypatch.setenv("STQSH_ENGINE_SPOOL_BYTES", str(SPOOL_BYTES[slots]))
    file = together.write(tmp_path)
    with connect(home=tmp_path / "sessions", temporary=True, autoplay=False) as session:
        assert run_script(session, file.read_text(encoding="utf-8"), file) == reference
