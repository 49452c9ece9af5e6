"""Reference entries for single words: clauses, types, functions, options, units and settings.

HELP shows such an entry if no statement or part of a statement has the name. If another module has a table of
the words (units, options, functions, settings), the entries are generated from that table.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from stqsh.lang.reference.entry import OPTIONS
from stqsh.settings import KEYS
from stqsh.spec import functions
from stqsh.units import UNITS


class WordEntry(NamedTuple):
    """The text that HELP shows for a word.

    Attributes:
        name: The word, or several.
        kind: Its kind: a clause, an option, a unit, …
        syntax: Its syntax.
        help: Its meaning.
    """

    name: str
    kind: str
    syntax: str
    help: str


_CLAUSES = """
ALL|CREATE SINK s FOR ALL TO …|all queries, those to come as well
AFTER|ts AFTER '10 mins ago'|whether a time is later than another: '10 mins ago', or an ISO 8601 time
ANALYZE|EXPLAIN ANALYZE near|say what a query has cost, or costs as a snapshot, instead of an estimate
AND|a > 1 AND b > 2|whether both conditions hold; NOT binds first, then AND, then OR
ANY|body CONTAINS ANY 'taxi cab'|one of the words is enough
ARCHIVE TO|ARCHIVE TO 'folder'|write what KEEP lets go to Parquet files, one folder a day
AROUND|CIRCLE(500 m) AROUND 'ambulance'|a region that moves with an object, which never counts itself
AS|speed * 3.6 AS kmh|the name of a selected value
ASC|ORDER BY speed ASC|the smallest first, which is usual
AT|PLAY taxis AT 10x|the pace of a replay: a number with x, or MAX for as fast as possible
BETWEEN|speed BETWEEN 5 AND 10|whether a value lies between two others, borders included
BOUNDS|BOUNDS (x1, y1, x2, y2)|the extent of a stream; points outside it still count
GRID|GRID n|the cells in each direction of a stream's grids; answers do not depend on it
CIRCLE|CIRCLE(x, y, 500 m), CIRCLE(500 m) AROUND key|a circle; its border belongs to it
CONTAINS|body CONTAINS 'taxi rain'|whether a text has all of the words; CONTAINS ANY: one of them
DESC|ORDER BY speed DESC|the largest first
DIRECTORY|FROM DIRECTORY 'folder'|a folder to which files are added: each is taken once it is complete
DISTINCT|SELECT DISTINCT status FROM taxis|each row once; COUNT(DISTINCT x) counts each value once
DISTANCE|SELECT oid, DISTANCE FROM taxis NEAREST 3 TO 'ambulance'|metres from the centre
DO|DO NOTIFY ['text'], BELL ['text'], RUN 'command' [WITH 'text'], POST 'url' [WITH 'text']|what an alert does
ENTER|CREATE ALERT a ON near ENTER DO NOTIFY|only rows that come into the answer
EVERY|EVERY 10 s|an alert acts at most once in this time (1 s unless said), of the session's clock
FILE|FROM FILE 'day/*.csv'|a file, or all that a pattern fits; .gz and .zst are unpacked
FOR|REGISTER QUERY q FOR 1 hour AS …, RUN FOR 10 min|how long a query lives, or a run takes
FORMAT|FORMAT CSV (separator => ';'), SHOW QUERIES FORMAT csv|the format of a source, or of one answer
FROM|SELECT oid FROM taxis|the stream, and the tables that it is joined with; of a definition: the source
FROM START|TAIL near FROM START|all updates of a query since it was registered
FROM STEP|TAIL near FROM STEP 100|updates from a step on, after the answer as it stood before it
GENERATOR|FROM GENERATOR 'network' (objects => 1000)|objects that drive in a town made for trials
GEODETIC|GEODETIC|places are degrees lon, lat, and distances metres on the sphere; this is usual
HAVING|HAVING COUNT(*) > 10|which groups are shown
HTTP|FROM HTTP PORT 8080, TO HTTP 'url'|JSON lines by POST: taken in, or sent
IF EXISTS|DROP QUERY IF EXISTS near|no error where there is nothing of the name
IF NOT EXISTS|CREATE REGION IF NOT EXISTS r AS …|no error where the name is in use
IN|status IN ('free', 'busy')|whether a value is one of a list
INSERTS|FROM INSERTS|a stream that INSERT INTO and stqsh feed write to
INTO|REPARTITION USING grid INTO 8 SLOTS|into how many parts the objects are divided
IS NULL|speed IS NULL, speed IS NOT NULL|whether there is no value
KAFKA|FROM KAFKA 'host:9092' TOPIC 't', TO KAFKA 'host:9092' TOPIC 't'|a topic that is read, or written
KEEP|KEEP 72 hours, KEEP 2 GB, KEEP NONE|how long events are kept, or how much of them; NONE: nothing
KEY|KEY oid|the column that identifies an object; of a file for REGISTER QUERIES: the queries' names
LEAVE|CREATE ALERT a ON near LEAVE DO NOTIFY|only rows that leave the answer
LIKE|name LIKE 'ta_i%', SHOW QUERIES LIKE 'near%'|% is any text, _ one character
LIMIT|ORDER BY speed DESC LIMIT 5|at most this many rows: the first of the order, else of the keys
LOCATION|LOCATION (lon, lat), LOCATION (shape)|the columns with the place, longitude first, or one of shapes
MAX SPEED|MAX SPEED 60 km/h|the speed that no object exceeds, which bounds how far the engine looks
NAME|CREATE REGIONS zones FROM FILE 'z.geojson' NAME id|the property with the names of the regions
NOT|NOT status = 'free'|whether a condition does not hold
NOW|ts > NOW - 10 min|the time of the step, not that of the wall clock
NULL|speed IS NULL|no value; a comparison with it is never true
NULLS|ORDER BY speed NULLS FIRST|whether rows without a value come first; they come last unless said
ONLY|TAIL near ONLY +|only updates of rows that come in (+), or leave (-)
OR|a > 1 OR b > 2|whether one of the conditions holds
ORDER BY|ORDER BY speed DESC, oid|the order of rows; of a stream: TIME, or ARRIVAL to take a file as a log
PACE|PACE 10x, PACE MAX|how fast a stream plays: ten times its own time, or as fast as possible
PLANAR|PLANAR|places have any unit, and distances are those of the plane
POLYGON|POLYGON((x y, x y, x y, x y))|a polygon, whose first corner is also its last; further rings are holes
PORT|FROM HTTP PORT 8080|where a stream listens for POSTs, on this machine only
RECT|RECT(x1, y1, x2, y2), RECT(800 m, 800 m) AROUND key|two corners, or width and height
REPORT EVERY|REPORT EVERY 30 s|an object that is silent for longer is disconnected, and leaves every answer
RETAIN|RETAIN SIGNIFICANT|keep only objects that queries need; RETAIN ALL is usual
SINCE|TAIL near SINCE 10 min, REGISTER QUERY q SINCE NOW AS …|how far back; NOW: only later events
SLIDE|WINDOW 1 hour SLIDE 5 min|how often a window moves on
SOCKET|FROM SOCKET 'host:port'|lines from a server
STDIN|FROM STDIN|lines from standard input
STEPS|RUN 100 STEPS|run this many steps
SYNC|SELECT COUNT(*) FROM taxis SYNC 10 s|refresh the answer at multiples of this time only
TEXT|TEXT body|the column that CONTAINS searches by an index
TICK|TICK 1 s|how long a step is: 1 s for files and 250 ms for live sources, unless said
TIME|TIME ts|the column with the time of a record
TOPIC|FROM KAFKA 'host:9092' TOPIC 'a', 'b'|topics; one between slashes is a pattern, '/^bus-.*/'
UNTIL|RUN UNTIL '2008-02-02T15:00:00'|run up to a time
USING|REPARTITION USING qttree, REBALANCE USING shift|the strategy
VALUES|INSERT INTO buses VALUES ('12', 10.03, 50.01, NOW)|the records to insert
WINDOW|WINDOW 1 hour [SLIDE 5 min]|only records of the last hour count, as of each refresh
"""

_TYPES = {
    "STRING": "a text",
    "BIGINT": "a whole number of 64 bits",
    "INT": "a whole number of 32 bits",
    "DOUBLE": "a number with a fraction, of 64 bits",
    "FLOAT": "a number with a fraction, of 32 bits",
    "BOOLEAN": "TRUE or FALSE",
    "TIMESTAMP": "a time in UTC, such as '2008-02-02T15:00:00'",
}
_AGGREGATES = {
    "COUNT": ("COUNT(*), COUNT(x), COUNT(DISTINCT x)", "how many rows, values, or different values"),
    "SUM": ("SUM(x)", "the exact sum of the values"),
    "AVG": ("AVG(x)", "the exact sum, divided by the number of values"),
    "MIN": ("MIN(x)", "the least value; of texts the first one"),
    "MAX": ("MAX(x)", "the greatest value; of texts the last one"),
    "TOPK": ("TOPK(text [, k])", "the k words that most rows have, 10 unless said, with their numbers"),
}
_OTHERS = {
    "REGION": ("REGION(zones)", "the name of the first region of a set that holds the place; NULL in none"),
    "CASE": (
        "CASE WHEN condition THEN value … [ELSE value] END",
        "the value of the condition that holds first",
    ),
    "CAST": ("CAST(x AS type)", "the value in another type; NULL where it has none there"),
    "EXTRACT": ("EXTRACT(hour FROM ts)", "a part of a time"),
}
_OWNERS = {
    "WITH": "REGISTER QUERY name WITH ({}) AS …",
    "CSV": "FORMAT CSV ({})",
    "JSON": "FORMAT JSON ({})",
    "GEOJSON": "FORMAT GEOJSON ({})",
    "GENERATOR": "FROM GENERATOR 'network' ({})",
}


@cache
def words() -> tuple[WordEntry, ...]:
    """Return the entries of all words: clauses, types, functions, options, units and settings."""
    return (*_clauses(), *_values(), *_functions(), *_options(), *_units(), *_settings())


def _clauses() -> list[WordEntry]:
    lines = [line.split("|") for line in _CLAUSES.strip().splitlines()]
    return [WordEntry(name, "clause", syntax, help_) for name, syntax, help_ in lines]


def _values() -> list[WordEntry]:
    truth = [WordEntry(name, "value", name, "a value of type BOOLEAN") for name in ("TRUE", "FALSE")]
    return truth + [WordEntry(name, "type", f"column {name}", meaning) for name, meaning in _TYPES.items()]


def _functions() -> list[WordEntry]:
    found = [WordEntry(name, "aggregate", *how) for name, how in _AGGREGATES.items()]
    found += [WordEntry(name, "function", *how) for name, how in {**_OTHERS, **functions.PLACES}.items()]
    found += [
        WordEntry(name, "function", one.syntax, one.meaning) for name, one in functions.FUNCTIONS.items()
    ]
    for alias, name in functions.ALIASES.items():
        meant = functions.FUNCTIONS[name]
        found.append(WordEntry(alias, "function", meant.syntax, f"{meant.meaning}; another name of {name}"))
    return found


def _options() -> list[WordEntry]:
    found: dict[str, list[WordEntry]] = {}
    for owner, options in OPTIONS.items():
        for name, meaning in options.items():
            place = _OWNERS.get(owner, f"FORMAT {owner} ({{}})").format(f"{name} => …")
            found.setdefault(name, []).append(WordEntry(name, "option", place, meaning))
    return [
        WordEntry(name, "option", "\n".join(one.syntax for one in places), "; ".join(_once(places)))
        for name, places in found.items()
    ]


def _once(places: list[WordEntry]) -> list[str]:
    return list(dict.fromkeys(one.help for one in places))


def _units() -> list[WordEntry]:
    base = {"duration": ("s", 1e6), "length": ("m", 1.0), "speed": ("m/s", 1.0), "size": ("bytes", 1.0)}
    entries = []
    for name, unit in UNITS.items():
        measured, size = base[unit.dimension]
        factor = unit.size / size
        others = f"; also written {', '.join(unit.aliases)}" if unit.aliases else ""
        meaning = f"{factor:g} {measured}{others}"
        entries += [
            WordEntry(word, f"unit of {unit.dimension}", f"10 {word}", meaning)
            for word in (name, *unit.aliases)
        ]
    return entries


def _settings() -> list[WordEntry]:
    return [
        WordEntry(
            key.name,
            "setting",
            f"SET {key.name} = …" if key.is_settable else key.variable,
            key.help + (f": {', '.join(key.choices)}" if key.choices else ""),
        )
        for key in KEYS
    ]
