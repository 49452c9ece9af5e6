"""Routing: which slots get a record or a query.

A routing table (`table`) is data: strategies make one from the load of cells, and load adjusters change it.
"""

VERSION = 5
"""The version of how tables deal records. Logs of slots name it beside the records that they refer to."""
UNSIFTED = 4
"""The version that records have which all go to their slots, see `stqsh.engine.ingest.record_sieve`."""
UNDEALT = 3
"""The version that the records of streams have without a dealer, see `stqsh.engine.ingest.dealer`."""
UNCOPIED = 2
"""The version that the records of streams have without a copy by key, see `stqsh.core.keyed_copy`."""
UNCROSSED = 1
"""The version that the records of streams have whose objects do not cross, which older versions know too."""
