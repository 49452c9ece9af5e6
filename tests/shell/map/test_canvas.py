"""The canvas: a point lands in its character, lines are unbroken, and plain ASCII is enough."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budget import share

from stqsh.shell.map.terminal.canvas import Canvas


def text(canvas: Canvas) -> list[str]:
    return ["".join(piece for _, piece in row) for row in canvas.rendered()]


@share(2)
@given(st.integers(0, 39), st.integers(0, 39), st.booleans())
def test_a_point_is_drawn_in_its_cell_and_nowhere_else(column: int, row: int, braille: bool) -> None:
    canvas = Canvas(20, 10, braille=braille)
    canvas.points(np.array([column + 0.5]), np.array([row + 0.5]), "here")
    wide, high = (2, 4) if braille else (1, 1)
    marks = [(x, y) for y, line in enumerate(text(canvas)) for x, char in enumerate(line) if char != " "]
    inside = column < canvas.grid.dots_across and row < canvas.grid.dots_down
    assert marks == ([(column // wide, row // high)] if inside else [])


def test_every_braille_dot_has_a_place_of_its_own() -> None:
    seen = set()
    for row in range(4):
        for column in range(2):
            canvas = Canvas(1, 1)
            canvas.points(np.array([column]), np.array([row]), "")
            seen.add(text(canvas)[0])
    assert len(seen) == 8
    canvas = Canvas(1, 1)
    canvas.points(np.tile([0, 1], 4), np.repeat([0, 1, 2, 3], 2), "")
    assert text(canvas) == ["⣿"]


places = st.tuples(st.floats(-1000, 1000), st.floats(-1000, 1000))


@share(2)
@given(places, places, st.booleans())
def test_a_line_is_drawn_without_a_gap(
    first: tuple[float, float], second: tuple[float, float], braille: bool
) -> None:
    canvas = Canvas(30, 12, braille=braille)
    canvas.lines(np.array([[*first, *second]]), "")
    marks = {(x, y) for y, line in enumerate(text(canvas)) for x, char in enumerate(line) if char != " "}
    reached, rest = set[tuple[int, int]](), [min(marks)] if marks else []
    while rest:
        x, y = rest.pop()
        reached.add((x, y))
        near = {(x + dx, y + dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1)}
        rest += (near & marks) - reached
    assert reached == marks


def test_lines_beyond_the_canvas_and_nan_are_no_matter() -> None:
    canvas = Canvas(4, 2)
    canvas.lines(
        np.array(
            [
                [-1e12, 3, 1e12, 3],
                [np.nan, 0, 1, 1],
                [-5, -5, -9, -9],
                [1e9, 1e9, 2e9, 1e9],
                [9, 0, 9, 5e-324],
            ]
        ),
        "",
    )
    assert text(canvas) == ["⣀⣀⣀⣀", "    "]


def test_ascii_lines_lean_as_they_run() -> None:
    canvas = Canvas(9, 5, braille=False)
    canvas.lines(np.array([[0, 0, 8, 0], [0, 0, 0, 4], [1, 1, 7, 4]], np.float64), "")
    assert text(canvas) == ["|--------", r"|\\      ", r"|  \\    ", r"|    \\  ", "|      \\ "]


def test_letters_stand_above_dots_and_several_give_way_to_a_mark() -> None:
    canvas = Canvas(3, 1)
    here, there = (np.array([1.0]), np.array([1.0])), (np.array([4.0]), np.array([1.0]))
    canvas.points(*here, "dot")
    canvas.letters(*here, "A", "a", several="&")
    canvas.letters(*there, "A", "a", several="&")
    canvas.letters(*there, "B", "b", several="&")
    canvas.letters(*there, "C", "c", several="&")
    assert canvas.rendered() == [[("a", "A"), ("", " "), ("c", "&")]]


@pytest.mark.parametrize(("braille", "row"), [(True, "░▒▓█ "), (False, ".:*# ")])
def test_shades_tell_how_many_there_are(braille: bool, row: str) -> None:
    canvas = Canvas(5, 1, braille=braille)
    wide = canvas.grid.dots_across / 5
    canvas.shade(np.repeat(np.arange(4) * wide, [1, 3, 6, 16]), np.zeros(26), "")
    assert text(canvas) == [row]


def test_text_is_written_without_control_characters() -> None:
    canvas = Canvas(12, 1)
    canvas.text(0, 0, "a\x1b[2J\n", "")
    assert text(canvas) == [r"a\x1b[2J\n  "]


def test_text_is_cut_at_the_borders() -> None:
    canvas = Canvas(4, 1)
    canvas.text(-2, 0, "abcd", "")
    canvas.text(3, 0, "xyz", "")
    canvas.text(0, 7, "nowhere", "")
    assert text(canvas) == ["cd x"]
    assert canvas.is_free(2, 0, 1)
    assert not canvas.is_free(1, 0, 2)
    assert not canvas.is_free(3, 0, 2)
