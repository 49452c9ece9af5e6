"""The first law through Spark: many cases as streams of one session, for each number of slots."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.local import local_session
from support.running import Together, agree, parsed, run_script
from support.strategies import EVERY, SLOTS, sampled, script_cases

from stqsh.session.client import connect

CASES = 6
MAX_RECORDS = {1: 400_000, 2: 7, 4: 1, 7: 400_000}
SPOOL_BYTES = {1: 16_384, 2: 1, 4: 16_384, 7: 1}


@pytest.fixture(scope="module")
def together() -> Together:
    """The same cases of all kinds for all engines."""
    return Together.of(sampled(script_cases((1_000_000,), EVERY | {"snapshots"}), CASES, seed=2))


@pytest.fixture(scope="module")
def reference(together: Together, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What the engine without Spark prints."""
    folder = tmp_path_factory.mktemp("reference")
    file = together.write(folder)
    with local_session(folder) as session:
        return run_script(session, file.read_text(encoding="utf-8"), file)


def test_the_reference_is_what_the_oracle_says(together: Together, reference: bytes) -> None:
    agree(parsed(reference), together.lines())


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("slots", SLOTS)
def test_spark_prints_the_same_bytes_on_any_number_of_slots(
    slots: int, together: Together, reference: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STQSH_ENGINE_SLOTS", str(slots))
    monkeypatch.setenv("STQSH_ENGINE_MAX_RECORDS_PER_BATCH", str(MAX_RECORDS[slots]))
    monkeypatch.setenv("STQSH_ENGINE_SPOOL_BYTES", str(SPOOL_BYTES[slots]))
    file = together.write(tmp_path)
    with connect(home=tmp_path / "sessions", temporary=True, autoplay=False) as session:
        assert run_script(session, file.read_text(encoding="utf-8"), file) == reference
