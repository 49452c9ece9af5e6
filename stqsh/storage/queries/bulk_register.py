"""Register very many queries of one template, with one control log row for each chunk of queries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import orjson
import pyarrow as pa
from msgspec import Raw, json
from numpy.typing import NDArray

from stqsh.spec.chunk import pack
from stqsh.spec.expression import focal_keys_in
from stqsh.spec.log import QueryBlock
from stqsh.spec.query_rows import FOCAL_PATH
from stqsh.spec.region import Key
from stqsh.storage.catalogue_writer import check_used
from stqsh.storage.control_log import ControlDb, to_text
from stqsh.storage.layouts import LIVE
from stqsh.storage.queries.query_templates import NAMES, QueryTemplate, TemplateRows

MOST = 1 << 16
"""Maximum number of queries in a log row: slots get them as one chunk, and Spark copies chunks often."""

_IN_USE = "SELECT asked.key FROM json_each(?) AS asked WHERE " + " OR ".join(
    f"EXISTS (SELECT 1 FROM {table} WHERE name = asked.value AND {live})"
    for table, live in (
        ("queries", LIVE),
        *((table, "dropped_seq IS NULL") for table in ("streams", "tables", "areas", "query_streams")),
    )
)
_LAST = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'log'"
_ENTER = (
    "INSERT INTO queries (id, name, stream_id, spec, state, seq, size, since_us, pattern)"
    " VALUES (?, ?, ?, '', 'active', ?, 0, ?, ?)"
)
_LOG = "INSERT INTO log (seq, at_us, kind, text, spec, payload) VALUES (?, ?, 'register_alike', '', ?, ?)"


def register_rows(db: ControlDb, template: QueryTemplate, rows: pa.RecordBatch) -> NDArray[np.bool_]:
    """Register the queries of some rows with one row of the log, and add them to the catalogue.

    Rows whose name is in use are skipped. The ids are consecutive; the last one is the number of the log's
    row.

    Args:
        db: the session's control log.
        template: the template of the queries.
        rows: at most `MOST`, in the form of `TemplateRows`; no name occurs twice.

    Returns:
        Which rows were skipped, bool (n,).

    Raises:
        StqshError: the stream, a table or a region of the template has since been dropped.
    """
    with db.transaction() as connection:
        check_used(db, TemplateRows(template, rows.slice(0, 1), 0).spec(0))
        left_out = names_in_use(db, rows.column(NAMES).to_pylist())
        if left_out.any():
            rows = rows.filter(pa.array(~left_out))
        if rows.num_rows:
            [(last,)] = connection.execute(_LAST)
            _enter(db, TemplateRows(template, rows, last + 1))
    return left_out


def names_in_use(db: ControlDb, names: Sequence[str | None]) -> NDArray[np.bool_]:
    """Return which names, (n,), are those of a query, a query stream, a stream, a table or a region."""
    in_use = np.zeros(len(names), np.bool_)
    in_use[[key for (key,) in db.query(_IN_USE, orjson.dumps(names).decode())]] = True
    return in_use


def _enter(db: ControlDb, new: TemplateRows) -> None:
    connection, at_us, count = db.connection(), db.clock(), new.rows.num_rows
    seq, stream_id = new.first + count - 1, new.template.stream_id
    names = new.rows.column(NAMES).to_pylist()
    connection.executemany(
        _ENTER,
        (
            (id_, name, stream_id, seq, at_us, seq)
            for id_, name in zip(range(new.first, seq + 1), names, strict=True)
        ),
    )
    example = new.spec(new.first)
    template = new.template.to_json()
    connection.execute("INSERT INTO patterns VALUES (?, ?, ?)", (seq, to_text(example), template))
    focal, around = _focal_keys(new), _keys_around(new)
    block = QueryBlock(new.first, count, stream_id, example, Raw(template), focal, around)
    connection.execute(_LOG, (seq, at_us, json.encode(block).decode(), pack(new.rows)))


def _focal_keys(new: TemplateRows) -> tuple[Key, ...]:
    """Return the keys of the focal objects if the queries have different ones.

    They are part of the row's JSON, because the planner does not read payloads.
    """
    places = [place for place, (path, _) in enumerate(new.template.holes) if path == FOCAL_PATH]
    return tuple(key for key in new.values[places[0]].to_pylist() if key is not None) if places else ()


def _keys_around(new: TemplateRows) -> tuple[tuple[Key, ...], ...]:
    """Return the keys of the focal objects of the regions in each query's condition, if they differ."""
    paths = [path for path, _ in new.template.holes]
    if not any(path[-1] == FOCAL_PATH[-1] and path != FOCAL_PATH for path in paths):
        return ()
    specs = map(new.spec, range(new.first, new.first + new.rows.num_rows))
    return tuple(focal_keys_in(spec.condition) for spec in specs)
