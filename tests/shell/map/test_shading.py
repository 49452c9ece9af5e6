"""Regions in shades: which characters are within, how dark they are, and what is written into them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from shell.map.test_state import HEADER, PAST, scene
from stqsh.client.map.region_outlines import RegionOutline
from stqsh.client.map.region_shades import RegionShades, ShadedRegion
from stqsh.client.map.scene import Scene
from stqsh.shell.map.page.page_state import scene_json
from stqsh.shell.map.terminal.camera import Camera
from stqsh.shell.map.terminal.canvas import DotGrid
from stqsh.shell.map.terminal.drawing import MapOptionsShown
from stqsh.shell.map.terminal.frame import MapPicture
from stqsh.shell.map.terminal.map_projection import MapProjection
from stqsh.shell.map.terminal.palette import Palette
from stqsh.shell.map.terminal.shading import cells_within, level, scale_text


def box(x1: float, y1: float, x2: float, y2: float) -> np.ndarray:
    return np.array([(x1, y1), (x2, y1), (x2, y2), (x1, y2), (x1, y1)], np.float64)


def shades() -> RegionShades:
    low = ShadedRegion(RegionOutline("low", (box(9, 49, 11, 53),)), 1_200, 0.25)
    high = ShadedRegion(RegionOutline("high", (box(11, 49, 13, 53),)), 4_800, 1.0)
    return RegionShades("posts", 3, 0, 4_800, (low, high))


def shaded(of: RegionShades) -> Scene:
    plain = scene()
    return replace(plain, drawn=(replace(plain.drawn[0], shades=of, focal=None),), areas=())


def picture(of: RegionShades, width: int = 70, *, braille: bool = True, regions: bool = True) -> list[str]:
    look = MapOptionsShown(regions=regions)
    made = MapPicture(shaded(of), Camera(), look, Palette("none"), braille=braille)
    return ["".join(text for _, text in line) for line in made.lines(width, 24)]


def test_what_is_within_rings_is_by_the_even_odd_rule() -> None:
    grid = DotGrid(10, 10, braille=False)
    projection = MapProjection(5, 5, 1.0, 10, 10, planar=True)
    inside = cells_within(grid, (box(1, 1, 9, 9), box(3, 3, 5, 5)), projection)
    columns, rows = np.meshgrid(np.arange(10) + 0.5, 9.5 - np.arange(10))
    x = (columns - 5) * projection.across + 5
    y = (rows - 5) * projection.scale + 5
    expected = (abs(x - 5) < 4) & (abs(y - 5) < 4) & ~((abs(x - 4) < 1) & (abs(y - 4) < 1))
    assert 0 < expected.sum() < 100
    assert (inside == expected).all()


@pytest.mark.parametrize(("share", "shade"), [(0, 1), (0.24, 1), (0.25, 2), (0.5, 3), (0.75, 4), (1, 4)])
def test_four_shades_share_the_scale(share: float, shade: int) -> None:
    assert level(share) == shade


def test_a_map_shades_names_and_explains() -> None:
    lines = picture(shades())
    drawn = "\n".join(lines[2:-3])
    assert drawn.count("▒") > 50 and drawn.count("█") > 50
    assert "░" not in drawn and "▓" not in drawn
    assert "low 1 200" in drawn and "high 4 800" in drawn
    assert "posts 0 ░▒▓█ 4 800" in lines[-2]


def test_plain_ascii_has_shades_too() -> None:
    lines = picture(shades(), braille=False)
    assert "\n".join(lines[2:-3]).count("#") > 50
    assert "posts 0 .:*# 4 800" in lines[-2]


def test_a_narrow_region_shows_its_value_or_nothing() -> None:
    assert "low 1 200" in "".join(picture(shades(), 30)[2:-3])
    narrow = "".join(picture(shades(), 22)[2:-3])
    assert "low" not in narrow and "1 200" in narrow
    narrowest = "".join(picture(shades(), 13)[2:-3])
    assert "█" in narrowest and "200" not in narrowest


def test_regions_that_are_switched_off_have_no_shades() -> None:
    drawn = "".join(picture(shades(), regions=False)[2:-3])
    assert "█" not in drawn and "4 800" not in drawn


def test_shades_without_values_say_so() -> None:
    assert scale_text(RegionShades("posts", 3, 0, 0, ()), braille=True) == "posts -"


def test_a_page_has_the_values_as_numbers_and_as_text() -> None:
    [query] = json.loads(scene_json(shaded(shades()), HEADER, PAST))["queries"]
    told = query["shades"]
    assert (told["column"], told["least"], told["most"]) == ("posts", "0", "4 800")
    assert [(one["name"], one["value"], one["text"], one["share"]) for one in told["regions"]] == [
        ("low", 1200, "1 200", 0.25),
        ("high", 4800, "4 800", 1.0),
    ]
    assert told["regions"][0]["rings"] == [box(9, 49, 11, 53).tolist()]
