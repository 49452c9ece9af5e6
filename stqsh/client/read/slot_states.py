"""The states of a session's slots that its engine has published on this host."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from stqsh.client.connection import Connection
from stqsh.errors import NotPublishedError
from stqsh.storage.control_log import get_meta

if TYPE_CHECKING:
    from collections.abc import Callable

    from stqsh.core.state.slot_state import SlotState
    from stqsh.storage.slot_files import PublishedSlots

    T = TypeVar("T")


class SlotStates:
    """The published states of one session. Not thread-safe."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._published: PublishedSlots | None = None

    def read(
        self, use: Callable[[list[SlotState]], T], patience_s: Callable[[], float], least: int = 0
    ) -> T | None:
        """Return the result of `use` on all slots' states at one step; None if there are no states.

        There are none if no engine has run on this host, if the slots are in the executors of a cluster, or
        if they do not become available in time.

        Args:
            use: must not keep the states; may raise `NotPublishedError` if the states are insufficient.
            patience_s: returns how long to wait for a batch under way; called only if waiting is needed.
            least: the earliest acceptable step.
        """
        engine = self._connection.engine_info()
        if engine is not None and engine.cluster:
            return None
        try:
            published = self._open()
            return None if published is None else published.read(use, least, patience_s)
        except NotPublishedError:
            return None

    def _open(self) -> PublishedSlots | None:
        from stqsh.storage.slot_files import PublishedSlots  # numpy

        if self._published is None:
            slots, folders = get_meta(self._connection.db, "slots"), self._connection.home.arena.folders
            if slots is not None and folders[0].is_dir():
                self._published = PublishedSlots(folders, int(slots))
        return self._published
