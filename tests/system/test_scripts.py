"""Transcripts: each script in tests/scripts with the output that it must print, to the byte.

All are printed by the engine in this process, however its slots and batches are cut. That Spark prints the
same is shown for all kinds of queries in test_law_spark, for aggregates, groups among them, in
test_scripts_on_spark, and for RETAIN SIGNIFICANT in test_recovery; the whole way of `stqsh run`, from the
command line to the exit, is gone here once for moving streams and once for events.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.local import local_session
from support.running import run_script

SCRIPTS = Path(__file__).parents[1] / "scripts"
FORMATS = ("jsonl", "csv", "tsv")
TRANSCRIPTS = [
    path.with_suffix(f".{form}")
    for path in sorted(SCRIPTS.glob("*.stq"))
    for form in FORMATS
    if path.with_suffix(f".{form}").exists()
]
#: Objects as they arrived, in CSV; events with words, tables, regions and snapshots.
THROUGH_SPARK = [SCRIPTS / name for name in ("arrival.csv", "posts.jsonl")]


@pytest.mark.parametrize(("slots", "records"), [(1, 400_000), (3, 100)])
@pytest.mark.parametrize("expected", TRANSCRIPTS, ids=lambda path: path.name)
def test_a_script_prints_its_transcript(expected: Path, slots: int, records: int, tmp_path: Path) -> None:
    script = expected.with_suffix(".stq")
    with local_session(tmp_path, slots, records) as session:
        printed = run_script(session, script.read_text(encoding="utf-8"), script, form=expected.suffix[1:])
    assert printed.decode() == expected.read_text(encoding="utf-8")


@pytest.mark.spark
@pytest.mark.parametrize("expected", THROUGH_SPARK, ids=lambda path: path.name)
def test_a_script_prints_its_transcript_through_spark(expected: Path) -> None:
    command = [Path(sys.executable).with_name("stqsh"), "run", expected.with_suffix(".stq")]
    done = subprocess.run(
        [*command, "--format", expected.suffix[1:]], capture_output=True, text=True, check=False, timeout=280
    )
    assert (done.returncode, done.stdout) == (0, expected.read_text(encoding="utf-8")), done.stderr
