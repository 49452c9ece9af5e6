"""Texts joined as one are the same as a list of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stqsh.sources.formats.text_values import TextValues

values_of_bytes = st.lists(
    st.lists(st.sampled_from([b"{", b"}", b"\r", b"\n", b" ", b"a"]), max_size=4).map(b"".join)
)


@given(values_of_bytes, st.data())
def test_joined_values_are_those_of_the_list(values: list[bytes], data: st.DataObject) -> None:
    joined = TextValues.of(values)
    assert list(joined) == values
    assert [joined[at] for at in range(len(joined))] == values
    assert joined[1:3] == values[1:3]
    for ending in (b"}", b"}\r"):
        assert joined.end_with(ending).tolist() == [value.endswith(ending) for value in values]
    which = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    chosen = [value for value, is_chosen in zip(values, which, strict=True) if is_chosen]
    assert joined.some(np.array(which, np.bool_)) == b"\n".join(chosen)


@given(values_of_bytes)
def test_values_that_are_lines_are_neither_blank_nor_divided(values: list[bytes]) -> None:
    if TextValues.of(values).are_lines:
        assert all(value.strip() and b"\n" not in value for value in values)


def test_plain_objects_are_lines() -> None:
    assert TextValues.of([b'{"a":1}', b"x y"]).are_lines
    assert TextValues.of([]).are_lines
