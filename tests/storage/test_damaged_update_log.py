"""An update log of which a file is gone, cut short or changed: nobody reads on as if it were whole."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import orjson
import pytest
from support.update_logs import batch_table, log_batch, part

from stqsh.checksums import DamagedFileError
from stqsh.engine.state.payload_files import PayloadFolders, open_writer
from stqsh.spec.chunk import from_table, to_table
from stqsh.storage import layouts
from stqsh.storage.control_log import ControlDb
from stqsh.storage.update_log.compaction import fold_log
from stqsh.storage.update_log.files import logged_files, read_base
from stqsh.storage.update_log.reader import UpdateLog

DAMAGES: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "emptied": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "changed": lambda path: path.write_bytes(flipped(path.read_bytes())),
    "noise": lambda path: path.write_bytes(b"\xa5" * path.stat().st_size),
}


def flipped(content: bytes) -> bytes:
    """Return a file's content with one bit changed, in its middle."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def key_of(_stream: int) -> str:
    return "oid"


def batch_of(batch: int):
    return batch_table(batch + 1, batch + 1, part([(batch + 1, 7, 1, 0, (f"k{batch}", 0.5))]))


@pytest.fixture
def control(tmp_path: Path) -> ControlDb:
    """The control log of a home with three batches, of which only 0 and 2 have updates, payloads beside."""
    (tmp_path / "updates").mkdir()
    spool, control = PayloadFolders(tmp_path, tmp_path, 1), ControlDb(tmp_path, create=True)
    for batch in (0, 2):
        with open_writer(spool, "evaluate-0") as writer:
            log_batch(control, batch, to_table([writer.put(chunk) for chunk in from_table(batch_of(batch))]))
    return control


def read(control: ControlDb) -> list[str]:
    return [
        key for (only,) in UpdateLog(control, key_of).read(-1, 9) for key in only.table["key"].to_pylist()
    ]


def files_of(control: ControlDb) -> list[Path]:
    return sorted((control.path.parent / "updates").iterdir())


def test_every_file_of_the_log_is_missed(control: ControlDb) -> None:
    assert read(control) == ["k0", "k2"] and len(files_of(control)) == 4
    for file in files_of(control):
        content = file.read_bytes()
        for name, damage in DAMAGES.items():
            damage(file)
            with pytest.raises(DamagedFileError) as raised:
                read(control)
            assert raised.value.file == f"updates/{file.name}", name
            assert raised.value.hint is not None and raised.value.hint.startswith("SELECT")
            file.write_bytes(content)
    assert read(control) == ["k0", "k2"]


def test_a_damaged_file_is_not_folded_and_a_damaged_base_is_missed(control: ControlDb) -> None:
    first = files_of(control)[0]
    content = first.read_bytes()
    DAMAGES["changed"](first)
    with pytest.raises(DamagedFileError):
        fold_log(control, 2, key_of, lambda _: nullcontext(True))
    assert read_base(control).batch == -1 and len(files_of(control)) == 4
    first.write_bytes(content)
    assert fold_log(control, 2, key_of, lambda _: nullcontext(True)).batch == 2
    assert read(control) == ["k0", "k2"] and logged_files(control) == []
    for file in files_of(control):
        content = file.read_bytes()
        for name, damage in DAMAGES.items():
            damage(file)
            try:
                assert read(control) == ["k0", "k2"] and name in ("cut", "changed"), "only between payloads"
            except DamagedFileError as error:
                assert error.file == f"updates/{file.name}"
            file.write_bytes(content)


def test_a_log_from_before_its_files_were_listed_is_read_and_misses_what_goes(control: ControlDb) -> None:
    log_batch(control, 3, batch_of(3))
    fold_log(control, 2, key_of, lambda _: nullcontext(True))
    home, base = control.path.parent, read_base(control)
    (home / "updates" / "base").write_bytes(orjson.dumps([base.batch, base.step]))
    control.close()
    control.path.unlink()
    with sqlite3.connect(control.path) as old:
        old.executescript("".join(layouts.LAYOUTS[:4]) + "PRAGMA user_version = 4;")
        old.execute("INSERT INTO progress VALUES (1, 3, 4, 0, 1, 0, 0, 0, 0, '{}')")
    old.close()
    log_of_later = home / "updates" / "000000000004.arrow"
    log_of_later.write_bytes(b"of a batch that was not recorded")
    control = ControlDb(home, create=True)
    assert read(control) == ["k0", "k2", "k3"]
    assert read_base(control).batch == 2 and [file.batch for file in logged_files(control)] == [3]
    (home / "updates" / "000000000003.arrow").unlink()
    with pytest.raises(DamagedFileError, match=r"updates/000000000003\.arrow is gone"):
        read(control)
