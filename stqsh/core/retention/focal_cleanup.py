"""Forget focal objects that no query follows any more, as not all slots receive their records again.

Until a query is dropped, its focal object's records go to every slot, even after its FOR has ended.
Afterwards, a slot's record of the focal object would be out of date when the next query follows it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.state.table import ArraySpec, StateTable

Array = npt.NDArray[Any]


class _FollowedObjects(StateTable):
    """The focal objects of the queries that have not been dropped."""

    follower = ArraySpec(np.int64)  # id of the query
    followed = ArraySpec(np.int32)  # its focal object


def forget_focals(batch: StreamBatch) -> None:
    """Apply a batch's commands, once the table of focal objects holds the state after them."""
    commands, state, table = batch.commands, batch.state, batch.focal.table
    if not len(commands.registered) and not commands.dropped:
        return
    follows = _FollowedObjects(state, f"s{batch.spec.id}/interest")
    rows, keys = commands.registered.moving(table.key_type)
    follows.append(follower=commands.registered.ids[rows], followed=table.keys.find(keys))
    follows.keep(~np.isin(follows.follower, list(commands.dropped)))
    lost = np.ones(len(table), np.bool_)
    lost[follows.followed] = False
    table.stored.known[lost] = False
