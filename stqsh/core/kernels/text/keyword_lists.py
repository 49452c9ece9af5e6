"""Keyword lists of a textual split, grown record by record (SSTD section 4.1.2).

This is a greedy assignment: each record goes to the child whose cost grows least. All of its terms are
then on the list of that child, or the child is child 0, which receives all queries. So a query for one of the
terms always reaches the record. The cost is the number of terms of all records, times the children.
"""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.jit import Float, Int, kernel


@kernel
def grow_lists(start: Array, term: Array, asked: Array, everyone: Int, children: Int, pair: Float) -> Array:
    """Assign each record to the child whose cost grows least, and add its terms to the list of that child.

    A child costs 1 for each of its records, and `pair` for each pair of such a record and a query of the
    child. Child 0 has no list and receives all queries. Every other child receives the queries that ask for a
    term on its list.

    Args:
        start: The start of each record's terms, int64 (records + 1,).
        term: The numbers of the terms, int64.
        asked: The number of queries that ask for each term, float64 (terms,).
        everyone: The number of queries.
        children: The number of children, at most 8.
        pair: The cost of a pair of a record and a query.

    Returns:
        The lists that contain each term, as bits; uint8 (terms,).
    """
    lists = np.zeros(len(asked), np.uint8)
    records, queries = np.zeros(children), np.zeros(children)
    queries[0] = everyone
    for i in range(len(start) - 1):
        best, least, brought = 0, 1 + pair * queries[0], 0.0
        for child in range(1, children):
            new = 0.0
            for at in range(start[i], start[i + 1]):
                if not lists[term[at]] >> child & 1:
                    new += asked[term[at]]
            growth = 1 + pair * (queries[child] + new) + pair * new * records[child]
            if growth < least:
                best, least, brought = child, growth, new
        if start[i] == start[i + 1]:
            continue
        records[best] += 1
        if best:
            queries[best] += brought
            for at in range(start[i], start[i + 1]):
                lists[term[at]] |= np.uint8(1 << best)
    return lists
