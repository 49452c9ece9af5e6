"""Retention in one piece of a batch: decide which objects stay, and remove the others."""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array
from stqsh.core.base.clock import NEVER
from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.kernels.events.transitions import Transitions, places_after, remove_objects
from stqsh.core.objects.batch_objects import BatchObjects, Removals, joined
from stqsh.core.retention.interest_counts import InterestTracker, remove_from_index, set_roles
from stqsh.core.retention.object_retention import decide, forget
from stqsh.core.retention.object_shedding import shed
from stqsh.core.retention.step_runs import evaluate_run, is_run
from stqsh.core.state.retention_mode import memory_of
from stqsh.core.state.table import ArraySpec, StateTable


def take_out(batch: StreamBatch) -> Array | None:
    """Remove the objects that do not stay from the batch, before the query kinds process it.

    The piece is evaluated in one of two ways: by one `evaluate_run`; or by reference counts
    (`InterestTracker.follow`), the decision from counts, `shed`, and the removal, in this order.

    Returns:
        The objects that stay after the last step, bool (objects,). For a stream that retains all objects or
        is dropped, and for a piece without steps, nothing changes and the result is None.
    """
    timing = batch.timing
    if not batch.spec.is_significant or batch.commands.stream_dropped or timing.last < timing.first:
        return None
    memory = memory_of(batch.state, batch.spec.id)
    interest = InterestTracker(batch, memory)
    if is_run(batch):
        kept = evaluate_run(batch, interest)
        set_roles(interest, interest.focals())
        return kept
    interest.follow()
    decision = shed(batch, interest, decide(batch, interest), memory)
    set_roles(interest, decision.focal)
    remove_from_index(interest, np.flatnonzero(decision.why).astype(np.int32))
    _remove(batch.objects, decision.why)
    return decision.kept


def _remove(objects: BatchObjects, why: Array) -> None:
    """Remove objects in the last step, from their current places; afterwards they are not present.

    `why`, int8 (objects,), is a position in `stqsh.spec.chunk.WHY` for removed objects, which must all be
    present after the last step, and 0 for the others.
    """
    out = np.flatnonzero(why).astype(np.int32)
    if not len(out):
        return
    last = objects.timing.last
    nx, ny, acted = remove_objects(objects.events, why, last)
    steps = np.full(len(out), last)
    versions = objects.versions_after(out, steps)
    idle = np.flatnonzero(~acted[out])  # these objects have not moved in the step
    x, y = places_after(versions[idle], steps[idle], *objects.sources, objects.timing.unending)
    nowhere = np.full(len(idle), np.nan)
    silent = Transitions(steps[idle], out[idle], versions[idle], versions[idle], x, y, nowhere, nowhere)
    since = np.full(objects.versions, NEVER)
    since[versions] = last
    events = joined(objects.events._replace(nx=nx, ny=ny), silent)
    objects.set_course(objects.accepted, events, Removals(since, why))


def close(batch: StreamBatch, kept: Array | None) -> None:
    """Forget the objects that did not stay, once the tables hold the state after the piece."""
    if kept is not None:
        forget(batch, kept)
        forget_focals(batch)


class _FollowedObjects(StateTable):
    """The focal objects of the queries that have not been dropped."""

    follower = ArraySpec(np.int64)  # id of the query
    followed = ArraySpec(np.int32)  # its focal object


def forget_focals(batch: StreamBatch) -> None:
    """Forget focal objects that no query follows any more: not all slots receive their further records.

    Until a query is dropped, its focal object's records are sent to every slot, even after its FOR has ended.
    Afterwards, a slot's record of the focal object would be out of date when the next query follows the
    object. The table of focal objects must hold the state after the batch's commands.
    """
    commands, state, table = batch.commands, batch.state, batch.focal.table
    if not len(commands.registered) and not commands.dropped:
        return
    follows = _FollowedObjects(state, f"s{batch.spec.id}/interest")
    rows, keys = commands.registered.focal_objects(table.key_type)
    follows.append(follower=commands.registered.ids[rows], followed=table.keys.find(keys))
    follows.keep(~np.isin(follows.follower, list(commands.dropped)))
    lost = np.ones(len(table), np.bool_)
    lost[follows.followed] = False
    table.stored.known[lost] = False
