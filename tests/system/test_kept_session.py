"""A session that an earlier version wrote opens, and goes on as it would have gone on there.

`PYTHONPATH=tests python tests/system/test_kept_session.py` writes the archive of the present format with a
real engine; archives of earlier formats stay. `format-5-groups` has more aggregates than `format-5`.
"""

from __future__ import annotations

import os
import tarfile
import tempfile
from pathlib import Path

import pytest
from support.local import local_session
from support.running import Together, log_so_far, run_script
from support.seeded import moving_script, posts_script, with_aggregates
from support.stopped import run, run_rest

from stqsh.client.api import connect
from stqsh.client.engine_process import stop_engine
from stqsh.engine.config import STATE_FORMAT
from stqsh.storage.home import SessionHome

SESSIONS = Path(__file__).parents[1] / "sessions"
NAME = "kept"
END = "RUN;\n"
STEPS = 16


def archives() -> list[Path]:
    """Return the archives of all formats."""
    return sorted(SESSIONS.glob("format-*.tar.xz"))


def unpacked(archive: Path, folder: Path) -> tuple[SessionHome, bytes]:
    """Unpack a session's home, and return it with the updates that the whole session has."""
    with tarfile.open(archive) as content:
        content.extractall(folder, filter="data")
    return SessionHome(folder / NAME), (folder / "expected.jsonl").read_bytes()


def test_the_present_format_is_kept() -> None:
    assert SESSIONS / f"format-{STATE_FORMAT}.tar.xz" in archives()


@pytest.mark.parametrize("archive", archives(), ids=lambda path: path.name)
def test_a_kept_session_goes_on(archive: Path, tmp_path: Path) -> None:
    home, expected = unpacked(archive, tmp_path)
    assert run_rest(home) == expected


@pytest.mark.spark
@pytest.mark.slow
def test_a_kept_session_goes_on_under_spark(tmp_path: Path) -> None:
    _, expected = unpacked(archives()[-1], tmp_path)
    with connect(NAME, home=tmp_path, autoplay=False) as session:
        try:
            assert log_so_far(session, run(session, "RUN;")) == expected
        finally:
            stop_engine(session.home)


def keep(folder: Path) -> None:
    """Write the archive of the present format: a session that has run half of a script."""
    script = Together([moving_script(31, objects=20, steps=STEPS), posts_script(32, steps=STEPS)], [1, 1])
    file = script.write(folder)
    text = with_aggregates(file.read_text(encoding="utf-8"))
    with connect(NAME, home=folder, autoplay=False) as session:
        run(session, f"{text.removesuffix(END)}RUN FOR {STEPS // 2} s;", file).wait()
        stop_engine(session.home)
        home = session.home
    with local_session(folder / "reference") as session:
        (folder / "expected.jsonl").write_bytes(run_script(session, text, file))
    home.engine_log.unlink()
    with tarfile.open(SESSIONS / f"format-{STATE_FORMAT}.tar.xz", "w:xz") as content:
        for path in (home.path, folder / "expected.jsonl"):
            content.add(path, path.name, filter=_without_owner)


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    os.environ["STQSH_ENGINE_MAX_RECORDS_PER_BATCH"] = "60"
    os.environ["STQSH_ENGINE_SLOTS"] = "2"
    with tempfile.TemporaryDirectory(prefix="stqsh-") as made:
        keep(Path(made))
