"""The context of statements' actions: the session's connection and this client's behaviour."""

from __future__ import annotations

from dataclasses import dataclass, field

from stqsh.client.catalogue_view import SessionCatalogue
from stqsh.client.connection import Connection
from stqsh.client.read.snapshots import SnapshotReader
from stqsh.profile import Profile
from stqsh.spec.log import StreamPlayed
from stqsh.spec.query import QuerySpec
from stqsh.spec.stream import StdinSourceSpec
from stqsh.storage.catalogue_writer import Registered, register
from stqsh.storage.control_log import append
from stqsh.storage.processes import identity
from stqsh.storage.progress import stream_statuses
from stqsh.storage.rows import QueryRow, StreamRow


@dataclass(frozen=True)
class StatementContext:
    """One client of a session.

    Attributes:
        autoplay: whether streams play as soon as they are created (in the shell, unless its settings differ).
        is_script: whether the client is not interactive, so that a TAIL ends when no step is due.
        allow_run: whether scripts may run commands and Python code.
        subscribed: the ids of the queries that are dropped when this client closes.
    """

    connection: Connection
    profile: Profile
    autoplay: bool
    snapshots: SnapshotReader
    script: str | None = None
    is_script: bool = False
    allow_run: bool = False
    subscribed: set[int] = field(default_factory=set)

    @property
    def view(self) -> SessionCatalogue:
        """The catalogue for binding."""
        return SessionCatalogue(self.connection.db, self.profile)

    def knows(self, name: str) -> bool:
        """Return whether a live stream, table, region, query, sink or alert has this name."""
        return self.view.kind_of(name) is not None

    def register_own(self, text: str, spec: QuerySpec) -> QueryRow:
        """Register a query that is dropped when this client closes: that of a SUBSCRIBE or a FOLLOW."""
        query = register(self.connection.db, Registered(text, spec, identity()))
        self.subscribed.add(query.id)
        self.connection.wake()
        return query

    def play(self, stream: StreamRow, text: str, pace: float | str | None = None) -> None:
        """Play a stream at the given pace, or else its own, or else that of event time."""
        chosen = stream.spec.pace if pace is None else pace
        append(self.connection.db, StreamPlayed(stream.id, stream.name, chosen), text)
        self.connection.wake()

    def is_endless(self, stream: StreamRow) -> bool:
        """Return whether a stream never ends by itself.

        That is so if the engine reports it, or if its generator has no duration.
        """
        status = stream_statuses(self.connection.db).get(stream.id)
        if status is not None and status.state in ("ready", "endless"):
            return status.state == "endless"
        is_stdin = isinstance(stream.spec.source, StdinSourceSpec)
        return stream.spec.is_endless or (stream.spec.is_live and not is_stdin)
