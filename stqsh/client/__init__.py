"""The client of a session: the Python API, and what statements do.

api             `stqsh.connect()` and `Session`
connection      the state that all parts of a client share
engine_process  start, check and stop the engine
results, run    the outcomes of statements
python          results, tails and streams for programs and notebooks
statements      the actions of statements
read            subscriptions, snapshots, projections, accuracy
show            the answers to SHOW
map             what a map shows
"""
