"""The manual: the one registry of statements that HELP shows, completion offers and the tests hold to life.

A test holds that each statement of the grammar is here, another runs all examples on the sample data, in the
order of `IN_ORDER`.
"""

from __future__ import annotations

from stqsh.lang.reference.administration import ADMINISTRATION, OUTPUT_TOPICS
from stqsh.lang.reference.definitions import DEFINITIONS, DROPS
from stqsh.lang.reference.entry import ReferenceEntry
from stqsh.lang.reference.options import OPTIONS
from stqsh.lang.reference.queries import CONTINUOUS, QUERIES, TOPICS
from stqsh.lang.reference.running import RUNNING

__all__ = ["ALL", "IN_ORDER", "OPTIONS", "PARTS", "STATEMENTS", "ReferenceEntry"]

STATEMENTS: tuple[ReferenceEntry, ...] = (
    *DEFINITIONS,
    *DROPS,
    *CONTINUOUS,
    *QUERIES,
    *RUNNING,
    *ADMINISTRATION,
)
"""Every statement, in the order in which HELP lists them."""

PARTS: tuple[ReferenceEntry, ...] = (*TOPICS, *OUTPUT_TOPICS)
"""Parts of statements that have an entry of their own."""

ALL: tuple[ReferenceEntry, ...] = (*STATEMENTS, *PARTS)
"""All that HELP knows."""

IN_ORDER: tuple[ReferenceEntry, ...] = (
    *DEFINITIONS,
    *CONTINUOUS,
    *RUNNING,
    *QUERIES,
    *PARTS,
    *ADMINISTRATION,
    *DROPS,
)
"""The same in an order in which the examples run as one script: what is asked about has been made before."""
