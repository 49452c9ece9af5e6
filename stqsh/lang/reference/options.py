"""The options in brackets."""

from __future__ import annotations

_TIMES = {
    "timestamp": "how times are written: a pattern such as '%d.%m.%Y %H:%M', or 's', 'ms', 'us'",
    "zone": "the zone of times without an offset, such as 'America/New_York'",
}
OPTIONS: dict[str, dict[str, str]] = {
    "WITH": {
        "dwell": "a row counts as in (out) only once it has stayed so for that long: dwell => 5 s",
        "min_accuracy": "the least share of its objects that load shedding may leave it: min_accuracy => 0.9",
        "kind": "the query's kind, where it is one that was plugged in",
    },
    "CSV": {
        "header": "whether the first line names the columns: true or false",
        "separator": "what stands between the columns",
        "decimal": "what stands before a number's fraction: '.' or ','",
        "quote": "what text is quoted by; '' for nothing",
        **_TIMES,
    },
    "JSON": _TIMES,
    "GEOJSON": _TIMES,
    "GENERATOR": {
        "objects": "how many drive",
        "new_per_tick": "how many come with each tick",
        "report_every": "how often each reports: report_every => 5 s",
        "seed": "another one, another town",
        "speed": "the factor on all speeds",
        "duration": "how long they drive; for ever unless said",
        "start": "the time of the first report",
        "bounds": "where the town lies: 'x1, y1, x2, y2'",
        "nodes": "how many crossings the town has",
        "kinds": "the mix of them: 'taxi:4 car:4 bus:1 bike:1 ambulance:1'",
        "leave": "whether objects leave at the end of a trip",
    },
}
"""The options in brackets, by what they belong to: a query's WITH, a format, a generator."""
