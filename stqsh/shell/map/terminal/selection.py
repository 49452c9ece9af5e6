"""Find the object to select: the next one in view, the one in the middle, or the one whose key is typed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.arrays import Array
from stqsh.shell.map.terminal.camera import in_view
from stqsh.shell.map.terminal.map_projection import MapProjection

if TYPE_CHECKING:
    from stqsh.client.map.scene import Scene


def in_the_middle(scene: Scene, projection: MapProjection) -> int | None:
    """Return the position of the object nearest to the centre; None where none is in view."""
    return _nearest(scene, projection, np.flatnonzero(_seen(scene, projection)))


def nearest_to(scene: Scene, projection: MapProjection, dot: tuple[float, float], most: float) -> int | None:
    """Return the position of the object nearest to a dot; None where none is within `most` dots across."""
    number = _nearest(scene, projection, np.flatnonzero(_seen(scene, projection)), dot)
    if number is None:
        return None
    across, down = projection.dots(scene.places.x[number : number + 1], scene.places.y[number : number + 1])
    return number if _far(projection, across, down, dot)[0] <= most else None


def next_one(
    scene: Scene, projection: MapProjection, hidden: set[int], picked: int | None, step: int
) -> int | None:
    """Return the position of the object after the selected one (step 1), or before it (-1).

    The members of answers that are shown take turns, else all objects in view; the first is the one nearest
    to the centre. None where none is in view.
    """
    seen = _seen(scene, projection)
    shown = [drawn for number, drawn in enumerate(scene.drawn) if number not in hidden]
    telling = [drawn.members for drawn in shown] + [
        np.array([drawn.focal]) for drawn in shown if drawn.focal is not None
    ]
    marked = np.unique(np.concatenate([*telling, np.empty(0, np.int64)])).astype(np.int64)
    choice = marked[seen[marked]] if seen[marked].any() else np.flatnonzero(seen)
    if picked is None or not len(choice):
        return _nearest(scene, projection, choice)
    here = int(np.searchsorted(choice, picked))
    is_here = here < len(choice) and choice[here] == picked
    return int(choice[(here + (step if is_here or step < 0 else 0)) % len(choice)])


def with_key(scene: Scene, text: str) -> int | None:
    """Return the position of the object with a key, else with the first key that begins so; None for none."""
    keys = scene.places.keys.cast(pa.string())
    exact = pc.index(keys, text).as_py()
    if exact >= 0:
        return int(exact)
    begins: Any = pc.starts_with(keys, text)
    found = np.flatnonzero(begins.to_numpy(zero_copy_only=False))
    return min(found.tolist(), key=lambda at: str(keys[at].as_py()), default=None) if text else None


def _seen(scene: Scene, projection: MapProjection) -> Array:
    return in_view(projection, scene.places.x, scene.places.y)


def _nearest(
    scene: Scene, projection: MapProjection, choice: Array, dot: tuple[float, float] | None = None
) -> int | None:
    """Return which of some positions is nearest to a dot, by default the centre."""
    if not len(choice):
        return None
    across, down = projection.dots(scene.places.x[choice], scene.places.y[choice])
    centre = projection.width / 2, projection.height / 2
    return int(choice[np.argmin(_far(projection, across, down, dot or centre))])


def _far(projection: MapProjection, across: Array, down: Array, dot: tuple[float, float]) -> Array:
    """Return the distances of dots, float64 (n,), from one dot, as the eye sees them; in dots across."""
    distances: Array = np.hypot(across - dot[0], (down - dot[1]) * projection.tall)
    return distances
