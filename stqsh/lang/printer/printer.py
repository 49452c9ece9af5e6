"""Print statements as text: `parse(to_sql(statement))` returns an equal statement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stqsh.lang.ast import statements
from stqsh.lang.ast.expressions import Column, Name, Parameter
from stqsh.lang.errors import locating
from stqsh.lang.printer import definitions, queries
from stqsh.lang.printer.values import column_name, constant, identifier, joined, pace, parameter, quoted


def to_sql(statement: statements.Statement) -> str:
    """Return a statement as one line of text, with its clauses in the order of the reference.

    Raises:
        StatementSyntaxError: the statement is nested too deeply.

    >>> from stqsh.lang.syntax.parse import parse
    >>> to_sql(parse("run  for 90 SECONDS;")[0])
    'RUN FOR 90 s'
    """
    with locating(statement.piece):
        text = _PRINTERS[type(statement)](statement)
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


def _play(node: statements.Play) -> str:
    return joined((f"PLAY {_name(node.stream)}", None if node.pace is None else f"AT {pace(node.pace)}"))


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


def _export(node: statements.ExportDeadLetters) -> str:
    of = None if node.name is None else f"OF {_name(node.name)}"
    return joined(("EXPORT DEAD LETTERS", of, f"TO {constant(node.file)}"))


def _map(node: statements.Map) -> str:
    file = None if node.file is None else f"TO {quoted(node.file)}"
    return joined(("MAP", _name(node.stream), _names(node.queries), file))


def _follow(node: statements.Follow) -> str:
    key = parameter(node.key) if isinstance(node.key, Parameter) else constant(node.key)
    return joined((f"FOLLOW {key}", None if node.stream is None else f"IN {_name(node.stream)}"))


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
    statements.Follow: _follow,
    statements.Run: _run,
    statements.Play: _play,
    statements.Pause: lambda node: f"PAUSE {_name(node.stream)}",
    statements.PauseQuery: lambda node: f"PAUSE QUERY {_name(node.name)}",
    statements.ResumeQuery: lambda node: f"RESUME QUERY {_name(node.name)}",
    statements.AlterQuery: queries.alter,
    statements.Show: lambda node: joined(
        (
            f"SHOW {node.what}",
            node.stream and _name(node.stream),
            node.like and f"LIKE {constant(node.like)}",
        )
    ),
    statements.ShowQuery: lambda node: f"SHOW QUERY {_name(node.name)}",
    statements.Describe: lambda node: f"DESCRIBE {_name(node.name)}",
    statements.Repartition: _repartition,
    statements.Rebalance: _rebalance,
    statements.SetSetting: _set,
    statements.Watch: lambda node: f"WATCH {_names(node.names)}",
    statements.Map: _map,
    statements.Help: lambda node: joined(("HELP", node.topic and _topic(node.topic.text))),
    statements.Dump: lambda node: "DUMP",
    statements.ExportDeadLetters: _export,
    statements.Save: lambda node: f"SAVE TO {constant(node.uri)}",
}
