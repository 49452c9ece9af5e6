"""A line that has a signature is a JSON object; lines of one signature have the same members and types."""

from __future__ import annotations

import json

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stqsh.sources.formats.json_file import CUT_OFF, load_object
from stqsh.sources.formats.json_signatures import cut_off_lines, line_signatures
from stqsh.sources.formats.text_values import TextValues

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.text(max_size=3), VALUES, max_size=4)
JUNK = st.sampled_from(
    [b"{", b"}", b",", b'"', b"1e999", b"01", b"\xff", b"\\", b"nul", b" ", b"-", b"1.", b"\x01"]
)


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """Return a line: an object, often with a piece cut out or put in."""
    found = json.dumps(draw(OBJECTS), ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")
    start = draw(st.integers(0, len(found)))
    cut = draw(st.sampled_from([0, 0, 0, 1, 4]))
    return found[:start] + draw(st.just(b"") | JUNK) + found[start + cut :]


@given(st.lists(lines(), min_size=1, max_size=5))
def test_a_signature_is_that_of_an_object_alone_and_among_others(some: list[bytes]) -> None:
    found = line_signatures(b"\n".join(some), len(some)).tolist()
    assert found == [line_signatures(line, 1)[0] for line in some]
    for line, signature in zip(some, found, strict=True):
        if signature and b"{" not in line[1:] and b"[" not in line:
            assert isinstance(orjson.loads(line), dict)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Return the beginning of a line, often with a byte replaced."""
    line = draw(lines())
    start = line[: draw(st.integers(0, len(line)))]
    at = draw(st.integers(0, len(start)))
    return start[:at] + draw(st.just(b"") | JUNK) + start[at + 1 :] if draw(st.booleans()) else start


@given(st.lists(damaged().filter(lambda line: not line.endswith((b"}", b"}\r"))), max_size=5))
def test_a_line_that_is_said_to_be_cut_off_is_so_to_a_parser(some: list[bytes]) -> None:
    found = TextValues.of(some)
    is_cut = cut_off_lines(found.text, found.begins, found.ends).tolist()
    reasons = [load_object(line)[1] for line in some]
    assert all(reason == CUT_OFF for reason, cut in zip(reasons, is_cut, strict=True) if cut)


@pytest.mark.parametrize("line", [b"{", b'{"a', b'{"a"', b'{"a":', b'{"a":1', b'{"a":true,', b'{"a":"b", "c'])
def test_beginnings_of_plain_objects_are_cut_off(line: bytes) -> None:
    assert cut_off_lines(line, np.array([0]), np.array([len(line)])).all()


@pytest.mark.parametrize("line", [b'{"a":"\xc3x"', b'{"\xff', b'{"a":"b\xc3'])
def test_a_damaged_letter_beyond_ascii_is_no_json(line: bytes) -> None:
    found, reason = load_object(line)
    assert found is None
    assert reason.startswith("not JSON: ")


@pytest.mark.parametrize(
    ("escape", "valid"),
    [
        (r"\n", True),
        (r"\u00E9", True),
        (r"\ud83d\ude00", True),
        (r"\u01f", False),
        (r"\u01g0", False),
        (r"\ud83d", False),
        (r"\ud83dx", False),
        (r"\ud83d\u0041", False),
        (r"\ude00", False),
        (r"\x", False),
    ],
)
def test_escapes_are_those_of_json_with_surrogates_in_pairs(escape: str, valid: bool) -> None:
    line = f'{{"a":"{escape}"}}'.encode()
    assert bool(line_signatures(line, 1)[0]) is valid
    if valid:
        assert isinstance(orjson.loads(line), dict)
    else:
        with pytest.raises(orjson.JSONDecodeError):
            orjson.loads(line)


def test_forms() -> None:
    texts = [
        b'{"a":1,"b":"x"}',
        b' { "a" : -2.5e3 , "b" : "\\u00e9" } \r',
        b'{"a":"1","b":"x"}',
        b'{"b":"x","a":1}',
    ]
    numbers, blanks, text, order = line_signatures(b"\n".join(texts), 4).tolist()
    assert numbers == blanks != 0
    assert len({numbers, text, order, 0}) == 4
