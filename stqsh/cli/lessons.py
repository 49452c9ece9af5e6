"""The lessons of `stqsh tutorial`: explanation, statements, and a pattern of what they show."""

from __future__ import annotations

from typing import NamedTuple


class Lesson(NamedTuple):
    """One lesson: its title, explanation, statements, and a pattern of their output."""

    title: str
    text: str
    statements: str
    shows: str


LESSONS = (
    Lesson(
        "A stream of things that move",
        "The sample data cover fifteen minutes of a small town: 200 taxis and an ambulance, one file each.\n"
        "A moving stream holds objects by key; each record replaces the object's previous one. An object\n"
        "that sends nothing for longer than REPORT EVERY counts as disconnected.",
        "CREATE MOVING STREAM taxis FROM FILE 'taxis/*.csv'\n  TICK 1 s REPORT EVERY 30 s;",
        r"columns found: oid STRING, lon DOUBLE(.|\n)*guessed: KEY oid",
    ),
    Lesson(
        "You control time",
        "Columns, key, location and time were inferred from the files. In this tutorial, as in scripts,\n"
        "streams wait for RUN. (Otherwise, in the shell, they play by themselves; see PLAY and PAUSE.)",
        "RUN FOR 2 min;\nSHOW STATUS;",
        r"step +120",
    ),
    Lesson(
        "Ask once",
        "A plain SELECT is a snapshot query: it is evaluated once, on the current state.",
        "SELECT oid, status, speed FROM taxis\n"
        "  INSIDE RECT(10.0255, 50.0135, 10.0325, 50.018)\n"
        "  ORDER BY speed DESC LIMIT 5;",
        r"\(\d rows, step 120",
    ),
    Lesson(
        "Ask continuously",
        "The same as a continuous query. It has a name and stays registered; from now on it reports what\n"
        "enters its answer (+) and what leaves it (-), with the reason. Regions can have names too.",
        "CREATE REGION square AS RECT(10.0255, 50.0135, 10.0325, 50.018);\n"
        "REGISTER QUERY waiting AS\n"
        "  SELECT oid FROM taxis WHERE status = 'free' INSIDE square;\n"
        "RUN FOR 3 min;",
        r"query waiting registered",
    ),
    Lesson(
        "Follow it",
        "TAIL shows a query's updates: first its answer, then the changes. FROM START shows all since it\n"
        "was registered. `left`: drove away or took a passenger; `disconnected`: sent nothing for too long.",
        "TAIL waiting FROM START LIMIT 10;",
        r"(?m)^ *12\d .* \+ ",
    ),
    Lesson(
        "A region that moves",
        "Which taxis must make way for the ambulance? The circle is centred on an object and moves with it,\n"
        "so the answer changes even while no taxi moves. (At the prompt, Tab after AROUND completes the\n"
        "keys of current objects.)",
        "REGISTER QUERY make_way AS\n"
        "  SELECT oid, speed, DISTANCE FROM taxis\n"
        "  INSIDE CIRCLE(250 m) AROUND 'ambulance';\n"
        "RUN FOR 2 min;\n"
        "TAIL make_way FROM START LIMIT 6;",
        r"distance(.|\n)* \+ ",
    ),
    Lesson(
        "Nearest neighbours",
        "The three free taxis nearest to the station. A `-` may say `overtaken`: the taxi is still free,\n"
        "but three others are now nearer.",
        "REGISTER QUERY next AS\n"
        "  SELECT oid, DISTANCE FROM taxis\n"
        "  WHERE status = 'free' NEAREST 3 TO (10.029, 50.0157);\n"
        "RUN FOR 1 min;\n"
        "TAIL next LIMIT 3;",
        r"the answer after step \d+(.|\n)* \+ ",
    ),
    Lesson(
        "On a map",
        "MAP draws objects, regions and answers, here while the taxis play at ten times the pace of the\n"
        "clock. Arrows move it, + and - zoom, / finds a key, t follows an object, q leaves it.",
        "PLAY taxis AT 10x;\nMAP taxis make_way, next;\nPAUSE taxis;",
        r"taxis +\d+ objects(.|\n)*stands still",
    ),
    Lesson(
        "Alerts",
        "An alert acts when a row comes into an answer: it tells you at the prompt (NOTIFY), rings, runs a\n"
        "command or posts to a server. SHOW ALERTS counts what it did.",
        "CREATE ALERT arrival ON waiting ENTER EVERY 5 s DO NOTIFY;\nRUN FOR 30 s;\nSHOW ALERTS;",
        r"arrival +waiting",
    ),
    Lesson(
        "Formats",
        "FORMAT shows one answer otherwise: csv, tsv, jsonl, geojson, markdown, vertical. Scripts write\n"
        "JSON lines to a pipe. (At the prompt, \\o taxis.parquet sends what follows to a file.)",
        "SELECT oid, lon, lat FROM taxis WHERE status = 'free' LIMIT 2\n  FORMAT geojson;",
        r'"type": ?"Feature"',
    ),
    Lesson(
        "Tables and joins",
        "A table is read from a file; a query may join it by its key.",
        "CREATE TABLE favourites FROM FILE 'favourites.csv' KEY oid;\n"
        "SELECT T.oid, F.driver, F.stars FROM taxis T, favourites F\n"
        "  WHERE T.oid = F.oid AND F.stars >= 4 ORDER BY F.stars DESC LIMIT 5;",
        r"driver +stars",
    ),
    Lesson(
        "Events",
        "An event stream holds each event for the time that KEEP gives. CONTAINS searches for words.",
        "CREATE EVENT STREAM posts\n"
        "  (id BIGINT, lon DOUBLE, lat DOUBLE, ts TIMESTAMP, body STRING)\n"
        "  KEY id LOCATION (lon, lat) TIME ts TEXT body\n"
        "  FROM FILE 'posts.jsonl' KEEP 5 min;\n"
        "REGISTER QUERY cabs AS\n"
        "  SELECT id, body FROM posts WHERE body CONTAINS ANY 'taxi cab';\n"
        "RUN FOR 3 min;\n"
        "TAIL cabs FROM START LIMIT 4;",
        r"(?i)taxi|cab",
    ),
    Lesson(
        "What the town talks about",
        "Aggregates count, average and find frequent words, here for each quarter of the town: REGION says\n"
        "in which one a message is. SYNC renews the answer each minute, WINDOW looks three minutes back.\n"
        "A row that has changed goes out (-) and comes in (+). (In the shell, WATCH talk shows it live, and\n"
        "MAP chat talk shades the quarters.)",
        "CREATE EVENT STREAM chat TEXT body FROM FILE 'chat.jsonl' KEEP 10 min;\n"
        "CREATE REGIONS quarters FROM FILE 'quarters.geojson' NAME quarter;\n"
        "REGISTER QUERY talk AS\n"
        "  SELECT REGION(quarters), COUNT(*), TOPK(body, 3) FROM chat\n"
        "  GROUP BY REGION(quarters) WINDOW 3 min SYNC 1 min;\n"
        "RUN FOR 2 min;\n"
        "TAIL talk LIMIT 5;",
        r"Harbour .*football",
    ),
    Lesson(
        "What does it cost?",
        "SHOW QUERIES lists the queries, with updates per second and each query's share of the work.\n"
        "EXPLAIN shows how a query is evaluated; with ANALYZE, also what it has cost so far.",
        "SHOW QUERIES;\nEXPLAIN ANALYZE waiting;",
        r"share of work(.|\n)*candidates so far",
    ),
    Lesson(
        "What went wrong?",
        "Records that cannot be read are set aside with file, line and reason; the stream continues.",
        "SHOW DEAD LETTERS;",
        r"95\.2 is beyond 90",
    ),
    Lesson(
        "Take it with you",
        "DUMP prints all definitions and queries as a script; `stqsh run FILE` runs it. Dropping a query\n"
        "withdraws its answer, so that no reader keeps a stale one.",
        "DROP QUERY waiting;\nDUMP;",
        r"REGISTER QUERY make_way",
    ),
)

FAREWELL = r"""That was the tutorial. Next:
  stqsh                           the shell; its session continues when you leave
  CREATE MOVING STREAM mine FROM FILE 'your.csv';
                                  your own data; columns are inferred
  HELP;  HELP NEAREST;  \?        the reference, with examples
  stqsh run sample_data/demo.stq  a script, as JSON lines in a pipe
  stqsh run sample_data/talk.stq  another one, of aggregates"""
