"""Cases as text: the statements that a user would type for them, in all notations by turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from support.cases import Area, Clock, Command, Polygon, Spec, Table, set_named

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


# --- definitions ---


def create_stream(spec: Spec, glob: str) -> str:
    """The CREATE statement of a stream."""
    event = spec["kind"] == "event"
    columns = ", ".join(f"{name} {kind}" for name, kind in spec["columns"])
    clauses = [
        f"CREATE {'EVENT' if event else 'MOVING'} STREAM {spec['name']} ({columns})",
        f"  KEY {spec['key']} LOCATION ({spec['x']}, {spec['y']}) TIME {spec['time']}",
        f"  FROM FILE '{glob}' TICK {duration(spec['tick_us'])} ORDER BY {spec['order'].upper()}",
    ]
    if spec["text"] is not None:
        clauses.append(f"  TEXT {spec['text']}")
    for clause, lasts in (("REPORT EVERY", spec["report_every_us"]), ("KEEP", spec["keep_us"])):
        size = f"{spec['keep_bytes'] / 1024!r} kB" if clause == "KEEP" and spec.get("keep_bytes") else None
        time = None if lasts is None else duration(lasts) if lasts else "NONE"
        if time or size:
            clauses.append(f"  {clause} {', '.join(filter(None, (time, size)))}")
    if spec["retain"] == "significant":
        clauses.append(f"  MAX SPEED {spec['max_speed']!r} RETAIN SIGNIFICANT")
    if spec.get("grid") is not None:
        clauses.append(f"  GRID {spec['grid']}")
    if spec["bounds"] is not None:
        clauses.append("  BOUNDS ({}, {}, {}, {})".format(*spec["bounds"]))
    return "\n".join(clauses + (["  PLANAR"] if spec["planar"] else [])) + ";"


def create_table(table: Table, glob: str) -> str:
    """The CREATE statement of a table."""
    columns = ", ".join(f"{name} {kind}" for name, kind in table.spec["columns"])
    return f"CREATE TABLE {table.spec['name']} ({columns}) FROM FILE '{glob}' KEY {table.spec['key']};"


def create_area(area: Area, glob: str) -> str:
    """The CREATE statement of a named region, or of a set of them."""
    if area.spec["set"]:
        return f"CREATE REGIONS {area.spec['name']} FROM FILE '{glob}' NAME zone_id;"
    (polygons,) = area.members.values()
    return f"CREATE REGION {area.spec['name']} AS {polygon(polygons[0])};"


def run_text(clock: Clock, done: int, to: int) -> str:
    """A RUN from one step to another, in each of its forms by turns; only STEPS can start a clock."""
    form = to % 3 if done else 0
    if form == 1:
        return f"RUN FOR {duration((to - done) * clock.tick_us)};"
    return f"RUN UNTIL '{instant(clock.at(to + 1))}';" if form == 2 else f"RUN {to - done} STEPS;"


# --- queries ---


def command_text(command: Command, names: dict[int, str]) -> str:
    """The statement of a command."""
    if command["op"] != "register":
        return f"{command['op'].upper()} QUERY {names[command['id']]};"
    query = command["query"]
    clauses = ["SINCE NOW"] if query["options"].get("since_now") else []
    clauses += [f"FOR {duration(query['for_us'])}"] if query["for_us"] else []
    options = query["options"]
    given = [f"dwell => {duration(options['dwell_us'])}"] if "dwell_us" in options else []
    given += ["changes => true"] if options.get("changes") else []
    if given:
        clauses.append(f"WITH ({', '.join(given)})")
    clauses = [f"REGISTER QUERY {query['name']}", *clauses, "AS", select_text(query, query["id"])]
    return " ".join(clauses) + ";"


def select_text(select: Spec, turn: int) -> str:
    """A SELECT; `turn` chooses among the notations."""
    names = Names.of(select, turn)
    parts, region = _conjuncts(select, names), select["region"]
    if turn % 3 == 0 and region["type"] not in ("all", "nearest"):
        parts = [f"loc INSIDE {region_text(region)}", *parts]
        region = {"type": "all"}
    items = ["COUNT(*)"] if select.get("aggregate") else [_item(*one, names) for one in select["select"]]
    clauses = [f"SELECT {', '.join(items)} FROM {names.relations}"]
    clauses += [f"WHERE {' AND '.join(parts)}"] if parts else []
    clauses += [_clause(region)] if region["type"] != "all" else []
    order = [_order(*one, names=names) for one in select.get("order", [])]
    clauses += [f"ORDER BY {', '.join(order)}"] if order else []
    clauses += [f"LIMIT {select['limit']}"] if select.get("limit") is not None else []
    return " ".join(clauses)


def _order(e: Any, down: bool, nulls_first: bool = False, *, names: Names) -> str:
    return f"{expression(e, names)}{' DESC' if down else ''}{' NULLS FIRST' if nulls_first else ''}"


def _item(out: str, e: Any, names: Names) -> str:
    return expression(e, names) + ("" if e == ["col", out] else f" AS {out}")


def _conjuncts(select: Spec, names: Names) -> list[str]:
    """What WHERE asks for; of joins the equalities themselves, which stand last in the condition."""
    condition, joins = select["condition"], _joins(select)
    if condition is None:
        return []
    parts = condition[1] if condition[0] == "and" else [condition]
    said = [expression(part, names) for part in parts[: len(parts) - len(joins)]]
    for join in reversed(joins):
        by = join["column"]
        mine = f"{names.stream}{by}" if isinstance(by, str) else expression(by, names)
        both = [mine, f"{names.tables[join['table_id']]}{join['key']}"]
        said.append(" = ".join(both if len(said) % 2 else reversed(both)))
    return said


def _joins(select: Spec) -> list[Spec]:
    join = select["join"]
    return [] if join is None else [join, *join.get("further", [])]


@dataclass(frozen=True)
class Names:
    """What stands before the columns of the stream, in FROM, in REGION, and before those of each table."""

    stream: str = ""
    relations: str = ""
    zones: str = ""
    tables: Mapping[int, str] = field(default_factory=dict)

    @staticmethod
    def of(select: Spec, turn: int) -> Names:
        """With an alias for each relation, without any, or with the stream's own name."""
        stream, joins = select["stream"], _joins(select)
        zones = set_named(stream)
        if not joins:
            return Names("M." if turn % 4 == 1 else "", f"{stream} M" if turn % 4 == 1 else stream, zones)
        named = [(join["table_id"], join["table"]) for join in joins]
        if turn % 2:
            from_ = [f"{stream} M", *(f"{name} F{i}" for i, (_, name) in enumerate(named))]
            tables = {id_: f"F{i}." for i, (id_, _) in enumerate(named)}
            return Names("M.", ", ".join(from_ if turn % 3 else from_[::-1]), zones, tables)
        from_ = [stream, *(name for _, name in named)]
        return Names(f"{stream}.", ", ".join(from_), zones, {id_: f"{name}." for id_, name in named})


def region_text(shape: Spec) -> str:
    """A region, in all notations as the numbers fall."""
    match shape["type"]:
        case "rect":
            whole = "({x1}, {y1}, {x2}, {y2})" if shape["x1"] < 0 else "RECT({x2}, {y2}, {x1}, {y1})"
            return whole.format(**shape)
        case "circle":
            return "CIRCLE({x}, {y}, {radius})".format(**shape)
        case "polygon":
            return polygon(shape["rings"])
        case "area" if shape["member"] is None:
            return str(shape["name"])
        case "area":
            return f"{shape['name']}[{literal(shape['member'], 'STRING')}]"
        case "moving_circle":
            return f"CIRCLE({shape['radius']}) AROUND {literal(shape['focal'], '')}"
    focal, w, h = literal(shape["focal"], ""), shape["xdist"], shape["ydist"]
    return f"('M', {focal}, {w}, {h})" if w > h else f"RECT({w}, {h}) AROUND {focal}"


def _clause(region: Spec) -> str:
    """What stands beside WHERE."""
    if region["type"] != "nearest":
        return f"INSIDE {region_text(region)}"
    k, plain = region["k"], region["k"] % 2
    if "focal" in region:
        focal = literal(region["focal"], "")
        return f"NEAREST {k} TO {focal}" if plain else f"KNN ('M', {k}, {focal})"
    x, y = region["x"], region["y"]
    return f"NEAREST {k} TO ({x}, {y})" if plain else f"KNN ({k}, {x}, {y})"


def polygon(rings: Polygon) -> str:
    """POLYGON((x y, …), …), with commas between."""
    return f"POLYGON({', '.join('(' + ', '.join(f'{x} {y}' for x, y in ring) + ')' for ring in rings)})"


# --- expressions ---


def expression(e: Any, names: Names) -> str:
    """The text of a bound expression, with all parentheses."""
    op, *args = e

    def of(part: Any) -> str:
        return expression(part, names)

    match op:
        case "col":
            return f"{names.stream}{args[0]}"
        case "join":
            return f"{names.tables[args[0]]}{args[2]}"
        case "lit":
            return literal(*args)
        case "now":
            return "NOW"
        case "dur":
            return duration(args[0])
        case "distance":
            return "DISTANCE"
        case "fn":
            given = [args[1], *(args[2] if len(args) > 2 else ())]
            return f"{args[0]}({', '.join(map(of, given))})"
        case "cast":
            return f"CAST({of(args[0])} AS {args[2]})"
        case "case":
            *results, last = args[1]
            pairs = zip(args[0], results, strict=True)
            branches = " ".join(f"WHEN {of(test)} THEN {of(result)}" for test, result in pairs)
            return f"CASE {branches} ELSE {of(last)} END"
        case "region_of":
            return f"REGION({names.zones})"
        case "arith" if args[0] == "/" and args[2][0] == "dur":
            return of(args[1])  # a difference of times is a number of seconds
        case "cmp" if args[2][0] == "arith" and args[2][3][0] == "dur" and args[2][3][1] % 2:
            return _difference(args[0], args[1], args[2], of)
        case "cmp" | "arith":
            return f"({of(args[1])} {args[0]} {of(args[2])})"
        case "concat":
            return f"({of(args[0])} || {of(args[1])})"
        case "and" | "or":
            return "(" + f" {op.upper()} ".join(of(a) for a in args[0]) + ")"
        case "not":
            return f"(NOT {of(args[0])})"
        case "neg":
            return f"(- {of(args[0])})"
        case "inside":
            return f"(loc INSIDE {region_text(args[0])})"
    return f"({_predicate(op, args, names)})"


def _difference(op: str, left: Any, right: Any, of: Callable[[Any], str]) -> str:
    """`left op base ± duration` as a comparison of a difference: `left - base op duration`."""
    _, sign, base, span = right
    flipped = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
    if sign == "-":
        return f"({of(base)} - {of(left)} {flipped.get(op, op)} {of(span)})"
    return f"({of(left)} - {of(base)} {op} {of(span)})"


def _predicate(op: str, args: list[Any], names: Names) -> str:
    inner = expression(args[0], names)
    match op:
        case "isnull":
            return f"{inner} IS NULL"
        case "like":
            return f"{inner} LIKE {literal(args[1], 'STRING')}"
        case "contains":
            return f"{inner} CONTAINS {'ANY ' if args[2] == 'any' else ''}{literal(args[1], 'STRING')}"
        case "in":
            return f"{inner} IN ({', '.join(expression(a, names) for a in args[1])})"
    return f"{inner} BETWEEN {expression(args[1], names)} AND {expression(args[2], names)}"


def literal(content: Any, kind: str) -> str:
    """A literal as typed."""
    if content is None:
        return "NULL"
    if kind == "TIMESTAMP":
        return f"'{instant(content)}'"
    if isinstance(content, str):
        return "'" + content.replace("'", "''") + "'"
    return str(content).upper() if isinstance(content, bool) else repr(content)


def duration(us: int) -> str:
    """A duration as typed; whole milliseconds only."""
    if us % 1000:
        raise ValueError(f"{us} µs cannot be typed")
    return f"{us // 1_000_000} s" if us % 1_000_000 == 0 else f"{us // 1000} ms"


def instant(us: int) -> str:
    """ISO 8601 in UTC with Z, with as many digits of a fraction as there are."""
    text = (EPOCH + timedelta(microseconds=us)).isoformat().replace("+00:00", "")
    return (text.rstrip("0") if "." in text else text) + "Z"
