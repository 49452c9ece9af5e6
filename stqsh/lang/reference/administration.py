"""Reference entries for administration and output."""

from __future__ import annotations

from stqsh.lang.reference.entry import ReferenceEntry

_CHEAP = "Negligible."

ADMINISTRATION = (
    ReferenceEntry(
        "SHOW",
        """SHOW STATUS | STREAMS | QUERIES | QUERY STREAMS | TABLES | REGIONS | VIEWS | FUNCTIONS
   | SINKS | ALERTS | SLOTS | ROUTING | CACHE | LOAD | DEAD LETTERS | SETTINGS [LIKE 'pattern'] [FORMAT x]""",
        "List what the session holds, or show how it is doing.",
        "SHOW QUERIES LIKE 'n%'",
        _CHEAP,
        """LIKE chooses among streams, queries, query streams, tables, regions, views, functions, sinks,
alerts and settings by their names: % is any text, _ one character.""",
    ),
    ReferenceEntry(
        "SHOW STATUS",
        "SHOW STATUS [FORMAT x]",
        "Show session, engine, clock, lag, and where the time of the last batch went.",
        "SHOW STATUS",
        _CHEAP,
        """lag: how long ago the last step was due by the wall clock, for a stream that plays at a pace.
behind: records that are due and not taken yet, and how many batches they make. records a batch: the most
that a batch takes, chosen so that it lasts about 2 s, up to engine.max_records_per_batch. time: source
(reading and distributing), transfer (Spark: tasks, shuffles, bytes), kernel (queries), state, deliver
(the update log).""",
    ),
    ReferenceEntry(
        "SHOW LOAD",
        "SHOW LOAD [FORMAT x]",
        "Show the load of streams that RETAIN SIGNIFICANT: budget, orders, accuracy, slot by slot.",
        "SHOW LOAD",
        _CHEAP,
        """bytes: the size of the streams' arrays. shadow: objects that were dropped and still report.
target: the load to which shedding reduces what is over the budget. k: objects that fewer than k queries
need are dropped; of those that k - 1 need, only as many as necessary. histogram: how many objects one
query needs, how many two need, and so on. locked: queries that may lose no more. factor: cache.factor.
cache, area: the share that shedding leaves of cache areas and of regions. approximate, mean and least
accuracy: of the answers of active queries. The last line says what exact answers need, what is allowed,
what that keeps, and what budget would keep 90 %. \\watch repeats it.""",
    ),
    ReferenceEntry(
        "SHOW CACHE",
        "SHOW CACHE [FORMAT x]",
        "Show what is kept for each query over a stream that RETAINs SIGNIFICANT objects, and what this"
        " client keeps to answer snapshots of events.",
        "SHOW CACHE",
        "One look at the state of the slots; cells are empty where no engine has run on this host.",
        """area, cache area: of the region, and of what is kept around a region that moves or grows, in
km² (PLANAR: in square units); + %: what that adds to the region. inside, cached, shed: objects in the
region, in the cache area, and dropped; for NEAREST, inside counts the nearest of each slot. expected:
the accuracy that a cache area of this size promises (SOLE eq. 4). accuracy: the share of the query's
objects, or of its region, that load shedding leaves; empty where it cannot be measured.
For snapshots a client sorts events by place in time slots, once it has scanned them often, and keeps word
lists: in which events a word occurs, for columns that CONTAINS searches. words: how many words time slots
have. hits, spared: the answers that used lists, and the texts that were not searched. It keeps views:
what the events of an area add up to, by group, where questions ask for it again and again. only, by, of:
the condition, the groups and the measures of a view. rows: in all time slots. hits: the answers that used
it. spared: the events that it stood for. benefit: by its choice, the events that past questions would not
have read, less what it costs to make it. margins of cells: events along sides and at corners of cells,
kept where regions end again and again, within cache.objects. events, hits, spared: how many there are, how
often they stood for a cell, and how many events of these cells were not tested for being in the region.
Answers are the same to the byte with all of these and without them.""",
    ),
    ReferenceEntry(
        "SHOW CELLS",
        "SHOW CELLS [stream] [FORMAT x]",
        "Show how many objects the slots count in each cell of their grids, the fullest first.",
        "SHOW CELLS taxis",
        _CHEAP,
        """x1, y1, x2, y2: the corners of a cell; empty where it has all that lies beyond. count: never too
low; what has moved away or expired may still be counted. records since: those since the slot counted all of
its objects, which it does once there were as many. A snapshot passes over slots without a count in its
region.""",
    ),
    ReferenceEntry(
        "SHOW QUERY",
        "SHOW QUERY name [FORMAT x]",
        "Show one query in full, with its counters.",
        "SHOW QUERY near",
        "One scan of the objects, as for a snapshot.",
    ),
    ReferenceEntry(
        "DESCRIBE",
        "DESCRIBE name [FORMAT x]",
        "Describe a stream, a table, a query, or a region with its shape.",
        "DESCRIBE taxis",
        _CHEAP,
    ),
    ReferenceEntry(
        "REPARTITION",
        "REPARTITION [stream] USING object | grid | agrid | quadtree | qttree [INTO n SLOTS]",
        "Change how a stream is spread over the slots; updates stay the same.",
        "REPARTITION posts USING quadtree INTO 8 SLOTS",
        "Stored events stay, and moving objects follow with their next records.",
    ),
    ReferenceEntry(
        "REBALANCE",
        "REBALANCE [stream] [USING shift | splitmerge | pm | fm | fg | greedy | border]",
        "Even out the loads of the slots by small changes of the routing.",
        "REBALANCE posts USING greedy",
        "Stored events stay, and moving objects follow with their next records.",
    ),
    ReferenceEntry(
        "SET",
        "SET key = value",
        "Change a setting of this session; SHOW SETTINGS lists them, with where each value came from.",
        "SET shell.scheme = light",
        "Settings that begin with engine. or spark. take effect when the engine starts again, those of"
        " shedding, cache and index with the next step. Shedding makes answers worse, down to the"
        " min_accuracy of a query.",
        """shedding = off | object | query     what is dropped over the budget of RETAIN SIGNIFICANT:
                                    objects that few queries need, or caches and then borders of regions
shedding.budget = 200000 | '64 MB'  how many objects such streams may hold, or how much memory
shedding.keep = 0.9                 the share of the budget to which the load is reduced
cache.factor = 1                    the share of the cache area around regions that move or grow; with 1
                                    their answers are exact
cache.views = '64 MB' | 0           memory of this client for views of events and lists of their words, see
                                    SHOW CACHE; 0: none
cache.objects = 0 | '64 MB'         memory of this client for events at the sides and corners of cells, see
                                    SHOW CACHE; with 0 for both, snapshots scan all events
index.queries = forest | chtree     what finds the queries of a record: trees of words and values, and a
                                    grid; or CH-trees, which also go by intervals of numbers""",
    ),
    ReferenceEntry(
        "WATCH",
        "WATCH query, …",
        "Show current answers on the full screen, what the queries send, and the loads of the slots. Space"
        " pauses, Tab moves on, Enter shows one query alone, / filters, q or Ctrl-C leaves. Rows are shown as"
        " they entered. Only on a terminal: a script has TAIL.",
        "WATCH near",
        "Nothing for the engine: answers are folded from the session's log, which is read once.",
    ),
    ReferenceEntry(
        "MAP",
        "MAP [stream] [query, …] [TO 'file.html']",
        "Draw objects, regions and answers on a map: live on the terminal (? lists its keys), or as a page in"
        " a file that is kept up to date until Ctrl-C and goes back in time. Aggregates that are grouped by"
        " REGION(zones) shade the regions by their first number.",
        "MAP taxis near TO 'map.html'",
        "One scan of all objects for each picture, at most a quarter of a core.",
        """SET map.tiles = off | 'address'    where pages get tiles from, such as https://HOST/{z}/{x}/{y}.png;
                                   below them is the outline of the world's land
SET map.credit = '© …'             what pages say of their tiles""",
    ),
    ReferenceEntry(
        "HELP",
        "HELP [statement | clause | function | option | unit | setting | \\command | document]",
        "List the statements, explain one, or any word of the language, or show a document.",
        "HELP CREATE REGION",
        _CHEAP,
    ),
    ReferenceEntry(
        "EXPORT DEAD LETTERS",
        "EXPORT DEAD LETTERS [OF stream] TO 'file'",
        "Write the records that could not be read to a file of JSON lines, to be mended and sent again.",
        "EXPORT DEAD LETTERS TO 'bad.jsonl'",
        _CHEAP,
    ),
    ReferenceEntry(
        "SAVE",
        "SAVE TO 'uri'",
        "Save the whole session while it runs, as it stands after a step: definitions, queries, answers,"
        " updates, records, positions of live streams and sinks. `stqsh restore NAME FROM 'uri'` makes a"
        " session of it, which goes on from there. The URI is a folder, or s3://bucket/folder;"
        " gs://, abfs:// and hdfs:// are alike. There must be nothing yet.",
        "SAVE TO 'backup/monday'",
        "Batches wait while its files are listed; then they go on, and the files are copied.",
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
FROM FILE 'glob' FORMAT csv | json | geojson | parquet | gpx | gpkg | shapefile | fgb
  [(option => value, …)]""",
        "Choose how the answer of a statement is shown, or say how the files of a source are written.",
        "SELECT oid, status FROM taxis WHERE oid = 'ambulance' FORMAT csv",
        _CHEAP,
    ),
)
