"""The mouse on a map: a drag moves it, the wheel zooms at the pointer, a click selects the nearest object."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prompt_toolkit.data_structures import Point
from prompt_toolkit.mouse_events import MouseButton, MouseEvent, MouseEventType

from stqsh.shell.map.terminal.selection import nearest_to

if TYPE_CHECKING:
    from prompt_toolkit.key_binding.key_bindings import NotImplementedOrNone

    from stqsh.shell.map.terminal.actions import MapActions

LEFT, ABOVE = 1, 2
"""Characters of the screen before the map's first: the frame; the title and the frame."""
_NEAR = 3.0
"""The most lines between a click and the object that it selects."""
_WHEEL = {MouseEventType.SCROLL_UP: 1, MouseEventType.SCROLL_DOWN: -1}


@dataclass
class MapMouse:
    """Turns mouse events into actions; `across` and `down` are the dots of a character."""

    actions: MapActions
    across: int
    down: int
    _held: Point | None = field(default=None, init=False)
    _is_dragged: bool = field(default=False, init=False)

    def __call__(self, event: MouseEvent) -> NotImplementedOrNone:
        """Handle an event; return `NotImplemented` for those that change nothing, such as plain moves."""
        at, kind = event.position, event.event_type
        if kind in _WHEEL:
            self.actions.camera.zoom_at(_WHEEL[kind], *self._dot(at))
        elif kind is MouseEventType.MOUSE_DOWN and event.button is MouseButton.LEFT:
            self._held, self._is_dragged = at, False
        elif kind is MouseEventType.MOUSE_MOVE and self._held is not None:
            return self._drag(event)
        elif kind is MouseEventType.MOUSE_UP and self._held is not None:
            self._let_go(at)
        else:
            return NotImplemented
        return None

    def _drag(self, event: MouseEvent) -> NotImplementedOrNone:
        at, held = event.position, self._held
        if event.button is not MouseButton.LEFT:  # released outside the terminal
            self._held = None
        if self._held is None or held is None or at == held:
            return NotImplemented
        self.actions.camera.drag((at.x - held.x) * self.across, (at.y - held.y) * self.down)
        self._held, self._is_dragged = at, True
        return None

    def _let_go(self, at: Point) -> None:
        """End a drag, or select the object at a click."""
        scene, projection = self.actions.scene, self.actions.camera.projection
        if not self._is_dragged and scene is not None and projection is not None:
            number = nearest_to(scene, projection, self._dot(at), _NEAR * 2 * self.across)
            self.actions.pick(number)
        self._held = None

    def _dot(self, at: Point) -> tuple[float, float]:
        """Return the middle of a character of the screen in dots of the canvas."""
        return (at.x - LEFT + 0.5) * self.across, (at.y - ABOVE + 0.5) * self.down
