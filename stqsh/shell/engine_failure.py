"""What there is to say of an engine that is not there any more: why, its last words, and how to go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stqsh.errors import EngineDead
    from stqsh.storage.home import SessionHome

AGAIN = r"\restart starts it again, as the next statement does; streams and queries go on where they were"


def obituary(home: SessionHome) -> str:
    """Why the engine has gone, with the last lines of its log that matter, and how to start it again.

    "" where it has not gone. One that was stopped, from another shell or by `stqsh stop`, needs no reason.
    """
    from stqsh.client.engine_process import check_alive, read_engine
    from stqsh.errors import EngineDead

    info = read_engine(home)
    if info is not None and info.state == "stopping":
        return f"the engine was stopped\nhint: {AGAIN}"
    try:
        check_alive(home)
    except EngineDead as error:
        return death_text(error)
    return ""


def death_text(error: EngineDead) -> str:
    """The same for the error that a statement met."""
    return f"{error.message}\nhint: {error.hint or 'stqsh logs shows its log'}\nhint: {AGAIN}"
