"""`stqsh map`: the map of a session from the command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stqsh.cli.sessions import session_home
from stqsh.client.api import connect
from stqsh.errors import CommandLineError
from stqsh.shell.map.dispatch import print_or_write, show_or_write
from stqsh.shell.map.page.picture import map_statement
from stqsh.shell.map.page.server import serve_map
from stqsh.shell.messages import print_message
from stqsh.shell.terminal.screen import open_screen

if TYPE_CHECKING:
    from stqsh.client.api import Session
    from stqsh.client.map.scene import MapFeed

_PORTS = 65535


@dataclass(frozen=True, slots=True)
class MapOptions:
    """The options of `stqsh map`; `words` are a stream and queries, and a port where the map is served."""

    words: tuple[str, ...] = ()
    to: str | None = None
    serve: bool = False
    once: bool = False
    session: str | None = None
    profile: str | None = None


def run_map(options: MapOptions) -> int:
    """Draw, write or serve a map until the user leaves it. Raises `StqshError`."""
    if options.serve and options.to is not None:
        raise CommandLineError("a map is served or written to a file, not both", hint="leave one of them out")
    words, port = _port(options)
    home = session_home(options.session, options.profile)
    with connect(home.name, profile=options.profile) as session:
        [feed] = session.execute(map_statement(session, words, options.to))
        feed.once = options.once  # type: ignore[union-attr]  # MAP answers with nothing else
        text = _show(feed, port, session)  # type: ignore[arg-type]
    if text:
        print_message(text)
    return 0


def _show(feed: MapFeed, port: int | None, session: Session) -> str:
    if port is not None:
        return serve_map(feed, port, open_screen(sys.stderr))
    if feed.once:
        return print_or_write(feed, open_screen(sys.stderr))
    return show_or_write(feed, open_screen(sys.stderr), session.settings().text("shell.scheme"))


def _port(options: MapOptions) -> tuple[Sequence[str], int | None]:
    """Return the names among the words, and the port: 0 for a free one, None for none.

    No name begins with a digit, which distinguishes `--serve 8080`. Raises `CommandLineError`.
    """
    names = [name for word in options.words for name in word.split(",") if name]
    if not options.serve:
        return names, None
    ports = [name for name in names if name.isdecimal()]
    if len(ports) > 1 or any(int(port) > _PORTS for port in ports):
        raise CommandLineError(f"--serve takes one port, up to {_PORTS}, or none for a free one")
    return [name for name in names if not name.isdecimal()], int(ports[0]) if ports else 0
