"""The past of a map: where objects were, and when they entered and left answers.

The answers come from the update log and reach back as far as it does. The places of a replayed moving stream
begin with its last records before the map was opened; those of other streams begin with the places at which
objects entered and left answers. Both continue with the scenes of the map.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stqsh.client.connection import Connection
from stqsh.client.read.group_keys import is_group_key
from stqsh.errors import SourceError
from stqsh.sources.replay_store.segments import TICK
from stqsh.sources.replay_store.store import open_store
from stqsh.storage.rows import StreamRow
from stqsh.storage.update_log.files import LogCompactedError
from stqsh.storage.update_log.reader import UpdateLog

if TYPE_CHECKING:
    from stqsh.client.map.scene import Scene

MOST_SIGHTINGS = 100_000
"""How many sightings, and how many changes, are kept; older ones are folded into their result."""
MOST_TRACKED = 20_000
"""If a map has more objects than this, only those in answers are tracked."""

_SIGHTING = np.dtype([("step", np.int64), ("object", np.int64), ("x", np.float64), ("y", np.float64)])
_CHANGE = np.dtype([("step", np.int64), ("object", np.int64), ("query", np.int64), ("op", np.int8)])


@dataclass(frozen=True, slots=True)
class Past:
    """The past of a map, in the order of steps.

    Attributes:
        keys: the objects, (k,) of the key's type; the others refer to them by their positions.
        sightings: (n,) of step, object, x, y: where an object was from that step on; NaN where it had gone.
        changes: (m,) of step, object, query (id), op: objects that entered an answer (1) or left it (-1).
    """

    keys: pa.Array[Any]
    sightings: NDArray[Any]
    changes: NDArray[Any]


class SceneHistory:
    """Collects the past of a stream's map from its scenes and the update log."""

    def __init__(self, connection: Connection, stream: StreamRow) -> None:
        self._connection, self._stream = connection, stream
        self._log = UpdateLog(connection.db, connection.book.key_of)
        self._after = -1
        self._keys: pa.Array[Any] | None = None
        self._sightings = np.empty(0, _SIGHTING)
        self._changes = np.empty(0, _CHANGE)

    def take(self, scene: Scene) -> None:
        """Add a scene, and the updates up to it; read all updates again if the log was folded meanwhile."""
        if self._after < 0 and self._keys is None:
            self._take_records(scene)
        while self._after < scene.progress.batch:
            try:
                for tables in self._log.read(self._after, scene.progress.batch, self._is_mine):
                    for part in tables:
                        if not is_group_key(part.table["key"]):
                            self._take_updates(part.table)
                    self._trim()
                self._after = scene.progress.batch
            except LogCompactedError:
                self._after, self._changes = -1, np.empty(0, _CHANGE)
        self._take_places(scene)
        self._trim()

    def past(self) -> Past:
        """Return what has been collected."""
        keys = pa.array([]) if self._keys is None else self._keys
        return Past(keys, self._sightings, self._changes)

    def _is_mine(self, queries: NDArray[np.int64]) -> NDArray[np.bool_]:
        rows = self._connection.db.query("SELECT id FROM queries WHERE stream_id = ?", self._stream.id)
        return np.isin(queries, np.array([number for (number,) in rows], np.int64))

    def _take_records(self, scene: Scene) -> None:
        """Add the last records of a replayed moving stream before the first scene."""
        spec, progress = self._stream.spec, scene.progress
        if spec.is_live or spec.is_event or progress.base_tick is None or len(scene.places) > MOST_TRACKED:
            return
        try:
            store = open_store(self._connection.home.stream(self._stream.id))
            stop = store.rows_until(progress.base_tick + scene.places.step - 1)
            rows = store.read(max(store.manifest.gone_rows, stop - MOST_SIGHTINGS), stop)
        except (SourceError, OSError, IndexError):
            return  # it is not prepared yet, or the engine has just removed its oldest records
        seen = np.empty(rows.num_rows, _SIGHTING)
        seen["step"] = np.maximum(rows.column(TICK).to_numpy() - progress.base_tick + 1, 1)
        seen["object"] = self._numbers(rows.column(spec.key))
        seen["x"], seen["y"] = (_floats(rows.column(name)) for name in (spec.x, spec.y))
        self._sightings = _in_order(self._sightings, seen)

    def _take_updates(self, table: pa.Table) -> None:
        spec = self._stream.spec
        numbers = self._numbers(table.column("key").combine_chunks())
        changes = np.empty(table.num_rows, _CHANGE)
        changes["object"] = numbers
        for name in ("step", "query", "op"):
            changes[name] = table.column(name).to_numpy()
        self._changes = _in_order(self._changes, changes)
        seen = np.empty(table.num_rows, _SIGHTING)
        seen["step"], seen["object"] = changes["step"], numbers
        seen["x"], seen["y"] = (_floats(table.column(f"c.{name}")) for name in (spec.x, spec.y))
        self._sightings = _in_order(self._sightings, seen[np.isfinite(seen["x"]) & np.isfinite(seen["y"])])

    def _take_places(self, scene: Scene) -> None:
        """Add the objects of a scene that have moved since they were last seen, and those that have gone."""
        places = scene.places
        at = np.arange(len(places))
        if len(at) > MOST_TRACKED:
            shown = [drawn.members for drawn in scene.drawn]
            shown += [np.array([drawn.focal]) for drawn in scene.drawn if drawn.focal is not None]
            at = np.unique(np.concatenate([np.empty(0, np.int64), *shown]))[:MOST_TRACKED]
        numbers = self._numbers(places.keys.take(pa.array(at, pa.int64())))
        x, y = self._last_places()
        moved = (x[numbers] != places.x[at]) | (y[numbers] != places.y[at])
        found = np.empty(int(moved.sum()), _SIGHTING)
        found["step"], found["object"] = places.step, numbers[moved]
        found["x"], found["y"] = places.x[at][moved], places.y[at][moved]
        gone = np.empty(0, np.int64)
        if len(at) == places.there:
            gone = np.setdiff1d(np.flatnonzero(np.isfinite(x)), numbers)
        left = np.empty(len(gone), _SIGHTING)
        left["step"], left["object"], left["x"], left["y"] = places.step, gone, np.nan, np.nan
        self._sightings = _in_order(self._sightings, np.concatenate([found, left]))

    def _last_places(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the last place of each object by its number; NaN if unknown or if the object has gone."""
        count = 0 if self._keys is None else len(self._keys)
        x, y = np.full(count, np.nan), np.full(count, np.nan)
        x[self._sightings["object"]], y[self._sightings["object"]] = (
            self._sightings["x"],
            self._sightings["y"],
        )
        return x, y

    def _numbers(self, keys: pa.Array[Any]) -> NDArray[np.int64]:
        """Return the numbers of objects, int64 (n,); new ones get the next."""
        if self._keys is None:
            self._keys = keys.slice(0, 0)
        new = keys.filter(pc.invert(pc.is_in(keys, value_set=self._keys))).unique()
        self._keys = pa.concat_arrays([self._keys, new])
        found: Any = pc.index_in(keys, value_set=self._keys)
        numbers: NDArray[np.int64] = found.to_numpy().astype(np.int64)
        return numbers

    def _trim(self) -> None:
        """Fold the oldest sightings and changes into their result if there are too many."""
        if max(len(self._sightings), len(self._changes)) <= 2 * MOST_SIGHTINGS:
            return
        if len(self._sightings) > MOST_SIGHTINGS:
            old, new = self._sightings[:-MOST_SIGHTINGS], self._sightings[-MOST_SIGHTINGS:]
            last = _last_of_each(old, old["object"])
            self._sightings = np.concatenate([last[np.isfinite(last["x"])], new])
        if len(self._changes) > MOST_SIGHTINGS:
            old, new = self._changes[:-MOST_SIGHTINGS], self._changes[-MOST_SIGHTINGS:]
            last = _last_of_each(old, old["object"] * (int(old["query"].max()) + 1) + old["query"])
            self._changes = np.concatenate([last[last["op"] > 0], new])
        # Objects that nothing refers to any more are forgotten.
        used = np.union1d(self._sightings["object"], self._changes["object"])
        assert self._keys is not None, "what was seen has a key"
        self._keys = self._keys.take(pa.array(used))
        for rows in (self._sightings, self._changes):
            rows["object"] = np.searchsorted(used, rows["object"])


def _in_order(old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
    """Return rows sorted by step; within a step in order of arrival, but `-` before `+`."""
    rows = np.concatenate([old, new])
    if rows.dtype == _CHANGE:
        return rows[np.lexsort((rows["op"], rows["step"]))]
    return rows[np.argsort(rows["step"], kind="stable")]


def _last_of_each(rows: NDArray[Any], identity: NDArray[np.int64]) -> NDArray[Any]:
    """Return the last row of each identity, in their order."""
    # `np.unique` returns first occurrences, so search the reversed rows for last ones.
    _, first = np.unique(identity[::-1], return_index=True)
    return rows[np.sort(len(rows) - 1 - first)]


def _floats(column: pa.ChunkedArray[Any] | pa.Array[Any]) -> NDArray[np.float64]:
    numbers: Any = column.cast(pa.float64())
    plain = numbers.combine_chunks() if isinstance(column, pa.ChunkedArray) else numbers
    values: NDArray[np.float64] = plain.to_numpy(zero_copy_only=False)
    return values
