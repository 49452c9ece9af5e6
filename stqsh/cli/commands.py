"""The command line, built with typer: every command is a line or two that call the library."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from stqsh.cli.help_pages import page
from stqsh.docs import TOPICS
from stqsh.errors import CommandLineError, StqshError
from stqsh.profile import profile_folders
from stqsh.settings import FORMATS
from stqsh.shell.exit_codes import exit_on_signals, run_guarded
from stqsh.shell.scripting.console import ShellOptions
from stqsh.shell.user_files import script_text
from stqsh.storage.home import DEFAULT_NAME, list_sessions

# Each command imports what it calls only when it is called: `stqsh --version`, `--help` and completion load
# neither numpy nor the client.
app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="An interactive shell for continuous spatial queries over streams that move.",
)


def session_names(incomplete: str) -> list[str]:
    """Return the names of the sessions that begin with `incomplete`."""
    try:
        found = list_sessions()
    except StqshError:  # a home that cannot be read: there is nothing to offer
        return []
    return [one.home.name for one in found if one.home.name.startswith(incomplete)]


def profile_names(incomplete: str) -> list[str]:
    """Return the names of the profiles that begin with `incomplete`."""
    names = {path.stem for folder in profile_folders() for path in folder.glob("*.yaml")}
    return sorted(name for name in names if name.startswith(incomplete))


def format_names(incomplete: str) -> list[str]:
    """Return the names of the output formats that begin with `incomplete`."""
    return [name for name in FORMATS if name.startswith(incomplete)]


def document_names(incomplete: str) -> list[str]:
    """Return the names of the documents that begin with `incomplete`."""
    return [name for name in TOPICS if name.startswith(incomplete)]


Session = Annotated[
    str | None,
    typer.Option("--session", "-s", metavar="NAME", help="the session's name", autocompletion=session_names),
]
SessionName = Annotated[
    str | None,
    typer.Argument(metavar="NAME", help="the session's name", autocompletion=session_names),
]
ProfileName = Annotated[
    str | None,
    typer.Option("--profile", metavar="NAME", help="a profile's name or file", autocompletion=profile_names),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="jsonl, csv, tsv, geojson, markdown, table or vertical",
        autocompletion=format_names,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="write results to this file, - for standard output; .arrow and .parquet hold tables",
    ),
]
Variables = Annotated[
    list[str] | None,
    typer.Option(
        "-v", "--variable", metavar="NAME=VALUE", help="set a variable, :NAME in statements; repeatable"
    ),
]
AllowRun = Annotated[
    bool,
    typer.Option("--allow-run", help="let scripts run commands (DO RUN) and Python code (CREATE FUNCTION)"),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="print only results and errors")]


@app.callback(invoke_without_command=True, epilog=page(""))
def shell(  # noqa: PLR0913  (typer takes each option as a parameter)
    context: typer.Context,
    *,
    session: Session = None,
    profile: ProfileName = None,
    command: Annotated[
        list[str] | None, typer.Option("-c", metavar="TEXT", help="statements to run; repeatable")
    ] = None,
    file: Annotated[
        list[str] | None,
        typer.Option("-f", "--file", metavar="FILE", help="a script to run, before those of -c; repeatable"),
    ] = None,
    format_: Format = None,
    output: Output = None,
    variable: Variables = None,
    quiet: Quiet = False,
    allow_run: AllowRun = False,
    no_init: Annotated[bool, typer.Option("--no-init", help="do not read the shell's init file")] = False,
    version: Annotated[bool, typer.Option("--version", help="show the version")] = False,
) -> None:
    """Start the shell; with -f, -c or a script on standard input, run that script.

    -c works on the session of the shell, other scripts on a temporary one, unless --session names one.
    The shell first reads an init file: $STQSH_INIT, else init.stq in the user's configuration folder.
    Scripts do not read it.
    """
    if context.invoked_subcommand is not None:
        # Options before a command apply to it as well: stqsh --profile cluster doctor
        if command or file:
            raise typer.Exit(run_guarded(partial(_refuse_statements, context.invoked_subcommand)))
        names = ("session", "profile", "format_", "output", "variable", "quiet", "allow_run")
        said = {name: value for name in names if (value := context.params[name])}
        context.default_map = {context.invoked_subcommand: said}
        return
    options = _options(session, profile, format_, output, variable, quiet=quiet)
    options = replace(options, allow_run=allow_run)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if version:
        show_version()
    elif command or file or not terminal:
        texts = [(text, "-c") for text in command or ()]
        if command and session is None:
            options = replace(options, session=DEFAULT_NAME)
        _batch(file or ([] if command else ["-"]), texts, options)
    else:
        from stqsh.shell.repl.app import run_shell

        exit_on_signals()
        raise typer.Exit(run_guarded(lambda: run_shell(replace(options, init=not no_init))))


@app.command(epilog=page("run"))
def run(  # noqa: PLR0913
    file: Annotated[str, typer.Argument(metavar="FILE", help="a script, or - for standard input")],
    *,
    format_: Format = None,
    output: Output = None,
    session: Session = None,
    profile: ProfileName = None,
    variable: Variables = None,
    quiet: Quiet = False,
    allow_run: AllowRun = False,
) -> None:
    """Run a script, in a temporary session unless one is named."""
    options = _options(session, profile, format_, output, variable, quiet=quiet)
    _batch([file], [], replace(options, allow_run=allow_run))


def _named(name: str | None, session: str | None) -> str | None:
    """Return the session that an argument or the option `--session` names.

    Raises:
        CommandLineError: They name different sessions.
    """
    if name is not None and session is not None and name != session:
        raise CommandLineError(f"two sessions are named: {name} and {session}", hint="name only one")
    return name if name is not None else session


@app.command(epilog=page("serve"))
def serve(name: SessionName = None, session: Session = None, profile: ProfileName = None) -> None:
    """Run a session's engine in the foreground."""
    from stqsh.cli.sessions import serve as serve_session

    raise typer.Exit(run_guarded(lambda: serve_session(_named(name, session), profile)))


@app.command(epilog=page("sessions"))
def sessions(profile: ProfileName = None, format_: Format = None) -> None:
    """List the sessions and their engines."""
    from stqsh.cli.sessions import show_sessions

    raise typer.Exit(run_guarded(lambda: show_sessions(profile, format_)))


@app.command(epilog=page("stop"))
def stop(name: SessionName = None, session: Session = None, profile: ProfileName = None) -> None:
    """Stop a session's engine; the session is kept.

    It continues where it was when it is next used.
    """
    from stqsh.cli.sessions import stop_session

    raise typer.Exit(run_guarded(lambda: stop_session(_named(name, session), profile)))


@app.command("rm", epilog=page("rm"))
def remove(
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME…", help="the sessions' names", autocompletion=session_names),
    ],
    *,
    force: Annotated[
        bool, typer.Option("--force", help="stop the engine of a session that is in use")
    ] = False,
    profile: ProfileName = None,
) -> None:
    """Remove sessions: their definitions, queries, answers and records.

    It says what they held. Files that sinks and archives have written stay.
    """
    from stqsh.cli.sessions import remove_sessions

    raise typer.Exit(run_guarded(lambda: remove_sessions(names, profile, force=force)))


@app.command(epilog=page("save"))
def save(
    words: Annotated[
        list[str],
        typer.Argument(metavar="NAME TO URI", help="a session, and a place where there is nothing yet"),
    ],
    *,
    profile: ProfileName = None,
) -> None:
    """Save a whole session, while it runs, to a folder or an object store.

    The savepoint is of one step. `stqsh restore` makes a session of it.
    """
    from stqsh.cli.savepoints import save_session

    raise typer.Exit(run_guarded(lambda: save_session(words, profile)))


@app.command(epilog=page("restore"))
def restore(
    words: Annotated[
        list[str], typer.Argument(metavar="NAME FROM URI", help="a new session, and where the savepoint is")
    ],
    *,
    slots: Annotated[
        int | None, typer.Option("--slots", metavar="COUNT", min=1, max=1024, help="another number of slots")
    ] = None,
    profile: ProfileName = None,
) -> None:
    """Make a session from a savepoint; it goes on from the step that was saved.

    Another number of slots needs streams whose records can all be read again, as those of files.
    """
    from stqsh.cli.savepoints import restore_session

    raise typer.Exit(run_guarded(lambda: restore_session(words, slots, profile)))


@app.command(epilog=page("logs"))
def logs(
    name: SessionName = None,
    *,
    session: Session = None,
    profile: ProfileName = None,
    lines: Annotated[
        int, typer.Option("--lines", "-n", metavar="COUNT", min=0, help="number of lines to show")
    ] = 50,
    follow: Annotated[bool, typer.Option("--follow", help="keep printing new lines until Ctrl-C")] = False,
    json: Annotated[bool, typer.Option("--json", help="print each line as a JSON object")] = False,
) -> None:
    """Show the log of a session's engine."""
    from stqsh.cli.logs import show_logs

    raise typer.Exit(run_guarded(lambda: show_logs(_named(name, session), profile, lines, follow, json=json)))


@app.command("map", epilog=page("map"))
def draw_map(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[STREAM] [QUERIES]", help="default: the session's only stream, all queries"),
    ] = None,
    *,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="FILE", help="write a web page that updates itself"),
    ] = None,
    serve_it: Annotated[
        bool,
        typer.Option("--serve", help="serve the page on 127.0.0.1, on the port that follows or a free one"),
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="draw one picture and exit")] = False,
    session: Session = None,
    profile: ProfileName = None,
) -> None:
    """Draw a session's objects, regions and answers on a map.

    q or Ctrl-C leaves it. Without a terminal it prints one picture as text.
    """
    from stqsh.cli.map_command import MapOptions, run_map

    exit_on_signals()
    options = MapOptions(tuple(names or ()), to, serve_it, once, session, profile)
    raise typer.Exit(run_guarded(lambda: run_map(options)))


@app.command(epilog=page("demo"))
def demo(profile: ProfileName = None) -> None:
    """Show what stqsh does, in a minute or two, on the sample data.

    Every step says what is asked; on a terminal there is a live map, too.
    """
    from stqsh.cli.demo import run_demo

    exit_on_signals()
    raise typer.Exit(run_guarded(lambda: run_demo(profile)))


@app.command("open", epilog=page("open"))
def open_files(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE…", help="files, folders, or patterns in quotes")
    ],
    *,
    session: Session = None,
    profile: ProfileName = None,
) -> None:
    """Open files of any kind: find out what they are, and play them on the map.

    In a pipe it prints a script that opens them; with --session it opens them in that session.
    """
    from stqsh.cli.open_command import run_open

    exit_on_signals()
    raise typer.Exit(run_guarded(lambda: run_open(files, session, profile)))


@app.command(epilog=page("tutorial"))
def tutorial(profile: ProfileName = None) -> None:
    """Learn stqsh in ten minutes, on the sample data.

    The lessons cover streams, queries, their updates and their cost.
    """
    from stqsh.cli.tutorial import run_tutorial

    exit_on_signals()
    raise typer.Exit(run_guarded(lambda: run_tutorial(profile)))


@app.command(epilog=page("docs"))
def docs(
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="TOPIC", help="a document; the list without it", autocompletion=document_names
        ),
    ] = None,
) -> None:
    """Show a document, or the list of documents."""
    from stqsh.shell.repl.help_text import show_documents

    raise typer.Exit(run_guarded(lambda: show_documents(topic)))


@app.command(epilog=page("doctor"))
def doctor(profile: ProfileName = None) -> None:
    """Check that this machine has what stqsh needs.

    Every problem is reported with its remedy.
    """
    # By name: it checks the engine's Java, and the shell must not import the engine.
    examined = import_module("stqsh.cli.doctor").doctor
    raise typer.Exit(run_guarded(lambda: examined(profile)))


@app.command(epilog=page("pack"))
def pack(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="the archive, which ends with .tar.gz")],
    *,
    packages: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="PACKAGE", help="a further installed package; repeatable"),
    ] = None,
    without_kernels: Annotated[
        bool, typer.Option("--without-kernels", help="let each host compile the kernels, some minutes, once")
    ] = False,
) -> None:
    """Pack Python, stqsh and compiled kernels for the executors of a cluster.

    Hosts that have neither then need only Spark; the profile names the archive.
    """
    # By name: it compiles kernels, and the shell must not import them.
    packed = import_module("stqsh.cli.pack").pack
    raise typer.Exit(run_guarded(lambda: packed(file, packages or (), kernels=not without_kernels) or 0))


@app.command(
    add_help_option=False, context_settings={"ignore_unknown_options": True, "allow_extra_args": True}
)
def bench(context: typer.Context) -> None:
    """Run benchmarks; `stqsh bench --help` lists them."""
    # By name: the benchmarks plug into the command line, which must not import them.
    import_module("stqsh.bench.cli").app(args=context.args, prog_name="stqsh bench")


@app.command(epilog=page("feed"))
def feed(
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="a stream FROM INSERTS, or a query stream")],
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="its records; standard input without it")
    ] = None,
    *,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="FORMAT", help="csv, json, parquet or geojson; else it is recognized"
        ),
    ] = None,
    session: Session = None,
    profile: ProfileName = None,
) -> None:
    """Feed a stream with the records of a file, or of standard input as they come."""
    from stqsh.cli.feed import FeedOptions, run_feed

    exit_on_signals()
    options = FeedOptions(stream, file, format_, session, profile)
    raise typer.Exit(run_guarded(lambda: run_feed(options)))


@app.command("version", epilog=page("version"))
def show_version() -> None:
    """Show the version."""
    from importlib.metadata import version

    typer.echo(f"stqsh {version('stqsh')}")


def _options(
    session: str | None,
    profile: str | None,
    format_: str | None,
    output: Path | None,
    variables: list[str] | None,
    *,
    quiet: bool,
) -> ShellOptions:
    outlet = None if output is None or str(output) == "-" else str(output)
    return ShellOptions(session, profile, format_, tuple(variables or ()), quiet, output=outlet)


def _refuse_statements(command: str) -> int:
    raise CommandLineError(f"-c and -f run statements, and {command} is a command: give one of them")


def _batch(files: list[str], texts: list[tuple[str, str]], options: ShellOptions) -> None:
    from stqsh.shell.scripting.batch import run_batch

    exit_on_signals()

    def run_all() -> int:
        read = [(script_text(file), "stdin" if file == "-" else file) for file in files]
        return run_batch([*read, *texts], options)

    raise typer.Exit(run_guarded(run_all))
