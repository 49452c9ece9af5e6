"""The manual of administration and output."""

from __future__ import annotations

from stqsh.lang.reference.entry import ReferenceEntry

_CHEAP = "Nothing to speak of."

ADMINISTRATION = (
    ReferenceEntry(
        "SHOW",
        """SHOW STATUS | STREAMS | QUERIES | TABLES | REGIONS | SLOTS | ROUTING | CACHE | LOAD
   | DEAD LETTERS | SETTINGS [FORMAT x]""",
        "List what the session holds, or how it is doing.",
        "SHOW QUERIES",
        _CHEAP,
    ),
    ReferenceEntry(
        "SHOW STATUS",
        "SHOW STATUS [FORMAT x]",
        "Show session, engine, clock, how far behind it is, and where the last batch's time went.",
        "SHOW STATUS",
        _CHEAP,
        """lag: how long ago the last step was due by the wall clock (a stream that plays at a pace). behind:
records that are due and not taken, and how many batches they make. records a batch: so many a batch takes of
what waits; it follows what batches cost, at about 2 s each, up to engine.max_records_per_batch. time: source
(read and dealt out), transfer (Spark: tasks, shuffles, bytes), kernel (queries), state, deliver (the update
log).""",
    ),
    ReferenceEntry(
        "SHOW LOAD",
        "SHOW LOAD [FORMAT x]",
        "Show what streams that RETAIN SIGNIFICANT hold: budget, orders, accuracy; then a row for each slot.",
        "SHOW LOAD",
        _CHEAP,
        """bytes: those of the streams' arrays. shadow: objects that were dropped and still report. target: to
which the load is brought down once it is over the budget. k: objects that fewer queries want are dropped,
of those with k - 1 only as many as have to go.
histogram: how many objects one query wants, how many two, and so on. locked: queries that may lose no more.
factor: cache.factor. cache, area: which share shedding leaves of cache areas and of regions. approximate,
mean and least accuracy: of the active queries' answers. \\watch shows it again and again.""",
    ),
    ReferenceEntry(
        "SHOW CACHE",
        "SHOW CACHE [FORMAT x]",
        "Show what is kept for each query over a stream that is to RETAIN SIGNIFICANT.",
        "SHOW CACHE",
        "One look at the slots' state; cells are empty where no engine has run on this host.",
        """area, cache area: of the region, and of what is kept around it where it moves or grows, in km²
(PLANAR: in square units); + %: how much that adds to the region. inside, cached, shed: objects in the region,
in the cache area, dropped; of NEAREST, inside are the nearest of each slot. expected: the accuracy that a
cache area of this size promises (SOLE eq. 4). accuracy: the share of the query's objects, or of its region,
that load shedding leaves; none where it cannot be measured.""",
    ),
    ReferenceEntry(
        "SHOW QUERY",
        "SHOW QUERY name [FORMAT x]",
        "Show one query in full, with its counters.",
        "SHOW QUERY near",
        "One look at the objects, as for a snapshot.",
    ),
    ReferenceEntry(
        "DESCRIBE",
        "DESCRIBE name [FORMAT x]",
        "Show what a stream, a table, a region or a query is.",
        "DESCRIBE taxis",
        _CHEAP,
    ),
    ReferenceEntry(
        "REPARTITION",
        "REPARTITION [stream] USING object | grid | agrid | quadtree | qttree [INTO n SLOTS]",
        "Change how a stream is spread over the slots. Not supported yet.",
        "REPARTITION taxis USING quadtree INTO 8 SLOTS",
        "The stream's state moves once.",
    ),
    ReferenceEntry(
        "REBALANCE",
        "REBALANCE [stream] [USING shift | splitmerge | pm | fm | fg | greedy | border]",
        "Even out the slots' loads. Not supported yet.",
        "REBALANCE taxis USING shift",
        "Some of the stream's state moves.",
    ),
    ReferenceEntry(
        "SET",
        "SET key = value",
        "Change a setting of this session; SHOW SETTINGS lists them, with where each value came from.",
        "SET shell.scheme = light",
        "Settings that begin with engine. or spark. take hold when the engine starts again, those of shedding"
        " and cache with the next step. Shedding makes answers worse, down to the min_accuracy of a query.",
        """shedding = off | object | query     what goes beyond the budget of RETAIN SIGNIFICANT:
                                    objects that few queries want, or caches and then borders of regions
shedding.budget = 200000 | '64 MB'  how many objects such streams may hold, or how much memory
shedding.keep = 0.9                 the share of the budget to which the load is then brought down
cache.factor = 1                    the share of the cache area around regions that move or grow; with 1
                                    their answers are exact""",
    ),
    ReferenceEntry(
        "WATCH",
        "WATCH query, …",
        "Show answers as they stand on the full screen, what they send, and how the slots are doing. Space"
        " pauses, Tab moves on, Enter shows one query alone, / filters, q or Ctrl-C leaves. Rows are shown as"
        " they came in. Only on a terminal: a script has TAIL.",
        "WATCH near",
        "The engine does not notice: answers are kept from the session's log, which is read once.",
    ),
    ReferenceEntry(
        "MAP",
        "MAP [stream] [query, …] [TO 'file.html']",
        "Draw objects, regions and answers on a map: live on the terminal (? tells its keys), or as a page in"
        " a file that is kept up to date until Ctrl-C.",
        "MAP taxis near TO 'map.html'",
        "One look at all objects for each picture, a quarter of a core at the most.",
    ),
    ReferenceEntry(
        "HELP",
        "HELP [statement]",
        "Say what there is, or how to write it.",
        "HELP CREATE REGION",
        _CHEAP,
    ),
    ReferenceEntry(
        "DUMP",
        "DUMP",
        "Print every definition and query as a script that runs.",
        "DUMP",
        _CHEAP,
    ),
)

OUTPUT_TOPICS = (
    ReferenceEntry(
        "FORMAT",
        """… FORMAT jsonl | csv | tsv | table | …
FROM FILE 'glob' FORMAT csv | json | geojson | parquet [(option => value, …)]""",
        "Say how one statement's answer is shown, or how a source's files are written.",
        "SELECT oid, status FROM taxis WHERE oid = 'ambulance' FORMAT csv",
        _CHEAP,
    ),
)
