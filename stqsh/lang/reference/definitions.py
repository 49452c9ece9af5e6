"""Reference entries for CREATE and DROP."""

from __future__ import annotations

from stqsh.lang.reference.entry import ReferenceEntry

DEFINITIONS = (
    ReferenceEntry(
        "CREATE MOVING STREAM",
        """CREATE MOVING STREAM [IF NOT EXISTS] name [(column TYPE, …)]
  [KEY column] [LOCATION (x, y) | (shape)] [TIME column]
  FROM FILE 'glob' [FORMAT format [(option => value, …)]] | GENERATOR 'network' [(option => value, …)]
    | KAFKA 'host:port' TOPIC 'topic', … [FROM EARLIEST | LATEST | TIMESTAMP 'time'] [FORMAT format]
    | STDIN [FORMAT format] | SOCKET 'host:port' [FORMAT format] | DIRECTORY 'dir' [FORMAT format]
    | INSERTS [FORMAT format] | HTTP PORT n
  [TICK duration] [REPORT EVERY duration] [MAX SPEED speed] [BOUNDS (x1, y1, x2, y2)] [GRID n]
  [PLANAR | GEODETIC]
  [ORDER BY TIME | ARRIVAL] [PACE 10x | MAX] [RETAIN ALL | SIGNIFICANT]""",
        "Define a stream of objects that move: each record replaces its key's earlier one.",
        """CREATE MOVING STREAM taxis
  (oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP, status STRING, speed DOUBLE)
  KEY oid LOCATION (lon, lat) TIME ts
  FROM FILE 'sample_data/taxis/*.csv' TICK 1 s REPORT EVERY 30 s""",
        "The files are read, sorted by time and stored in the session's home once, before the first step;"
        " SHOW STREAMS shows the progress. Each object then takes some hundred bytes of memory. With RETAIN"
        " SIGNIFICANT only the objects that queries need do, and each step counts which queries need them.",
        """Without a column list columns are taken from the files. How these are written, and which columns
are key, place and time, is recognized and told, with what they hold: records, time, extent.
LOCATION (shape) names a column of shapes, as WKT, WKB or GeoJSON: objects have an extent, HELP INTERSECTS.
RETAIN SIGNIFICANT keeps only objects that some query needs: in its region, in the cache area
around a region that moves or grows, or as its centre. REPORT EVERY and MAX SPEED set the width of that
area. A new query is exact one REPORT EVERY later, and a snapshot sees only what is kept.""",
    ),
    ReferenceEntry(
        "CREATE EVENT STREAM",
        """CREATE EVENT STREAM [IF NOT EXISTS] name [(column TYPE, …)]
  [KEY column] [LOCATION (x, y) | (shape)] [TIME column] [TEXT column]
  FROM FILE 'glob' [FORMAT format [(option => value, …)]]
  [KEEP duration | size | duration, size [ARCHIVE TO 'folder'] | KEEP NONE]
  [TICK duration] [BOUNDS (x1, y1, x2, y2)] [GRID n] [PLANAR | GEODETIC] [ORDER BY TIME | ARRIVAL]""",
        "Define a stream of things that happened once: records are never replaced, and expire after KEEP.",
        """CREATE EVENT STREAM posts (id BIGINT, lon DOUBLE, lat DOUBLE, ts TIMESTAMP, body STRING)
  KEY id LOCATION (lon, lat) TIME ts TEXT body FROM FILE 'sample_data/posts.jsonl' KEEP 5 min""",
        "Memory grows with what KEEP holds; without KEEP all events stay. KEEP 2 GB lets the oldest events go"
        " beyond that size, KEEP 1 day, 2 GB those older than a day as well. Indexing the terms of a TEXT"
        " column makes keyword queries fast and costs some time for each record. With KEEP NONE events are"
        " matched and then forgotten: queries send + only. ARCHIVE TO writes what KEEP lets go to Parquet, by"
        " day.",
        """Columns may be left out, as of moving streams. Events of files without a key have the number of
their row as one, in a column called row.""",
    ),
    ReferenceEntry(
        "CREATE TABLE",
        """CREATE TABLE [IF NOT EXISTS] name [(column TYPE, …)]
  FROM FILE 'glob' [FORMAT format [(option => value, …)]] [KEY column]""",
        "Define a table with which streams can be joined by its key.",
        "CREATE TABLE favourites FROM FILE 'sample_data/favourites.csv' KEY oid",
        "It is read once, and every slot holds all of it. Rows that repeat a key are dead letters.",
    ),
    ReferenceEntry(
        "CREATE REGION",
        "CREATE REGION [IF NOT EXISTS] name AS\n"
        "  RECT(…) | CIRCLE(x, y, r) | POLYGON((x y, x y, x y, x y)) | name | zones['id']",
        "Give a region a name that INSIDE may use.",
        "CREATE REGION square AS RECT(10.0255, 50.0135, 10.0325, 50.018)",
        "Nothing until a query uses it. A region in use cannot be dropped.",
    ),
    ReferenceEntry(
        "CREATE REGIONS",
        "CREATE REGIONS [IF NOT EXISTS] name FROM FILE 'file.geojson' [FORMAT format] [NAME column]",
        "Define a set of regions from a file of polygons; a query uses one of them: INSIDE zones['north'].",
        "CREATE REGIONS zones FROM FILE 'sample_data/zones.geojson' NAME zone",
        "The polygons are read and repaired at once, and stored in the session.",
    ),
)

FUNCTIONS = (
    ReferenceEntry(
        "CREATE FUNCTION",
        """CREATE FUNCTION [IF NOT EXISTS] name (parameter [TYPE], …)
  [RETURNS STRING | BIGINT | DOUBLE | BOOLEAN] FROM 'file.py' | AS 'code'""",
        "Make a function of a Python file, for the expressions of statements.",
        "CREATE FUNCTION size (s STRING) RETURNS BIGINT AS 'def size(s): return [len(one) for one in s]'",
        "The function runs over whole columns wherever it is called; a query pays for its own calls.",
        """The file defines a Python function of that name, in any case. It takes an Arrow array for each
parameter, and returns as many values. Without RETURNS its annotation says the type (str, int, float, bool).
The session keeps the code and its text: DUMP prints it, and queries keep it when the function is dropped.
Other modules are imported where the engine runs. Where it fails, a continuous query sees NULL, and SHOW
STATUS says why; a snapshot fails. In a script, the statement takes the option --allow-run, as it runs code.
SHOW FUNCTIONS lists functions; DROP FUNCTION name; removes one.""",
    ),
)

VIEWS = (
    ReferenceEntry(
        "CREATE VIEW",
        "CREATE VIEW [IF NOT EXISTS] name AS SELECT …",
        "Give a SELECT a name that may stand in FROM.",
        "CREATE VIEW waiting_cabs AS SELECT oid, speed, status FROM taxis WHERE status = 'free'",
        "Nothing: a query over a view is the query over the view's stream that it means.",
        """A view may be asked once, or in REGISTER QUERY and SUBSCRIBE; conditions, regions, groups, orders
and LIMIT are added to its own. A view with groups takes conditions on its rows, and no further groups; one
with LIMIT takes no more than a choice of columns; one with NEAREST takes no conditions.
Queries that were registered over a view stay as they are when it is dropped. SHOW VIEWS lists the views.""",
    ),
)

SINKS = (
    ReferenceEntry(
        "CREATE SINK",
        """CREATE SINK [IF NOT EXISTS] name FOR query, … | ALL
  TO FILE 'dir' FORMAT PARQUET | JSONL | CSV
   | TO HTTP 'url'
   | TO KAFKA 'host:port, …' TOPIC 'topic' [AS UPDATES | ANSWERS]""",
        "Write the updates of queries elsewhere, beginning with their answers as they stand.",
        "CREATE SINK out FOR near TO FILE '/tmp/near_updates' FORMAT PARQUET",
        "A process of the session's own writes; a slow sink lags by itself, and the update log is kept for it"
        " up to sinks.keep. SHOW SINKS shows the lag.",
        """FILE: a file for each batch, each once. HTTP: JSON lines by POST, with an Idempotency-Key that is
the same when a part is sent again. KAFKA AS UPDATES: each update once, in transactions; AS ANSWERS: a
compacted topic with a record for each row of an answer, and a tombstone for one that leaves.
A sink follows names: a query that is dropped sends its last `-`, and one that is registered under the same
name goes on. ALL takes later queries, too, but no subscriptions.""",
    ),
)

ALERTS = (
    ReferenceEntry(
        "CREATE ALERT",
        """CREATE ALERT [IF NOT EXISTS] name ON query [ENTER | LEAVE] [EVERY duration]
  DO NOTIFY ['text'] | BELL ['text'] | RUN 'command' [WITH 'text'] | POST 'url' [WITH 'text']""",
        "Act on later updates of a query, on at most one within EVERY (1 s unless said).",
        "CREATE ALERT seen ON near ENTER EVERY 10 s DO NOTIFY '{oid} drives at {speed} m/s'",
        "A thread of the process that writes sinks. An action that fails is counted, and delays nobody.",
        """ENTER counts rows that come in, LEAVE rows that leave; without either, rows that change count, too.
NOTIFY says it in the shells of the session, BELL also rings. RUN runs a command in the folder where the alert
was made, POST sends to an address: both get the update as JSON, the command on its standard input, or a text
WITH fields. In a text {column} is a value of the row; {key}, {op}, {why}, {step}, {at}, {query}, {alert} and
{row}, the row in words, may stand in every text, and {{ is a brace. In a script, RUN takes the option
--allow-run. EVERY is of the session's clock. An action that takes longer misses what comes in the meantime; a
command is ended after 30 s. SHOW ALERTS counts.""",
    ),
)

INSERTS = (
    ReferenceEntry(
        "INSERT INTO",
        "INSERT INTO stream [(column, …)] VALUES (value, …), …",
        "Put records into a stream FROM INSERTS, or rows into a query stream, all of a statement or none.",
        "INSERT INTO buses VALUES ('12', 10.03, 50.015, NOW), ('7', NULL, NULL, NOW - 5 s)",
        "A small file for each statement, until a batch has taken its records. Many records go faster"
        " together, or with stqsh feed.",
        """Values are constants: numbers, strings, TRUE, FALSE, NULL, times such as '2008-02-02T15:00:00', NOW
with or without a duration, and what operators make of them. Columns that are not listed are NULL. For many
records there is stqsh feed NAME < FILE, and stqsh.feed in Python.""",
    ),
)

DROPS = (
    ReferenceEntry(
        "DROP",
        """DROP STREAM | TABLE | REGION | REGIONS | VIEW | FUNCTION | QUERY | QUERIES | SINK
  | ALERT [IF EXISTS] name, …
DROP STREAMS | TABLES | REGIONS | VIEWS | FUNCTIONS | QUERIES | SINKS | ALERTS LIKE 'pattern'""",
        "Remove a definition or a query; every member of a dropped query's answer leaves it.",
        "DROP QUERY IF EXISTS near",
        "The members of a query are sent once more, as `-` with the reason `dropped`. What queries use"
        " cannot be dropped. Sinks go on without a query that is dropped; a dropped sink writes no more.",
        """DROP QUERIES drops a query stream and its queries. Of several names all are dropped, or none. LIKE
drops all whose names fit: % is any text, _ one character, and a backslash before either means the sign
itself.""",
    ),
)
