"""The result of `Session.sql`: the answer of a statement as rows, as a table, and on a map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import shapely

from stqsh.client.python import notebook
from stqsh.client.python.tables import answer_table, rows_table
from stqsh.client.results import Answer, Message, Outcome, RegionColumn, Rows, Script
from stqsh.client.run import RunHandle
from stqsh.client.statements.dispatch import parsed
from stqsh.errors import StqshError
from stqsh.lang.ast import statements as ast
from stqsh.units import format_instant

if TYPE_CHECKING:
    import geopandas
    import pandas as pd

    from stqsh.client.api import Session

_NO_ROWS = pa.table({})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_GOING_ON = (ast.Tail, ast.Subscribe, ast.Follow, ast.Watch, ast.Map)


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """The result of statements: the rows of the last one that has any, and the messages of all of them.

    Attributes:
        text: the messages, one line each; "" if there are none.
        names: the columns.
        step: the step whose state a SELECT shows; None for other statements, and before the first step.
        at: that step's time, in UTC.
        location: the two columns that are the stream's location, if both are selected.
        is_planar: whether the location is in a plane's units, and not in degrees.
        regions: the column that names members of a set of regions, with their shapes.
        extent: the column with the extents of objects, as WKT, if it is selected.

    >>> found = session.sql("SELECT oid, lon, lat FROM taxis WHERE oid = 'ambulance'")
    >>> found.names, len(found), found.location
    (('oid', 'lon', 'lat'), 1, ('lon', 'lat'))
    >>> found.rows()[0]["oid"]
    'ambulance'
    """

    table: pa.Table
    text: str = ""
    step: int | None = None
    at: datetime | None = None
    location: tuple[str, str] | None = None
    is_planar: bool = False
    regions: RegionColumn | None = None
    extent: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.table.column_names)

    def arrow(self) -> pa.Table:
        """Return the rows as an Arrow table; times are `timestamp[us, UTC]`."""
        return self.table

    def df(self) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame."""
        return self.table.to_pandas()

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows as dicts by column; times are datetimes in UTC."""
        return self.table.to_pylist()

    def geo(self) -> geopandas.GeoDataFrame:
        """Return the rows as a GeoDataFrame: in EPSG:4326, or without a reference system if planar.

        The geometries are the points of the location, or the extents; of an aggregate by `REGION(…)`, the
        regions' shapes.

        Raises:
            StqshError: geopandas is not installed, or the result has no places.
        """
        try:
            import geopandas
        except ImportError as error:
            raise StqshError(
                "geopandas is not installed", hint="pip install 'stqsh[geo]' brings it"
            ) from error
        frame, crs = self.df(), None if self.is_planar else 4326
        if self.regions is not None:
            shapes = self.regions.shapes()
            names: list[Any] = self.table.column(self.regions.place).to_pylist()
            texts = [shapes[name].decode() if name in shapes else None for name in names]
            return geopandas.GeoDataFrame(frame, geometry=shapely.from_geojson(texts), crs=crs)
        if self.extent is not None:
            geometry = shapely.from_wkt(self.table.column(self.extent).to_pylist())
            return geopandas.GeoDataFrame(frame, geometry=geometry, crs=crs)
        if self.location is None:
            raise StqshError(
                "the result has no places",
                hint="select both columns of the stream's location, such as lon and lat",
            )
        x, y = (frame[name] for name in self.location)
        points = geopandas.GeoSeries.from_xy(x, y, index=frame.index)
        return geopandas.GeoDataFrame(frame, geometry=points.where(x.notna() & y.notna(), None), crs=crs)

    def __len__(self) -> int:
        return self.table.num_rows

    def __bool__(self) -> bool:
        return True

    def __str__(self) -> str:
        shown = notebook.text_table(self.table) if self.table.num_columns else ""
        return "\n".join(filter(None, (self.text, shown)))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the messages, a table, and a map if there are places."""
        return notebook.page(self.table, self.text, self.location, is_planar=self.is_planar)


def sql(session: Session, text: str) -> Result:
    """Execute statements and return their result, see `Session.sql`."""
    statements = parsed(text, None)
    for statement in statements:
        if isinstance(statement, _GOING_ON) or (isinstance(statement, ast.Select) and statement.sync):
            word = statement.text.split(maxsplit=1)[0].upper()
            raise StqshError(
                f"{word} goes on and has no result",
                hint="session.tail(…) follows a query, stqsh.draw_map(session, …) draws a map, and"
                " session.execute(…) takes every statement",
            )
    return result_of(session.execute(statements))


def result_of(outcomes: Sequence[Outcome]) -> Result:
    """Return the result of outcomes: the rows of the last one that has any, and all messages."""
    texts, found = [], Result(_NO_ROWS)
    for outcome in outcomes:
        match outcome:
            case Message(text) | Script(text):
                texts.append(text)
            case RunHandle():
                texts.append(_run_text(outcome))
            case Rows():
                found = Result(rows_table(outcome))
            case Answer():
                found = _of_answer(outcome)
                texts += [outcome.remark] if outcome.remark else []
    return replace(found, text="\n".join(texts))


def _of_answer(answer: Answer) -> Result:
    at = None if answer.at_us is None else _EPOCH + timedelta(microseconds=answer.at_us)
    step = None if at is None else answer.step
    return Result(
        answer_table(answer),
        "",
        step,
        at,
        answer.location,
        answer.is_planar,
        regions=answer.regions,
        extent=answer.extent,
    )


def _run_text(run: RunHandle) -> str:
    progress = run.connection.progress()
    at = format_instant(progress.at_us(progress.step))
    return "no step has come" if at is None else f"step {progress.step}, at {at}"
