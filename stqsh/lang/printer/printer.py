"""Print statements as text: `parse(to_sql(statement))` returns an equal statement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stqsh.lang.ast import statements
from stqsh.lang.ast.expressions import Column, Name
from stqsh.lang.errors import locating
from stqsh.lang.printer import definitions, queries
from stqsh.lang.printer.by_rule import by_rule
from stqsh.lang.printer.values import column_name, constant, identifier, joined, quoted


def to_sql(statement: statements.Statement) -> str:
    """Return a statement as one line of text, with its clauses in the order of the reference.

    Raises:
        StatementSyntaxError: the statement is nested too deeply.

    >>> from stqsh.lang.syntax.parse import parse
    >>> to_sql(parse("run  for 90 SECONDS;")[0])
    'RUN FOR 90 s'
    """
    with locating(statement.piece):
        text = _PRINTERS.get(type(statement), by_rule)(statement)
    return text if statement.format is None else f"{text} FORMAT {identifier(statement.format)}"


def _topic(topic: str) -> str:
    """Return the topic of a HELP, where no word is reserved."""
    return " ".join(word if word.isidentifier() else identifier(word) for word in topic.split())


def _name(name: Name | None) -> str | None:
    return None if name is None else identifier(name.text)


def _names(names: tuple[Name, ...]) -> str:
    return ", ".join(identifier(name.text) for name in names)


def _run(node: statements.Run) -> str:
    if node.until is not None:
        return f"RUN UNTIL {constant(node.until)}"
    if node.duration is not None:
        return f"RUN FOR {constant(node.duration)}"
    return "RUN" if node.steps is None else f"RUN {node.steps} STEPS"


def _repartition(node: statements.Repartition) -> str:
    slots = None if node.slots is None else f"INTO {node.slots.value} SLOTS"
    return joined(("REPARTITION", _name(node.stream), f"USING {node.strategy}", slots))


def _rebalance(node: statements.Rebalance) -> str:
    return joined(("REBALANCE", _name(node.stream), node.strategy and f"USING {node.strategy}"))


def _set(node: statements.SetSetting) -> str:
    key = ".".join(identifier(part) for part in node.key.text.split("."))
    value = node.value
    # Only the words for constants are keywords here.
    return f"SET {key} = {column_name(value.name) if isinstance(value, Column) else constant(value)}"


def _map(node: statements.Map) -> str:
    file = None if node.file is None else f"TO {quoted(node.file)}"
    return joined(("MAP", _name(node.stream), _names(node.queries), file))


_PRINTERS: dict[type[statements.Statement], Callable[[Any], str]] = {
    statements.CreateStream: definitions.create_stream,
    statements.CreateTable: definitions.create_table,
    statements.CreateRegion: definitions.create_region,
    statements.CreateRegions: definitions.create_regions,
    statements.CreateView: queries.create_view,
    statements.CreateFunction: definitions.create_function,
    statements.CreateSink: definitions.create_sink,
    statements.CreateAlert: definitions.create_alert,
    statements.Drop: definitions.drop,
    statements.Insert: definitions.insert,
    statements.Select: queries.select,
    statements.RegisterQuery: queries.register,
    statements.RegisterQueries: definitions.register_queries,
    statements.Subscribe: queries.subscribe,
    statements.Explain: queries.explain,
    statements.Tail: queries.tail,
    statements.Run: _run,
    statements.AlterQuery: queries.alter,
    statements.Show: lambda node: joined(
        (
            f"SHOW {node.what}",
            node.stream and _name(node.stream),
            node.like and f"LIKE {constant(node.like)}",
        )
    ),
    statements.Repartition: _repartition,
    statements.Rebalance: _rebalance,
    statements.SetSetting: _set,
    statements.Watch: lambda node: f"WATCH {_names(node.names)}",
    statements.Map: _map,
    statements.Help: lambda node: joined(("HELP", node.topic and _topic(node.topic.text))),
}
"""The statements whose fields are not just the symbols of their rule; the others are printed by it."""
