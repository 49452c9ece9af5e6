"""Transcripts: each script in tests/scripts with the output that it must print, to the byte."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
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


def printed(expected: Path) -> subprocess.CompletedProcess[str]:
    """What `stqsh run` makes of the script of a transcript, in its format."""
    command = [Path(sys.executable).with_name("stqsh"), "run", expected.with_suffix(".stq")]
    return subprocess.run(
        [*command, "--format", expected.suffix[1:]], capture_output=True, text=True, check=False, timeout=240
    )


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[dict[Path, Future[subprocess.CompletedProcess[str]]]]:
    """The scripts that are to be tested, two at a time: much of a session's start is waiting."""
    chosen = [item.name for item in request.session.items]
    asked = [path for path in TRANSCRIPTS if any(name.endswith(f"[{path.name}]") for name in chosen)]
    with ThreadPoolExecutor(2) as pool:
        yield {expected: pool.submit(printed, expected) for expected in asked}


@pytest.mark.spark
@pytest.mark.parametrize("expected", TRANSCRIPTS, ids=lambda path: path.name)
def test_a_script_prints_its_transcript(
    expected: Path, runs: dict[Path, Future[subprocess.CompletedProcess[str]]]
) -> None:
    done = runs[expected].result()
    assert (done.returncode, done.stdout) == (0, expected.read_text(encoding="utf-8")), done.stderr
