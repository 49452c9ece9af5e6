"""`stqsh.draw_map`: a single map page, for programs and notebooks."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from stqsh.errors import StqshError
from stqsh.fs import atomic_write
from stqsh.lang.ast.expressions import Name
from stqsh.lang.ast.statements import Map
from stqsh.lang.printer.printer import to_sql
from stqsh.shell.map.page.page_loop import now
from stqsh.shell.map.page.page_state import PAGE_BEGIN, PageStates, page
from stqsh.shell.messages import file_error_reason
from stqsh.storage.output_files import check_replaceable

if TYPE_CHECKING:
    from stqsh.client.api import Session
    from stqsh.client.map.scene import MapFeed


@dataclass(frozen=True, slots=True)
class MapPage:
    """A map after one step, with the past before it; a notebook shows it.

    Attributes:
        stream: the stream's name.
        step: the step.
        html: the self-contained page.
    """

    stream: str
    step: int
    html: str = field(repr=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file.

        Raises:
            StqshError: it cannot be written, or the path has a file that is not a map page.
        """
        file = Path(path).expanduser()
        try:
            check_replaceable(file, PAGE_BEGIN, "a map's page")
            atomic_write(file, self.html.encode())
        except OSError as error:
            raise StqshError(f"cannot write {os.fspath(path)}: {file_error_reason(error)}") from error

    def _repr_html_(self) -> str:
        """Return the page in an iframe."""
        frame = "width:100%;height:520px;border:1px solid #b5c4ce"
        return f'<iframe srcdoc="{html.escape(self.html)}" style="{frame}"></iframe>'


def draw_map(session: Session, *names: str) -> MapPage:
    """Draw a map of a stream and of its queries, as MAP does: objects, regions, answers, and their past.

    Args:
        session: the session.
        names: a stream, a stream and queries, or queries; for a stream alone, all its queries are drawn.

    Raises:
        StqshError: there is no such stream or query, or the session cannot be read.
    """
    [found] = session.execute(map_statement(session, names))
    feed: MapFeed = found  # type: ignore[assignment]  # the only outcome of MAP
    states = PageStates(feed)
    states.next()
    state = states.last(f"one picture, taken at {now()}")
    assert state is not None, "the first look always has a scene"
    return MapPage(feed.stream.name, states.step, page(state, states.tiles).decode())


def map_statement(session: Session, names: Sequence[str], to: str | None = None) -> str:
    """Return the MAP statement for names; the first is a stream if there is one with that name."""
    stream = None
    if len(names) > 1 and names[0] in {one.name for one in session.streams()}:
        stream, names = Name(names[0]), names[1:]
    return f"{to_sql(Map(stream=stream, queries=tuple(map(Name, names)), file=to))};"
