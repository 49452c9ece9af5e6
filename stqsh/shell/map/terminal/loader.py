"""Load a map's scenes in the background, so that a key press never waits for the engine."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stqsh.shell.map.poll_rate import PollRate
from stqsh.shell.status import alive_text

if TYPE_CHECKING:
    from stqsh.client.map.scene import MapFeed, Scene

MOST_DRAWN = 200_000
"""The maximum number of objects drawn on a terminal; of more, a sample is drawn."""
POLL_S = 0.05


class MapLoader:
    """Loads scenes in a thread; any thread may read its attributes.

    Attributes:
        scene: The latest scene, None before the first.
        alive: The state of the engine and the streams.
        record: The key and the record of the selected object.
        error: The error that ended the thread.
    """

    def __init__(self, feed: MapFeed) -> None:
        self._feed = feed
        self.scene: Scene | None = None
        self.alive = ""
        self.record: tuple[Any, Mapping[str, object] | None] = (None, None)
        self.error: Exception | None = None
        self._picked: Any = None
        self._is_new_pick = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="map", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; wait up to two seconds for a poll under way."""
        self._over.set()
        self._is_new_pick.set()
        self._thread.join(timeout=2)

    def pick(self, key: Any) -> None:
        """From now on, load an object's record, too; None for no object."""
        self._picked = key
        self._is_new_pick.set()

    def _work(self) -> None:
        try:
            pace = PollRate(POLL_S)
            while not self._over.is_set():
                pace.begin()
                self._look()
                self._is_new_pick.wait(pace.rest_s())
                self._is_new_pick.clear()
        except Exception as error:  # raised by the view that draws
            self.error = error

    def _look(self) -> None:
        feed = self._feed
        self.alive = alive_text(feed.connection.home, feed.connection.progress())
        scene = feed.look(MOST_DRAWN)
        key = self._picked
        if key is not None and (scene is not None or self.record[0] != key):
            self.record = (key, feed.record(key))
        if scene is not None:
            self.scene = scene
