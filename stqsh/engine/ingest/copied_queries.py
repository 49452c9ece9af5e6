"""Select the queries that slots evaluate over a stream's copy by key, see `stqsh.core.keyed_copy`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.sources.replay_store.previous_rows import Rows
from stqsh.sources.replay_store.store import ReplayStore
from stqsh.spec.command import AlterCommand, DropCommand, PauseCommand, RegisterCommand
from stqsh.spec.query import find_kind
from stqsh.spec.query_rows import QueryRows
from stqsh.storage.queries.living_queries import LivingQueries
from stqsh.storage.queries.query_commands import Command

_AT_ONCE = 1 << 16
"""The number of records read at a time."""


class CopyCommands(NamedTuple):
    """The commands of a batch to a stream.

    Attributes:
        older: the queries that move to the copy.
        copied: the commands to the copy.
        others: the commands to the stream itself.
    """

    older: list[Command]
    copied: list[Command]
    others: list[Command]


def separated(
    commands: Sequence[Command],
    living: LivingQueries,
    *,
    begins: bool,
) -> CopyCommands:
    """Separate commands to a stream from those to its copy; changes of queries go to both.

    Args:
        commands: the commands of the batch.
        living: the queries alive before the batch.
        begins: whether the copy begins.
    """
    dropped = {one.id for one in commands if isinstance(one, DropCommand)}
    were_paused = {one.id for one in living.paused} - dropped if begins else set()
    pausing = {one.id for one in commands if isinstance(one, PauseCommand)}
    moving = were_paused | (pausing - dropped)
    older: list[Command] = []
    for one in living.queries:
        older += _those(one, _remembering(one, moving, dwelling=begins) & ~_among(one, dropped))
    older += [one for one in living.paused if one.id in were_paused]
    copied: list[Command] = []
    others: list[Command] = []
    moved: set[int] = set()
    for command in commands:
        if isinstance(command, RegisterCommand | QueryRows):
            mine = _remembering(command, pausing, dwelling=True)
            copied += _those(command, mine)
            others += _those(command, ~mine)
            moved |= set(_ids(command)[mine].tolist())
        elif isinstance(command, AlterCommand) and command.id in moved:
            copied.append(command)
        else:
            copied.append(command)
            others.append(command)
    return CopyCommands(older, copied, others)


def _remembering(command: RegisterCommand | QueryRows, ids: set[int], *, dwelling: bool) -> NDArray[np.bool_]:
    """Return a mask of the queries of a command that remember objects, bool (n,).

    These are the queries among some ids and, if `dwelling`, those with DWELL or of a kind that remembers
    objects. Queries of a kind whose whole answer is sent again on resume never count.
    """
    pattern = command.query if isinstance(command, RegisterCommand) else command.pattern
    found = _among(command, ids)
    kind = find_kind(pattern.kind)
    if kind.is_resent:
        return np.zeros(len(found), np.bool_)
    return found | (dwelling and (kind.remembers or bool(pattern.timing.dwell_us)))


def _among(command: RegisterCommand | QueryRows, ids: set[int]) -> NDArray[np.bool_]:
    return np.isin(_ids(command), np.array(sorted(ids), np.int64))


def _ids(command: RegisterCommand | QueryRows) -> NDArray[np.int64]:
    return np.array([command.query.id]) if isinstance(command, RegisterCommand) else command.ids


def _those(command: RegisterCommand | QueryRows, rows: NDArray[np.bool_]) -> list[Command]:
    """Return the selected queries of a command, as a list of at most one command."""
    if not rows.any():
        return []
    return [command if isinstance(command, RegisterCommand) or rows.all() else command.those(rows)]


def last_records(store: ReplayStore, previous: Rows, step: int, key: str) -> Iterator[pa.RecordBatch]:
    """Yield the last record of each object among the first rows of a store, with `_step` and `_hash`.

    Args:
        store: the store.
        previous: the row before each of these rows, as `previous_rows` returns them.
        step: the step after which these records are the last ones.
        key: the column of keys.
    """
    is_last = previous >= -1
    is_last[previous[previous >= 0]] = False
    rows = np.flatnonzero(is_last)
    for start in range(0, len(rows), _AT_ONCE):
        records = store.take(rows[start : start + _AT_ONCE]).drop_columns(["_tick"])
        records = records.append_column("_step", pa.array(np.full(records.num_rows, step, np.int64)))
        yield records.append_column("_hash", pa.array(hash_keys(records.column(key))))
