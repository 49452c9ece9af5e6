"""Transcripts: each script in tests/scripts with the output that it must print, to the byte."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).with_name("scripts")
FORMATS = ("jsonl", "csv", "tsv")
TRANSCRIPTS = [
    path.with_suffix(f".{form}")
    for path in sorted(SCRIPTS.glob("*.stq"))
    for form in FORMATS
    if path.with_suffix(f".{form}").exists()
]


@pytest.mark.spark
@pytest.mark.parametrize("expected", TRANSCRIPTS, ids=lambda path: path.name)
def test_a_script_prints_its_transcript(expected: Path) -> None:
    command = [Path(sys.executable).with_name("stqsh"), "run", expected.with_suffix(".stq")]
    done = subprocess.run(
        [*command, "--format", expected.suffix[1:]], capture_output=True, text=True, check=False, timeout=280
    )
    assert (done.returncode, done.stdout) == (0, expected.read_text(encoding="utf-8")), done.stderr
