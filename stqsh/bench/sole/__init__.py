"""`stqsh bench sole`: the figures of SOLE section 7, on the core in memory, with the paper's words beside.

One slot folds the records of the network generator, without Spark, so that counts depend on nothing but the
options; only times depend on the machine. `world` makes objects, records and queries; `slot` drives the core;
`result` is what a figure comes to, `drawing` its picture, `catalogue` which figures there are and `run` makes
them. The other modules hold a figure or a few that belong together.
"""
