"""The client of a session: the Python API, and what statements do.

api             `stqsh.connect()` and `Session`
connection      what every part of a client shares
engine_process  start, check and stop the engine
results, run    what statements answer
python          results, tails and streams for programs and notebooks
statements      the actions of statements
read            subscriptions, snapshots, projections, accuracy
show            the answers to SHOW
map             what a map shows
"""
