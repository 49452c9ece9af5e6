"""The indexes that a session chooses: an engine sends the choice to the slots with each batch."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

TREE_QUERIES = 1_000_000
"""The most queries of a CH-tree by default. The paper's trees have 1,000."""


class IndexChoice(Struct, frozen=True, omit_defaults=True):
    """The values of the settings `index.…`; they change the cost of records, never an answer.

    Attributes:
        queries: what finds the queries of a record: the trees of terms and the grid, CH-trees, or either,
            as suits each query.
        tree_queries: the most queries of a CH-tree.
        windows: what the groups of a window are computed from: its records, or the intervals of an MT-index.
    """

    queries: Literal["auto", "forest", "chtree"] = "auto"
    tree_queries: int = TREE_QUERIES
    windows: Literal["records", "mtindex"] = "records"
