"""The figures of SOLE section 7, on the core in memory, beside those of the paper.

One slot takes in the records of the network generator, without Spark, so that counts depend on the options
alone; only times depend on the machine. `town` makes objects, records and queries; `slot_driver` drives the
core; `figure_run` holds what the figures of a run share. Each of the other modules has one figure or a few
that belong together.
"""
