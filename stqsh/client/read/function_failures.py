"""Functions of the user that fail while values are computed for a client."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from stqsh.core.conditions.user_functions import FAILURE, take_failures
from stqsh.errors import StqshError


class FunctionError(StqshError):
    """A function that a user has registered fails, or gives something else than it should."""


def check_functions() -> None:
    """Raise `FunctionError` if a function has failed in this thread since the last look."""
    failed = take_failures()
    if failed.times:
        raise FunctionError(_told(failed.text))


def check_shares(shares: Iterable[pa.RecordBatch]) -> None:
    """Raise `FunctionError` if a function has failed in a slot's share of a snapshot."""
    for share in shares:
        reason = (share.schema.metadata or {}).get(FAILURE)
        if reason is not None:
            raise FunctionError(_told(reason.decode()))


def _told(reason: str) -> str:
    return f"a registered function fails: {reason}"
