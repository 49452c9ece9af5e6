"""The types of the reference: entries, and the options in parentheses."""

from __future__ import annotations

from typing import NamedTuple


class ReferenceEntry(NamedTuple):
    """A statement, or a part of one: its syntax, meaning and cost, with an example.

    Attributes:
        name: The words with which the statement begins.
        syntax: Its syntax.
        help: Its meaning.
        example: One statement that runs on the sample data, after the examples before it.
        cost: Its cost for the engine or the user, in a sentence or two.
        more: Further details, as lines.
    """

    name: str
    syntax: str
    help: str
    example: str
    cost: str
    more: str = ""


_TIMES = {
    "timestamp": "how times are written: a pattern such as '%d.%m.%Y %H:%M', or 's', 'ms', 'us'",
    "zone": "the zone of times without an offset, such as 'America/New_York'",
}
_PLACES = {
    "crs": "the reference system of the coordinates: crs => 'EPSG:25832', or 'none' on the plane",
    "geometry": "the column with points as WKT or WKB, where its name is unusual",
}
_LAYERS = {"layer": "the layer to read, where a file has several", **_TIMES, **_PLACES}
_ERROR = {"error": "how much too high counts of TOPK may be, as a share of a group's records: error => 0.01"}
OPTIONS: dict[str, dict[str, str]] = {
    "SELECT": _ERROR,
    "WITH": {
        "changes": "whether members whose selected columns change are sent again: changes => true",
        "dwell": "a row counts as in or out only after it has stayed so for this long: dwell => 5 s",
        **_ERROR,
        "min_accuracy": "the least share of its objects that load shedding may leave: min_accuracy => 0.9",
        "kind": "the name of a query kind that was plugged in",
    },
    "CSV": {
        "header": "whether the first line names the columns: true or false",
        "separator": "the separator between columns",
        "decimal": "the decimal separator of numbers: '.' or ','",
        "quote": "the quotation mark; '' for none",
        "encoding": "the encoding of the text, such as 'cp1252' or 'utf-16'; UTF-8 unless said or recognized",
        "skip": "how many lines stand before the header: skip => 1",
        "clock": "the column with the time of day that belongs to the date in the TIME column",
        **_TIMES,
        **_PLACES,
    },
    "JSON": {**_TIMES, **_PLACES},
    "GEOJSON": {**_TIMES, **_PLACES},
    "PARQUET": {**_TIMES, **_PLACES},
    "GPX": {**_TIMES, **_PLACES},
    "GPKG": _LAYERS,
    "SHAPEFILE": _LAYERS,
    "FGB": _LAYERS,
    "GENERATOR": {
        "objects": "how many objects drive",
        "new_per_tick": "how many objects are added in each tick",
        "report_every": "how often each object reports: report_every => 5 s",
        "seed": "the seed: another seed gives another town",
        "speed": "a factor for all speeds",
        "duration": "how long they drive; without it, for ever",
        "start": "the time of the first report",
        "bounds": "the extent of the town: 'x1, y1, x2, y2'",
        "nodes": "how many crossings the town has",
        "kinds": "the mix of vehicles: 'taxi:4 car:4 bus:1 bike:1 ambulance:1'",
        "leave": "whether objects leave at the end of a trip",
    },
}
"""The name and meaning of each option, by owner: WITH, a format or a generator."""
