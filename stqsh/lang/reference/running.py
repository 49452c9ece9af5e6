"""The manual of running and following."""

from __future__ import annotations

from stqsh.lang.reference.entry import ReferenceEntry

RUNNING = (
    ReferenceEntry(
        "RUN",
        "RUN [UNTIL 'time' | FOR duration | n STEPS]",
        "Advance the replayed streams, and return when that is done.",
        "RUN FOR 2 min",
        "As fast as the engine can; a batch takes tenths of a second. Ctrl-C stops it between two batches.",
    ),
    ReferenceEntry(
        "PLAY",
        "PLAY stream [AT 10x | AT MAX]",
        "Let a stream run on by itself.",
        "PLAY taxis AT 10x",
        "The engine works for as long as it plays, whether a shell is there or not.",
        """What is due and more than the engine can take waits in its source: the engine lags, says so in the
toolbar and in SHOW STATUS, takes larger batches, and catches up once less comes. Nothing is left out.""",
    ),
    ReferenceEntry("PAUSE", "PAUSE stream", "Let a stream stand still.", "PAUSE taxis", "Nothing."),
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
        "Let a paused query go on, with the difference since it was paused.",
        "RESUME QUERY near",
        "The answer is made anew once.",
    ),
    ReferenceEntry(
        "TAIL",
        "TAIL query [FROM START | FROM STEP n] [ONLY + | ONLY -] [WHERE condition] [LIMIT n] [FORMAT x]",
        "Follow a query's updates. On a terminal space pauses, / filters by a text or by + or -, arrows"
        " scroll back, q or Ctrl-C leaves; the query goes on. What is too fast to be read there is left out"
        " and counted; a pipe and a file get everything.",
        "TAIL near FROM START ONLY + LIMIT 3",
        "The engine does not notice: updates are read from the session's log. FROM START reads all of it.",
    ),
)
