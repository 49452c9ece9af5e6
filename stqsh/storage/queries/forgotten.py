"""Forget dropped queries once nothing can refer to them any more.

A query has rows in the log and in the catalogue. After its DROP they are still needed by a repeated batch,
which reads the log again; by a reader of the update log, which looks up the queries of the updates it has
read; and by a planner at its start, which folds the log from its first row. A query that is added and dropped
again does not change that fold, so all its rows can be deleted together, once its last updates are folded
away (`stqsh.storage.update_log.compaction`).

Numbers are never reused: the log keeps counting, and `meta` counts the names that clients generate for
queries. The log's last row is never deleted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from stqsh.storage.catalogue import SIZES_A_BUCKET
from stqsh.storage.control_log import ControlDb, get_meta, last_seq, set_meta
from stqsh.storage.layouts import PASSING
from stqsh.storage.turns import forget_turns

_DONE, _NUMBERED = "forgotten", "forgotten_names"
_AT_ONCE = 200
"""Maximum number of queries forgotten per transaction, because a transaction blocks all other writers."""
_ID = "json_extract(spec, '$.id')"
_IN_USE = "NOT (state = 'dropped' AND seq <= ?)"
_NUMBER = re.compile(r"(.+)_[0-9].*")


def forget_queries(control: ControlDb, step: int) -> int:
    """Delete all rows of queries that were dropped in a step or before it; return the number of queries.

    Updates up to that step must be folded already, no batch that contains it may be repeated, and only one
    process may call this at a time.
    """
    up_to = min(_last_taken(control, step), last_seq(control) - 1)
    after = int(get_meta(control, _DONE) or 0)
    dropped = control.query(
        f"SELECT {_ID}, seq FROM log WHERE {PASSING} AND kind = 'drop' AND seq > ? AND seq <= ? ORDER BY seq",
        after,
        up_to,
    )
    count = 0
    for first in range(0, len(dropped), _AT_ONCE):
        rows = dropped[first : first + _AT_ONCE]
        with control.transaction():
            count += _forget(control, [id_ for id_, _ in rows], up_to)
            set_meta(control, _DONE, str(rows[-1][1]))
    if up_to > after:
        with control.transaction():
            _forget_passing(control, up_to)
            forget_turns(control)
            set_meta(control, _DONE, str(up_to))
    return count


def numbered_names(control: ControlDb, word: str) -> int:
    """Count the queries with generated names such as `sub_1`, for the word "sub", since the session began."""
    (known,) = control.query("SELECT count(*) FROM queries WHERE name GLOB ?", f"{word}_[0-9]*")[0]
    return int(known) + _forgotten_names(control)[word]


def _last_taken(control: ControlDb, step: int) -> int:
    """Return the last row of the log whose commands took effect by a given step."""
    return int(control.query("SELECT coalesce(max(seq), 0) FROM taken WHERE step <= ?", step)[0][0])


def _forget(control: ControlDb, ids: Iterable[int], up_to: int) -> int:
    """Delete the rows of queries whose whole group is out of use; return the number of queries."""
    count, names = 0, _forgotten_names(control)
    for first, last in _gone(control, ids, up_to):
        rows = control.query("SELECT name FROM queries WHERE id BETWEEN ? AND ?", first, last)
        names.update(found[1] for (name,) in rows if (found := _NUMBER.fullmatch(name)))
        count += len(rows)
        connection = control.connection()
        connection.execute("DELETE FROM queries WHERE id BETWEEN ? AND ?", (first, last))
        connection.execute("DELETE FROM patterns WHERE id = ?", (last,))
        connection.execute("DELETE FROM streamed WHERE query BETWEEN ? AND ?", (first, last))
        forget_rows(control, "seq = ?", (last,), up_to)  # the row that registers them
        for kind in ("drop", "pause_query", "resume_query", "alter_query"):
            forget_rows(
                control, f"{PASSING} AND kind = ? AND {_ID} BETWEEN ? AND ?", (kind, first, last), up_to
            )
        _forget_sizes(control, range(first, last + 1), up_to)
    set_meta(control, _NUMBERED, msgspec.json.encode(names).decode())
    return count


def _gone(control: ControlDb, ids: Iterable[int], up_to: int) -> Iterator[tuple[int, int]]:
    """Yield the first and last id of each group of queries registered together of which none is in use."""
    seen: set[int] = set()
    for id_ in ids:
        rows = control.query(
            "SELECT seq, CASE kind WHEN 'register_alike' THEN json_extract(spec, '$.first') ELSE seq END"
            " FROM log WHERE seq = (SELECT coalesce(pattern, id) FROM queries WHERE id = ?)",
            id_,
        )
        for last, first in rows:
            if last in seen:
                continue
            seen.add(last)
            in_use = f"SELECT 1 FROM queries WHERE id BETWEEN ? AND ? AND {_IN_USE} LIMIT 1"
            if not control.query(in_use, first, last, up_to):
                yield first, last


def forget_rows(control: ControlDb, which: str, values: tuple[object, ...], up_to: int) -> None:
    """Delete the log's rows that satisfy a condition, and recorded steps that no other row refers to.

    Joins an open transaction. Rows after `up_to` may still be taken, so their steps are kept.
    """
    gone = control.query(f"SELECT seq FROM log WHERE {which}", *values)
    connection = control.connection()
    connection.execute(f"DELETE FROM log WHERE {which}", values)
    connection.executemany(
        "DELETE FROM taken WHERE seq = (SELECT min(seq) FROM taken WHERE seq >= ?1) AND seq <= ?2"
        " AND NOT EXISTS (SELECT 1 FROM log WHERE log.seq <= taken.seq"
        " AND log.seq > (SELECT coalesce(max(seq), 0) FROM taken WHERE seq < ?1))",
        [(seq, up_to) for (seq,) in gone],
    )


def _forget_sizes(control: ControlDb, ids: range, up_to: int) -> None:
    """Delete the sizes of answers in buckets without remaining queries."""
    for bucket in range(ids.start // SIZES_A_BUCKET, ids[-1] // SIZES_A_BUCKET + 1):
        first, last = bucket * SIZES_A_BUCKET, (bucket + 1) * SIZES_A_BUCKET - 1
        if last <= up_to:
            control.connection().execute(
                "DELETE FROM sizes WHERE bucket = ?"
                " AND NOT EXISTS (SELECT 1 FROM queries WHERE id BETWEEN ? AND ?)",
                (bucket, first, last),
            )


def _forget_passing(control: ControlDb, up_to: int) -> None:
    """Delete questions and answers that have taken effect, and all memory orders except the last one."""
    for kind in ("found", "ask"):
        forget_rows(control, f"{PASSING} AND kind = ? AND seq <= ?", (kind, up_to), up_to)
    orders = f"{PASSING} AND kind = 'memory'"
    older = f"{orders} AND seq < (SELECT max(seq) FROM log WHERE {orders} AND seq <= ?)"
    forget_rows(control, older, (up_to,), up_to)


def _forgotten_names(control: ControlDb) -> Counter[str]:
    return Counter(msgspec.json.decode(get_meta(control, _NUMBERED) or "{}", type=dict[str, int]))
