"""Focal objects that no query follows any more are forgotten: their records do not come to all slots again.

Until a query is dropped, its focal object's records go to every slot, also when its FOR has passed. What a
slot knows of a focal object after that would be out of date when the next query follows it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stqsh.core.contract.query_kind import StreamBatch

Array = npt.NDArray[Any]


def forget_focals(batch: StreamBatch) -> None:
    """Take a batch's commands in, when the table of focal objects holds the state after them.

    Arrays beneath `s{id}/interest/`: follower int64, the ids of queries that have not been dropped, and
    followed int32, their focal objects; (n,) each.
    """
    commands, state, table = batch.commands, batch.state, batch.focal.table
    if not len(commands.registered) and not commands.dropped:
        return
    names = [f"s{batch.spec.id}/interest/{name}" for name in ("follower", "followed")]
    for name, kind in zip(names, (np.int64, np.int32), strict=True):
        if name not in state:
            state.create(name, kind)
    rows, keys = commands.registered.moving(table.key_type)
    state.append(names[0], commands.registered.ids[rows])
    state.append(names[1], table.keys.find(keys))
    stays = ~np.isin(state.array(names[0]), list(commands.dropped))
    for name in names:
        state.replace(name, state.array(name)[stays])
    lost = np.ones(len(table), np.bool_)
    lost[state.array(names[1])] = False
    table.stored.known[lost] = False
