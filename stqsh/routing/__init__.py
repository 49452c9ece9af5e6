"""Routing: assign records and queries to slots.

A routing table (`table`) is data: strategies create one from the load of cells, and load adjusters change it.
"""

VERSION = 5
"""The version of the dealing of records by tables. Slot logs store it with their references to records."""
UNSIFTED = 4
"""The version for records that are all sent to their slots, see `stqsh.engine.ingest.record_sieve`."""
UNDEALT = 3
"""The version for records of streams without a dealer, see `stqsh.engine.ingest.dealer`."""
UNCOPIED = 2
"""The version for records of streams without a copy by key, see `stqsh.core.keyed_copy`."""
UNCROSSED = 1
"""The version for records of streams whose objects do not cross, which older versions also support."""
