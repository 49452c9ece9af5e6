"""MAP bound against a catalogue: a single name may be a stream or a query, and a map shows one stream."""

from __future__ import annotations

from typing import Any

import pytest

from lang.binding import bound
from stqsh.lang.binder.bind import Catalogue
from stqsh.lang.errors import BindError


@pytest.mark.parametrize(
    ("text", "stream", "queries", "file"),
    [
        ("MAP taxis", "taxis", None, None),
        ("MAP close", "taxis", ["close"], None),
        ("MAP free, close", "taxis", ["free", "close"], None),
        ("MAP taxis free TO 'm.html'", "taxis", ["free"], "m.html"),
        ("MAP posts TO 'm.html'", "posts", None, "m.html"),
    ],
)
def test_names_are_told_apart(text: str, stream: str, queries: Any, file: Any, taxis: Catalogue) -> None:
    assert bound(text, taxis) == ("map", {"stream": stream, "queries": queries, "file": file}, ())


def test_the_only_stream_needs_no_name(taxis: Catalogue) -> None:
    alone = Catalogue({"taxis": taxis.streams["taxis"]})
    assert bound("MAP TO 'm.html'", alone).spec == {"stream": "taxis", "queries": None, "file": "m.html"}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("MAP", "say which: MAP taxis; MAP robots; MAP posts"),
        ("MAP taxi", "did you mean taxis?"),
        ("MAP clos", "did you mean close?"),
        ("MAP favourites", "favourites is a table"),
        ("MAP posts free", "free asks about taxis, but this is a map of posts"),
        ("MAP taxis fre", "did you mean free?"),
        ("MAP taxis, free", "taxis is a stream"),
        ("MAP taxis TO ''", "the name of the file is empty"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_the_remedy(text: str, what: str, taxis: Catalogue) -> None:
    with pytest.raises(BindError) as caught:
        bound(text, taxis)
    assert what in caught.value.text()


def test_without_any_stream_the_way_to_make_one_is_told() -> None:
    with pytest.raises(BindError, match="no stream to show"):
        bound("MAP", Catalogue())
