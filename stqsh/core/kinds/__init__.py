"""Query kinds, one module each. The table `KINDS` is the only place that names them all.

Adding one (CheetahGIS section VI-B breaks a query into the same steps: prune, compute per processor,
aggregate) takes a module with an object that has the methods of `stqsh.core.contract.query_kind.QueryKind`,
and an entry in the table. `REGISTER QUERY name WITH (kind => 'name') AS SELECT ...` then brings queries of
that kind in: their specs are those of the SELECT, with "kind" the name.

1. `step(batch, report)` is called for each stream and batch, on each slot of Evaluate, with queries or
   without. `batch.commands` has what came for the kind's queries: `registered` (specs), `dropped`, `paused`,
   `resumed` (ids; those of other kinds too: pass over what you do not know) and `stream_dropped`. It takes
   effect at `batch.timing.first`, before the records.
2. `batch.objects` is what the batch does to this slot's objects: `events` (who came, moved, went, at which
   step), `at(step)`, `arrivals(step)`, versions and their places; `batch.focal` the same for focal objects.
   `stqsh.core.matching.match` finds which queries with a region events concern, `Conditions` looks at WHERE.
3. A kind whose answers are made of each object by itself tells updates: `Teller` of `stqsh.core.output`,
   or `report.told` and `report.grown`. Its answers need no merging; that is all.
4. A kind whose answers need all slots offers candidates, through `Partials` of `stqsh.core.output`: `mark`
   what becomes of queries, `offer` each change of a candidate, and `report.chunks += partials.chunks()`.
   It also has `merge` (`protocol.Merging`), which Aggregate calls with what all slots offered. If answers are
   the first k by some rank, `merge` is `stqsh.core.output.merge.first_k`.
5. State is in named arrays beneath `s{stream id}/{kind}/`, in `batch.state`: they survive restarts and go
   with the stream. A `StateTable` declares which of its columns refer to objects, strings or terms.
   Everything else is a function of state and batch; `count` says how many queries there are.

The law (language.md) is the contract: after each step the folded updates are the answer, however a
run is cut into batches and objects are spread over slots. `tests/core/test_plugin_kind.py` plugs a kind in
and compares it with brute force.
"""

from __future__ import annotations

from stqsh.core.contract.query_kind import QueryKind
from stqsh.core.kinds import nearest, ranges

KINDS: dict[str, QueryKind] = {"range": ranges.RANGE, "nearest": nearest.NEAREST}
"""The kinds by the name that a query's spec gives in "kind"."""
