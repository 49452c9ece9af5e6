"""Choose the output of a map: the screen, a page in a file, or one frame as text without a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from stqsh.shell.map.page.page_file import write_page
from stqsh.shell.map.terminal.app import print_map, show_map
from stqsh.shell.terminal.capabilities import is_interactive

if TYPE_CHECKING:
    from stqsh.client.map.scene import MapFeed
    from stqsh.shell.terminal.screen import Screen


def show_or_write(feed: MapFeed, screen: Screen, scheme: str = "auto") -> str:
    """Show a map until the user leaves it, or write it; return the message for the user.

    Raises:
        StqshError: The session cannot be read.
    """
    feed.once = False
    if feed.file is None and sys.stdin.isatty() and is_interactive(sys.stdout):
        return show_map(feed, scheme)
    return print_or_write(feed, screen)


def print_or_write(feed: MapFeed, screen: Screen) -> str:
    """Print one frame, or write the page; return the message for the user, "" if there is none.

    Raises:
        StqshError: The session cannot be read, or the file cannot be written.
    """
    if feed.file is not None:
        return write_page(feed, screen)
    print_map(feed)
    return ""
