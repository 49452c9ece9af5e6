"""stqsh: an interactive shell for continuous spatial queries over streams that move."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stqsh.client.api import Session, connect
    from stqsh.client.feed import feed
    from stqsh.errors import StqshError

__version__ = "0.1.0"
__all__ = ["Session", "StqshError", "__version__", "connect", "feed"]


def __getattr__(name: str) -> object:
    """Give the public names when they are asked for; importing stqsh alone loads nothing."""
    if name in ("connect", "Session"):
        from stqsh.client import api

        return getattr(api, name)
    if name == "feed":
        from stqsh.client.feed import feed

        return feed
    if name == "StqshError":
        from stqsh.errors import StqshError

        return StqshError
    raise AttributeError(f"module 'stqsh' has no attribute '{name}'")
