"""Deaths within a batch: a fold of a slot dies, all that is not kept is lost, and the batch is done again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

from stqsh.engine.operators import local_operators
from stqsh.engine.operators.slot_task import fold_slot


class Death(NamedTuple):
    """Where a batch dies.

    Attributes:
        fold: the number of the fold, counted over all operators and slots of the batch.
        is_kept: whether the fold's slot is kept before it dies.
        arena: whether the shared memory is lost as well.
    """

    fold: int
    is_kept: bool
    arena: bool


class KilledError(Exception):
    """A task died."""


@contextmanager
def dying(death: Death) -> Iterator[None]:
    """Let one of the folds that begin in this context die."""
    begun = 0

    def fold(*given: Any) -> Any:
        nonlocal begun
        begun += 1
        if begun - 1 != death.fold:
            return fold_slot(*given)
        if death.is_kept:
            fold_slot(*given)
        raise KilledError

    with mock.patch.object(local_operators, "fold_slot", fold):
        yield
