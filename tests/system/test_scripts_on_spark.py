"""Several scripts, one after the other in one session, print through Spark what they print without it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from laws import test_law_rows
from support.local import local_session
from support.running import run_script

from stqsh.client.api import connect
from system import test_derived

pytestmark = [pytest.mark.spark, pytest.mark.slow]

#: 2008-02-02 15:00:08 UTC: the second after the last one of `test_law_rows.scripts`.
DERIVED_BEGIN = 1_201_964_408
GROUPS_SECOND = 8 + test_derived.STEPS
GROUPS = Path(__file__).parents[1] / "scripts" / "groups.stq"


def derived(folder: Path) -> str:
    """Aggregates of derived attributes, with a snapshot of each after every step."""
    folder.mkdir()
    text = test_derived.script(folder, DERIVED_BEGIN)
    (folder / "cars.csv").rename(folder / "wagons.csv")
    return text.replace("cars", "wagons")


def groups(folder: Path) -> str:
    """The script of groups, with its data put right behind those of `derived`."""

    def later(time: re.Match[str]) -> str:
        return f"2008-02-02T15:00:{int(time[1]) + GROUPS_SECOND:02d}Z"

    text = (GROUPS.parent / "data" / "fleet.csv").read_text(encoding="utf-8")
    (folder / "fleet.csv").write_text(re.sub(r"2024-01-01T00:00:(\d\d)Z", later, text), encoding="utf-8")
    return GROUPS.read_text(encoding="utf-8").replace("data/fleet.csv", "fleet.csv")


def test_spark_prints_the_same_bytes(tmp_path: Path) -> None:
    """Queries of files against the same ones one by one; aggregates and groups; their snapshots."""
    many, single = test_law_rows.scripts(tmp_path, 6)
    with local_session(tmp_path / "single") as session:
        begin = run_script(session, single, tmp_path / "f.stq")
    many = "\n".join([many, "RUN;", derived(tmp_path / "derived"), groups(tmp_path)])
    with local_session(tmp_path / "local") as session:
        expected = run_script(session, many, tmp_path / "f.stq")
    assert expected.startswith(begin)
    with connect(home=tmp_path / "sessions", temporary=True, autoplay=False) as session:
        assert run_script(session, many, tmp_path / "f.stq") == expected
    queries = {*test_law_rows.SELECTS, *(f"q{number}" for number in range(len(test_derived.SELECTS)))}
    assert all(f'"query":"{query}'.encode() in expected for query in queries | {"kinds", "most", "busy"})
