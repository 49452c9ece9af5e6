"""stqsh: an interactive shell for continuous spatial queries over streams that move."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stqsh.client.api import Session, connect
    from stqsh.client.feed import feed
    from stqsh.client.python.result import Result
    from stqsh.client.python.sources import NewStream
    from stqsh.client.python.tail import Tail, Update
    from stqsh.client.results import Answer, Message, Rows, Script, Updates
    from stqsh.client.run import RunHandle
    from stqsh.errors import StqshError
    from stqsh.shell.map.page.picture import MapPage, draw_map

__version__ = "0.1.0"
__all__ = [
    "Answer",
    "MapPage",
    "Message",
    "NewStream",
    "Result",
    "Rows",
    "RunHandle",
    "Script",
    "Session",
    "StqshError",
    "Tail",
    "Update",
    "Updates",
    "__version__",
    "connect",
    "draw_map",
    "feed",
]
_HOMES = {
    "Answer": "stqsh.client.results",
    "MapPage": "stqsh.shell.map.page.picture",
    "Message": "stqsh.client.results",
    "NewStream": "stqsh.client.python.sources",
    "Result": "stqsh.client.python.result",
    "Rows": "stqsh.client.results",
    "RunHandle": "stqsh.client.run",
    "Script": "stqsh.client.results",
    "Session": "stqsh.client.api",
    "StqshError": "stqsh.errors",
    "Tail": "stqsh.client.python.tail",
    "Update": "stqsh.client.python.tail",
    "Updates": "stqsh.client.results",
    "connect": "stqsh.client.api",
    "draw_map": "stqsh.shell.map.page.picture",
    "feed": "stqsh.client.feed",
}
"""The modules of the public names."""


def __getattr__(name: str) -> object:
    """Import a public name on first access; importing stqsh alone loads nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'stqsh' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Return the public names, for completion."""
    return __all__
