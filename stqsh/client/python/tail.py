"""The result of `Session.tail`: the updates of one query as they arrive, one by one, as Python values."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from stqsh.client.python.tables import HEAD, update_table
from stqsh.client.read.subscription import Subscription, TailOptions
from stqsh.client.results import Updates
from stqsh.errors import StqshError
from stqsh.lang.printer.values import identifier

if TYPE_CHECKING:
    from stqsh.client.api import Session

_SIGNS: dict[str, Literal[1, -1]] = {"+": 1, "-": -1}


@dataclass(frozen=True, slots=True)
class Update:
    """One update of a query.

    Attributes:
        query: the query's name.
        step: the step in which the answer changed.
        at: the step's time, in UTC.
        op: `+` if the row entered the answer, `-` if it left.
        key: the row's identity: the object's key, or the values of GROUP BY as a tuple.
        row: the select list.
        why: why a row left, such as `left` or `overtaken`; None for `+`.
        is_snapshot: whether the row is part of the answer with which the tail began, rather than a change.
    """

    query: str
    step: int
    at: datetime
    op: Literal["+", "-"]
    key: Any
    row: dict[str, Any]
    why: str | None = None
    is_snapshot: bool = False


@dataclass
class Tail:
    """The updates of one query: `for update in tail`, or `async for update in tail`.

    Each loop starts again, with the current answer unless the tail was created with another start. It ends
    when the query does, after `limit` updates, or, in a session that does not play, when no step is due.
    Remarks, for example that answers are not exact, are issued as warnings.

    >>> [update] = session.tail("near", from_start=True, limit=1)
    >>> update.op, update.key, update.row, update.why
    ('+', 'taxi-000', {'oid': 'taxi-000'}, None)
    """

    subscription: Subscription = field(repr=False)

    @property
    def query(self) -> str:
        """The query's name."""
        return self.subscription.query.name

    def __iter__(self) -> Iterator[Update]:
        with closing(self._loop()) as loop:
            for block in _blocks(loop):
                yield from block

    async def __aiter__(self) -> AsyncIterator[Update]:
        # A thread does the waiting, so that the program's other tasks continue.
        loop, running = self._loop(), asyncio.get_running_loop()
        blocks = _blocks(loop)
        with ThreadPoolExecutor(1, "stqsh-tail") as waiting:
            try:
                while block := await running.run_in_executor(waiting, next, blocks, None):
                    for update in block:
                        yield update
            finally:
                loop.close()  # the thread ends at its next check

    def tables(self) -> Iterator[pa.Table]:
        """Yield the updates as Arrow tables as they arrive: `HEAD`, then the select list."""
        with closing(self._loop()) as loop:
            for updates in loop:
                if isinstance(updates, Updates):
                    yield update_table(updates, loop.query)

    def _loop(self) -> Subscription:
        loop = replace(self.subscription)
        loop.on_notice = lambda text: warnings.warn(text, stacklevel=2)
        return loop


@dataclass(frozen=True, slots=True)
class TailWish:
    """Where a tail begins and what it shows, see `Session.tail`."""

    from_start: bool = False
    only: Literal["+", "-"] | None = None
    where: str | None = None
    limit: int | None = None


def tail(session: Session, query: str, wish: TailWish) -> Tail:
    """Return the tail of a named query, or of a SELECT, which is registered while it is followed."""
    words = query.split(maxsplit=1)
    if len(words) > 1 and words[0].upper() == "SELECT":
        if wish.where is not None or wish.from_start:
            raise StqshError("where and from_start are for registered queries", hint="give the name of one")
        followed = _followed(session, f"SUBSCRIBE {query}")
        only: Literal[1, -1] | None = None if wish.only is None else _SIGNS[wish.only]
        followed.options = TailOptions(only=only, limit=wish.limit)
        return Tail(followed)
    parts = (
        f"TAIL {identifier(query)}",
        wish.from_start and "FROM START",
        wish.only and f"ONLY {wish.only}",
        wish.where and f"WHERE {wish.where}",
        wish.limit is not None and f"LIMIT {wish.limit}",
    )
    return Tail(_followed(session, " ".join(part for part in parts if part)))


def _followed(session: Session, text: str) -> Subscription:
    *_, found = session.execute(f"{text.rstrip().removesuffix(';')};")
    assert isinstance(found, Subscription), "TAIL and SUBSCRIBE answer with nothing else"
    return found


def _blocks(loop: Subscription) -> Iterator[list[Update]]:
    for updates in loop:
        if isinstance(updates, Updates):
            yield in_words(update_table(updates, loop.query), is_snapshot=updates.snapshot)


def in_words(table: pa.Table, *, is_snapshot: bool = False) -> list[Update]:
    """Return the rows of a table that `update_table` made, as Python values."""
    columns: list[list[Any]] = [column.to_pylist() for column in table.itercolumns()]
    queries, steps, times, ops, keys, reasons = columns[: len(HEAD)]
    if pa.types.is_struct(table.column("key").type):
        keys = [tuple(key.values()) for key in keys]
    names = [name.removeprefix("row.") for name in table.column_names[len(HEAD) :]]
    values = zip(*columns[len(HEAD) :], strict=True) if names else [()] * table.num_rows
    rows = [dict(zip(names, row, strict=True)) for row in values]
    flags = [is_snapshot] * table.num_rows
    return list(map(Update, queries, steps, times, ops, keys, rows, reasons, flags))
