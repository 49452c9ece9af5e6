"""Reference entries for running and following."""

from __future__ import annotations

from stqsh.lang.reference.entry import ReferenceEntry

RUNNING = (
    ReferenceEntry(
        "RUN",
        "RUN [UNTIL 'time' | FOR duration | n STEPS]",
        "Advance the replayed streams, and return when that is done.",
        "RUN FOR 2 min",
        "As fast as the engine can; a batch takes tenths of a second. Ctrl-C stops between two batches.",
    ),
    ReferenceEntry(
        "PLAY",
        "PLAY stream [AT 10x | AT MAX]",
        "Let a stream run on by itself.",
        "PLAY taxis AT 10x",
        "The engine works as long as the stream plays, with or without a shell.",
        """When more records are due than the engine can take, they wait in their source: the engine lags, the
toolbar and SHOW STATUS say so, batches become larger, and the lag shrinks when fewer records come. No record
is left out. Where the next record is more than 30 s away by the wall clock, time skips to it, as the status
line says; the steps between are counted. Without AT a stream plays at the pace of its definition, or at 1x.
SHOW STREAMS says what plays, and at which pace.""",
    ),
    ReferenceEntry("PAUSE", "PAUSE stream", "Stop a stream that plays.", "PAUSE taxis", "Nothing."),
    ReferenceEntry(
        "PAUSE QUERY",
        "PAUSE QUERY name",
        "Stop a query's updates without dropping it.",
        "PAUSE QUERY near",
        "A paused query costs nothing.",
    ),
    ReferenceEntry(
        "RESUME QUERY",
        "RESUME QUERY name",
        "Resume a paused query, beginning with the difference since it was paused.",
        "RESUME QUERY near",
        "The answer is computed afresh once.",
    ),
    ReferenceEntry(
        "ALTER QUERY",
        "ALTER QUERY name [INSIDE region | NEAREST k TO (x, y) | NEAREST k TO id] [WHERE condition]",
        "Give a query another region, other neighbours or another condition while it runs. It takes effect"
        " with the next step, of which only the difference is sent: objects that stay in the answer send"
        " nothing, those that fall out leave (left), and new ones come. Name, FOR and what was sent before"
        " stay.",
        "ALTER QUERY near INSIDE CIRCLE(116.42, 39.92, 800) WHERE speed > 3",
        "The answer is computed afresh once.",
        """WHERE replaces the whole condition. A region of the query stays without INSIDE, also one that is
written in its WHERE unless the new WHERE has one itself.

A paused query changes without a word, and RESUME sends the difference. Aggregates send the groups
that changed, those with SYNC at the next refresh. With `dwell` objects wait as if the old region had moved
there: one that was inside and still is goes on waiting, and one that falls out must stay out.""",
    ),
    ReferenceEntry(
        "TAIL",
        """TAIL query [FROM START | FROM STEP n | FROM 'time' | SINCE duration] [ONLY + | ONLY -]
   [WHERE condition] [LIMIT n] [FORMAT x]""",
        "Follow a query's updates. On a terminal, space pauses, / filters by a text or by + or -, arrows"
        " scroll back, and q or Ctrl-C leaves; the query goes on. Updates that come too fast to read are"
        " counted and not shown there; a pipe and a file get everything.",
        "TAIL near FROM START ONLY + LIMIT 3",
        "Nothing for the engine: updates are read from the session's log. FROM START reads all of it.",
        """FROM a time begins with the tick that holds it, SINCE 10 min after the last step's time less ten
minutes; the answer before that comes first. Without either, TAIL begins with the answer as it stands.""",
    ),
    ReferenceEntry(
        "FOLLOW",
        "FOLLOW id [IN stream] [FORMAT x]",
        "Show every record of one object as it comes, its last one first. Ctrl-C leaves it.",
        "FOLLOW 'ambulance' IN taxis",
        "A query of one object, which is dropped when it is left.",
        """Records of one step are in the order of their times. A - says that the object has gone. Without IN
it is the only stream of moving objects. On the map, t follows the selected object and draws its trail.""",
    ),
)
