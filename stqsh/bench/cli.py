"""`stqsh bench NAME`: measure, show a table, and write JSON where asked."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(help="Measure what things cost on this machine.", no_args_is_help=True)

JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the results to this file as JSON.")]


@app.command("range")
def range_command(
    json: JsonFile = None,
    queries: Annotated[str, typer.Option(help="Numbers of queries, with commas.")] = "1000,10000,100000",
    objects: Annotated[int, typer.Option(help="Moving objects.")] = 1_000_000,
    ticks: Annotated[int, typer.Option(help="Measured ticks of 100,000 records for each number.")] = 30,
    motion: Annotated[str, typer.Option(help="walk: short ways; jump: anywhere.")] = "walk",
) -> None:
    """Records a second end to end against the number of range queries."""
    from stqsh.bench import range as bench

    if motion not in ("walk", "jump"):
        raise typer.BadParameter(f"no motion {motion!r}; there are walk and jump", param_hint="--motion")
    options = bench.Options(_numbers(queries), objects, ticks=ticks, motion=motion)
    rows = bench.measure(options, _say)
    title = f"range: {objects:,} objects, {motion}, squares of 1 % side; times: median ms a batch"
    _answer(title, rows, bench.COLUMNS, json)


@app.command("batch")
def batch_command(
    json: JsonFile = None, batches: Annotated[int, typer.Option(help="Batches to measure.")] = 20
) -> None:
    """The cost of a batch with nothing to do, and of one with 10,000 records."""
    from stqsh.bench import batch as bench

    rows = bench.measure(batches, _say)
    _answer("batch: the floor; times: median ms a batch", rows, bench.COLUMNS, json)


@app.command("start")
def start_command(
    json: JsonFile = None, times: Annotated[int, typer.Option(help="Starts to measure.")] = 5
) -> None:
    """The time until the prompt shows, and until a session is ready."""
    from stqsh.bench import start as bench

    _answer("start", bench.measure(times, _say), bench.COLUMNS, json)


@app.command("keys")
def keys_command(
    json: JsonFile = None,
    times: Annotated[int, typer.Option(help="How often a statement is typed.")] = 3,
    objects: Annotated[int, typer.Option(help="Moving objects while the engine is at work.")] = 20_000,
) -> None:
    """The time from a keystroke in the shell to its echo, with completion, at rest and under load."""
    from stqsh.bench import keys as bench

    _answer("keys: from a key to its echo", bench.measure(times, objects, _say), bench.COLUMNS, json)


@app.command("snapshot")
def snapshot_command(
    json: JsonFile = None,
    objects: Annotated[int, typer.Option(help="Moving objects.")] = 1_000_000,
    asked: Annotated[int, typer.Option(help="Questions of each kind, straight from the slots.")] = 300,
    by_log: Annotated[int, typer.Option(help="Questions of each kind by way of the control log.")] = 30,
) -> None:
    """How long snapshot SELECTs take over a million objects."""
    from stqsh.bench import snapshot as bench

    rows = bench.measure(bench.Options(objects, asked, by_log), _say)
    _answer(f"snapshot: {objects:,} objects at rest", rows, bench.COLUMNS, json)


@app.command("knn")
def knn_command(
    json: JsonFile = None,
    queries: Annotated[str, typer.Option(help="Numbers of queries, with commas.")] = "1000,10000,100000",
    k: Annotated[str, typer.Option("--k", help="Numbers of neighbours, with commas.")] = "1,10,100",
    around: Annotated[str, typer.Option(help="What they are around, with commas.")] = "place,focal",
    objects: Annotated[int, typer.Option(help="Moving objects.")] = 1_000_000,
    ticks: Annotated[int, typer.Option(help="Measured ticks of 100,000 records for each row.")] = 10,
) -> None:
    """Records a second end to end against the number of kNN queries."""
    from stqsh.bench import knn as bench

    kinds = tuple(around.split(","))
    try:
        options = bench.Options(_numbers(queries), _numbers(k), kinds, objects, ticks=ticks)
    except ValueError as fault:
        raise typer.BadParameter(str(fault)) from None
    rows = bench.measure(options, _say)
    _answer(f"knn: {objects:,} objects; times: median ms a batch", rows, bench.COLUMNS, json)


@app.command("keyword")
def keyword_command(
    json: JsonFile = None,
    queries: Annotated[str, typer.Option(help="Numbers of queries, with commas.")] = "1000,10000,100000",
    terms: Annotated[str, typer.Option(help="Terms a query, with commas; 0: one to three.")] = "0",
    sides: Annotated[str, typer.Option(help="Sides of boxes, % of the whole, with commas.")] = "1",
    posts: Annotated[str | None, typer.Option(help="Real posts, FILES.csv:x,y,text,…; else made up.")] = None,
    ticks: Annotated[int, typer.Option(help="Measured ticks of 20,000 posts for each row.")] = 20,
) -> None:
    """Posts a second end to end against the number of keyword queries."""
    from stqsh.bench import keyword as bench
    from stqsh.bench.posts import read_posts

    real = None
    if posts is not None:
        files, _, columns = posts.rpartition(":")
        if not files or columns.count(",") < 2:
            raise typer.BadParameter("say FILES.csv:x,y,text", param_hint="--posts")
        real = read_posts(files, columns.split(","))
    shares = tuple(float(side) / 100 for side in sides.split(","))
    options = bench.Options(_numbers(queries), _numbers(terms), shares, real, ticks=ticks)
    rows = bench.measure(options, _say)
    _answer("keyword: posts with keyword queries; times: median ms a batch", rows, bench.COLUMNS, json)


@app.command("sole")
def sole_command(
    figure: Annotated[list[int] | None, typer.Option(help="A figure of the paper; may be repeated.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A tiny town: shows only that it runs.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for JSON and plots.")] = Path("sole"),
) -> None:
    """The figures of SOLE section 7: cache areas, sharing, response, load shedding."""
    from stqsh.bench.sole.run import run

    try:
        run(figure or [], out, _say, quick=quick)
    except ValueError as fault:
        raise typer.BadParameter(str(fault), param_hint="--figure") from None


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in text.replace("_", "").split(","))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not numbers with commas", param_hint="--queries") from None


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _answer(
    title: str, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], json: Path | None
) -> None:
    from stqsh.bench.report import save, show

    show(title, rows, columns)
    if json:
        save(json, title.partition(":")[0], rows)
