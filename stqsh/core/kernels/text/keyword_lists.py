"""Keyword lists of a textual split, grown record by record (SSTD section 4.1.2)."""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.jit import Float, Int, kernel


@kernel
def grow_lists(start: Array, term: Array, asked: Array, everyone: Int, children: Int, pair: Float) -> Array:
    """Assign each record to the child whose cost grows least, and put its terms on the list of that child.

    A child costs 1 for each of its records, and `pair` for each of these and each query that it gets. Child 0
    has no list and gets all queries; another gets those that ask for a term on its list.

    Args:
        start: int64 (records + 1,), where the terms of each begin.
        term: int64, the numbers of the terms.
        asked: float64 (terms,), how many queries ask for each term.
        everyone: how many queries there are.
        children: how many children there are, at most 8.
        pair: the cost of a record and a query.

    Returns:
        uint8 (terms,), the lists that each term is on, as bits.
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
