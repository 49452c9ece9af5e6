"""Damage to any file of a stopped session is found or makes no difference; it never changes an answer."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.running import Together
from support.seeded import moving_script, posts_script
from support.stopped import run_half, run_rest

from stqsh.engine.config import EngineSettings
from stqsh.errors import StqshError
from stqsh.storage.control_log import ControlDb, set_meta
from stqsh.storage.home import SessionHome, open_home

STEPS = 24
SLOTS = 2
ARRAYS = 2
"""How many arrays of each slot are damaged."""
EVERYTHING = "STQSH_DAMAGE_ALL" in os.environ
"""Whether each file is damaged in every way, which takes some minutes; otherwise each one in one way."""
PASSING = {"engine.json", "engine.log", ".lock"}
"""Files that say nothing about data."""


def _cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _flip(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 0x10]) + content[middle + 1 :]


def _noise(content: bytes) -> bytes:
    return random.Random(len(content)).randbytes(len(content))


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "gone": lambda _: None,
    "emptied": lambda _: b"",
    "cut": _cut,
    "one bit": _flip,
    "noise": _noise,
}


@dataclass(frozen=True)
class Stopped:
    """A session in the middle of its run, and a copy of its files."""

    home: SessionHome
    kept: Path

    def folders(self) -> dict[str, Path]:
        """The folders with the session's files, by their names in the copy."""
        return {"home": self.home.path, "arena": self.home.arena.folder}

    def keep(self) -> None:
        """Copy the files aside."""
        for name, folder in self.folders().items():
            shutil.copytree(folder, self.kept / name)

    def restore(self) -> None:
        """Put the files back as they were."""
        for name, folder in self.folders().items():
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(self.kept / name, folder)

    def files(self) -> list[tuple[str, Path]]:
        """All files with content, as (folder, path within it); of a slot's arrays only the largest."""
        found: list[tuple[str, Path]] = []
        arrays: dict[str, list[tuple[str, Path]]] = {}
        for name in self.folders():
            for path in sorted((self.kept / name).rglob("*"), key=lambda path: -path.stat().st_size):
                if not path.is_file() or not path.stat().st_size or path.name in PASSING:
                    continue
                place = name, path.relative_to(self.kept / name)
                slot = arrays.setdefault(path.name.split(".")[0], []) if path.suffix == ".array" else found
                slot.append(place)
        return found + [place for slot in arrays.values() for place in slot[:ARRAYS]]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    folder = tmp_path_factory.mktemp("damage")
    script = Together([moving_script(11, objects=20, steps=STEPS), posts_script(12, steps=STEPS)], [1, 1])
    home = open_home("stopped", root=folder)
    with closing(ControlDb(home.path, create=True)) as control:
        set_meta(control, "slots", str(SLOTS))
        set_meta(control, "state", EngineSettings(home.path).state)
    run_half(home, script, STEPS // 2)
    stopped = Stopped(home, folder / "kept")
    stopped.keep()
    yield stopped
    shutil.rmtree(home.arena.folder, ignore_errors=True)


@pytest.fixture(scope="module")
def undisturbed(stopped: Stopped) -> bytes:
    return run_rest(stopped.home)


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_to_a_file_is_found_or_makes_no_difference(
    damage: str, stopped: Stopped, undisturbed: bytes
) -> None:
    found, wrong = [], []
    files = stopped.files()
    for name, path in files if EVERYTHING else files[list(DAMAGES).index(damage) :: len(DAMAGES)]:
        stopped.restore()
        file = stopped.folders()[name] / path
        changed = DAMAGES[damage](file.read_bytes())
        file.unlink()
        if changed is not None:
            file.write_bytes(changed)
        try:
            if run_rest(stopped.home) != undisturbed:
                wrong.append(f"{path}: other updates")
        except StqshError as error:
            found.append(f"{path}: {error}")
        except Exception as error:
            wrong.append(f"{path}: {error!r}")
    assert not wrong, "\n".join(wrong)
    assert found, "nothing of what was damaged is needed"
