"""Continuous aggregates of STAR section 5, on arrays: indexes of queries, and ways to keep up their results.

An index finds the queries that a record satisfies, and an upkeep counts the record in their results, and
answers them when they are due. All indexes find the same, so the two are timed one by one.

`questions` draws the queries and `posted` makes the records, as the arrays of `tables`. `standing` is what
indexes have in common: `peers` has OpIndex and RP-trees, `ch_tree` and `forest` have those of the core; the
kernels are in `probes`. `upkeep` keeps up results with the kernels of `tallies`. `timing`
times both, `throughput` has the figures, and `slot` the same queries on a slot of stqsh. `chosen` and
`windowed` compare what a session may choose for a slot.
"""
