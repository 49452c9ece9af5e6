"""Builders of the statements for running and administration."""

from __future__ import annotations

from dataclasses import replace

from stqsh.lang.ast import statements
from stqsh.lang.ast.expressions import Column, Name
from stqsh.lang.ast.source import NOWHERE, cover
from stqsh.lang.ast_builder.rules import (
    Clause,
    Parts,
    by_field,
    clause_of,
    fill,
    only_part,
    rule,
    rules,
)
from stqsh.lang.errors import StatementSyntaxError, near

PARTITIONINGS = ("object", "grid", "agrid", "quadtree", "qttree")
REBALANCINGS = ("shift", "splitmerge", "pm", "fm", "fg", "greedy", "border")


rules(
    {
        "start": only_part,
        "until": lambda parts: statements.Run(until=parts[0]),
        "run_for": lambda parts: statements.Run(duration=parts[0]),
        "run_steps": lambda parts: statements.Run(steps=parts[0]),
        "run": lambda parts: parts[0] or statements.Run(),
        "alter_query": lambda parts: fill(statements.AlterQuery(parts[0]), by_field(parts[1:])),
        "tail_since": clause_of("begin", "SINCE"),
        "name_like": only_part,
        "tail_only": lambda parts: Clause("only", parts[0], "ONLY"),
        "show_all": lambda parts: statements.Show(parts[0], parts[1], format=_format(parts[2])),
        "show_cells": lambda parts: statements.Show("CELLS", stream=parts[0], format=_format(parts[1])),
        "watch": lambda parts: statements.Watch(tuple(parts)),
        "map_one": lambda parts: statements.Map(queries=(parts[0],)),  # a stream or a query
        "map_both": lambda parts: statements.Map(parts[0], tuple(parts[1:])),
        "map_queries": lambda parts: statements.Map(queries=tuple(parts)),
    }
)


@rule("tail_from")
def tail_from(parts: Parts) -> Clause:
    """Build `FROM STEP n` or `FROM 'time'`; `FROM START` is step 0."""
    return Clause("begin", 0 if parts[0] == "START" else parts[0], "FROM", getattr(parts[0], "span", NOWHERE))


@rule("tail")
def tail(parts: Parts) -> statements.Tail:
    """Build `TAIL name clauses`."""
    name, *clauses = parts
    return fill(statements.Tail(name), by_field(clauses))


@rule("repartition")
def repartition(parts: Parts) -> statements.Repartition:
    """Build `REPARTITION [stream] USING strategy [INTO n SLOTS]`."""
    stream, strategy, slots = parts
    if slots is not None and slots.kind != "INTEGER":
        raise StatementSyntaxError(f"{slots.value} is not a whole number", slots.span)
    return statements.Repartition(_strategy(strategy, PARTITIONINGS), stream, slots)


@rule("rebalance")
def rebalance(parts: Parts) -> statements.Rebalance:
    """Build `REBALANCE [stream] [USING strategy]`."""
    stream, strategy = parts
    return statements.Rebalance(stream, None if strategy is None else _strategy(strategy, REBALANCINGS))


@rule("set")
def set_(parts: Parts) -> statements.SetSetting:
    """Build `SET key = value`."""
    key, value = parts
    return statements.SetSetting(
        key, Column(value.text, span=value.span) if isinstance(value, Name) else value
    )


@rule("map")
def map_(parts: Parts) -> statements.Map:
    """Build `MAP [names] [TO 'file']`."""
    names, file = parts
    return replace(names or statements.Map(), file=None if file is None else file.value)


@rule("help")
def help_(parts: Parts) -> statements.Help:
    """Build `HELP [words]`."""
    if not parts:
        return statements.Help()
    text = " ".join(word.text.upper() for word in parts)
    return statements.Help(Name(text, span=cover(parts[0].span, parts[-1].span)))


def _format(clause: Clause | None) -> str | None:
    return None if clause is None else clause.value


def _strategy(name: Name, known: tuple[str, ...]) -> str:
    given = name.text.lower()
    if given in known:
        return given
    raise StatementSyntaxError(
        f"unknown strategy {name.text!r}", name.span, expected=known, near=near(given, known)
    )
