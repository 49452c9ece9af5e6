"""Reference entries for queries and their clauses."""

from __future__ import annotations

from stqsh.lang.reference.entry import ReferenceEntry
from stqsh.spec.functions import FUNCTIONS, PLACES

_CALLS = [(one.syntax, one.meaning) for one in FUNCTIONS.values()]

_SELECT = """SELECT [DISTINCT] * | expression [AS name], … FROM stream [alias] [, table [alias]]
    | FROM 'file' [(option => value, …)] [alias]
  [WHERE condition]
  [INSIDE region] [INTERSECTS region] [NEAREST k TO place | KNN (k, x, y) | KNN ('M', k, key)]
  [GROUP BY expression, …] [HAVING condition] [WINDOW duration]
  [ORDER BY expression [ASC|DESC] [NULLS FIRST|LAST], …] [LIMIT n] [WITH (error => e)] [FORMAT x]"""

CONTINUOUS = (
    ReferenceEntry(
        "REGISTER QUERY",
        """REGISTER QUERY name [SINCE NOW] [FOR duration] [WITH (option => value, …)] AS
  SELECT list FROM stream [, table] [WHERE condition] [INSIDE region | NEAREST k TO place]
  [ORDER BY expression, …] [LIMIT n]""",
        "Register a continuous query, which sends the rows that enter (+) and leave (-) its answer.",
        "REGISTER QUERY near AS SELECT oid, speed FROM taxis INSIDE RECT(800 m, 800 m) AROUND 'ambulance'",
        "A record is compared only with queries whose region is near it. EXPLAIN estimates the cost; EXPLAIN"
        " ANALYZE and SHOW QUERIES show it. With SINCE NOW only events that come after the query count. With"
        " LIMIT all members of a region are ordered in each batch that changes one of them, or in each"
        " step where their order depends on NOW or on DISTANCE from a moving object.",
    ),
    ReferenceEntry(
        "REGISTER QUERIES",
        """REGISTER QUERIES FROM FILE 'glob' [FORMAT format] | name FROM INSERTS | name FROM HTTP PORT n
  | name FROM KAFKA 'host:port' TOPIC 'topic', … [FROM EARLIEST | LATEST] | name FROM STDIN
  | name FROM SOCKET 'host:port' | name FROM DIRECTORY 'path' [FORMAT format] [KEY column] [SINCE NOW]
  [FOR duration] [WITH (…)] AS
  SELECT list FROM stream [, table] [WHERE … :column …] [INSIDE … | NEAREST :column TO :column]""",
        "Register a continuous query for each row of a file, or of a live source as its rows arrive.",
        """REGISTER QUERIES FROM FILE 'sample_data/stands.csv' AS
  SELECT oid, DISTANCE FROM taxis WHERE status = :wanted INSIDE CIRCLE(:lon, :lat, :radius)""",
        "The SELECT is read once for all rows. Conditions that differ take some"
        " microseconds more for each value.",
        """:column stands for the row's value wherever a constant may stand: in corners, centres, lengths (in
metres, or the stream's unit), k, the key of a focal object, the member of a set of regions, and conditions.
The types of columns follow from the first rows. Files are of the same formats as for CREATE
STREAM.
KEY names the column with the queries' names. Without KEY that is the column called name; where there is none,
a query is called after its file and the number of its row: q_1, q_2 and so on for q.csv.
A row that makes no valid query is reported with its file, line and reason, and the others are registered:
where a value is missing or does not fit, a latitude is beyond 90, or a name is in use.
A script's variable that has been set comes first: :x1 is then its value in all rows.
With a live source, the statement makes a query stream: a row with a new name registers a query, one with a
known name changes it, and one with _drop TRUE, or a message without a value, drops it. SHOW QUERY STREAMS
lists them; DROP QUERIES name drops one with its queries.
From Python, session.register_many(template, table) takes the rows of a table in memory.""",
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
        """FROM 'file' reads the rows of files at once, without a stream: SELECT * FROM 'day.csv' LIMIT 10.
The options are those of the format, `format` itself, `x` and `y`, the columns of the location where their
names do not tell it, and `planar`. Rows that cannot be read are counted, and the first one is shown.
With a condition that bounds the time of a stream with ARCHIVE TO, archived events are read, too.
FROM query asks the current answer of a registered query, FROM view the SELECT of that name (CREATE VIEW).
Without FROM there is one row: SELECT 7 DIV 2.""",
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
        "EXPLAIN [ANALYZE] SELECT … | EXPLAIN [ANALYZE] [QUERY] name [FORMAT x]",
        "Show how a query is evaluated; with ANALYZE, what it has cost, or costs as a snapshot.",
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
        "Select what is in a region, which may move with an object. The border belongs to the region.",
        "SELECT oid, DISTANCE FROM taxis INSIDE CIRCLE(500 m) AROUND 'ambulance'",
        "Rectangles cost four comparisons a record; circles and polygons cost more, but only near them.",
    ),
    ReferenceEntry(
        "INTERSECTS",
        """INTERSECTS (x1, y1, x2, y2) | RECT(x1, y1, x2, y2) | CIRCLE(x, y, radius) | POLYGON((x y, x y, …))
INTERSECTS region | zones['member']""",
        "Select the objects whose extent shares a point with a region; for points it is the same as INSIDE.",
        "SELECT oid FROM taxis INTERSECTS CIRCLE(10.03, 50.015, 500 m)",
        "Objects with an extent are compared with the box of each such region, and exactly only near it.",
        """Objects have an extent if LOCATION names a column of shapes, or if those of a file are no points.
INSIDE then selects the extents that lie within a region as a whole, and DISTANCE and NEAREST measure to the
nearest point of an extent: 0 where it holds the place.""",
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
  AND | OR | NOT | column CONTAINS [ANY] 'words' | ts AFTER '10 mins ago' | ts > NOW - 10 min
  + - * / % DIV || | CASE … END | CAST(x AS type) | ROUND(x, 2) and other FUNCTIONS
  REGION(zones) | loc INSIDE region | loc INTERSECTS region""",
        "Select what satisfies a condition on the columns of the stream and of joined tables.",
        "SELECT id, body FROM posts WHERE body CONTAINS ANY 'taxi cab' AND HOUR(ts) = 18",
        "Conditions are evaluated after regions. CONTAINS on a TEXT column, joined by AND, comes first: a"
        " query is considered only where its rarest term occurs.",
    ),
    ReferenceEntry(
        "FUNCTIONS",
        "\n".join(f"{call}: {meaning}" for call, meaning in (*_CALLS, *PLACES.values())),
        "Compute values of a row: in select lists, conditions, groups, orders, and within aggregates.",
        "SELECT oid, ROUND(speed * 3.6, 1) AS kmh, COALESCE(status, 'unknown') AS status FROM taxis LIMIT 3",
        "Each is computed for whole columns at once, some nanoseconds a value; of texts, some tens.",
        """A value that does not exist is NULL, such as the square root of a negative number, a whole number
beyond 64 bits, or a text that is cut at a negative length; no function stops a stream.
Times are in UTC. EXTRACT(YEAR FROM ts) and DATE_PART('year', ts) are YEAR(ts), and so for each part.
In conditions joined by AND, ST_DWITHIN with constants, ST_WITHIN and ST_INTERSECTS are regions, as INSIDE is.
COUNT, SUM, AVG, MIN, MAX and TOPK are aggregates: HELP GROUP BY. REGION(zones) is the region of a set.
CREATE FUNCTION makes one of a Python file, session.register_function of a Python function.""",
    ),
    ReferenceEntry(
        "CASE",
        """CASE WHEN condition THEN value [WHEN … THEN …] [ELSE value] END
CASE value WHEN value THEN value [WHEN … THEN …] [ELSE value] END""",
        "Choose a value: that of the first condition that holds, else NULL.",
        "SELECT CASE WHEN speed > 10 THEN 'fast' ELSE 'slow' END AS pace, COUNT(*) FROM taxis GROUP BY pace",
        "All values are computed for all rows.",
    ),
    ReferenceEntry(
        "CAST",
        "CAST(value AS type) | value::type",
        "Turn a value into another type: STRING, BIGINT, INT, DOUBLE, FLOAT, BOOLEAN or TIMESTAMP.",
        "SELECT CAST(speed AS INT) AS speed, oid || ': ' || CAST(ts AS STRING) AS said FROM taxis LIMIT 2",
        "Some tens of nanoseconds a value.",
        """A value that has no counterpart becomes NULL, as with TRY_CAST: one record never stops a stream.
Fractions are rounded to whole numbers, halves to the even one. Texts become times if they are ISO 8601.""",
    ),
    ReferenceEntry(
        "GROUP BY",
        """SELECT expression | aggregate, … FROM … GROUP BY expression, … [HAVING condition]
  COUNT(*) | COUNT(x) | COUNT(DISTINCT x) | SUM(x) | AVG(x) | MIN(x) | MAX(x) | TOPK(text [, k])""",
        "Compute aggregates of each group of rows; without GROUP BY, of all of them.",
        "SELECT status, COUNT(*) AS cabs, AVG(speed) FROM taxis GROUP BY status ORDER BY cabs DESC",
        "One scan of all objects. Sums are exact: the order of records never shows.",
        """NULL, NaN and infinities are ignored; a NULL in a group is a group of its own, which comes last.
TOPK gives the terms that most rows have, with their numbers: [["taxi",12],["rain",9]].
Groups may be expressions, such as HOUR(ts) or REGION(zones), also by their names in the select list.
DISTANCE may be grouped and aggregated over CIRCLE and NEAREST, over a moving CIRCLE with SYNC or WINDOW.
A continuous query sends - with a group's old row and + with its new one where its select list changes.
Over NEAREST k the rows are those k; with WINDOW, the k nearest of the records in the window.
In a snapshot WINDOW T takes the records of the last T before the end of the last step's tick.""",
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
        "REGISTER QUERY name WITH (changes => true, dwell => 5 s, error => 0.01, min_accuracy => 0.9,"
        " kind => 'name') AS …",
        "Set options of a query: whether members whose selected columns change are sent again, how long a"
        " change must last before it counts, how much too high counts of TOPK may be, how much of its answer"
        " load shedding must leave, or the name of a query kind that was plugged in.",
        "REGISTER QUERY steady WITH (dwell => 20 s) AS SELECT oid FROM taxis INSIDE square",
        "dwell stores a time for each member that changes, and sends fewer updates. changes compares what is"
        " selected for each new record of a member.",
    ),
)
