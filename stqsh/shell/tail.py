"""The live view of TAIL and SUBSCRIBE: updates scroll, a status line shows that the stream is alive."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stqsh.session.results import SnapshotMark
from stqsh.shell.screen import Screen
from stqsh.shell.status import alive_text, grouped

if TYPE_CHECKING:
    from stqsh.session.following import Following
    from stqsh.session.home import SessionHome
    from stqsh.session.records import Progress
    from stqsh.session.results import Updates
    from stqsh.shell.output import Writer


def watch(following: Following, screen: Screen) -> str:
    """Show a query's updates until it ends or the user leaves with Ctrl-C; what to say then."""
    view = LiveUpdates(screen, following.query.name, following.link.home)
    following.on_idle = view.alive
    try:
        for item in following:
            view.show(item)
        text = f"{following.query.name} has ended" if following.options.limit is None else ""
    except KeyboardInterrupt:
        text = left_text(following)
    finally:
        screen.close()
        following.close()
    return text


def drain(following: Following, writer: Writer) -> str:
    """The same without a live view: everything goes to the writer."""
    try:
        for item in following:
            if isinstance(item, SnapshotMark):
                writer.mark(item)
            else:
                writer.updates(item)
    except KeyboardInterrupt:
        return left_text(following)
    finally:
        following.close()
    return ""


def left_text(following: Following) -> str:
    """What leaving a query means for it."""
    name = following.query.name
    return f"left {name}; it is dropped" if following.temporary else f"left {name}; it goes on"


class LiveUpdates:
    """Draws updates and marks on a screen, as many as it has room for."""

    def __init__(self, screen: Screen, name: str, home: SessionHome, *, one_query: bool = True) -> None:
        from stqsh.shell.table import UpdateLines  # (pyarrow)

        self._screen = screen
        self._name = name
        self._home = home
        self._lines = UpdateLines(screen.target(one_query=one_query))
        self._shown = 0

    def show(self, item: Updates | SnapshotMark) -> None:
        """Show updates or a mark."""
        if isinstance(item, SnapshotMark):
            self._screen.lines([self._lines.mark(item)])
            return
        count = item.table.num_rows
        room = max(0, min(count, self._screen.sample.room()))
        self._shown += count
        if room:
            self._screen.lines(self._lines.lines(replace(item, table=item.table.slice(0, room))))
        self._screen.sample.take(room, count - room)

    def alive(self, progress: Progress) -> None:
        """Renew the status line."""
        shown = f"{grouped(self._shown)} updates"
        self._screen.status("  ".join((self._name, alive_text(self._home, progress), shown, "Ctrl-C leaves")))
