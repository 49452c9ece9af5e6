"""Queries registered together: their common part is stored once, and their differences as columns.

The common spec has holes, each with a path such as `("members", "region", "x1")`. The content of a hole is
computed from a column of the rows, for all queries at once.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute
from msgspec.structs import replace

from stqsh.errors import OtherVersionError
from stqsh.lang.binder.parameters import COLUMN_TYPES, HOLE_TAG, Content, Hole
from stqsh.lang.printer.values import identifier, number, quoted
from stqsh.spec.chunk import arrow_type, unpack
from stqsh.spec.query import QuerySpec
from stqsh.spec.query_rows import Path, filled
from stqsh.units import format_instant

Values: TypeAlias = "pa.Array[Any]"
pc: Any = pyarrow.compute  # the stubs are incomplete
NAMES = ""
"""The rows' column with the queries' names; no parameter can have this name."""
_COORDINATES = frozenset({"number", "longitude", "latitude"})
_OTHER_END = {"x1": "x2", "y1": "y2"}
_PARAMETER = re.compile(
    r"""'(?:[^']|'')*'|:"(?P<quoted>(?:[^"]|"")+)"|"(?:[^"]|"")+"|:(?P<plain>[^\W\d]\w*)"""
)


@dataclass(frozen=True, slots=True)
class QueryTemplate:
    """The common part of queries that were registered together.

    Attributes:
        spec: the JSON of a QuerySpec without name and text, with empty holes.
        holes: the holes with their paths.
        words: the text of the SELECT around the parameters.
        parameters: the names of the parameters.
        between: the text of the statement after the query's name.
    """

    spec: Mapping[str, Any]
    holes: tuple[tuple[Path, Hole], ...]
    words: tuple[str, ...]
    parameters: tuple[str, ...]
    between: str

    @staticmethod
    def of(spec: QuerySpec, text: str, between: str) -> QueryTemplate:
        """Return the template of a spec with holes and of the SELECT text from which the spec was bound."""
        holes: list[tuple[Path, Hole]] = []
        emptied = _emptied(msgspec.to_builtins(replace(spec, text="", name="")), (), holes)
        words, parameters, start = [], [], 0
        for match in _PARAMETER.finditer(text):
            if match.lastgroup is not None:
                words.append(text[start : match.start()])
                parameters.append(match[match.lastgroup].replace('""', '"'))
                start = match.end()
        return QueryTemplate(emptied, tuple(holes), (*words, text[start:]), tuple(parameters), between)

    @staticmethod
    def from_json(text: str | bytes | msgspec.Raw) -> QueryTemplate:
        """Read the output of `to_json`.

        Raises:
            OtherVersionError: the text was written by a version that cannot be read any more.
        """
        try:
            return msgspec.json.decode(text, type=QueryTemplate)
        except msgspec.ValidationError as error:
            raise OtherVersionError from error

    def to_json(self, *, members: bool = False) -> str:
        """Return the template as the JSON that the catalogue stores.

        `members` keeps the allowed names of members of sets, which only the check of further rows needs.
        """
        if members:
            return msgspec.json.encode(self).decode()
        holes = tuple((path, replace(hole, members=())) for path, hole in self.holes)
        return msgspec.json.encode(dataclasses.replace(self, holes=holes)).decode()

    def values(self, rows: pa.RecordBatch) -> list[Values]:
        """Return the content of each hole, (n,); of a rectangle's corners the lower one is first."""
        values = [_values(hole, rows) for _, hole in self.holes]
        at = {path: place for place, (path, _) in enumerate(self.holes)}
        for path, low in at.items():
            high = at.get((*path[:-1], _OTHER_END.get(str(path[-1]), "")))
            if high is not None:
                ends = values[low], values[high]
                values[low], values[high] = pc.min_element_wise(*ends), pc.max_element_wise(*ends)
        return values

    def filled(self, content: Sequence[Any]) -> Mapping[str, Any]:
        """Return a copy of the spec with the given content in its holes."""
        return filled(self.spec, [path for path, _ in self.holes], content)

    @property
    def stream_id(self) -> int:
        """The id of the stream of the queries."""
        return int(self.spec["stream_id"])

    @property
    def coordinates(self) -> frozenset[str]:
        """The parameters that are used only as coordinates, which are printed without a needless point."""
        others = {hole.column for _, hole in self.holes if hole.content not in _COORDINATES}
        return frozenset(self.parameters) - others


@dataclass(frozen=True, eq=False)
class TemplateRows:
    """Queries of a template: their names, the columns of the template's parameters, and the first id."""

    template: QueryTemplate
    rows: pa.RecordBatch
    first: int

    @staticmethod
    def read(template: str, payload: bytes, last: int) -> TemplateRows:
        """Read queries from the catalogue's template and the payload of the log row that registered them."""
        rows = unpack(payload)
        return TemplateRows(QueryTemplate.from_json(template), rows, last + 1 - rows.num_rows)

    @cached_property
    def values(self) -> list[Values]:
        """The content of each of the template's holes."""
        return self.template.values(self.rows)

    @cached_property
    def _coordinates(self) -> frozenset[str]:
        return self.template.coordinates

    def spec(self, id_: int) -> QuerySpec:
        """Return the QuerySpec of one of the queries."""
        row = id_ - self.first
        spec = msgspec.convert(self.template.filled([some[row].as_py() for some in self.values]), QuerySpec)
        return replace(spec, text=self.text(id_), name=self.rows.column(NAMES)[row].as_py(), id=id_)

    def text(self, id_: int) -> str:
        """Return the text of the SELECT of one of the queries."""
        row, coordinates = id_ - self.first, self._coordinates
        literals = [
            literal(self.rows.column(name)[row].as_py(), name in coordinates)
            for name in self.template.parameters
        ]
        return "".join(map("".join, zip(self.template.words, [*literals, ""], strict=True)))

    def statement(self, name: str, text: str) -> str:
        """Return the statement that registers one of the queries, from its name and its SELECT text."""
        return f"REGISTER QUERY {identifier(name)}{self.template.between}{text};"


def _emptied(part: Any, path: Path, holes: list[tuple[Path, Hole]]) -> Any:
    """Return a part of a spec's JSON with its holes emptied, and add the holes to `holes`."""
    if isinstance(part, dict) and HOLE_TAG in part:
        holes.append((path, msgspec.convert(part, Hole)))
        return None
    if isinstance(part, dict):
        return {name: _emptied(value, (*path, name), holes) for name, value in part.items()}
    if isinstance(part, list | tuple):
        return [_emptied(value, (*path, place), holes) for place, value in enumerate(part)]
    return part


def _values(hole: Hole, rows: pa.RecordBatch) -> Values:
    if hole.constant is not None:
        return pa.repeat(pa.scalar(hole.constant, pa.float64()), rows.num_rows)
    column = rows.column(hole.column)
    if hole.content == "TIMESTAMP":
        shifted: Values = pc.add(column.cast(pa.int64()), hole.offset_us)
        return shifted
    return column.cast(content_type(hole.content))


def content_type(content: Content) -> pa.DataType:
    """Return the Arrow type of a hole's content; times are in microseconds."""
    return pa.int64() if content == "TIMESTAMP" else arrow_type(COLUMN_TYPES[content])


def literal(value: Any, is_coordinate: bool = False) -> str:
    """Return a value as a literal of a statement."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, int | float):
        return number(value) if is_coordinate else repr(value)
    return quoted(str(format_instant(round(value.timestamp() * 1_000_000))))
