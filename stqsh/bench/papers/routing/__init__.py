"""What figures about routing share, and our own ones: the core in memory under one routing and another.

Slots of one event stream run one after the other in this process, without Spark, and the thread time of each
is measured. That shows how long a batch would take if each slot had a processor of its own. `maps` and
`world` make records and queries; `driven_slots` drives slots and sums up what they send; `trials` compares
routings; `baselines` has routings of other systems. Each of the other modules has one figure.
"""
