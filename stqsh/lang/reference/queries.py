"""Reference entries of queries and their clauses."""

from __future__ import annotations

from stqsh.lang.reference.entry import ReferenceEntry

_SELECT = """SELECT * | COUNT(*) | column [AS name], … FROM stream [alias] [, table [alias]]
  [WHERE condition]
  [INSIDE region | NEAREST k TO place | KNN (k, x, y) | KNN ('M', k, key)]
  [ORDER BY expression [ASC|DESC], …] [LIMIT n] [FORMAT x]"""

CONTINUOUS = (
    ReferenceEntry(
        "REGISTER QUERY",
        """REGISTER QUERY name [FOR duration] [WITH (dwell => duration, min_accuracy => share)] AS
  SELECT list FROM stream [, table] [WHERE condition] [INSIDE region | NEAREST k TO place]""",
        "Register a continuous query, which sends the rows that enter (+) and leave (-) its answer.",
        "REGISTER QUERY near AS SELECT oid, speed FROM taxis INSIDE RECT(800 m, 800 m) AROUND 'ambulance'",
        "A record is compared only with queries whose region is near it. EXPLAIN estimates the cost; EXPLAIN"
        " ANALYZE and SHOW QUERIES show it.",
    ),
)

QUERIES = (
    ReferenceEntry(
        "SELECT",
        _SELECT,
        "Answer once, from the state after the last step.",
        "SELECT oid, speed FROM taxis WHERE status = 'free' INSIDE square ORDER BY speed DESC LIMIT 5",
        "One scan of all objects, some milliseconds for a million; with `key = …` half a millisecond. The"
        " streams do not stop for it.",
    ),
    ReferenceEntry(
        "SUBSCRIBE",
        "SUBSCRIBE SELECT …",
        "Register a query, follow it, and drop it on leaving.",
        "SUBSCRIBE SELECT oid FROM taxis NEAREST 3 TO 'ambulance'",
        "The same as REGISTER QUERY; Ctrl-C ends it.",
    ),
    ReferenceEntry(
        "EXPLAIN",
        "EXPLAIN SELECT … | EXPLAIN [ANALYZE] [QUERY] name [FORMAT x]",
        "Show how a query is evaluated; with ANALYZE, what a registered one has cost so far.",
        "EXPLAIN ANALYZE near",
        "One scan of the objects, as for a snapshot.",
    ),
)

TOPICS = (
    ReferenceEntry(
        "INSIDE",
        """INSIDE (x1, y1, x2, y2) | RECT(x1, y1, x2, y2) | CIRCLE(x, y, radius) | POLYGON((x y, x y, …))
INSIDE RECT(width, height) AROUND key | CIRCLE(radius) AROUND key | ('M', key, width, height)
INSIDE region | zones['member']""",
        "Select what lies in a region, which may move with an object. The border belongs to the region.",
        "SELECT oid, DISTANCE FROM taxis INSIDE CIRCLE(500 m) AROUND 'ambulance'",
        "Rectangles cost four comparisons a record; circles and polygons cost more, but only near them.",
    ),
    ReferenceEntry(
        "NEAREST",
        "NEAREST k TO (x, y) | NEAREST k TO key | KNN (k, x, y) | KNN ('M', k, key)",
        "Select the k nearest objects that satisfy the condition; DISTANCE may be selected.",
        """REGISTER QUERY next AS
  SELECT oid, DISTANCE FROM taxis WHERE status = 'free' NEAREST 3 TO (10.03, 50.015)""",
        "More than a region: each record may change the order of the neighbours. A condition that few objects"
        " satisfy widens the search.",
    ),
    ReferenceEntry(
        "WHERE",
        """WHERE column = value | <> | < | <= | > | >= | BETWEEN a AND b | IN (…) | LIKE 'a%' | IS [NOT] NULL
  AND | OR | NOT | + - * / | column CONTAINS [ANY] 'words' | ts AFTER '10 mins ago' | ts > NOW - 10 min
  DATE(ts) | HOUR(ts) | MINUTE(ts) | location INSIDE region""",
        "Select what satisfies a condition on the columns of the stream and of a joined table.",
        "SELECT id, body FROM posts WHERE body CONTAINS ANY 'taxi cab' AND HOUR(ts) = 18",
        "Conditions are evaluated after regions. CONTAINS on a TEXT column, joined by AND, comes first: a"
        " query is considered only where its rarest term occurs.",
    ),
    ReferenceEntry(
        "JOIN",
        "FROM stream alias, table alias WHERE alias.column = alias.key …",
        "Join a stream with a table by the table's key; its columns may be selected and tested.",
        "SELECT T.oid, F.driver FROM taxis T, favourites F WHERE T.oid = F.oid AND stars >= 4 INSIDE square",
        "One lookup in memory for each record that is in the region.",
    ),
    ReferenceEntry(
        "WITH",
        "REGISTER QUERY name WITH (dwell => duration, min_accuracy => share, kind => 'name') AS …",
        "Set options of a query: how long a change must last before it counts, how much of its answer load"
        " shedding must leave, or the name of a query kind that was plugged in.",
        "REGISTER QUERY steady WITH (dwell => 20 s) AS SELECT oid FROM taxis INSIDE square",
        "dwell stores a time for each member that changes, and sends fewer updates.",
    ),
)
