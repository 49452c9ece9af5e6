"""Seals of files: no change of what was written goes unseen, and each is told in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stqsh.checksums import (
    DamagedFileError,
    Seal,
    Sealer,
    split_seal,
    with_seal,
    without_seal,
    write_sealed,
)

CONTENT = bytes(range(256)) * 3


def test_pieces_have_the_seal_of_the_whole() -> None:
    sealer = Sealer()
    assert b"".join(sealer.through([CONTENT[:100], b"", CONTENT[100:]])) == CONTENT
    assert sealer.seal == Seal.of(CONTENT) == Seal.of(CONTENT[:9], memoryview(CONTENT)[9:])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the session's file state/log.3 is cut short: 0 of its 768 bytes are left"),
        (CONTENT[:-1], "the session's file state/log.3 is cut short: 767 of its 768 bytes are left"),
        (CONTENT + b"x", "the session's file state/log.3 is damaged"),
        (b"x" + CONTENT[1:], "the session's file state/log.3 is damaged"),
    ],
)
def test_content_that_has_changed_is_told(content: bytes, said: str) -> None:
    with pytest.raises(DamagedFileError) as raised:
        Seal.of(CONTENT).check(content, "state/log.3")
    assert raised.value.message == said
    assert raised.value.hint


@given(st.binary(max_size=300), st.data())
def test_content_that_carries_its_seal_is_never_believed_when_it_changes(
    content: bytes, data: st.DataObject
) -> None:
    sealed = with_seal(content)
    assert without_seal(sealed, "head") == content
    at = data.draw(st.integers(0, len(sealed) - 1))
    cut, flipped = sealed[:at], bytearray(sealed)
    flipped[at] ^= 1 << data.draw(st.integers(0, 7))
    for changed in (cut, bytes(flipped), sealed + b"\0"):
        try:
            assert without_seal(changed, "head") == content, "only the line before it has changed"
        except DamagedFileError as error:
            assert error.file == "head"


def test_parts_are_written_as_one_sealed_content(tmp_path: Path) -> None:
    path = tmp_path / "log.1"
    seal = write_sealed(path, CONTENT[:5], memoryview(CONTENT)[5:])
    assert path.read_bytes() == with_seal(CONTENT)
    assert split_seal(path.read_bytes(), "log.1") == (seal, CONTENT)
    assert seal == Seal.of(CONTENT)
