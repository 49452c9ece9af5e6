"""Searches in the graph of a town's roads: its largest connected part, and the quickest ways."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array  # type: ignore[import-untyped]
from scipy.sparse.csgraph import connected_components, dijkstra  # type: ignore[import-untyped]

from stqsh.arrays import Floats

Ints = NDArray[np.int32]


def largest_part(
    x: Floats, y: Floats, ends: NDArray[np.int64], kind: NDArray[np.int8]
) -> tuple[Floats, Floats, NDArray[np.int64], NDArray[np.int8]]:
    """Keep the connected crossings, and renumber them."""
    graph = csr_array((np.ones(ends.shape[1]), (ends[0], ends[1])), shape=(len(x), len(x)))
    part = connected_components(graph, directed=False)[1]
    kept = part == np.argmax(np.bincount(part))
    number = np.cumsum(kept) - 1
    inside = kept[ends[0]]
    return x[kept], y[kept], number[ends[:, inside]], kind[inside]


def next_edges(source: Ints, target: Ints, seconds: Floats, nodes: int) -> Ints:
    """Find the first edge of the quickest way for each destination and crossing (Dijkstra)."""
    graph = csr_array((seconds, (source, target)), shape=(nodes, nodes))
    # Roads are as quick both ways: what comes before v on the way from d comes after v on the way to d.
    following = dijkstra(graph, directed=True, return_predecessors=True)[1].astype(np.int64)
    codes = source.astype(np.int64) * nodes + target
    order = np.argsort(codes)
    wanted = np.arange(nodes)[None, :] * nodes + following
    edge: Ints = order[np.minimum(np.searchsorted(codes[order], wanted), len(order) - 1)].astype(np.int32)
    edge[following < 0] = -1
    return edge
