"""Data that expressions look up besides their columns: joined tables, areas, the stream's geometry."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Protocol

from stqsh.core.regions.polygon_table import PolygonTable
from stqsh.core.state.joined_tables import JoinedTables
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.chunk import Chunk, unpack, unpack_struct
from stqsh.spec.stream import TableSpec


class Located(Protocol):
    """What an expression knows of the location of rows."""

    @property
    def x(self) -> str:
        """The column of x, empty without a location."""

    @property
    def y(self) -> str:
        """The column of y."""

    @property
    def planar(self) -> bool:
        """Whether x and y are plane coordinates."""


class Resolver:
    """The tables and areas of a slot, for expressions over one stream.

    Args:
        state: The slot's state.
        spec: The names of the location, and whether it is planar: the stream's spec, for instance.
    """

    def __init__(self, state: SlotState, spec: Located) -> None:
        self._state = state
        self.location: tuple[str, str] = spec.x, spec.y
        self.planar = spec.planar

    @cached_property
    def tables(self) -> JoinedTables:
        """The slot's joined tables."""
        return JoinedTables(self._state)

    @cached_property
    def areas(self) -> PolygonTable:
        """The slot's areas."""
        return PolygonTable(self._state)


def apply_definitions(state: SlotState, chunks: Iterable[Chunk]) -> None:
    """Store the tables and areas that a batch's chunks define; skip chunks of other kinds."""
    for chunk in chunks:
        if chunk.kind == "table_define":
            JoinedTables(state).define(unpack_struct(chunk.payload, TableSpec))
        elif chunk.kind == "table":
            JoinedTables(state).add(chunk.stream, unpack(chunk.payload))
        elif chunk.kind == "area_define":
            PolygonTable(state).define(chunk.stream, unpack(chunk.payload))


def apply_drops(state: SlotState, chunks: Iterable[Chunk]) -> None:
    """Remove the tables and areas that a batch drops, after the queries that used them are gone."""
    for chunk in chunks:
        if chunk.kind == "table_drop":
            JoinedTables(state).drop(chunk.stream)
        elif chunk.kind == "area_drop":
            PolygonTable(state).drop(chunk.stream)
