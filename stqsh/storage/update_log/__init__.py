"""The update log: the updates that each batch delivered, in one Arrow IPC file of chunks for each batch.

Deliver writes `updates/%012d.arrow` under another name and renames it. A reader therefore sees a complete
file or none, and a repeated batch replaces its own file by the same content. A step never spans two batches.
Large payloads may be in separate files (`stqsh.spec.payload_refs`), which are in place before the batch's
file. Writing and reading work on whole columns; Python code touches no single rows.

Updates older than the session keeps are folded (`stqsh.storage.update_log.compaction`) into the base,
`base-%012d.arrow`, which holds the updates that make up the answers after the batch of that number. The
batches up to that one are deleted. Tables of control.db list the base and the batches that have a file, with
their checksums (`stqsh.storage.update_log.files`); the checksums of payloads are in the references to them.
"""
