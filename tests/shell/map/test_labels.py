"""Names of regions stand inside of them where there is room, else above them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shell.map.test_shading import box
from shell.map.test_state import scene
from stqsh.client.map.region_outlines import RegionOutline
from stqsh.shell.map.terminal.camera import Camera
from stqsh.shell.map.terminal.drawing import MapOptionsShown
from stqsh.shell.map.terminal.frame import MapPicture
from stqsh.shell.map.terminal.palette import Palette

HARBOUR = RegionOutline("harbour", (box(9, 49, 11, 53),))
GARDENS = RegionOutline("gardens", (box(11, 49, 13, 53), box(11.1, 50, 12.9, 52)))
"""A ring: there is no room in its middle."""


def picture(*areas: RegionOutline, braille: bool = True) -> list[str]:
    shown = replace(scene(), drawn=(), areas=areas)
    made = MapPicture(shown, Camera(), MapOptionsShown(), Palette("none"), braille=braille)
    return ["".join(text for _, text in line) for line in made.lines(70, 24)]


@pytest.mark.parametrize("braille", [True, False])
def test_a_name_stands_inside_its_region(braille: bool) -> None:
    lines = picture(HARBOUR, GARDENS, braille=braille)
    [harbour] = [row for row, line in enumerate(lines) if "harbour" in line]
    edges = [row for row, line in enumerate(lines[2:-3], start=2) if line.strip("│├ ")]
    assert min(edges) < harbour < max(edges)


def test_a_name_is_not_written_across_a_hole() -> None:
    lines = picture(HARBOUR, GARDENS)
    [harbour], [gardens] = (
        [row for row, line in enumerate(lines) if name in line] for name in ("harbour", "gardens")
    )
    assert gardens != harbour
