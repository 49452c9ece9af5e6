"""The answers to SHOW: one function per subject, and the table of subjects for dispatch and help."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from msgspec.structs import asdict

from stqsh.client.connection import Connection
from stqsh.client.read.accuracy import accuracies, accuracy_shown, shedding_text, summary
from stqsh.client.read.kept_events import kept_text
from stqsh.client.results import Message, Rows
from stqsh.client.show.activity import activity, stream_activities
from stqsh.client.show.load import show_cache, show_load
from stqsh.client.show.sinks import show_alerts, show_sinks
from stqsh.extensions import FUNCTIONS, extension_names, package_of
from stqsh.name_patterns import glob_of, is_like
from stqsh.profile import Profile
from stqsh.settings import KEYS, SettingValue, is_secret
from stqsh.sources.dead_letters import read_dead_letters
from stqsh.spec.expression import FunctionSpec
from stqsh.spec.query_stream import DROP_COLUMN
from stqsh.spec.stats import BatchStats, LiveState
from stqsh.spec.stream import (
    DirectorySourceSpec,
    FileSourceSpec,
    GeneratorSourceSpec,
    HttpSourceSpec,
    InsertsSourceSpec,
    KafkaSourceSpec,
    SocketSourceSpec,
)
from stqsh.storage.catalogue import (
    approximate_topk,
    count_queries,
    known_functions,
    known_views,
    large_queries,
    live_areas,
    live_queries,
    live_streams,
    live_tables,
    queries_over_area,
    queries_over_table,
    stream_by_id,
)
from stqsh.storage.engine_info import EngineInfo, is_alive, read_engine
from stqsh.storage.progress import stream_statuses
from stqsh.storage.queries.query_streams import QueryStreamRow, count_streamed, live_query_streams
from stqsh.storage.rows import AreaRow, StreamRow, StreamStatus, TableRow
from stqsh.storage.session_settings import session_settings
from stqsh.storage.turns import rebuilt_slots
from stqsh.units import counted, format_age, format_instant, group_digits

MOST_SHOWN = 10_000
"""Maximum number of queries shown, the last ones; DUMP lists all."""
DEAD_LETTERS_SHOWN = 1000
"""Maximum number of dead letters shown of a stream, the last ones; the file has all."""
LETTER_SHOWN = 200
"""The maximum number of characters shown of a bad record; EXPORT writes all that is stored."""

_NAMED = 5
_SLOT_COLUMNS = ("slot", "records", "unsent", "stale", "updates", "objects", "queries", "bytes")
_SLOT_TIMES = ("decode_us", "kernel_us", "state_us")


def engine_state(engine: EngineInfo | None) -> str:
    """Return the state of a session's engine; a stopped engine does not count as dead."""
    if engine is None:
        return "not started"
    if is_alive(engine) or engine.state == "failed":
        return engine.state
    return "stopped" if engine.state == "stopping" else "dead"


def show_status(connection: Connection, profile: Profile) -> Iterator[Rows]:
    """Yield SHOW STATUS: the session, its engine, the clock and the load, one item per row."""
    progress, engine = connection.progress(), read_engine(connection.home)
    alive = is_alive(engine)
    items: list[tuple[str, Any]] = [
        ("session", connection.home.name + (" (temporary)" if connection.home.temporary else "")),
        ("home", str(connection.home.path)),
        ("engine", engine_state(engine)),
        ("pid", engine.pid if engine and alive else None),
        ("restarts", (engine.restarted or None) if engine and alive else None),
        ("slots rebuilt", _rebuilt(connection)),
        ("step", progress.step),
        ("clock", format_instant(progress.at_us())),
        ("streams", activity(connection, progress)),
        ("answers", summary(connection).text()),
        ("approximate TOPK", _approximate(connection)),
        ("groups", _many_groups(connection, profile)),
        ("shedding", shedding_text(progress.stats.memory) or _at_rest(connection, profile)),
        *_load(progress.stats),
        (
            "dead letters",
            sum(dead_count(row, stream_statuses(connection.db)) for row, _ in letter_folders(connection)),
        ),
        ("duplicates", sum(status.duplicates for status in _statuses(connection))),
        ("settings", profile.name),
    ]
    yield Rows("status", ("item", "value"), tuple(item for item in items if item[1] is not None))


def _rebuilt(connection: Connection) -> str | None:
    """Return how often slots were rebuilt because of damaged files; None if never."""
    known = rebuilt_slots(connection.db)
    return f"{counted(known.times, 'time')}, last: {known.why}" if known.times else None


def _approximate(connection: Connection) -> str | None:
    """Return the queries with approximate TOPK; None if there are none."""
    names = approximate_topk(connection.db)
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more if names else None


def _many_groups(connection: Connection, profile: Profile) -> str | None:
    """Return the aggregate queries with very many groups, and the remedy; None if there are none."""
    above = session_settings(connection.db, profile).number("groups.above")
    crowded = [query for query in large_queries(connection.db, above) if query.spec.aggregates is not None]
    if not crowded:
        return None
    first, more = crowded[0], len(crowded) - 1
    others = f"; {more} more {'query has' if more == 1 else 'queries have'} too many" if more else ""
    return (
        f"{first.name} has {group_digits(first.size)} groups, more than groups.above ({group_digits(above)}),"
        f" which all stay in memory: group by something coarser, narrow its WHERE, or"
        f" DROP QUERY {first.name}{others}"
    )


def _at_rest(connection: Connection, profile: Profile) -> str:
    """Describe the load-shedding setting while nothing is shed."""
    mode = session_settings(connection.db, profile).text("shedding")
    return mode if mode == "off" else f"{mode}, nothing dropped"


def show_streams(connection: Connection, profile: Profile) -> Iterator[Rows]:
    """Yield SHOW STREAMS: each stream with its source, how far it has been read, and whether it plays."""
    del profile
    progress = connection.progress()
    clocks = stream_activities(connection, progress)
    statuses, live = stream_statuses(connection.db), progress.stats.live
    engine = read_engine(connection.home)
    waits = engine.message if engine is not None and engine.state == "ready" else ""
    rows = []
    for stream in live_streams(connection.db):
        status = statuses.get(stream.id, StreamStatus(stream.id))
        bound = count_queries(connection.db, stream.id)
        state = status.state if status.state != "reading" else f"reading {status.progress:.0%}"
        source, kind = source_text(stream), stream.spec.kind
        message = (stream.spec.is_live and waits) or _live_message(live.get(stream.id)) or status.message
        message = "; ".join(filter(None, (message, kept_text(progress, stream.spec))))
        clock = clocks[stream.id]
        rows.append((stream.name, kind, state, clock, status.rows, status.dead, bound, source, message))
    columns = ("name", "kind", "state", "clock", "rows", "dead letters", "queries", "source", "message")
    yield Rows("streams", columns, tuple(rows))


def _live_message(state: LiveState | None) -> str:
    """Return the error of a live stream, and its number of pending messages by part."""
    if state is None:
        return ""
    behind = ", ".join(_lag(part, count) for part, count in state.lag.items() if count or "/" in part)
    return "; ".join(filter(None, [state.message, behind and f"behind: {behind}"]))


def _lag(part: str, count: int) -> str:
    """Return `buses/3 120` for a partition of a topic, and `120 lines` for the only part of a source.

    Rows are counted by positions in a spool, where each segment has an extra position for its dead letters.
    """
    if "/" in part:
        return f"{part} {count:,}"
    if part == "rows":
        return "up to 1 row" if count == 2 else f"up to {count - 1:,} rows"
    return f"{count:,} {part}"


def show_queries(connection: Connection, profile: Profile, pattern: str = "%") -> Iterator[Rows]:
    """Yield SHOW QUERIES: age, answer, updates and share of work of each query (the last of very many)."""
    del profile
    names = glob_of(pattern)
    now, queries, count = (
        connection.db.clock(),
        live_queries(connection.db, MOST_SHOWN, names),
        count_queries(connection.db),
    )
    rates, shares = _costs(connection) if queries else ({}, {})
    accurate = accuracies(connection, queries)
    rows = tuple(
        (
            *(q.name, q.spec.shown_kind, q.spec.stream, q.state, format_age(now - q.since_us), q.size),
            *(round(rates.get(q.id, 0.0), 1), _percent(shares.get(q.id)), q.spec.text),
            accuracy_shown(accurate[q.id]),
        )
        for q in queries
    )
    figures = ("answer", "updates/s", "share of work", "text", "accuracy")
    title = (
        "queries"
        if len(rows) < MOST_SHOWN or count <= len(rows)
        else f"the last {len(rows):,} of {count:,} queries"
    )
    yield Rows(title, ("name", "kind", "stream", "state", "age", *figures), rows)


def _costs(connection: Connection) -> tuple[dict[int, float], dict[int, float]]:
    from stqsh.client.show.query_costs import update_rates, work_shares  # numpy and pyarrow

    return update_rates(connection), work_shares(connection)


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{100 * share:.3g} %"


def show_tables(connection: Connection, profile: Profile) -> Iterator[Rows]:
    """Yield SHOW TABLES: each table with its key, its source and how far it has been read."""
    del profile
    statuses = stream_statuses(connection.db)
    rows = []
    for table in live_tables(connection.db):
        status = statuses.get(table.id, StreamStatus(table.id))
        bound = len(queries_over_table(connection.db, table.id))
        source = source_text(table)
        rows.append(
            (
                table.name,
                table.spec.key,
                status.state,
                status.rows,
                status.dead,
                bound,
                source,
                status.message,
            )
        )
    columns = ("name", "key", "state", "rows", "dead letters", "queries", "source", "message")
    yield Rows("tables", columns, tuple(rows))


def show_regions(connection: Connection, profile: Profile) -> Iterator[Rows]:
    """Yield SHOW REGIONS: each region and set of regions, with its members and the queries that use it."""
    del profile
    rows = tuple(
        (
            area.name,
            area.word,
            max(1, len(area.spec.members)),
            len(queries_over_area(connection.db, area.id)),
            source_text(area),
        )
        for area in live_areas(connection.db)
    )
    yield Rows("regions", ("name", "kind", "members", "queries", "source"), rows)


def show_text_views(connection: Connection, profile: Profile) -> Iterator[Rows]:
    """Yield SHOW VIEWS: each view and its SELECT."""
    del profile
    rows = tuple((view.name, view.text) for view in known_views(connection.db).values())
    yield Rows("views", ("name", "select"), rows)


def show_functions(connection: Connection, profile: Profile) -> Iterator[Rows]:
    """Yield SHOW FUNCTIONS: the functions of the session and of packages, and their origin."""
    del profile
    own = known_functions(connection.db)
    rows: list[tuple[str | None, ...]]
    added = {name.upper(): name for name in extension_names(FUNCTIONS) if name.upper() not in own}
    rows = [
        (
            spec.name,
            _parameters(spec),
            spec.returns,
            spec.origin or ("CREATE FUNCTION" if spec.text else "Python"),
        )
        for spec in own.values()
    ]
    rows += [(name, None, None, package_of(FUNCTIONS, given)) for name, given in added.items()]
    yield Rows("functions", ("name", "parameters", "returns", "from"), tuple(rows))


def _parameters(spec: FunctionSpec) -> str | None:
    """Return a function's parameters in the syntax of CREATE FUNCTION; None for one registered in Python."""
    if spec.parameters is None:
        return None
    return ", ".join(f"{name} {kind}".rstrip() for name, kind in spec.parameters)


def show_slots(connection: Connection, profile: Profile) -> Iterator[Rows]:
    """Yield SHOW SLOTS: the load of each slot in the last batch that had records."""
    del profile
    rows = tuple(
        (
            *(getattr(slot, name) for name in _SLOT_COLUMNS),
            *(_milliseconds(getattr(slot, name)) for name in _SLOT_TIMES),
        )
        for slot in connection.progress().stats.slots
    )
    yield Rows("slots", (*_SLOT_COLUMNS, "decode ms", "kernel ms", "state ms"), rows)


def show_routing(connection: Connection, profile: Profile) -> Iterator[Rows]:
    """Yield SHOW ROUTING: the distribution of each stream over the slots."""
    from stqsh.client.show import routing  # numpy: only when needed

    yield from routing.show_routing(connection, profile)


LetterRow: TypeAlias = StreamRow | TableRow | QueryStreamRow


def letter_folders(connection: Connection) -> list[tuple[LetterRow, Path]]:
    """Return all streams, tables and query streams with the folders of their dead letters."""
    made: list[tuple[LetterRow, Path]] = []
    made += ((stream, connection.home.stream(stream.id)) for stream in live_streams(connection.db))
    made += ((table, connection.home.table(table.id)) for table in live_tables(connection.db))
    made += ((stream, connection.home.stream(stream.id)) for stream in live_query_streams(connection.db))
    return made


def dead_count(row: LetterRow, statuses: Mapping[int, StreamStatus]) -> int:
    """Return how many dead letters a stream, a table or a query stream has had."""
    if isinstance(row, QueryStreamRow):
        return row.dead
    return statuses[row.id].dead if row.id in statuses else 0


_QUERY_STREAM_COLUMNS = ("name", "stream", "source", "queries", "rows", "dead letters", "state")


def show_query_streams(connection: Connection, profile: Profile) -> Iterator[Rows]:
    """Yield SHOW QUERY STREAMS: each with the queries that it has registered, and the rows it has read."""
    del profile
    rows = tuple(query_stream_values(connection, stream) for stream in live_query_streams(connection.db))
    yield Rows("query streams", _QUERY_STREAM_COLUMNS, rows)


def query_stream_values(connection: Connection, stream: QueryStreamRow) -> tuple[Any, ...]:
    """Return a query stream as a row of SHOW QUERY STREAMS."""
    from stqsh.sources.live.line_spool import SPOOL  # pyarrow: only when needed
    from stqsh.sources.live.protocol import read_problem

    over = stream_by_id(connection.db, stream.spec.stream_id).name
    folder = connection.home.stream(stream.id)
    problem = read_problem(folder) or read_problem(folder / SPOOL)
    source = source_text(StreamRow(stream.id, stream.name, stream.spec.rows))
    count = count_streamed(connection.db, stream.id)
    return (stream.name, over, source, count, stream.rows, stream.dead, problem or "ready")


def describe_query_stream(connection: Connection, stream: QueryStreamRow) -> Iterator[Rows]:
    """Yield the columns of a query stream's rows, then its values of SHOW QUERY STREAMS and its SELECT."""
    key = stream.spec.rows.key
    parts = {key: "name of the query", DROP_COLUMN: "whether the row drops its query"}
    columns = tuple((name, kind, parts.get(name)) for name, kind in stream.spec.rows.columns)
    yield Rows(f"queries {stream.name}", ("column", "type", "part"), columns)
    [(text,)] = connection.db.query("SELECT text FROM log WHERE seq = ?", stream.id)
    values = zip(_QUERY_STREAM_COLUMNS, query_stream_values(connection, stream), strict=True)
    yield Rows(f"queries {stream.name}", ("item", "value"), (*values, ("statement", text)))


def show_dead_letters(connection: Connection, profile: Profile) -> Iterator[Rows]:
    """Yield SHOW DEAD LETTERS: how many records of streams and tables could not be read, and the last."""
    del profile
    statuses, made = stream_statuses(connection.db), letter_folders(connection)
    counts = tuple((row.name, dead_count(row, statuses)) for row, _ in made)
    yield Rows("dead letters by stream", ("stream", "count"), counts)
    letters = tuple(letter for row, folder in made for letter in _dead_letters(row.name, folder))
    if letters:
        yield Rows("dead letters", ("stream", "file", "line", "reason", "text"), letters)


def show_settings(connection: Connection, profile: Profile) -> Iterator[Rows]:
    """Yield SHOW SETTINGS: every setting, its value, its origin, and its meaning."""
    settings = session_settings(connection.db, profile)
    meanings = {key.name: key.help for key in KEYS}
    rows = tuple(
        (
            key,
            _shown(key, found.value),
            found.origin,
            meanings.get(key, "Spark's own; it goes there unchanged"),
        )
        for key, found in settings.items()
    )
    yield Rows("settings", ("setting", "value", "origin", "meaning"), rows)


def _shown(key: str, value: SettingValue) -> SettingValue:
    """Return a setting's value; for a secret, only whether it is set."""
    return "(set)" if is_secret(key) and value is not None else value


Subject = Callable[[Connection, Profile], Iterator[Rows | Message]]
SUBJECTS: dict[str, Subject] = {
    "STATUS": show_status,
    "STREAMS": show_streams,
    "QUERIES": show_queries,
    "QUERY STREAMS": show_query_streams,
    "TABLES": show_tables,
    "REGIONS": show_regions,
    "VIEWS": show_text_views,
    "FUNCTIONS": show_functions,
    "SINKS": show_sinks,
    "ALERTS": show_alerts,
    "SLOTS": show_slots,
    "ROUTING": show_routing,
    "CACHE": show_cache,
    "LOAD": show_load,
    "DEAD LETTERS": show_dead_letters,
    "SETTINGS": show_settings,
}
"""The implemented subjects of SHOW, in upper case."""


def shown_like(connection: Connection, profile: Profile, what: str, pattern: str) -> Iterator[Rows | Message]:
    """Yield the rows of SHOW for the names that match a LIKE pattern."""
    if what == "QUERIES":
        yield from show_queries(connection, profile, pattern)
        return
    for rows in SUBJECTS[what](connection, profile):
        if isinstance(rows, Rows):
            yield replace(rows, rows=tuple(row for row in rows.rows if is_like(row[0], pattern)))


def source_text(stream: StreamRow | TableRow | AreaRow) -> str | None:
    """Return a source in one line: the glob, or the generator's name; None for a single region."""
    source = stream.spec.source
    match source:
        case FileSourceSpec():
            text = source.glob
        case KafkaSourceSpec():
            text = f"kafka {source.brokers} {', '.join(source.topics)}"
        case SocketSourceSpec():
            text = f"socket {source.address}"
        case DirectorySourceSpec():
            text = f"directory {source.path}"
        case HttpSourceSpec():
            text = f"http port {source.port}"
        case GeneratorSourceSpec():
            text = f"generator {source.name}"
        case InsertsSourceSpec():
            text = "inserts"
        case _:
            text = "standard input"
    return None if source is None else text


def _load(stats: BatchStats) -> list[tuple[str, Any]]:
    """Return the load of the last batch; an empty list before the first one."""
    if stats.records_per_s is None:
        return []
    times = {} if stats.time is None else asdict(stats.time)
    split = (f"{part.removesuffix('_us')} {us / 1000:.0f} ms" for part, us in times.items())
    return [
        ("records", stats.records_total),
        ("stale records", stats.stale_total),
        ("records/s", stats.records_per_s),
        ("lag", None if stats.lag_s is None else f"{stats.lag_s:.1f} s"),
        ("behind: records", stats.backlog),
        ("behind: batches", -(-stats.backlog // stats.room) if stats.room else None),
        ("records a batch", stats.room),
        ("last batch: records", stats.records),
        ("last batch: stale", stats.stale),
        ("last batch: updates", stats.updates),
        *(
            [("functions: failed calls", stats.failed_calls), ("functions: first reason", stats.failure)]
            if stats.failed_calls
            else []
        ),
        ("last batch: time", ", ".join(split) or None),
    ]


def _milliseconds(us: float | None) -> float | None:
    return None if us is None else round(us / 1000, 1)


def _statuses(connection: Connection) -> list[StreamStatus]:
    known = stream_statuses(connection.db)
    ids = [stream.id for stream in live_streams(connection.db)] + [
        table.id for table in live_tables(connection.db)
    ]
    return [known[id_] for id_ in ids if id_ in known]


def _dead_letters(name: str, folder: Path) -> Iterator[tuple[Any, ...]]:
    """Yield the last dead letters of a stream or table, in the order in which they occurred."""
    for letter in deque(read_dead_letters(folder), DEAD_LETTERS_SHOWN):
        yield (name, letter.file, letter.line, letter.reason, letter.text[:LETTER_SHOWN])
