"""The definition of a query stream, as stored in the control log."""

from __future__ import annotations

import msgspec

from stqsh.spec.stream import KafkaSourceSpec, StreamSpec

DROP_COLUMN = "_drop"
"""The column of a query stream's rows that says whether the row drops its query."""


class QueryStreamSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Queries that the rows of a live source register, replace and drop.

    Attributes:
        rows: the rows as a stream without locations: the name, the source, and the columns, which are the
            names of the queries (its key), the template's parameters, and `DROP_COLUMN`.
        stream_id: the stream of the queries.
        template: the JSON of the `QueryTemplate`, including the members of sets of regions.
        beyond: for each hole of the template, the members of a set that reach over the 180th meridian.
        areas: the ids of the regions that the template uses.
        tables: the ids of the tables that it joins.
    """

    rows: StreamSpec
    stream_id: int
    template: msgspec.Raw
    beyond: tuple[tuple[str, ...], ...] = ()
    areas: tuple[int, ...] = ()
    tables: tuple[int, ...] = ()
    id: int = 0

    @property
    def name(self) -> str:
        """The name of the query stream."""
        return self.rows.name

    @property
    def takes_inserts(self) -> bool:
        """Whether INSERT INTO adds rows, because the source does not bring rows again in their order."""
        return not isinstance(self.rows.source, KafkaSourceSpec)
