"""Changed rows of members that stay in merged answers, for queries WITH (changes => true)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.output.batch_output import QueryUpdates
from stqsh.spec.chunk import WHY

CHANGED = WHY.index("changed")


class KeyedChanges(NamedTuple):
    """Candidates, or members of answers, that come and leave; (n,) each.

    Attributes:
        query: The queries, as ids or as positions.
        key: The number of the record's key.
        step: int64.
        op: 1 if it comes or has a new record, -1 if it leaves, int8.
        version: The record.
    """

    query: Array
    key: Array
    step: Array
    op: Array
    version: Array

    def codes(self, keys: int) -> Array:
        """Return query and key as one number each; `keys` is greater than the numbers of all keys."""
        codes: Array = self.query.astype(np.int64) * keys + self.key
        return codes


class RenewedRows(NamedTuple):
    """Members with new records that stay in answers, (n,) each: queries, steps, and both versions."""

    query: Array
    step: Array
    old: Array
    new: Array

    def changed(self, selected: Array, anyway: Array | bool = False) -> RenewedRows:
        """Return the rows whose selected values differ, and rows marked in `anyway`, bool (n,).

        `selected` has a number for the selected values of each version, -1 for none.
        """
        old, new = selected[self.old], selected[self.new]
        differs = ((old >= 0) & (new >= 0) & (old != new)) | anyway
        return RenewedRows(*(column[differs] for column in self))

    def updates(self) -> QueryUpdates:
        """Return `-` with each old row, and `+` with each new one."""
        count = len(self.step)
        op = np.repeat(np.array([-1, 1], np.int8), count)
        why = np.repeat(np.array([CHANGED, 0], np.int8), count)
        show = np.concatenate([self.old, self.new]).astype(np.int64)
        return QueryUpdates(np.tile(self.step, 2), np.tile(self.query, 2), op, why, show)


def renewed_rows(
    candidates: KeyedChanges, sent: Array, turns: KeyedChanges, *, crossing: bool
) -> RenewedRows:
    """Return the members that stay in answers with new records.

    Idea: sort candidates by query, key and step; two neighbours are the old and the new record of a member.
    The member stays if its last turn before the step was a coming, or it was sent before the batch and has
    not turned, and if it does not turn in the step. Cost: one sort each of candidates and turns.

    Args:
        candidates: The candidates from before the batch, at a step before it, and those of the batch.
        sent: Whether candidates were in the answers before the batch, bool.
        turns: The members that enter and leave answers, in the order of steps.
        crossing: Whether a removal and a candidate of one key in one step mean one object on two slots.
    """
    keys = int(max(candidates.key.max(initial=0), turns.key.max(initial=0))) + 1
    codes = candidates.codes(keys)
    order = np.lexsort((candidates.op, candidates.step, codes))
    if crossing:
        step, op = candidates.step[order], candidates.op[order]
        again = np.append(
            (step[1:] == step[:-1]) & (codes[order][1:] == codes[order][:-1]) & (op[1:] > 0), False
        )
        order = order[~(again & (op < 0))]
    old, new = order[:-1], order[1:]
    pair = (codes[old] == codes[new]) & (candidates.op[old] > 0) & (candidates.op[new] > 0)
    old, new = old[pair], new[pair]
    stays = _stay(codes[new], candidates.step[new], codes[sent], turns, turns.codes(keys))
    old, new = old[stays], new[stays]
    return RenewedRows(
        candidates.query[new], candidates.step[new], candidates.version[old], candidates.version[new]
    )


def _stay(codes: Array, steps: Array, sent: Array, turns: KeyedChanges, turned: Array) -> Array:
    """Return whether members are in answers both before and after steps, without a turn; bool (n,)."""
    base = int(min(steps.min(initial=0), turns.step.min(initial=0)))
    span = int(max(steps.max(initial=0), turns.step.max(initial=0))) - base + 1
    order = np.argsort(turned * span + turns.step - base, kind="stable")
    when, op = (turned * span + turns.step - base)[order], turns.op[order]
    sought = codes * span + steps - base
    at = np.searchsorted(when, sought)
    if not len(when):
        return np.isin(codes, sent)
    turns_now = when[np.minimum(at, len(when) - 1)] == sought
    turns_now &= at < len(when)
    has_turned = (at > 0) & (turned[order][at - 1] == codes)
    stays: Array = np.where(has_turned, op[at - 1] > 0, np.isin(codes, sent)) & ~turns_now
    return stays
