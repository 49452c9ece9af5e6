"""The batches in which an operator's slots took part, where it does not run in each of them.

Aggregate runs where there are partials, on the slots to which they go. So a batch's number does not say which
batch a slot's state must come after; this file of the session's home does. The driver writes it before the
slots' tasks run, and keeps two batches of each slot: one that Spark repeats finds the one before.
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
    """The file of one operator, in the folder in which its slots keep their state."""

    def __init__(self, state: Path, operator: str) -> None:
        self._path = state / f"{operator}{_ENDING}"
        self._operator = operator

    def enter(self, batch: int, slots: Iterable[int], *, begins: bool = False) -> dict[int, int]:
        """Note that slots take part in a batch; return the batch before it of each, -1 for none.

        `begins` says that the operator may not have run before, so that there may be no file yet.

        Raises:
            DamagedFileError: the file is not what was written.
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
        """Return the last batch of each slot up to a batch, by slot, of those that took part in one.

        Raises:
            DamagedFileError: the file is gone, or not what was written.
        """
        known = self._read(is_first=False)
        last = {slot: ends[0] if ends[0] <= batch else ends[1] for slot, ends in known.items()}
        return {slot: mine for slot, mine in last.items() if mine >= 0}

    def go_back(self, batch: int) -> None:
        """Let slots forget what they have stored of batches after one, which will be other batches.

        The slots go first: where this ends halfway, the file still says which they are.
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
    """Let the slots of such operators go back to the last batch of which Spark has a plan, which is complete.

    After a power failure that plan may be older than what slots have stored. The next batch then is another
    one, in which other slots may take part, and those that do not would go on from what never was. A slot
    that takes part in every batch finds the state before by itself.
    """
    for path in sorted(state.glob(f"*{_ENDING}")):
        Attendance(state, path.name.removesuffix(_ENDING)).go_back(planned)
