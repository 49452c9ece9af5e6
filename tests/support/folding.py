"""The updates of a script as a table, and what they fold to; for runs of millions of updates."""

from __future__ import annotations

from typing import Any

import pandas as pd

from stqsh.client.api import Session
from stqsh.client.run import RunHandle


def told(session: Session, script: str) -> pd.DataFrame:
    """All updates of a script in order: at_us, query (its name), op (+1 or -1), key."""
    tables = []
    for outcome in session.outcomes(script):
        if isinstance(outcome, RunHandle):
            for updates in session.updates(until=outcome):
                names = {query_id: query.name for query_id, query in updates.queries.items()}
                table = updates.table.select(["at_us", "query", "op", "key"]).to_pandas()
                tables.append(table.assign(query=table["query"].map(names)))
    return pd.concat(tables, ignore_index=True)


def fold(log: pd.DataFrame) -> dict[str, set[Any]]:
    """Who is in which answer after these updates; each pair's updates must take turns."""
    pairs = log.groupby(["query", "key"], sort=False)["op"].agg(["sum", "last"])
    assert set(pairs["sum"]) <= {0, 1}
    held: dict[str, set[Any]] = {}
    for query, key in pairs.index[pairs["last"] == 1]:
        held.setdefault(query, set()).add(key)
    return held
