"""The interface by which the binder reads the catalogue."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from stqsh.spec.expression import FunctionSpec
from stqsh.spec.query import QuerySpec
from stqsh.spec.query_stream import QueryStreamSpec
from stqsh.spec.region import PolygonSpec
from stqsh.spec.sink import SinkSpec
from stqsh.spec.stream import AreaSpec, StreamSpec, TableSpec
from stqsh.spec.view import ViewSpec


class RegionView(Protocol):
    """The named regions of a session."""

    def area(self, name: str) -> AreaSpec | None:
        """Return the spec of a region or a set of regions; None if there is none of that name."""

    def polygons(self, area: AreaSpec, member: str | None) -> tuple[PolygonSpec, ...]:
        """Return the polygons of a region, or of a member of a set of regions."""


class CatalogueView(RegionView, Protocol):
    """The names in use, and the objects to which they refer."""

    def stream(self, name: str) -> StreamSpec | None:
        """Return the spec of a stream; None if there is no stream of that name."""

    def query(self, name: str) -> QuerySpec | None:
        """Return the spec of an active or paused query; None if there is none of that name."""

    def query_stream(self, name: str) -> QueryStreamSpec | None:
        """Return the spec of a query stream; None if there is none of that name."""

    def table(self, name: str) -> TableSpec | None:
        """Return the spec of a table; None if there is no table of that name."""

    def view(self, name: str) -> ViewSpec | None:
        """Return the spec of a view; None if there is no view of that name."""

    def sink(self, name: str) -> SinkSpec | None:
        """Return the spec of a sink; None if there is no sink of that name."""

    def alert(self, name: str) -> SinkSpec | None:
        """Return the spec of an alert; None if there is no alert of that name."""

    def function(self, name: str) -> FunctionSpec | None:
        """Return a function added by a user or a package, by its name in upper case; None if unknown."""

    def kind_of(self, name: str) -> str | None:
        """Return the kind of the object with a name, one of the kinds of `names`; None if it is free."""

    def names(self, kind: str) -> Collection[str]:
        """Return the names in use of a kind: "stream", "table", "region", "view", "query" and so on."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings that SET can change, by their dotted keys."""


@dataclass(frozen=True)
class Catalogue:
    """A catalogue held in memory."""

    streams: Mapping[str, StreamSpec] = field(default_factory=dict)
    queries: Mapping[str, QuerySpec] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, TableSpec] = field(default_factory=dict)
    areas: Mapping[str, AreaSpec] = field(default_factory=dict)
    sinks: Mapping[str, SinkSpec] = field(default_factory=dict)
    alerts: Mapping[str, SinkSpec] = field(default_factory=dict)
    views: Mapping[str, ViewSpec] = field(default_factory=dict)
    shapes: Mapping[tuple[str, str | None], tuple[PolygonSpec, ...]] = field(default_factory=dict)
    functions: Mapping[str, FunctionSpec] = field(default_factory=dict)
    query_streams: Mapping[str, QueryStreamSpec] = field(default_factory=dict)

    def stream(self, name: str) -> StreamSpec | None:
        """Return the StreamSpec of a stream."""
        return self.streams.get(name)

    def query(self, name: str) -> QuerySpec | None:
        """Return the QuerySpec of a query."""
        return self.queries.get(name)

    def query_stream(self, name: str) -> QueryStreamSpec | None:
        """Return the QueryStreamSpec of a query stream."""
        return self.query_streams.get(name)

    def table(self, name: str) -> TableSpec | None:
        """Return the TableSpec of a table."""
        return self.tables.get(name)

    def area(self, name: str) -> AreaSpec | None:
        """Return the AreaSpec of a region or a set of regions."""
        return self.areas.get(name)

    def polygons(self, area: AreaSpec, member: str | None) -> tuple[PolygonSpec, ...]:
        """Return the polygons of a region, or of a member of a set of regions."""
        return self.shapes[area.name, member]

    def view(self, name: str) -> ViewSpec | None:
        """Return the ViewSpec of a view."""
        return self.views.get(name)

    def sink(self, name: str) -> SinkSpec | None:
        """Return the SinkSpec of a sink."""
        return self.sinks.get(name)

    def alert(self, name: str) -> SinkSpec | None:
        """Return the SinkSpec of an alert."""
        return self.alerts.get(name)

    def function(self, name: str) -> FunctionSpec | None:
        """Return a function that a user has registered."""
        return self.functions.get(name)

    def kind_of(self, name: str) -> str | None:
        """Return the kind of the object with a name; None if it is free."""
        return next((kind for kind, named in self._named.items() if name in named), None)

    def names(self, kind: str) -> Collection[str]:
        """Return the names of a kind, in order of insertion."""
        return self._named[kind].keys()

    @property
    def _named(self) -> Mapping[str, Mapping[str, object]]:
        return {
            "function": self.functions,
            "stream": self.streams,
            "query": self.queries,
            "query stream": self.query_streams,
            "table": self.tables,
            "region": self.areas,
            "view": self.views,
            "sink": self.sinks,
            "alert": self.alerts,
        }
