r"""A TAIL redirected by `\o`: write all rows, while the terminal shows how many were written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stqsh.shell.live.tail import left_text
from stqsh.shell.status import alive_text
from stqsh.shell.writers.opening import write_item
from stqsh.units import counted

if TYPE_CHECKING:
    from stqsh.client.read.subscription import Subscription
    from stqsh.shell.terminal.screen import Screen
    from stqsh.shell.writers.writer import Writer
    from stqsh.storage.rows import Progress


def export(following: Subscription, writer: Writer, screen: Screen, name: str) -> str:
    """Write a query's updates until it ends or the user leaves with Ctrl-C.

    Args:
        following: The query's updates.
        writer: Writes them.
        screen: Where the status line is drawn.
        name: The name of the destination in the status line.

    Returns:
        The message for the user.

    Raises:
        StqshError: The destination cannot be written.
    """
    count = 0
    query, home = following.query.name, following.connection.home

    def alive(progress: Progress) -> None:
        words = (
            query,
            alive_text(home, progress),
            f"{counted(count, 'update')} to {name}",
            "Ctrl-C leaves",
        )
        screen.status("  ".join(words))

    following.on_idle, following.on_notice = alive, screen.message
    end = ""
    try:
        for item in following:
            count += write_item(writer, item)
    except KeyboardInterrupt:
        end = f"; {left_text(following)}"
    finally:
        screen.close()
        following.close()
    return f"{counted(count, 'update')} to {name}{end}"
