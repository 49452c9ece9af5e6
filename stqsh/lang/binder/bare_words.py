"""Read words that are no column as users of other systems mean them: "truck" is a text, hour is HOUR(time).

The papers write their queries in this way. A statement is rewritten before it is bound, so no other module
has to handle such words.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import fields, is_dataclass, replace
from typing import NamedTuple, TypeVar

from stqsh.lang.ast.expressions import Call, Column, Inside, Literal, Node, Star
from stqsh.lang.ast.statements import (
    AlterQuery,
    CreateView,
    Explain,
    OrderItem,
    RegisterQueries,
    RegisterQuery,
    Relation,
    Select,
    SelectItem,
    Statement,
    Subscribe,
    Tail,
)
from stqsh.lang.binder.views import view_columns
from stqsh.lang.catalogue import CatalogueView
from stqsh.lang.printer.values import quoted
from stqsh.lang.syntax.parse import parse
from stqsh.spec.functions import PARTS

_TIMES = PARTS | {"DATE"}
"""The functions of a time that apply to the stream's time if only their name is given."""
_WORDS = re.compile(rf'"|\b(?:{"|".join(sorted(_TIMES))})\b(?!\s*\()', re.IGNORECASE)
_KEPT_APART = ("span", "piece")
_SELECTING = (Select, RegisterQuery, RegisterQueries, Subscribe, Explain, CreateView)
"""The statements that contain a SELECT."""
_Part = TypeVar("_Part")


class Reading(NamedTuple):
    """A statement with its bare words interpreted, and notes about them for the user."""

    statement: Statement
    notes: tuple[str, ...] = ()


def has_bare_words(text: str) -> bool:
    """Return whether a text may have words that name no column."""
    return _WORDS.search(text) is not None


def read_words(statement: Statement, catalogue: CatalogueView) -> Reading:
    """Replace words that name no column by texts and by functions of the stream's time.

    A SELECT over sources that the catalogue does not know is not changed. The filter of a TAIL may use what
    its query selects, as well as columns.
    """
    match statement:
        case Tail():
            return _read_filter(statement, catalogue)
        case AlterQuery():
            return _read_condition(statement, catalogue)
        case _:
            return _read_select(statement, catalogue)


def _read_select(statement: Statement, catalogue: CatalogueView) -> Reading:
    """Replace the bare words of a statement that contains a SELECT."""
    if not isinstance(statement, _SELECTING) or (statement.text and not has_bare_words(statement.text)):
        return Reading(statement)
    select = statement if isinstance(statement, Select) else statement.select
    if not isinstance(select, Select):
        return Reading(statement)
    names = _Names.of(select, catalogue)
    if names is None:
        return Reading(statement)
    texts: dict[str, None] = {}
    read = _read(select, names, texts)
    if read is select:
        return Reading(statement)
    where = " and ".join(relation.name for relation in select.relations)
    whole = read if statement is select else replace(statement, select=read)  # type: ignore[arg-type]
    return Reading(whole, _notes(texts, where))


def _read_filter(statement: Tail, catalogue: CatalogueView) -> Reading:
    """Replace the bare words of a TAIL's filter."""
    query = catalogue.query(statement.name.text)
    stream = None if query is None else catalogue.stream(query.stream)
    if statement.where is None or query is None or stream is None:
        return Reading(statement)
    if query.aggregates is not None:  # its rows have only what it selects
        names = _Names(frozenset(), frozenset(one.name for one in query.aggregates.select), None)
    else:
        tables = [catalogue.table(join.table) for join in query.joins]
        sources = [stream.types, *(table.types for table in tables if table is not None)]
        columns = frozenset(name.lower() for one in sources for name in one)
        time = Column(stream.time) if stream.time else None
        names = _Names(columns, frozenset(column.name for column in query.result.select), time)
    texts: dict[str, None] = {}
    read = _read(statement.where, names, texts)
    return Reading(replace(statement, where=read), _notes(texts, query.name))


def _read_condition(statement: AlterQuery, catalogue: CatalogueView) -> Reading:
    """Replace the bare words of ALTER's condition, which sees what the WHERE of its query sees."""
    query = catalogue.query(statement.name.text)
    if statement.where is None or query is None:
        return Reading(statement)
    [select] = parse(query.text)
    assert isinstance(select, Select), "a query's text is its SELECT"
    names = _Names.of(select, catalogue)
    if names is None:
        return Reading(statement)
    texts: dict[str, None] = {}
    read = _read(statement.where, names, texts)
    return Reading(replace(statement, where=read), _notes(texts, query.name))


def _notes(texts: Iterable[str], where: str) -> tuple[str, ...]:
    return tuple(f"{quoted(text)} is a text: {where} has no column of that name" for text in texts)


class _Names(NamedTuple):
    """The names that a column reference may have.

    Attributes:
        columns: The columns of the sources in FROM, in lower case.
        outputs: The names defined in the select list.
        time: The stream's time; None if it has none.
    """

    columns: frozenset[str]
    outputs: frozenset[str]
    time: Column | None

    @classmethod
    def of(cls, select: Select, catalogue: CatalogueView) -> _Names | None:
        """Return the names of a SELECT; None if one of its sources is unknown."""
        found = [_columns(relation, catalogue) for relation in select.relations]
        if not found or any(one is None for one in found):
            return None
        columns = frozenset(name.lower() for one in found for name in one or ())
        outputs = frozenset(name for item in select.items if (name := _output(item)) is not None)
        streams = [one for one in select.relations if catalogue.stream(one.name) is not None]
        return cls(columns, outputs, _time(streams[0], select, catalogue) if streams else None)


def _output(item: SelectItem) -> str | None:
    """Return the name that a select item defines, unless it is the name of a column."""
    node = item.expression
    return node.name.lower() if item.alias is None and isinstance(node, Call) else item.alias


def _columns(relation: Relation, catalogue: CatalogueView) -> Collection[str] | None:
    spec = catalogue.stream(relation.name) or catalogue.table(relation.name)
    if spec is not None:
        return spec.types
    view = catalogue.view(relation.name)
    return None if view is None else view_columns(view, catalogue)


def _time(relation: Relation, select: Select, catalogue: CatalogueView) -> Column | None:
    stream = catalogue.stream(relation.name)
    if stream is None or not stream.time:
        return None
    return Column(stream.time, relation.alias or relation.name if len(select.relations) > 1 else None)


def _read(part: _Part, names: _Names, texts: dict[str, None]) -> _Part:
    """Return a part of a statement with its bare words replaced; the same object if there are none."""
    if isinstance(part, Column):
        return _word(part, names, texts)  # type: ignore[return-value]
    if isinstance(part, SelectItem | OrderItem):
        return _listed(part, names, texts)  # type: ignore[return-value]
    if isinstance(part, tuple):
        read = tuple(_read(one, names, texts) for one in part)
        changed = any(new is not old for new, old in zip(read, part, strict=True))
        return read if changed else part  # type: ignore[return-value]
    if isinstance(part, Star | Inside) or not isinstance(part, Node) or not is_dataclass(part):
        return part
    old = {one.name: getattr(part, one.name) for one in fields(part) if one.name not in _KEPT_APART}
    new = {name: _read(value, names, texts) for name, value in old.items()}
    different = {name: value for name, value in new.items() if value is not old[name]}
    return replace(part, **different) if different else part


def _listed(item: SelectItem | OrderItem, names: _Names, texts: dict[str, None]) -> SelectItem | OrderItem:
    """Replace bare words in an item of the select list or ORDER BY, unless the item is only a quoted name."""
    node = item.expression
    if isinstance(node, Column) and node.quoted:
        return item
    # A select item is evaluated on records, so it cannot use the names that the list defines.
    seen = names._replace(outputs=frozenset()) if isinstance(item, SelectItem) else names
    read = _read(node, seen, texts)
    return item if read is node else replace(item, expression=read)


def _word(node: Column, names: _Names, texts: dict[str, None]) -> Column | Call | Literal:
    if node.qualifier is not None or node.name.lower() in names.columns or node.name in names.outputs:
        return node
    if node.quoted:
        texts[node.name] = None
        return Literal(node.name, "STRING", span=node.span)
    word = node.name.upper()
    if names.time is None or word not in _TIMES:
        return node
    return Call(word, (replace(names.time, span=node.span),), span=node.span)
