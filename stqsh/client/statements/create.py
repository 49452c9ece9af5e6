"""CREATE STREAM and TABLE: find the files, determine the columns, and check the clock of all streams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import msgspec

from stqsh.client.results import Message, Outcome
from stqsh.client.statements.context import StatementContext
from stqsh.client.statements.source_paths import make_folder, pointing_at_source, with_absolute_files
from stqsh.client.stdin_pump import check_stdin, pump_stdin
from stqsh.lang.ast import statements
from stqsh.lang.ast.expressions import Literal, Name, Quantity
from stqsh.lang.ast.statements import DirectorySource, FileSource, GeneratorSource, HttpSource
from stqsh.lang.binder.bind import Bound, bind
from stqsh.lang.binder.definitions.live_sources import LIVE_SOURCES
from stqsh.lang.binder.definitions.streams import source_spec
from stqsh.lang.binder.literals import duration_us
from stqsh.lang.errors import BindError, locating
from stqsh.lang.printer.printer import to_sql
from stqsh.lang.printer.values import column_name
from stqsh.sources.live.http_port import check_port, posting_notes
from stqsh.spec.source_facts import MUCH, SourceFacts, facts_lines
from stqsh.spec.stream import (
    DEFAULT_TICK_US,
    LIVE_TICK_US,
    DirectorySourceSpec,
    FileSourceSpec,
    HttpSourceSpec,
    SourceSpec,
    StdinSourceSpec,
    StreamSpec,
)
from stqsh.storage import catalogue_writer, shedding_orders
from stqsh.storage.catalogue import first_stream, live_streams
from stqsh.storage.output_files import archive_of
from stqsh.storage.rows import StreamRow
from stqsh.storage.session_settings import session_settings
from stqsh.units import format_duration, format_instant

if TYPE_CHECKING:
    from stqsh.sources.recognition import RecognizedTimes

_RECENT_US, _SOON_US = 3_600_000_000, 600_000_000
"""How far a stream's first records may be from the session's clock, behind and ahead, without a remark."""

Creation = TypeVar("Creation", statements.CreateStream, statements.CreateTable)


def create_stream(context: StatementContext, statement: statements.CreateStream) -> Iterator[Outcome]:
    """Create a stream, and play it if autoplay is on."""
    if context.knows(statement.name.text):
        yield there_already(context, statement)
        return
    with locating(statement.piece):
        _check_clock(context, statement)
        statement = _with_session_tick(context, statement)
    statement, begins = _begun_at_clock(context, _with_archive(statement))
    bound, statement = _bound(context, statement)
    if isinstance(statement.source, HttpSource):
        with locating(statement.piece):
            check_port(context.connection.db, statement.source)
    facts = _facts(bound.spec)
    if facts is not None and facts.repeats > MUCH and _guesses_event_key(statement, bound.spec):
        was = bound.spec.key
        bound, statement = _bound(context, statement, numbers_rows=True)
        bound = bound._replace(notes=(*bound.notes, f"{was} is no key: it repeats; KEY {was} says otherwise"))
    notes = (*bound.notes, *begins, *_told(facts, bound.spec), *_at_another_time(context, facts))
    stream = _entered(context, f"{to_sql(statement)};", bound.spec)
    if facts is not None:
        context.connection.facts[stream.id] = facts
    if isinstance(stream.spec.source, StdinSourceSpec):
        from stqsh.sources.live.line_spool import SPOOL

        pump_stdin(context.connection.home.stream(stream.id) / SPOOL)
    if isinstance(stream.spec.source, HttpSourceSpec):
        notes = (*notes, *posting_notes(context.connection.home.stream(stream.id), stream.spec.source))
    context.connection.wake()
    yield Message("\n".join([f"stream {stream.name} created", *notes]))
    if context.autoplay:
        context.play(stream, "")


def planned_stream(context: StatementContext, statement: statements.CreateStream) -> StreamSpec:
    """Return the stream that a statement would create, without creating it.

    Raises:
        BindError: the statement or its source is wrong.
    """
    bound, _ = _bound(context, statement)
    spec: StreamSpec = bound.spec
    return spec


def _with_archive(statement: statements.CreateStream) -> statements.CreateStream:
    """Make the folder of a stream's archive, and return the statement with its absolute path.

    Raises:
        BindError: files cannot be written to it, or it already is the archive of another stream with that
            name.
    """
    if statement.archive is None or statement.kind != "event":
        return statement
    with locating(statement.piece):
        folder = make_folder(str(statement.archive.value), statement.archive.span)
        for _, _, found in archive_of(folder, statement.name.text):
            raise BindError(
                f"{folder} has the archive of another stream called {statement.name.text}, such as"
                f" {found.parent.name}/{found.name}",
                statement.archive.span,
                hint="choose another folder or name, or move these files away: they are never overwritten",
            )
    return replace(statement, archive=replace(statement.archive, value=str(folder)))


def _begun_at_clock(
    context: StatementContext, statement: statements.CreateStream
) -> tuple[statements.CreateStream, tuple[str, ...]]:
    """Start a generator without a start at the session's clock; return the statement and a remark.

    Records before the clock would be read at once, and could span years.
    """
    source = statement.source
    if not isinstance(source, GeneratorSource) or any(name == "start" for name, _ in source.options):
        return statement, ()
    start = format_instant(_clock_us(context))
    if start is None:
        return statement, ()
    begun = replace(source, options=(*source.options, ("start", Literal(start, "STRING"))))
    return replace(statement, source=begun), (f"it begins at {start}, where the session's clock is",)


def _clock_us(context: StatementContext) -> int | None:
    """Return the time of the next step; before any step, that of the first records; None without any."""
    progress = context.connection.progress()
    if (now := progress.at_us(progress.step + 1)) is not None:
        return now
    streams = live_streams(context.connection.db)
    known = [facts for stream in streams if (facts := _facts(stream.spec)) is not None]
    times = [facts.first_us for facts in known if facts.first_us is not None]
    return min(times) // streams[0].spec.tick_us * streams[0].spec.tick_us if times else None


def create_table(context: StatementContext, statement: statements.CreateTable) -> Iterator[Outcome]:
    """Create a table; the engine reads it, and a RUN waits until it has been read."""
    if context.knows(statement.name.text):
        yield there_already(context, statement)
        return
    bound, statement = _bound(context, statement)
    table = catalogue_writer.create_table(context.connection.db, f"{to_sql(statement)};", bound.spec)
    context.connection.wake()
    yield Message("\n".join([f"table {table.name} created", *bound.notes]))


def _entered(context: StatementContext, text: str, spec: StreamSpec) -> StreamRow:
    """Add a stream to the catalogue; if it keeps only significant objects, append its shedding order."""
    db = context.connection.db
    with db.transaction():
        first = not shedding_orders.has_significant_streams(db)
        stream = catalogue_writer.create_stream(db, text, spec)
        if spec.is_significant:
            shedding_orders.follow_settings(db, session_settings(db, context.profile), is_first=first)
    return stream


def there_already(context: StatementContext, statement: statements.Statement) -> Message:
    """Return the message for a CREATE whose name is in use.

    Raises:
        BindError: the statement has no IF NOT EXISTS.
    """
    return Message("\n".join(bind(statement, context.view).notes))


def _guesses_event_key(statement: statements.CreateStream, spec: StreamSpec) -> bool:
    return spec.is_event and statement.key is None and not spec.numbers_rows


def _bound(
    context: StatementContext, statement: Creation, *, numbers_rows: bool = False
) -> tuple[Bound, Creation]:
    """Return the statement's spec, and the statement with the absolute path of its files.

    Omitted columns are taken from the source. With `numbers_rows`, the key of events is not guessed.

    Raises:
        BindError: the statement or its source is wrong.
    """
    with pointing_at_source(statement):
        statement = with_absolute_files(statement, context.script)
        if isinstance(statement.source, DirectorySource) and not statement.listed:
            return _checked_live(_bound_to_folder(context, statement), False), statement
        if not isinstance(statement.source, FileSource | GeneratorSource):
            return _checked_live(bind(statement, context.view), context.script == "stdin"), statement
        return _checked(_bound_to_source(context, statement, numbers_rows=numbers_rows)), statement


def _checked(bound: Bound) -> Bound:
    """Check a source; return its spec with the unit of its times, and remarks on its records."""
    # pyarrow: only when needed
    from stqsh.sources.source_check import check_source, with_unit

    checked = check_source(bound.spec)
    spec = with_unit(bound.spec, checked.unit)
    return bound._replace(spec=spec, notes=(*bound.notes, *checked.notes))


def _checked_live(bound: Bound, reads_script: bool) -> Bound:
    """Check the format and options of a live source, and return its spec."""
    from stqsh.sources.live.registry import check_format

    if isinstance(bound.spec, StreamSpec):
        check_format(bound.spec)
        if isinstance(bound.spec.source, StdinSourceSpec):
            check_stdin(reads_script)
    return bound


def _bound_to_source(
    context: StatementContext,
    statement: statements.CreateStream | statements.CreateTable,
    *,
    numbers_rows: bool = False,
) -> Bound:
    """Return the statement's spec with the recognized file options; infer columns if none are listed."""
    from stqsh.sources.inference import infer
    from stqsh.sources.recognition import recognize, recognize_dialect

    source = source_spec(statement.source)
    if not isinstance(source, FileSourceSpec):
        return bind(statement, context.view, inferred=None if statement.listed else infer(source))
    if isinstance(statement, statements.CreateTable):
        written = recognize_dialect(source)
        columns = None if statement.listed else infer(written.source)
        bound = bind(statement, context.view, inferred=columns)
        return _with_source(bound, written.source, written.notes)
    declared = [[column.name, column.type] for column in statement.listed] or None
    found = recognize(source, declared, _time_of_source(statement))
    notes, columns = found.notes, None
    if declared is None:
        from stqsh.client.statements.type_repair import fitted

        statement, found = _with_extent(statement, found)
        columns, remarks = fitted(statement, found.columns, found.source)
        notes = (*found.notes, *remarks)
    bound = bind(statement, context.view, inferred=columns, numbers_rows=numbers_rows)
    return _with_source(bound, found.source, notes)


def _bound_to_folder(context: StatementContext, statement: Creation) -> Bound:
    """Return the spec of a stream of a folder, with the columns and options of its existing files."""
    from stqsh.sources.recognition import recognize
    from stqsh.sources.source_files import files_in_folder

    source = source_spec(statement.source)
    assert isinstance(source, DirectorySourceSpec), "the statement reads a folder"
    files = FileSourceSpec(files_in_folder(source.path, source.format), source.format, source.options)
    time = _time_of_source(statement) if isinstance(statement, statements.CreateStream) else None
    found = recognize(files, None, time)
    stream: statements.Statement = statement
    if isinstance(statement, statements.CreateStream):
        stream, found = _with_extent(statement, found)
    bound = bind(stream, context.view, inferred=found.columns)
    return _with_source(bound, msgspec.structs.replace(source, options=found.source.options), found.notes)


def _with_extent(
    statement: statements.CreateStream, found: RecognizedTimes
) -> tuple[statements.CreateStream, RecognizedTimes]:
    """Return the statement and the inferred columns with the extents of objects, if they have any.

    These are in the one column that LOCATION names, or are the geometries of files if they are no points.
    """
    from stqsh.sources.inference import extent_of, with_extent

    if statement.location is not None:
        return statement, found
    notes: tuple[str, ...] = ()
    if statement.extent is None:
        extent = extent_of(found.source)
        if extent is None:
            return statement, found
        statement = replace(statement, extent=Name(extent, span=statement.name.span))
        notes = (f"LOCATION ({column_name(extent)}): the objects have an extent, as they are no points",)
    assert statement.extent is not None, "one was found"
    columns = with_extent(found.columns, found.source, statement.extent.text)
    return statement, found._replace(columns=columns, notes=(*found.notes, *notes))


def _time_of_source(statement: statements.CreateStream) -> str | None:
    """Return the TIME column that a statement names, None if it is derived."""
    derived = {column.name for column in statement.derived}
    return None if statement.time is None or statement.time.text in derived else statement.time.text


def _with_source(bound: Bound, source: SourceSpec, notes: tuple[str, ...]) -> Bound:
    spec = msgspec.structs.replace(bound.spec, source=source)
    return bound._replace(spec=spec, notes=(*bound.notes, *notes))


def _facts(spec: StreamSpec) -> SourceFacts | None:
    """Measure the files of a stream; None for other sources, and if there are no records."""
    if not isinstance(spec.source, FileSourceSpec):
        return None
    from stqsh.sources.measuring import measure_files  # pyarrow: only when needed

    return measure_files(spec)


def _told(facts: SourceFacts | None, spec: StreamSpec) -> tuple[str, ...]:
    """Describe the content of a source; if no record can be read, the check of the source reports that."""
    if facts is None:
        return ()
    lines = facts_lines(facts) if facts.records else ()
    if facts.dead_share <= MUCH:
        return lines
    if lines:
        lines = (*lines[:-1], f"{lines[-1]}; SHOW DEAD LETTERS lists them")
    is_swapped = facts.reason.startswith(f"{spec.y}: ") and "is beyond 90 degrees" in facts.reason
    swapped = f"if latitudes are in {spec.x}, type LOCATION ({spec.y}, {spec.x})"
    return (*lines, swapped) if is_swapped else lines


def _at_another_time(context: StatementContext, facts: SourceFacts | None) -> Iterator[str]:
    """Yield remarks on a stream whose records are far from the time of the session's clock."""
    progress = context.connection.progress()
    now = progress.at_us(progress.step)
    first = None if facts is None else facts.first_us
    if now is None or first is None or now - _RECENT_US <= first <= now + _SOON_US:
        return
    begin, clock = format_instant(first), format_instant(now)
    times = f"its first records are of {begin}, and the session's clock is at {clock}"
    if first < now:
        yield f"{times}: what is older is taken in at once"
    else:
        yield f"{times}: it is empty until then"
    yield "all streams of a session share one clock; stqsh -s NAME begins a session with a clock of its own"


def _check_clock(context: StatementContext, statement: statements.CreateStream) -> None:
    """Raise `BindError` for a live stream among replayed ones, or the other way round."""
    first = first_stream(context.connection.db)
    is_live = isinstance(statement.source, LIVE_SOURCES)
    if first is None or first.spec.is_live == is_live:
        return
    clock = "the wall clock" if first.spec.is_live else "the time of its records"
    raise BindError(
        f"this session runs by {clock}, because its first stream {first.name} is"
        f" {'live' if first.spec.is_live else 'replayed'}; {statement.name.text} would be"
        f" {'live' if is_live else 'replayed'}",
        statement.source.span,
        hint="a session has one clock; stqsh -s NAME starts another session",
    )


def _with_session_tick(
    context: StatementContext, statement: statements.CreateStream
) -> statements.CreateStream:
    """Return the statement with the session's TICK if it has none; raise `BindError` for another TICK."""
    shared = _session_tick_us(context)
    if shared is None:
        return statement
    if statement.tick is None:
        default = LIVE_TICK_US if isinstance(statement.source, LIVE_SOURCES) else DEFAULT_TICK_US
        tick = None if shared == default else Quantity(shared / 1000, "ms")
        return replace(statement, tick=tick)
    own = duration_us(statement.tick, "TICK")
    if own != shared:
        raise BindError(
            f"TICK {format_duration(own)} does not fit this session, whose TICK is {format_duration(shared)}",
            statement.tick.span,
            hint="all streams of a session share one clock; use another session for another TICK",
        )
    return statement


def _session_tick_us(context: StatementContext) -> int | None:
    """Return the TICK that the first stream fixed, even if that stream was dropped; None before the first."""
    running = context.connection.progress().tick_us
    if running is not None:
        return running
    return next((stream.spec.tick_us for stream in live_streams(context.connection.db)), None)


def proposed(
    context: StatementContext, statement: statements.CreateStream
) -> tuple[Bound, SourceFacts | None]:
    """Return what a statement would create and the content of its files, without creating anything.

    Raises:
        BindError: the statement or its source is wrong.
    """
    bound, _ = _bound(context, statement)
    return bound, _facts(bound.spec)
