"""Builders of the statements for running and administration."""

from __future__ import annotations

from dataclasses import replace

from stqsh.lang.ast.expressions import Column, Name
from stqsh.lang.ast.statements import (
    Describe,
    Dump,
    ExportDeadLetters,
    Follow,
    Help,
    Map,
    Pause,
    PauseQuery,
    Play,
    Rebalance,
    Repartition,
    ResumeQuery,
    Run,
    SetSetting,
    Show,
    ShowQuery,
    Statement,
    Tail,
    Watch,
)
from stqsh.lang.ast_builder.rules import Clause, Parts, by_field, fill, rule
from stqsh.lang.errors import StatementSyntaxError, near

PARTITIONINGS = ("object", "grid", "agrid", "quadtree", "qttree")
REBALANCINGS = ("shift", "splitmerge", "pm", "fm", "fg", "greedy", "border")


@rule("start")
def start(parts: Parts) -> Statement:
    """Return the one statement of a text."""
    return parts[0]  # type: ignore[no-any-return]


@rule("until")
def until(parts: Parts) -> Run:
    """Build `UNTIL 'time'`."""
    return Run(until=parts[0])


@rule("run_for")
def run_for(parts: Parts) -> Run:
    """Build `FOR d`."""
    return Run(duration=parts[0])


@rule("run_steps")
def run_steps(parts: Parts) -> Run:
    """Build `n STEPS`."""
    return Run(steps=parts[0])


@rule("run")
def run(parts: Parts) -> Run:
    """Build `RUN [limit]`."""
    return parts[0] or Run()


@rule("play")
def play(parts: Parts) -> Play:
    """Build `PLAY stream [AT pace]`."""
    return Play(parts[0], parts[1])


@rule("pause")
def pause(parts: Parts) -> Pause:
    """Build `PAUSE stream`."""
    return Pause(parts[0])


@rule("pause_query")
def pause_query(parts: Parts) -> PauseQuery:
    """Build `PAUSE QUERY name`."""
    return PauseQuery(parts[0])


@rule("resume_query")
def resume_query(parts: Parts) -> ResumeQuery:
    """Build `RESUME QUERY name`."""
    return ResumeQuery(parts[0])


@rule("tail_from")
def tail_from(parts: Parts) -> Clause:
    """Build `FROM STEP n`; `FROM START` is step 0."""
    return Clause("from_step", 0 if parts[0] == "START" else parts[0], "FROM")


@rule("tail_only")
def tail_only(parts: Parts) -> Clause:
    """Build `ONLY +` or `ONLY -`."""
    return Clause("only", parts[0], "ONLY")


@rule("tail")
def tail(parts: Parts) -> Tail:
    """Build `TAIL name clauses`."""
    name, *clauses = parts
    return fill(Tail(name), by_field(clauses))


@rule("follow")
def follow(parts: Parts) -> Follow:
    """Build `FOLLOW id [IN stream]`."""
    key, stream, output = parts
    return Follow(key, stream, format=_format(output))


@rule("show")
def show(parts: Parts) -> Show:
    """Build `SHOW what`."""
    return Show(parts[0], format=_format(parts[1]))


@rule("show_query")
def show_query(parts: Parts) -> ShowQuery:
    """Build `SHOW QUERY name`."""
    return ShowQuery(parts[0], format=_format(parts[1]))


@rule("describe")
def describe(parts: Parts) -> Describe:
    """Build `DESCRIBE name`."""
    return Describe(parts[0], format=_format(parts[1]))


@rule("repartition")
def repartition(parts: Parts) -> Repartition:
    """Build `REPARTITION [stream] USING strategy [INTO n SLOTS]`."""
    stream, strategy, slots = parts
    if slots is not None and slots.kind != "INTEGER":
        raise StatementSyntaxError(f"{slots.value} is not a whole number", slots.span)
    return Repartition(_strategy(strategy, PARTITIONINGS), stream, slots)


@rule("rebalance")
def rebalance(parts: Parts) -> Rebalance:
    """Build `REBALANCE [stream] [USING strategy]`."""
    stream, strategy = parts
    return Rebalance(stream, None if strategy is None else _strategy(strategy, REBALANCINGS))


@rule("set")
def set_(parts: Parts) -> SetSetting:
    """Build `SET key = value`."""
    key, value = parts
    return SetSetting(key, Column(value.text, span=value.span) if isinstance(value, Name) else value)


@rule("watch")
def watch(parts: Parts) -> Watch:
    """Build `WATCH q1, q2`."""
    return Watch(tuple(parts))


@rule("map_one")
def map_one(parts: Parts) -> Map:
    """Build a MAP of one name, a stream's or a query's."""
    return Map(queries=(parts[0],))


@rule("map_both")
def map_both(parts: Parts) -> Map:
    """Build a MAP of a stream and its queries."""
    return Map(parts[0], tuple(parts[1:]))


@rule("map_queries")
def map_queries(parts: Parts) -> Map:
    """Build a MAP of queries only."""
    return Map(queries=tuple(parts))


@rule("map")
def map_(parts: Parts) -> Map:
    """Build `MAP [names] [TO 'file']`."""
    names, file = parts
    return replace(names or Map(), file=None if file is None else file.value)


@rule("help")
def help_(parts: Parts) -> Help:
    """Build `HELP [words]`."""
    return Help(" ".join(word.text.upper() for word in parts))


@rule("dump")
def dump(_: Parts) -> Dump:
    """Build `DUMP`."""
    return Dump()


@rule("export")
def export(parts: Parts) -> ExportDeadLetters:
    """Build `EXPORT DEAD LETTERS [OF name] TO 'file'`."""
    return ExportDeadLetters(parts[0], parts[1])


def _format(clause: Clause | None) -> str | None:
    return None if clause is None else clause.value


def _strategy(name: Name, known: tuple[str, ...]) -> str:
    given = name.text.lower()
    if given in known:
        return given
    raise StatementSyntaxError(
        f"unknown strategy {name.text!r}", name.span, expected=known, near=near(given, known)
    )
