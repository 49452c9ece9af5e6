"""`stqsh bench routing`: what routing strategies and load adjusters bring, on the core in memory.

Slots of one event stream run one after the other in this process, without Spark, and the thread time of each
is measured. That shows how long a batch would take if each slot had a processor of its own. `maps` and
`world` make records and queries; `driven_slots` drives slots and sums up what they tell; `measuring` compares
routings; `baselines` has routings of other systems; `result` is the result of a figure; `figures` lists the
figures, and `run` measures them. Each of the other modules has one figure or two that belong together.
"""
