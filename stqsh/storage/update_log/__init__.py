"""The update log: the updates that each batch delivered, one Arrow IPC file of chunks a batch.

Deliver writes `updates/%012d.arrow` under another name and renames it, so that a reader sees a whole
file or none, and a repeated batch replaces its own file by the same content. A step never spans two batches.
Large payloads may be in files of their own beside it (`stqsh.spec.payload_refs`), which are in place
before it is. Writing and reading work on whole columns; no row is touched in Python.

Older updates than the session keeps are folded (`stqsh.storage.update_log.compaction`) into the base,
`base-%012d.arrow`, which holds the updates that make the answers after the batch of that number. The batches
up to it are deleted. Tables of control.db list the base and the batches that have a file, with their
checksums (`stqsh.storage.update_log.files`); the checksums of payloads are in the references to them.
"""
