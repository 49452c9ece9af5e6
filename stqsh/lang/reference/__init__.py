"""The reference of the language: the registry of statements that HELP and completion use.

Tests check that it contains every statement of the grammar, and run all examples on the sample data in the
order of `IN_ORDER`, except INSERT INTO, which needs a live stream.
"""

from __future__ import annotations

from stqsh.lang.reference.administration import ADMINISTRATION, OUTPUT_TOPICS
from stqsh.lang.reference.definitions import ALERTS, DEFINITIONS, DROPS, FUNCTIONS, INSERTS, SINKS, VIEWS
from stqsh.lang.reference.entry import OPTIONS, ReferenceEntry
from stqsh.lang.reference.queries import CONTINUOUS, QUERIES, TOPICS
from stqsh.lang.reference.running import RUNNING

__all__ = ["ALL", "IN_ORDER", "OPTIONS", "PARTS", "STATEMENTS", "ReferenceEntry"]

STATEMENTS: tuple[ReferenceEntry, ...] = (
    *DEFINITIONS,
    *FUNCTIONS,
    *VIEWS,
    *SINKS,
    *ALERTS,
    *INSERTS,
    *DROPS,
    *CONTINUOUS,
    *QUERIES,
    *RUNNING,
    *ADMINISTRATION,
)
"""Every statement, in the order in which HELP lists them."""

PARTS: tuple[ReferenceEntry, ...] = (*TOPICS, *OUTPUT_TOPICS)
"""Parts of statements that have entries of their own."""

ALL: tuple[ReferenceEntry, ...] = (*STATEMENTS, *PARTS)
"""Every entry."""

IN_ORDER: tuple[ReferenceEntry, ...] = (
    *DEFINITIONS,
    *FUNCTIONS,
    *VIEWS,
    *CONTINUOUS,
    *SINKS,
    *ALERTS,
    *INSERTS,
    *RUNNING,
    *QUERIES,
    *PARTS,
    *ADMINISTRATION,
    *DROPS,
)
"""Every entry, in an order in which all examples can run as one script."""
