"""The indexes that a session chooses: an engine sends the choice to the slots with each batch."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class IndexChoice(Struct, frozen=True, omit_defaults=True):
    """The values of the settings `index.…`; they change the cost of records, never an answer.

    Attributes:
        queries: what finds the queries of a record: the trees of terms and the grid, or CH-trees.
        windows: what the groups of a window are computed from: its records, or the intervals of an MT-index.
    """

    queries: Literal["forest", "chtree"] = "forest"
    windows: Literal["records", "mtindex"] = "records"
