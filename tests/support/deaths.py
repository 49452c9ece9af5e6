"""Deaths within a batch: a fold of a slot dies, all that is not kept is lost, and the batch is done again."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

from hypothesis import strategies as st

from stqsh.engine.operators import local_operators
from stqsh.engine.operators.slot_task import fold_slot, read_slot


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


deaths = st.builds(Death, st.integers(0, 20), st.booleans(), st.booleans())
"""Where a batch dies."""


class KilledError(Exception):
    """A task died."""


@contextmanager
def dying(death: Death) -> Iterator[None]:
    """Let one of the folds that begin in this context die, whoever reads what they fold."""
    numbers = itertools.count()

    def mortal(fold: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            if next(numbers) != death.fold:
                return fold(*given)
            if death.is_kept:
                fold(*given)
            raise KilledError

        return run

    with (
        mock.patch.object(local_operators, "fold_slot", mortal(fold_slot)),
        mock.patch.object(local_operators, "read_slot", mortal(read_slot)),
    ):
        yield
