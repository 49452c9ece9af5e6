"""Record the batches in which an operator's slots took part, for operators that skip batches.

Aggregate runs only if there are partials, on their slots. So a batch's number does not determine which batch
a slot's state must follow; this file of the session's home does. The driver writes it before the slots' tasks
run, and keeps two batches of each slot, so that a repeated batch finds the one before.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from stqsh.checksums import DamagedFileError, with_seal, without_seal
from stqsh.engine.state.file_store import StaleBatchError, forget_after
from stqsh.fs import atomic_write

_ENDING = ".batches"


class Attendance:
    """The file of one operator, in the folder with its slots' state."""

    def __init__(self, state: Path, operator: str) -> None:
        self._path = state / f"{operator}{_ENDING}"
        self._operator = operator

    def enter(self, batch: int, slots: Iterable[int], *, begins: bool = False) -> dict[int, int]:
        """Record that slots take part in a batch; return each slot's previous batch, -1 for none.

        `begins`: whether the operator may not have run before, so that the file may not exist.

        Raises:
            DamagedFileError: the file is damaged.
            StaleBatchError: a slot has taken part in a later batch.
        """
        known = self._read(is_first=begins or batch == 0)
        before: dict[int, int] = {}
        for slot in slots:
            last, earlier = known.get(slot, (-1, -1))
            if last > batch:
                raise StaleBatchError(f"{self._operator}-{slot}", batch, last)
            before[slot] = earlier if last == batch else last
            known[slot] = (batch, before[slot])
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        atomic_write(self._path, with_seal(msgspec.json.encode(known)))
        return before

    def last(self, batch: int) -> dict[int, int]:
        """Return the last batch up to a given one of each slot that took part in any, by slot.

        Raises:
            DamagedFileError: the file is missing or damaged.
        """
        known = self._read(is_first=False)
        last = {slot: ends[0] if ends[0] <= batch else ends[1] for slot, ends in known.items()}
        return {slot: mine for slot, mine in last.items() if mine >= 0}

    def go_back(self, batch: int) -> None:
        """Discard the slots' state of batches after a given one, because those batches will be replaced.

        The slots come first: if this is interrupted, the file still lists them.
        """
        known = self._read(is_first=False)
        ahead = [slot for slot, (last, _) in known.items() if last > batch]
        for slot in ahead:
            forget_after(self._path.parent / f"{self._operator}-{slot}", batch)
            known[slot] = (known[slot][1], -1)
        if ahead:
            atomic_write(self._path, with_seal(msgspec.json.encode(known)))

    def _read(self, *, is_first: bool) -> dict[int, tuple[int, int]]:
        """Return the last two batches of each slot; the operator's first batch makes the file."""
        name = f"{self._path.parent.name}/{self._path.name}"
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            if is_first:
                return {}
            raise DamagedFileError(name, "is gone") from None
        return msgspec.json.decode(without_seal(content, name), type=dict[int, tuple[int, int]])


def forget_unplanned(state: Path, planned: int) -> None:
    """Roll back the slots of such operators to the last batch that Spark has planned, which is complete.

    After a power failure that plan may be older than the slots' state. The next batch is then a different
    one, in which other slots may take part, and the rest would continue from state that is no longer valid. A
    slot that takes part in every batch finds the previous state by itself.
    """
    for path in sorted(state.glob(f"*{_ENDING}")):
        Attendance(state, path.name.removesuffix(_ENDING)).go_back(planned)
