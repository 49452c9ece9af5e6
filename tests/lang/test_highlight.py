"""Words that are keywords in one place and names in another."""

import pytest

from stqsh.lang.syntax.highlight import names_in


def named(text: str) -> list[str]:
    return [text[place:].split(maxsplit=1)[0].strip(",;()") for place in sorted(names_in(text))]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SHOW STATUS", []),
        ("SELECT status, speed FROM taxis WHERE status = 'free'", ["status", "speed", "status"]),
        ("CREATE MOVING STREAM t FROM FILE 'x' MAX SPEED 60 km/h", []),
        ("SELECT status FROM taxis WHERE oid = 'open", ["status"]),
        ("SHOW STATUS; SELECT status", ["status"]),
        ("SELECT oid FROM taxis ; ) status", []),
        ("", []),
        ("'", []),
    ],
)
def test_names_are_told_from_keywords_by_their_place(text: str, names: list[str]) -> None:
    assert named(text) == names


def test_a_long_text_is_left_alone() -> None:
    assert names_in("SELECT status FROM t;" * 1000) == frozenset()
