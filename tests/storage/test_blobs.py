"""Blobs of folders and of an S3 server: what was written is what is read, whatever fails for a while."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.s3 import Gate, s3_environment, s3_gate

from stqsh.checksums import DamagedFileError, Seal
from stqsh.storage import blobs as blobs_module
from stqsh.storage.blobs import Blobs, StorageAwayError, StorageError, home_blobs, host_cache, open_blobs


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    with s3_environment(), s3_gate() as gate:
        yield gate


@pytest.fixture(autouse=True)
def lets_all_through(gate: Gate) -> None:
    gate.fails = lambda number, method, path: None
    gate.asked.clear()


@pytest.fixture(params=["file", "s3"])
def blobs(request: pytest.FixtureRequest, gate: Gate, tmp_path: Path) -> Blobs:
    if request.param == "file":
        return home_blobs(tmp_path / "a folder, 100% of its own?")
    return open_blobs(gate.uri(f"{tmp_path.name}/x"), str(tmp_path / "cache"))


def test_what_was_put_is_read_in_whole_and_in_part(blobs: Blobs) -> None:
    seal = blobs.put("streams/3/seg-000000.arrow", [b"head", bytearray(b"body"), memoryview(b"tail")])
    assert seal == Seal.of(b"headbodytail")
    assert bytes(blobs.read("streams/3/seg-000000.arrow", seal)) == b"headbodytail"
    assert bytes(blobs.read_range("streams/3/seg-000000.arrow", 4, 4)) == b"body"
    assert bytes(blobs.below("streams/3").read("seg-000000.arrow")) == b"headbodytail"
    assert blobs.local("streams/3/seg-000000.arrow", seal).read_bytes() == b"headbodytail"
    with pytest.raises(DamagedFileError, match="cut short"):
        blobs.read_range("streams/3/seg-000000.arrow", 8, 5)


def test_an_empty_blob_and_a_large_one(blobs: Blobs) -> None:
    large = os.urandom(12 << 20)  # object stores take it in parts
    for name, content in (("empty", b""), ("large", large)):
        seal = blobs.put(name, [content[:1000], content[1000:]])
        assert bytes(blobs.read(name, seal)) == content
        assert blobs.local(name, seal).read_bytes() == content


def test_names_are_listed_by_prefix_and_deleted(blobs: Blobs) -> None:
    for name in ("streams/1/a", "streams/1/b", "streams/12/c", "tables/1/d", "e f%20g"):
        blobs.put(name, [b"x"])
    assert blobs.names("streams/1/") == ["streams/1/a", "streams/1/b"]
    assert blobs.names("streams/1") == ["streams/1/a", "streams/1/b", "streams/12/c"]
    assert blobs.names("none/") == []
    assert "e f%20g" in blobs.names()
    blobs.delete(["streams/1/a", "streams/1/a", "streams/9/none", "e f%20g"])
    assert blobs.names() == ["streams/1/b", "streams/12/c", "tables/1/d"]


def test_what_is_gone_or_not_what_was_written_is_one_error(blobs: Blobs) -> None:
    with pytest.raises(DamagedFileError, match="the session's file streams/1/a is gone"):
        blobs.read("streams/1/a")
    blobs.put("b", [b"content"])
    for seal, damage in ((Seal.of(b"contenT"), "is damaged"), (Seal.of(b"content more"), "is cut short")):
        with pytest.raises(DamagedFileError, match=f"b {damage}"):
            blobs.read("b", seal)


def test_blobs_travel_to_other_processes(blobs: Blobs) -> None:
    blobs.put("a", [b"content"])
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(_content, [pickle.dumps(blobs)]) == [b"content"]


def _content(pickled: bytes) -> bytes:
    blobs: Blobs = pickle.loads(pickled)
    return bytes(blobs.read("a"))


def test_a_copy_is_made_once_and_is_private(gate: Gate, tmp_path: Path) -> None:
    blobs = open_blobs(gate.uri("copies"), str(tmp_path / "cache"))
    seal = blobs.put("a", [b"content"])
    copy = blobs.local("a", seal)
    asked = len(gate.asked)
    assert blobs.local("a", seal) == copy
    assert len(gate.asked) == asked
    assert (tmp_path / "cache").stat().st_mode & 0o077 == 0
    assert copy.stat().st_mode & 0o077 == 0


def test_no_copy_is_made_of_what_is_damaged(gate: Gate, tmp_path: Path) -> None:
    blobs = open_blobs(gate.uri("damaged"), str(tmp_path / "cache"))
    blobs.put("a", [b"content"])
    for _ in range(2):
        with pytest.raises(DamagedFileError, match="a is damaged"):
            blobs.local("a", Seal.of(b"Content"))


def test_a_cache_that_others_can_open_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    with pytest.raises(StorageError, match="open to others"):
        host_cache(str(tmp_path / "open"))


@pytest.mark.parametrize("status", [503, 0])
def test_a_store_that_fails_for_a_while_is_asked_again(gate: Gate, tmp_path: Path, status: int) -> None:
    blobs = open_blobs(gate.uri(f"retried-{status}"), str(tmp_path / "cache"))
    content = os.urandom(11 << 20)
    gate.fails = lambda number, method, path: status if number % 3 < 2 and number < 5 else None
    seal = blobs.put("a", [content])
    gate.asked.clear()
    assert bytes(blobs.read("a", seal)) == content
    gate.asked.clear()
    assert blobs.names() == ["a"]
    gate.asked.clear()
    blobs.delete(["a"])
    assert blobs.names() == []


def test_an_upload_that_fails_leaves_nothing(
    gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blobs_module, "RETRY_S", 0.5)
    blobs = open_blobs(gate.uri("unfinished"), str(tmp_path / "cache"))
    gate.fails = lambda number, method, path: 503 if "partNumber=2" in path else None
    with pytest.raises(StorageAwayError, match=r"the session's storage s3://sessions fails"):
        blobs.put("a", [os.urandom(12 << 20)])
    gate.fails = lambda number, method, path: None
    assert blobs.names() == []


def test_a_store_that_refuses_is_not_asked_for_a_minute(gate: Gate, tmp_path: Path) -> None:
    blobs = open_blobs(gate.uri("x").replace("sessions", "no-such-bucket"), str(tmp_path / "cache"))
    with pytest.raises((StorageError, DamagedFileError)):
        blobs.put("a", [b"content"])
    assert len(gate.asked) < 4


@pytest.mark.parametrize("uri", ["", "here", "ftp://host/x", "s3:///x", "/absolute"])
def test_a_uri_that_names_no_store(uri: str) -> None:
    with pytest.raises(StorageError, match="names no store"):
        open_blobs(uri)


@pytest.mark.parametrize("uri", ["s3://key:secret@bucket/x", "s3://bucket/x?secret_key=a"])
def test_credentials_do_not_belong_into_a_uri(uri: str) -> None:
    with pytest.raises(StorageError, match="has credentials") as found:
        open_blobs(uri)
    assert "secret@" not in found.value.text()
    assert "secret_key=a" not in found.value.text()


def test_a_write_that_fails_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    blobs = home_blobs(tmp_path)
    (tmp_path / "a").mkdir()
    with pytest.raises(OSError, match="directory"):
        blobs.put("a", [b"content"])
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
