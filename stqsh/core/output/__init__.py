"""The encoding of updates as chunks, and the merging of the slots' partial answers."""
