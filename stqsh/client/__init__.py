"""A session: its home, its two logs, its engine process, and the client that talks to them.

home       the directory of a session
control    control.db: the control log and its bookkeeping
records    the rows of control.db as values
delivery   what the engine writes back: progress, sizes, found records, stream status
catalogue  streams and queries as they stand, for binding, completion and SHOW
changes    statements that change log and catalogue in one transaction
updates    the update log: one Arrow file a batch, read vectorised
process    the engine process: start, attach, liveness, stop
results    what a statement answers
client     `stqsh.connect()`
"""
