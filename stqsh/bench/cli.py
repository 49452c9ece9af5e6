"""`stqsh bench NAME`: measure, show a table, save JSON, and compare with a saved run.

The commands come from the registry. The options of the named benchmark come from its module; the modules of
the others are not imported.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stqsh.bench.compare import differences, unlike
from stqsh.bench.harness.environment import busy
from stqsh.bench.options import Choice, choices, chosen
from stqsh.bench.registry import BENCHMARKS, Benchmark
from stqsh.bench.report import answer, show_differences
from stqsh.bench.results import BenchmarkRun, Recorder, encoded, measure, read

if TYPE_CHECKING:
    from stqsh.bench.papers.runner import Paper

_NAME = "stqsh bench"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of all benchmarks: sizes, repetitions, output and comparison."""

    full: bool = False
    repeat: int = 1
    json: bool = False
    save: Path | None = None
    compare: Path | None = None
    fail_over: float | None = None


def app(args: Sequence[str] | None = None, prog_name: str = _NAME) -> None:
    """Run the command line, which ends with `SystemExit`."""
    words = list(sys.argv[1:] if args is None else args)
    command_line(words)(args=words, prog_name=prog_name)


def command_line(words: Sequence[str]) -> typer.Typer:
    """Make the command line with all commands, and with the options of those that `words` name."""
    found = typer.Typer(
        help="Measure what things cost on this machine.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    found.command("list")(list_command)
    found.command("all")(_with_how(all_command))
    found.command("compare")(compare_command)
    for benchmark in BENCHMARKS:
        if benchmark.has_own_command:
            found.command(benchmark.name, help=benchmark.help)(_OWN[benchmark.name])
        else:
            found.command(benchmark.name, help=benchmark.help)(_command(benchmark, benchmark.name in words))
    return found


def list_command() -> None:
    """List all benchmarks; those marked with * are not part of `all`."""
    for benchmark in BENCHMARKS:
        print(f"{benchmark.name + ('' if benchmark.in_all else ' *'):<12} {benchmark.help}")


def all_command(
    how: RunOptions,
    only: Annotated[str | None, typer.Option(help="Only these benchmarks, separated by commas.")] = None,
) -> None:
    """Run all benchmarks one after the other, in their quick sizes without --full."""
    wanted = only.split(",") if only else [benchmark.name for benchmark in BENCHMARKS if benchmark.in_all]
    known = {benchmark.name: benchmark for benchmark in BENCHMARKS if not benchmark.has_own_command}
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise typer.BadParameter(
            f"no benchmark {unknown[0]!r}; there are {', '.join(known)}", param_hint="--only"
        )
    modules = [(known[name], known[name].load()) for name in wanted]
    _perform([(found, module.FULL if how.full else module.QUICK) for found, module in modules], how)


def compare_command(
    then: Annotated[Path, typer.Argument(help="A saved run.")],
    now: Annotated[Path, typer.Argument(help="A later one.")],
    fail_over: Annotated[
        float | None, typer.Option(min=1.0, help="Exit code 1 where a figure got worse by more than this.")
    ] = None,
) -> None:
    """Compare two saved runs."""
    how = RunOptions(compare=then, fail_over=fail_over)
    raise typer.Exit(_compared(_saved(now, "NOW"), _saved(then, "THEN"), how))


def sole_command(
    figure: Annotated[list[str] | None, typer.Option(help="A figure of the paper; may be repeated.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A tiny town: shows only that it runs.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for JSON and plots.")] = Path("sole"),
) -> None:
    """Repeat the figures of SOLE section 7: cache areas, sharing, response, load shedding."""
    from stqsh.bench.papers.figures import SOLE
    from stqsh.bench.papers.sole import town

    _run_figures(SOLE, figure, town.QUICK if quick else town.TownScale(), out)


def star_command(
    figure: Annotated[list[str] | None, typer.Option(help="A figure of the paper; may be repeated.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few posts: shows only that it runs.")] = False,
    posts: Annotated[int | None, typer.Option(help="How many posts.")] = None,
    memory: Annotated[int | None, typer.Option(help="MiB for views.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for JSON and plots.")] = Path("star"),
) -> None:
    """Repeat figures of STAR section 8: snapshots of aggregates with views, indexes of continuous queries."""
    from stqsh.bench.papers.figures import STAR
    from stqsh.bench.papers.star.asking import scale_of

    _run_figures(STAR, figure, scale_of(quick=quick, posts=posts, mebibytes=memory), out)


def routing_command(
    figure: Annotated[list[str] | None, typer.Option(help="A figure; may be repeated.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, less than a minute.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for JSON.")] = None,
    places: Annotated[
        str,
        typer.Option(
            help="CSV files with columns longitude and latitude of real objects, for cheetah7 and cheetah7b."
        ),
    ] = "",
) -> None:
    """Measure what routing strategies and load adjusters bring, beside the figures of their papers."""
    from stqsh.bench.papers.figures import ROUTING
    from stqsh.bench.papers.routing.trials import FULL, QUICK

    _run_figures(ROUTING, figure, replace(QUICK if quick else FULL, places=places), out)


def _run_figures(paper: Paper, figures: Sequence[str] | None, scale: Any, out: Path | None) -> None:
    """Run figures of papers; an error of the command line lists which there are, where one is not."""
    from stqsh.bench.papers.runner import run

    try:
        run(paper, figures or [], _say, scale=scale, out=out)
    except ValueError as fault:
        raise typer.BadParameter(str(fault), param_hint="--figure") from None


_OWN: dict[str, Callable[..., None]] = {
    "sole": sole_command,
    "star": star_command,
    "routing": routing_command,
}


def _command(benchmark: Benchmark, is_named: bool) -> Callable[..., None]:
    """Return the command of a benchmark, with its options if it is named."""
    offered: list[Choice] = []
    if is_named:
        module = benchmark.load()
        offered = choices(module.FULL, module.QUICK)

    def command(how: RunOptions, **given: Any) -> None:
        module = benchmark.load()
        base = module.FULL if how.full else module.QUICK
        said = {choice.name: _read(choice, given[choice.name]) for choice in offered}
        try:
            options = chosen(base, said)
        except ValueError as fault:
            raise typer.BadParameter(str(fault)) from None
        _perform([(benchmark, options)], how)

    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what typer reads
        [_HOW, *map(_parameter, offered)]
    )
    return _with_how(command)


def _read(choice: Choice, text: Any) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return choice.read(text)
    except ValueError as fault:
        raise typer.BadParameter(str(fault), param_hint=choice.flag) from None


def _parameter(choice: Choice) -> inspect.Parameter:
    if choice.kind is bool:
        kind: Any = Annotated[
            bool | None, typer.Option(f"{choice.flag}/--no-{choice.flag[2:]}", help=choice.help)
        ]
    else:
        kind = Annotated[str | None, typer.Option(choice.flag, help=choice.help, metavar=choice.metavar)]
    return inspect.Parameter(choice.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)


def _how(
    full: Annotated[bool, typer.Option("--full", help="Full sizes instead of quick ones.")] = False,
    repeat: Annotated[int, typer.Option(min=1, help="How often to run the whole benchmark.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, and no table.")] = False,
    save: Annotated[Path | None, typer.Option(help="Write the figures to this file as JSON.")] = None,
    compare: Annotated[Path | None, typer.Option(help="Compare with the run saved in this file.")] = None,
    fail_over: Annotated[
        float | None,
        typer.Option(min=1.0, help="Exit code 1 where a figure got worse by more than this factor."),
    ] = None,
) -> RunOptions:
    if fail_over is not None and compare is None:
        raise typer.BadParameter("say with which run: --compare FILE", param_hint="--fail-over")
    return RunOptions(full, repeat, json, save, compare, fail_over)


_HOW = inspect.Parameter("how", inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _with_how(function: Callable[..., None]) -> Callable[..., None]:
    """Add the fields of `how` as options to the parameters of a command."""
    shared = inspect.signature(_how, eval_str=True).parameters
    own = [
        item for item in inspect.signature(function, eval_str=True).parameters.values() if item.name != "how"
    ]

    def command(**given: Any) -> None:
        said = {name: given.pop(name) for name in shared}
        function(_how(**said), **given)

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [item.replace(kind=keyword) for item in (*own, *shared.values())]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {item.name: item.annotation for item in parameters}
    command.__doc__ = function.__doc__
    return command


def _perform(wanted: Sequence[tuple[Benchmark, Any]], how: RunOptions) -> None:
    then = _saved(how.compare, "--compare") if how.compare else None
    recorder = Recorder()
    if words := busy(recorder.load):
        _say(words)
    fine = [_measured(recorder, benchmark, options, how) for benchmark, options in wanted]
    run = recorder.finish()
    if how.json:
        sys.stdout.write(encoded(run).decode())
    if how.save:
        how.save.write_bytes(encoded(run))
        _say(f"saved to {how.save}")
    code = _compared(run, then, how) if then else 0
    raise typer.Exit(code if all(fine) else 1)


def _measured(recorder: Recorder, benchmark: Benchmark, options: Any, how: RunOptions) -> bool:
    """Measure a benchmark and show it; return whether it succeeded, as the others must go on."""
    _say(f"{benchmark.name}: {benchmark.help}")
    try:
        result = measure(benchmark, options, how.repeat, _say)
    except Exception as error:
        _say(f"{benchmark.name} failed: {type(error).__name__}: {error}")
        return False
    recorder.results.append(result)
    if not how.json:
        answer(result)
    return True


def _compared(now: BenchmarkRun, then: BenchmarkRun, how: RunOptions) -> int:
    """Show the comparison, and return the exit code."""
    for words in unlike(now, then):
        _say(f"another machine or another version: {words}")
    found = differences(now, then)
    if not how.json:
        show_differences(found, str(how.compare))
    failed = [item for item in found if how.fail_over is not None and item.fails(how.fail_over)]
    for item in failed:
        factor = item.ratio.worsening(item.better)
        _say(f"{item.bench} {item.row}: {item.name} is worse by {factor:.2f}, more than {how.fail_over}")
    return 1 if failed else 0


def _saved(path: Path, where: str) -> BenchmarkRun:
    try:
        return read(path)
    except ValueError as fault:
        raise typer.BadParameter(str(fault), param_hint=where) from None


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
