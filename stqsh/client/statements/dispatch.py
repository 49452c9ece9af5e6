"""The actions of statements: one function per statement, and a table of them.

An action gets its client's context and the statement; it binds the statement, changes control.db, and yields
the outcomes. A statement that is not in the table is not implemented.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from importlib import import_module
from itertools import groupby, takewhile
from typing import TYPE_CHECKING, Any, Literal

from stqsh import extensions
from stqsh.client.connection import Connection
from stqsh.client.read.accuracy import accuracies
from stqsh.client.read.answers import answer_of
from stqsh.client.read.kept_events import keep_text
from stqsh.client.read.snapshots import SnapshotReader, SnapshotResult
from stqsh.client.read.stream_waits import (
    AwaitedRows,
    is_about_to_play,
    wait_for_first,
    wait_for_inserted,
    wait_for_rows,
)
from stqsh.client.read.subscription import Subscription, TailOptions
from stqsh.client.read.swapped_axes import swapped_remark
from stqsh.client.read.watch import WatchFeed
from stqsh.client.results import Answer, Message, Outcome, Script, WaitNotice
from stqsh.client.run import RunHandle
from stqsh.client.show.activity import play_text
from stqsh.client.show.sinks import describe_alert, describe_sink
from stqsh.client.show.subjects import SUBJECTS, describe_query_stream, shown_like
from stqsh.client.show.views import show_views
from stqsh.client.statements.alike_queries import bound_alike
from stqsh.client.statements.context import StatementContext
from stqsh.client.statements.create import create_stream, create_table
from stqsh.client.statements.describe import (
    describe_area,
    describe_query,
    describe_stream,
    describe_table,
    describe_view,
    dump,
    show_query,
)
from stqsh.client.statements.drop import drop, drop_alike, drops_one_query
from stqsh.client.statements.help import help_text
from stqsh.client.statements.set import set_setting
from stqsh.errors import SourceError, StqshError
from stqsh.lang.ast import statements
from stqsh.lang.ast.expressions import Name
from stqsh.lang.ast.source import NOWHERE, Span
from stqsh.lang.binder.bare_words import read_words
from stqsh.lang.binder.bind import bind
from stqsh.lang.binder.views import view_columns
from stqsh.lang.errors import BindError, NotSupportedError, locating
from stqsh.lang.printer.printer import to_sql
from stqsh.lang.printer.queries import registration
from stqsh.lang.syntax.forms import alike_of
from stqsh.lang.syntax.parse import parse
from stqsh.spec.log import RunSpec, RunToEnd, StreamPaused
from stqsh.spec.query import BUILT_IN, QuerySpec, SnapshotSpec, kind_of_region
from stqsh.spec.region import EVERYWHERE
from stqsh.spec.source_facts import set_aside_text
from stqsh.spec.stream import FileSourceSpec, StdinSourceSpec, StreamSpec
from stqsh.storage import catalogue_writer
from stqsh.storage.catalogue import (
    find_area,
    find_query,
    find_stream,
    find_table,
    find_view,
    live_streams,
    names_in_use,
    stream_by_id,
)
from stqsh.storage.control_log import ControlDb, append
from stqsh.storage.progress import read_progress, retry_stalled_streams, stream_statuses
from stqsh.storage.queries.forgotten import numbered_names
from stqsh.storage.queries.query_streams import find_query_stream
from stqsh.storage.rows import QueryRow, StreamRow
from stqsh.storage.sinks.sink_catalogue import find_alert, find_sink
from stqsh.units import format_duration, format_size

if TYPE_CHECKING:
    import pyarrow as pa


_OPS: dict[str, Literal[1, -1]] = {"+": 1, "-": -1}
Action = Callable[[StatementContext, Any], Iterator[Outcome]]
Together = Callable[[StatementContext, Sequence[statements.Statement]], list[Outcome]]
"""Executes the first of some statements, as many as it can, and returns one message for each."""

_SILENT_S = 1.0
"""How long a SELECT waits for inserted records before it reports the wait."""


def perform(context: StatementContext, statement: statements.Statement) -> Iterator[Outcome]:
    """Execute a statement; raise `NotSupportedError` if it is not implemented."""
    if context.connection.revive():
        step = context.connection.progress().step
        yield Message(f"the engine had died after step {step}; it is started again and goes on from there")
    if isinstance(statement, statements.RegisterQuery):
        spec = bound_alike(context, statement)
        if spec is not None and not context.knows(spec.name):  # the binder says what has a name
            yield registered(context, statement, spec)
            return
    action = HANDLERS.get(type(statement))
    if action is None:
        bind(statement, context.view)  # raises if it is wrong or not supported yet
        raise NotSupportedError(statement.text)
    reading = read_words(statement, context.view)
    yield from (Message(note) for note in reading.notes)
    yield from action(context, reading.statement)


def register(context: StatementContext, statement: statements.RegisterQuery) -> Iterator[Outcome]:
    """Execute REGISTER QUERY."""
    yield registered(context, statement, bind(statement, context.view).spec)


def registered(context: StatementContext, statement: statements.RegisterQuery, spec: QuerySpec) -> Message:
    """Register the query of a bound statement; return the message about it."""
    check_kind(context.connection.db, spec.kind)
    catalogue_writer.register(context.connection.db, _registration(statement, spec))
    context.connection.wake()
    return _registered_message(context, spec)


def register_alike(context: StatementContext, group: Sequence[statements.Statement]) -> list[Outcome]:
    """Register the queries of the first of some statements with a few calls of SQLite for all.

    Args:
        context: the client.
        group: statements that `has_form` accepts.

    Returns:
        One message for each statement executed; empty if the first has to be executed by itself, because its
        form is not bound or its name is in use.
    """
    db = context.connection.db
    bound: dict[str, tuple[catalogue_writer.Registered, QuerySpec]] = {}
    for statement in group:
        assert isinstance(statement, statements.RegisterQuery)
        spec = bound_alike(context, statement)
        if spec is None or spec.name in bound or spec.kind not in BUILT_IN:
            break
        bound[spec.name] = _registration(statement, spec), spec
    if not bound:
        return []
    used = names_in_use(db, list(bound))
    made = list(takewhile(lambda one: one[1].name not in used, bound.values()))
    catalogue_writer.register_all(db, [query for query, _ in made])
    context.connection.wake()
    return [_registered_message(context, spec) for _, spec in made]


def has_form(statement: statements.Statement) -> bool:
    """Return whether a statement is a REGISTER QUERY that was read by the form of an earlier one."""
    return isinstance(statement, statements.RegisterQuery) and alike_of(statement) is not None


def _registration(statement: statements.RegisterQuery, spec: QuerySpec) -> catalogue_writer.Registered:
    return catalogue_writer.Registered(f"{registration(statement, spec.text)};", spec)


def _registered_message(context: StatementContext, spec: QuerySpec) -> Message:
    remarks = window_remark(context, spec), _past_remark(context, spec), _region_remark(context, spec)
    return Message("; ".join(filter(None, (f"query {spec.name} registered", *remarks))))


def window_remark(context: StatementContext, spec: QuerySpec) -> str:
    """Return a remark if a window is longer than the time for which events are kept, else ""."""
    stream, window = stream_by_id(context.connection.db, spec.stream_id), spec.timing.window_us
    keep = stream.spec.keep_us
    if window is None:
        return ""
    if keep and keep < window:
        kept, wanted = format_duration(keep), format_duration(window)
        less = f"less than the window of {wanted}"
        return f"{stream.name} keeps events for {kept}, {less}: what is kept decides"
    if stream.spec.keep_bytes is not None:
        size, wanted = format_size(stream.spec.keep_bytes), format_duration(window)
        return f"{stream.name} keeps {size}: if the window of {wanted} has more, what is kept decides"
    return ""


def _past_remark(context: StatementContext, spec: QuerySpec) -> str:
    """Return a remark if a condition selects archived times, which the query does not read, else ""."""
    stream = stream_by_id(context.connection.db, spec.stream_id).spec
    if stream.archive is None or not stream.lets_go:
        return ""
    from stqsh.client.read.past import reaches_back  # numba

    progress = read_progress(context.connection.db)
    if progress.at_us() is None or not reaches_back(spec, stream, progress):
        return ""
    kept = keep_text(stream) if stream.keep_us is None else f"for {keep_text(stream)}"
    return f"it sees the events that {stream.name} keeps, {kept}; a SELECT sees archived ones as well"


def _region_remark(context: StatementContext, spec: QuerySpec) -> str:
    """Return a remark if a query's region seems to have swapped axes, by its stream's data, else ""."""
    known, id_ = context.connection.facts, spec.stream_id
    if spec.region == EVERYWHERE or spec.region.focal_key is not None:
        return ""
    if id_ not in known and stream_statuses(context.connection.db).get(id_) is not None:
        from stqsh.sources.measuring import measure_store  # pyarrow: only when needed

        found = measure_store(
            context.connection.home.stream(id_), stream_by_id(context.connection.db, id_).spec
        )
        known |= {id_: found} if found is not None else {}
    return swapped_remark(spec.region, known[id_]) if id_ in known else ""


def subscribe(context: StatementContext, statement: statements.Subscribe) -> Iterator[Outcome]:
    """Execute SUBSCRIBE: register a query under a new name; it is dropped when the user leaves it."""
    name = free_name(context)
    bound = bind(statement, context.view, name=name)
    if remark := window_remark(context, bound.spec):
        yield Message(f"{name}: {remark}")
    text = to_sql(statements.RegisterQuery(Name(name), statement.select))
    query = context.register_own(f"{text};", bound.spec)
    yield Subscription(
        query,
        TailOptions(),
        context.connection,
        temporary=True,
        until_idle=context.is_script,
        why_empty=partial(_absence, context, bound.spec),
    )


def _absence(context: StatementContext, spec: QuerySpec) -> str:
    """Return why nothing is in the answer of a query now; "" if the reason is unknown."""
    stream = stream_by_id(context.connection.db, spec.stream_id).spec
    if spec.kind not in BUILT_IN or spec.result.limit == 0 or stream.keeps_none:
        return ""
    asked = SnapshotSpec(
        stream=spec.stream,
        stream_id=spec.stream_id,
        kind=kind_of_region(spec.region).name,
        members=spec.members,
        join=spec.join,
        areas=spec.areas,
    )
    from stqsh.client.read.empty_answers import empty_reason  # numpy

    return empty_reason(context.connection, context.snapshots, asked, stream)


def create_view(context: StatementContext, statement: statements.CreateView) -> Iterator[Outcome]:
    """Execute CREATE VIEW."""
    bound = bind(statement, context.view)
    if bound.spec is not None:
        catalogue_writer.create_view(context.connection.db, bound.spec)
    yield Message("; ".join(bound.notes) or f"view {statement.name.text} created")


def run(context: StatementContext, statement: statements.Run) -> Iterator[Outcome]:
    """Execute RUN in all its forms; it begins once query streams have the rows that are there already."""
    bound = bind(statement, context.view)
    yield from rows_to_come(context.connection)
    with locating(statement.piece):
        running = start_run(context, _text(statement), bound.spec, statement.span)
    yield running


def rows_to_come(connection: Connection) -> Iterator[WaitNotice]:
    """Wait until query streams have applied the rows of standard input and of the files in directories."""
    rows = AwaitedRows(connection)
    stream = rows.stream()
    if stream is not None:
        source = " from the files in its directory"
        if isinstance(stream.spec.rows.source, StdinSourceSpec):
            source = ", up to the end of standard input"
        text = f"waiting for the rows of {stream.name}{source} … (Ctrl-C leaves)"
        yield WaitNotice(text, lambda tell: wait_for_rows(connection, rows, tell))
        wait_for_rows(connection, rows)


def start_run(context: StatementContext, text: str, spec: RunSpec, span: Span = NOWHERE) -> RunHandle:
    """Log a RUN; raise `BindError` if it would never end or there is nothing to run."""
    streams = live_streams(context.connection.db)
    if not streams:
        raise BindError("there is no stream to run", span, hint="make one with CREATE MOVING STREAM")
    # A RUN of live streams continues until it is interrupted, which is allowed.
    endless = [stream.name for stream in streams if not stream.spec.is_live and context.is_endless(stream)]
    if isinstance(spec, RunToEnd) and endless:
        raise BindError(
            f"RUN would never end: stream {endless[0]} is endless",
            span,
            hint="say how long: RUN FOR 10 min; RUN UNTIL 'time'; RUN 100 STEPS;",
        )
    retry_stalled_streams(context.connection.db)
    row = append(context.connection.db, spec, text)
    context.connection.wake()
    return RunHandle(row.seq, spec, context.connection)


def play(context: StatementContext, statement: statements.Play) -> Iterator[Outcome]:
    """Execute PLAY of a stream."""
    bind(statement, context.view)
    stream = _stream(context, statement.stream.text)
    pace = statement.pace
    retry_stalled_streams(context.connection.db)
    context.play(stream, _text(statement), pace.lower() if isinstance(pace, str) else pace)
    yield Message(play_text(context.connection, stream))


def pause(context: StatementContext, statement: statements.Pause) -> Iterator[Outcome]:
    """Execute PAUSE of a stream."""
    bind(statement, context.view)
    stream = _stream(context, statement.stream.text)
    append(context.connection.db, StreamPaused(stream.id, stream.name), _text(statement))
    yield Message(f"stream {stream.name} stands still")


def pause_query(context: StatementContext, statement: statements.PauseQuery) -> Iterator[Outcome]:
    """Execute PAUSE QUERY."""
    bind(statement, context.view)
    yield _change_state(context, statement, "pause_query", "paused")


def resume_query(context: StatementContext, statement: statements.ResumeQuery) -> Iterator[Outcome]:
    """Execute RESUME QUERY."""
    yield _change_state(context, statement, "resume_query", "active")


def alter_query(context: StatementContext, statement: statements.AlterQuery) -> Iterator[Outcome]:
    """Execute ALTER QUERY."""
    spec = bind(statement, context.view).spec
    catalogue_writer.alter_query(context.connection.db, _text(statement), _query(context, spec.name), spec)
    parts = (("region", statement.region), ("NEAREST", statement.nearest), ("condition", statement.where))
    changed = " and another ".join(part for part, given in parts if given is not None)
    yield Message(f"query {spec.name} has another {changed} from the next step on")


def tail(context: StatementContext, statement: statements.Tail) -> Iterator[Outcome]:
    """Execute TAIL."""
    bound = bind(statement, context.view)
    only = None if statement.only is None else _OPS[statement.only]
    spec = bound.spec
    options = TailOptions(spec.from_step, only, spec.where, spec.limit, spec.from_us, spec.since_us)
    query = _query(context, statement.name.text)
    context.connection.wake()
    absence = partial(_absence, context, query.spec)
    yield Subscription(query, options, context.connection, until_idle=context.is_script, why_empty=absence)


def watch(context: StatementContext, statement: statements.Watch) -> Iterator[Outcome]:
    """Execute WATCH."""
    names = bind(statement, context.view).spec
    context.connection.wake()
    yield WatchFeed(tuple(_query(context, name) for name in names), context.connection)


def draw_map(context: StatementContext, statement: statements.Map) -> Iterator[Outcome]:
    """Execute MAP."""
    from stqsh.client.map.scene import MapFeed  # numpy and pyarrow: only when needed

    spec = bind(statement, context.view).spec
    stream = _stream(context, spec.stream)
    context.connection.wake()
    # A separate snapshot reader, because a map reads from another thread.
    yield MapFeed(
        stream,
        spec.queries,
        spec.file,
        context.connection,
        SnapshotReader(context.connection),
        once=context.is_script,
    )


def show(context: StatementContext, statement: statements.Show) -> Iterator[Outcome]:
    """Execute SHOW."""
    if statement.what == "CELLS":
        from stqsh.client.show.cells import show_cells  # numba: only when needed

        bind(statement, context.view)
        of = statement.stream
        yield from show_cells(context.connection, context.snapshots, None if of is None else of.text)
        return
    subject = SUBJECTS.get(bind(statement, context.view).spec)
    if subject is None:
        raise NotSupportedError(f"SHOW {statement.what}")
    if statement.like is not None:
        yield from shown_like(context.connection, context.profile, statement.what, str(statement.like.value))
        return
    yield from subject(context.connection, context.profile)
    if statement.what == "CACHE":
        yield from show_views(context.connection.db, context.snapshots)


def describe(context: StatementContext, statement: statements.Describe) -> Iterator[Outcome]:
    """Execute DESCRIBE of a stream, a table, a region, a set of regions, a sink, an alert or a query."""
    name = statement.name.text
    kind, db = bind(statement, context.view).spec.kind, context.connection.db
    if kind == "stream":
        yield from describe_stream(context.connection, _stream(context, name))
    elif kind == "query stream" and (queries := find_query_stream(db, name)) is not None:
        yield from describe_query_stream(context.connection, queries)
    elif kind == "table" and (table := find_table(db, name)) is not None:
        yield from describe_table(context.connection, table)
    elif kind == "region" and (area := find_area(db, name)) is not None:
        yield from describe_area(context.connection, area)
    elif kind == "sink" and (sink := find_sink(db, name)) is not None:
        yield from describe_sink(context.connection, sink)
    elif kind == "alert" and (alert := find_alert(db, name)) is not None:
        yield from describe_alert(context.connection, alert)
    elif kind == "view" and (view := find_view(db, name)) is not None:
        yield from describe_view(view, view_columns(view, context.view))
    else:
        yield from describe_query(_query(context, name))


def show_one(context: StatementContext, statement: statements.ShowQuery) -> Iterator[Outcome]:
    """Execute SHOW QUERY of one query."""
    query = _query(context, bind(statement, context.view).spec)
    measured = context.snapshots.measure(query.spec)
    yield from show_query(query, measured, accuracies(context.connection, [query])[query.id])


def explain_statement(context: StatementContext, statement: statements.Explain) -> Iterator[Outcome]:
    """Execute EXPLAIN [ANALYZE]."""
    from stqsh.client.statements.explain import explain  # numba

    yield from explain(context, bind(statement, context.view).spec)


def select(context: StatementContext, statement: statements.Select) -> Iterator[Outcome]:
    """Execute SELECT: answer a snapshot once; with SYNC, act like SUBSCRIBE."""
    if any(relation.file is not None for relation in statement.relations):
        from stqsh.client.statements.select_rows import select_file  # numba and pyarrow: only when needed

        yield from select_file(context, statement)
        return
    if not statement.relations:
        from stqsh.client.statements.select_rows import select_constants  # numba and pyarrow

        yield from select_constants(context, statement)
        return
    if (query := _query_asked(context, statement)) is not None:
        from stqsh.client.statements.select_rows import select_query  # numba and pyarrow

        yield from select_query(context, statement, query)
        return
    if statement.sync is not None:
        yield from subscribe(context, statements.Subscribe(statement, piece=statement.piece))
        return
    spec, stream = context.snapshots.bound(statement, context.view)
    if context.autoplay and is_about_to_play(context.connection, stream):
        text = f"waiting for the first records of {stream.name} … (Ctrl-C leaves)"
        yield WaitNotice(text, lambda tell: wait_for_first(context.connection, stream, tell))
        wait_for_first(context.connection, stream)
    if not wait_for_inserted(context.connection, stream, _SILENT_S):
        text = f"waiting until {stream.name} has taken what was put into it … (Ctrl-C leaves)"
        yield WaitNotice(text, lambda tell: wait_for_inserted(context.connection, stream, tell=tell))
        wait_for_inserted(context.connection, stream)
    _check_readable(context, stream)
    found = context.snapshots.ask(spec, stream)
    context.snapshots.note(spec, stream, found.step)
    if stream.is_significant:
        yield Message(
            f"{stream.name} keeps only the objects that queries need; others are missing from this answer"
        )
    if found.archive is not None and found.archive.read:
        yield Message(f"the archive of {stream.name} was read: {found.archive.text()}")
    yield replace(
        answer_of(found, spec, stream, context.connection.db), remark=_remark(context, found, spec, stream)
    )


def _remark(context: StatementContext, found: SnapshotResult, spec: SnapshotSpec, stream: StreamSpec) -> str:
    """Return why an answer is empty, if known; "" for other answers."""
    if not _is_empty(found.table, spec):
        return ""
    if found.archive is not None:
        return f"neither what {stream.name} keeps nor its archive has such events"
    from stqsh.client.read.empty_answers import empty_reason  # numpy

    return empty_reason(context.connection, context.snapshots, spec, stream)


def _is_empty(table: pa.Table, spec: SnapshotSpec) -> bool:
    """Return whether a snapshot found nothing: no rows, or a single ungrouped row of only zeros and NULLs."""
    if table.num_rows != 1 or not spec.adds_up or (spec.aggregates is not None and spec.aggregates.groups):
        return not table.num_rows
    [row] = table.to_pylist()
    return not any(row.values())


def _query_asked(context: StatementContext, statement: statements.Select) -> QueryRow | None:
    """Return the query whose answer a SELECT reads; None for one over streams and views."""
    name = statement.relations[0].name
    if context.view.stream(name) is not None or context.view.query(name) is None:
        return None
    return _query(context, name)


def _check_readable(context: StatementContext, stream: StreamSpec) -> None:
    """Raise `SourceError` for a stream without any readable record, even before the first step."""
    context.connection.check_stream(stream.id)
    if not isinstance(stream.source, FileSourceSpec) or context.connection.has_applied(stream.id):
        return
    from stqsh.sources.measuring import measure_files  # pyarrow: only when needed

    facts = measure_files(stream)
    if facts is not None and not facts.records:
        raise SourceError(
            f"stream {stream.name}: {set_aside_text(facts)}",
            hint=f"DROP STREAM {stream.name}; and create it again with the cause removed",
        )


def help_(context: StatementContext, statement: statements.Help) -> Iterator[Outcome]:
    """Execute HELP."""
    del context
    with locating(statement.piece):
        topic = statement.topic
        text = help_text() if topic is None else help_text(topic.text, span=topic.span)
    yield Script(f"{text}\n")


def dump_all(context: StatementContext, statement: statements.Dump) -> Iterator[Outcome]:
    """Execute DUMP."""
    del statement
    script = dump(context.connection)
    yield script if script.text else Message("there is nothing to dump yet")


def deferred(module: str, name: str) -> Action:
    """Return an action whose module, which imports pyarrow and more, is imported on first use."""

    def perform_later(context: StatementContext, statement: statements.Statement) -> Iterator[Outcome]:
        handler = getattr(import_module(f"stqsh.client.statements.{module}"), name)
        yield from handler(context, statement)

    return perform_later


HANDLERS: dict[type[statements.Statement], Action] = {
    statements.CreateStream: create_stream,
    statements.CreateTable: create_table,
    statements.CreateView: create_view,
    statements.CreateFunction: deferred("create_function", "create_function"),
    statements.CreateRegion: deferred("create_region", "create_region"),
    statements.CreateRegions: deferred("create_region", "create_regions"),
    statements.CreateSink: deferred("create_sink", "create_sink"),
    statements.CreateAlert: deferred("create_sink", "create_alert"),
    statements.Drop: drop,
    statements.Insert: deferred("insert", "insert"),
    statements.RegisterQuery: register,
    statements.RegisterQueries: deferred("register_queries", "register_queries"),
    statements.Subscribe: subscribe,
    statements.Select: select,
    statements.Run: run,
    statements.Play: play,
    statements.Pause: pause,
    statements.PauseQuery: pause_query,
    statements.ResumeQuery: resume_query,
    statements.AlterQuery: alter_query,
    statements.Tail: tail,
    statements.Follow: deferred("follow", "follow"),
    statements.Watch: watch,
    statements.Map: draw_map,
    statements.Show: show,
    statements.ShowQuery: show_one,
    statements.Explain: explain_statement,
    statements.Describe: describe,
    statements.Repartition: deferred("repartition", "repartition"),
    statements.Rebalance: deferred("repartition", "rebalance"),
    statements.SetSetting: set_setting,
    statements.Dump: dump_all,
    statements.ExportDeadLetters: deferred("export_letters", "export_letters"),
    statements.Save: deferred("save", "save"),
    statements.Help: help_,
}
"""The implemented statements and their actions."""


def check_kind(db: ControlDb, kind: str) -> None:
    """Raise `StqshError` for a query kind that is not installed; record one that a package adds.

    Without that package the engine cannot run, and reports it at its start.
    """
    if kind in BUILT_IN:
        return
    from stqsh.core.kinds import KINDS  # numba: only when needed

    try:
        extensions.find_extension(extensions.KINDS, kind)
    except extensions.ExtensionError as error:
        raise StqshError(str(error)) from error
    if kind not in KINDS:
        raise StqshError(f"there is no kind of query called {kind!r}", hint=f"kinds: {', '.join(KINDS)}")
    catalogue_writer.note_added_kind(db, kind)


def free_name(context: StatementContext, word: str = "sub") -> str:
    """Return a name for a SUBSCRIBE: `sub_1`, `sub_2`, …, or with another prefix.

    No query has ever had the name, and nothing else has it now.
    """
    number = numbered_names(context.connection.db, word) + 1
    while find_query(context.connection.db, f"{word}_{number}") or context.knows(f"{word}_{number}"):
        number += 1
    return f"{word}_{number}"


def _change_state(
    context: StatementContext,
    statement: statements.PauseQuery | statements.ResumeQuery,
    kind: catalogue_writer.QueryChange,
    state: str,
) -> Message:
    bind(statement, context.view)
    query = _query(context, statement.name.text)
    if query.state == state:
        return Message(f"query {query.name} is {state} already")
    catalogue_writer.change_query(context.connection.db, kind, _text(statement), query)
    return Message(f"query {query.name} is {state}")


def _text(statement: statements.Statement) -> str:
    return f"{to_sql(statement)};"


def _stream(context: StatementContext, name: str) -> StreamRow:
    stream = find_stream(context.connection.db, name)
    if stream is None:
        raise StqshError(f"there is no stream {name}", hint="SHOW STREAMS lists all streams")
    return stream


def _query(context: StatementContext, name: str) -> QueryRow:
    query = find_query(context.connection.db, name)
    if query is None or not query.live:
        raise StqshError(f"there is no query {name}", hint="SHOW QUERIES lists all queries")
    return query


_QUICK = (statements.RegisterQuery, statements.Drop, statements.PauseQuery, statements.ResumeQuery)
_GROUP = 500
"""Maximum number of quick statements per transaction."""
_SHORT = 1000
"""Maximum length, in characters, of a text whose parsed statements are cached."""


def performed(context: StatementContext, group: list[statements.Statement], number: int) -> Iterator[Outcome]:
    """Execute the statements of a group, in one transaction if there are several.

    `number` is the number of the last one.
    """
    if len(group) > 1:
        yield from _perform_together(context, group)
        return
    for outcome in perform(context, group[0]):
        yield replace(outcome, statement=number) if isinstance(outcome, Answer) else outcome
        if isinstance(outcome, RunHandle):
            outcome.wait()


def groups_of(script: Sequence[statements.Statement]) -> Iterator[list[statements.Statement]]:
    """Yield the statements of a script one by one, but group consecutive ones that only change queries."""
    group: list[statements.Statement] = []
    for statement in script:
        if group and not (
            isinstance(group[-1], _QUICK) and isinstance(statement, _QUICK) and len(group) < _GROUP
        ):
            yield group
            group = []
        group.append(statement)
    if group:
        yield group


def parsed(text: str, file: str | None) -> Sequence[statements.Statement]:
    """Parse a text; the statements of short texts are cached because they may be repeated often."""
    return _parsed_before(text, file) if len(text) <= _SHORT else parse(text, file)


_parsed_before = lru_cache(256)(parse)


def _perform_together(context: StatementContext, group: list[statements.Statement]) -> Iterator[Outcome]:
    """Execute quick statements in one transaction, up to the first that fails; then raise its error."""
    outcomes: list[Outcome] = []
    failed: StqshError | None = None
    with context.connection.db.transaction(queries_only=True):  # what else they change, they say themselves
        try:
            for together, alike in groupby(group, _together):
                run = list(alike)
                while run:
                    outcomes += perform(context, run.pop(0))  # it starts an engine that has died
                    if together is not None and run:
                        others = together(context, run)
                        outcomes += others
                        del run[: len(others)]
        except StqshError as error:
            failed = error
    yield from outcomes
    if failed is not None:
        raise failed


def _together(statement: statements.Statement) -> Together | None:
    """Return what executes statements like this one together; None if nothing does."""
    if has_form(statement):
        return register_alike
    return drop_alike if drops_one_query(statement) else None
