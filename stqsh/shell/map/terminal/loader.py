"""Keeps a map's scene up to date behind the screen, so that a key never waits for the engine."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stqsh.shell.map.poll_rate import PollRate
from stqsh.shell.status import alive_text

if TYPE_CHECKING:
    from stqsh.client.map.scene import MapFeed, Scene

MOST_DRAWN = 200_000
"""So many objects are drawn on a terminal at the most, a sample beyond."""
POLL_S = 0.05


class MapLoader:
    """Looks at the feed in a thread of its own. What it holds is replaced as a whole, to be read any time."""

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
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more; a look under way is waited for, though not without end."""
        self._over.set()
        self._is_new_pick.set()
        self._thread.join(timeout=2)

    def pick(self, key: Any) -> None:
        """From now on keep the record of an object too; None for none."""
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
        except Exception as error:  # shown, or raised, by whoever draws
            self.error = error

    def _look(self) -> None:
        feed = self._feed
        self.alive = alive_text(feed.link.home, feed.link.progress())
        scene = feed.look(MOST_DRAWN)
        key = self._picked
        if key is not None and (scene is not None or self.record[0] != key):
            self.record = (key, feed.record(key))
        if scene is not None:
            self.scene = scene
