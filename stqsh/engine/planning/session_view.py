"""What the planner sees of a session: its log, its streams and tables as far as they can be read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stqsh.engine.planning.offset import Offset
from stqsh.engine.planning.pending_log import PendingLog
from stqsh.engine.planning.stream_inputs import StreamInput, StreamInputs, TableInputs
from stqsh.spec.stream import StreamSpec
from stqsh.storage.control_log import ControlDb
from stqsh.storage.progress import stream_statuses


@dataclass(frozen=True)
class SessionView:
    """A session home as it is around one offset; `read` goes on to another one."""

    home: Path
    control: ControlDb
    log: PendingLog
    _feeds: StreamInputs
    _tables: TableInputs

    @staticmethod
    def of(home: Path) -> SessionView:
        """Look at a session home."""
        control = ControlDb(home)
        return SessionView(home, control, PendingLog(control), StreamInputs(home), TableInputs(home))

    def read(self, offset: Offset) -> None:
        """Read the log around an offset, as far as it can be taken in now."""
        self.log.read(offset)
        self.log.hold(self._is_settled)

    def streams(self) -> dict[int, StreamSpec]:
        """Give the streams that exist once all waiting rows are taken in, by id."""
        return self.log.streams()

    def feeds(self, offset: Offset) -> list[StreamInput]:
        """Give the feeds of all streams that are ready, in order of their ids."""
        return self._feeds.of(self.streams(), offset)

    def is_waiting(self) -> bool:
        """Say whether a stream or a table that has not failed is still being read."""
        return bool(self.log.held) or self._feeds.waiting(self.streams(), self._failed())

    def owes_a_step(self, feeds: list[StreamInput]) -> bool:
        """Say whether, at the end of the data, commands or records from before the clock wait for a step."""
        return self.log.has_commands() or any(feed.left for feed in feeds)

    def is_steady(self) -> bool:
        """Say whether results depend on where batches are cut."""
        return any(spec.is_significant for spec in self.streams().values())

    def _is_settled(self, table: int) -> bool:
        """Say whether a table is ready, or cannot be read at all, so that nothing waits for it."""
        return self._tables.ready(table) or table in self._failed()

    def _failed(self) -> set[int]:
        """Give the ids of the streams and tables that cannot be read."""
        return {id_ for id_, status in stream_statuses(self.control).items() if status.state == "failed"}
