"""The trail of the object that a map follows: where it was since then, as long as it is followed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from shell.map.test_state import scene
from stqsh.client.map.scene import Scene
from stqsh.shell.map.terminal import camera as camera_module
from stqsh.shell.map.terminal.camera import Camera
from stqsh.shell.map.terminal.drawing import MapOptionsShown
from stqsh.shell.map.terminal.frame import MapPicture
from stqsh.shell.map.terminal.palette import Palette


def at(x: float, y: float) -> Scene:
    """Return the scene with the object `two` at a place, and nothing else but the objects."""
    plain = scene()
    places = plain.places
    where = np.array([*places.x[:2], x]), np.array([*places.y[:2], y])
    return replace(plain, places=replace(places, x=where[0], y=where[1]), drawn=(), areas=())


def drawn(of: Scene, camera: Camera) -> int:
    """Draw a picture; return how many characters of the map are not blank."""
    look = MapOptionsShown(regions=False)
    lines = MapPicture(of, camera, look, Palette("none"), braille=True).lines(70, 24)
    shown = ["".join(text for _, text in line)[1:-1] for line in lines[2:20]]
    return sum(character not in " ⠀" for line in shown for character in line)


def test_a_trail_grows_while_an_object_is_followed() -> None:
    camera = Camera()
    drawn(at(11, 51), camera)
    assert camera.trail == []
    camera.chase("two")
    drawn(at(11, 51), camera)
    few = drawn(at(11, 51), camera)  # it stands still
    assert camera.trail == [(11, 51)]
    many = drawn(at(11.5, 51.3), camera)
    assert camera.trail == [(11, 51), (11.5, 51.3)]
    assert many > few + 5
    camera.zoom(1)
    assert len(camera.trail) == 2
    camera.pan(1, 0)
    assert camera.trail == [] and camera.follow is None


def test_another_object_begins_another_trail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(camera_module, "_MOST_PLACES", 3)
    camera = Camera()
    drawn(at(11, 51), camera)
    camera.chase("two")
    for step in range(5):
        drawn(at(11 + step / 10, 51), camera)
    assert camera.trail == [(11.2, 51), (11.3, 51), (11.4, 51)]
    camera.chase("two")
    assert len(camera.trail) == 3
    camera.chase("one")
    assert camera.trail == []


def test_a_trail_does_not_go_around_the_world() -> None:
    camera = Camera()
    drawn(at(179.9, 51), camera)
    camera.chase("two")
    drawn(at(179.9, 51), camera)
    drawn(at(179.95, 51), camera)
    before = drawn(at(-179.9, 51), camera)
    assert len(camera.trail) == 3
    camera.trail = []
    assert before <= drawn(at(-179.9, 51), camera) + 5
