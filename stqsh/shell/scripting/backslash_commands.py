r"""Backslash commands: one registry for dispatch, completion and `\?`, in the shell and in scripts."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from stqsh.errors import StqshError
from stqsh.settings import FORMATS
from stqsh.shell.messages import print_text
from stqsh.shell.repl.help_text import two_columns
from stqsh.shell.scripting.console import SWITCHES
from stqsh.shell.scripting.named_queries import keep, named_queries, remove, statement_of
from stqsh.shell.scripting.variables import assign, forget, replaced, unquoted
from stqsh.shell.scripting.watch_interval import parse_interval
from stqsh.shell.writers.writer import check_format

if TYPE_CHECKING:
    from stqsh.shell.scripting.console import Console, PromptActions


class ExitShell(Exception):
    """Leaves the shell, or ends a script."""


@dataclass(frozen=True, slots=True)
class BackslashCommand:
    r"""A backslash command.

    Attributes:
        names: Its names, the usual one first.
        argument: The argument as `\?` shows it; completion offers files if it names one.
        help: A description of its effect.
        action: Runs it.
        reads: Its effect while a script is read, if it has an argument.
        in_scripts: Whether scripts may use it.
        check: Raises `StqshError` for a wrong argument, before a script does anything.
        choices: The words that it accepts, for completion.
        expands: Returns the statements to run instead; "" if its action is to run.
    """

    names: tuple[str, ...]
    argument: str
    help: str
    action: Callable[[Console, str], None]
    reads: Literal["include", "set", "unset", "echo"] | None = None
    in_scripts: bool = True
    check: Callable[[str], object] | None = None
    choices: tuple[str, ...] = ()
    expands: Callable[[str], str] | None = None

    @property
    def takes_file(self) -> bool:
        """Whether its argument may be a file."""
        return "FILE" in self.argument


def find_command(line: str) -> tuple[BackslashCommand, str]:
    r"""Return the command of a line such as `\timing on`, and its argument.

    A file name may be in single quotes, as in psql.

    Raises:
        StqshError: There is no such command.
    """
    line = line.strip().removeprefix("\\")
    if line.startswith("!"):
        line = f"! {line[1:]}"  # as in \\!ls
    word, *rest = line.split(None, 1) or [""]
    word = word.rstrip(";")
    for command in COMMANDS:
        if word in command.names:
            argument = "".join(rest)
            return command, unquoted(argument) if command.takes_file else argument
    known = [name for command in COMMANDS for name in command.names]
    near = difflib.get_close_matches(word, known, n=1)
    raise StqshError(
        f"there is no command \\{word}",
        hint=f"maybe you meant \\{near[0]}" if near else "\\? lists the commands",
    )


def run_command(console: Console, line: str) -> None:
    """Run a command line; raises `StqshError` if it fails, `ExitShell` for `\\q`."""
    command, argument = find_command(line)
    if command.reads in ("set", "echo"):
        argument = replaced(argument, console.variables)
    statements = command.expands(argument) if command.expands is not None else ""
    if statements:
        _prompting(console, command.names[0]).execute(statements)
    else:
        command.action(console, argument)


def _quit(console: Console, argument: str) -> None:
    raise ExitShell


def _help(console: Console, argument: str) -> None:
    if argument.strip("; "):
        command, _ = find_command(argument)
        told = two_columns([(_written(command), command.help)])
    else:
        told = _list()
    # In a script the text is output data, like that of HELP.
    (console.tell if console.prompting is not None else print_text)(told)


def _written(command: BackslashCommand) -> str:
    return "".join(f"\\{name} " for name in command.names) + command.argument


def _list() -> str:
    rows = [(_written(one), one.help) for one in COMMANDS]
    rows += [
        ("statement ;", "run it; HELP; lists the statements, HELP RUN; explains one"),
        ("statement \\G", "run it and show one value per line, as FORMAT vertical does"),
        ("Ctrl-C", "leave a TAIL, stop a RUN, clear the line"),
        ("space, /, ↑, q", "in a TAIL: pause or continue, filter by text or op, scroll back, leave"),
        ("Ctrl-R", "search the history"),
        ("Ctrl-D", "leave the shell"),
    ]
    return two_columns(rows)


def _timing(console: Console, argument: str) -> None:
    console.timing = _switched("timing", argument, now=console.timing)
    console.note(f"timing is {_said(console.timing)}")


def _pager(console: Console, argument: str) -> None:
    console.pager = _switched("pager", argument, now=console.pager)
    console.note(f"pager is {_said(console.pager)}")


def _format(console: Console, argument: str) -> None:
    if argument:
        console.set_format(argument.rstrip(";"))
    console.note(f"format is {console.format or 'auto'}")


_OPTIONS: dict[str, Callable[[Console, str], None]] = {"format": _format, "pager": _pager, "timing": _timing}


def _pset(console: Console, argument: str) -> None:
    name, _, value = argument.partition(" ")
    if not name:
        pager, timing = _said(console.pager), _said(console.timing)
        shown = {"format": console.format or "auto", "pager": pager, "timing": timing}
        console.tell("\n".join(f"{name} is {value}" for name, value in shown.items()))
        return
    _check_pset(argument)
    _OPTIONS[name](console, value.strip())


def _check_pset(argument: str) -> None:
    name, _, value = argument.partition(" ")
    if name and name not in _OPTIONS:
        near = difflib.get_close_matches(name, _OPTIONS, n=1)
        raise StqshError(
            f"\\pset has no option '{name}'",
            hint=f"maybe you meant {near[0]}" if near else f"options: {', '.join(_OPTIONS)}",
        )
    if name:
        _CHECKS[name](value.strip())


def _output(console: Console, argument: str) -> None:
    console.direct(argument)
    outlet = console.outlet
    usual = "standard output" if console.prompting is None else "the terminal"
    console.note(f"results go to {outlet.name if outlet else usual}")


def _wide(console: Console, argument: str) -> None:
    if console.widen is None:
        raise StqshError("there is no answer to show yet", hint="SHOW QUERIES;")
    console.widen()


def _include(console: Console, argument: str) -> None:
    if not argument:
        raise StqshError("\\i takes the name of a script", hint="\\i demo.stq")
    _prompting(console, "i").include(argument)


def _edit(console: Console, argument: str) -> None:
    _prompting(console, "e").edit(argument)


def _restart(console: Console, argument: str) -> None:
    _prompting(console, "restart").restart()


def _set(console: Console, argument: str) -> None:
    variables = console.variables
    if argument:
        assign(variables, argument)
        return
    listed = "\n".join(f"{name} = {value}" for name, value in sorted(variables.items()))
    console.tell(listed or "no variables are set")


def _unset(console: Console, argument: str) -> None:
    forget(console.variables, argument)


def _echo(console: Console, argument: str) -> None:
    console.tell(argument)


def _watch(console: Console, argument: str) -> None:
    how = parse_interval(argument)
    if console.last is None or console.repeater is None:
        raise StqshError(r"there is no statement to repeat", hint=r"SHOW QUERIES \watch")
    console.repeater(console.last, how)


def _nothing(console: Console, argument: str) -> None:
    r"""Do nothing, because the command expands to statements."""


def _described(argument: str) -> str:
    name = argument.rstrip("; ")
    if name:
        return f"DESCRIBE {name};"
    return "".join(f"SHOW {what};" for what in ("STREAMS", "TABLES", "REGIONS", "QUERIES"))


def _lists(*subjects: str) -> Callable[[str], str]:
    """Return a function that lists names matching a pattern; * is any text and ? one character."""

    def statements(argument: str) -> str:
        pattern = argument.strip("; '").replace("'", "''").replace("*", "%").replace("?", "_")
        like = f" LIKE '{pattern}'" if pattern else ""
        return "".join(f"SHOW {subject}{like};" for subject in subjects)

    return statements


def _connect(console: Console, argument: str) -> None:
    _prompting(console, "c").connect(argument.rstrip("; "))


def _upright(console: Console, argument: str) -> None:
    is_upright = console.format == _VERTICAL
    wanted = _switched("x", argument, now=is_upright)
    if wanted != is_upright:
        console.usual, console.format = (console.format, _VERTICAL) if wanted else (None, console.usual)
    console.note(f"expanded display is {_said(wanted)}")


def _shell(console: Console, argument: str) -> None:
    _prompting(console, "!").run_command(argument)


def _named(console: Console, argument: str) -> None:
    known = named_queries()
    console.tell(two_columns(list(known.items())) if known else "there are no named queries yet")


def _keep(console: Console, argument: str) -> None:
    name, _, statement = argument.strip().partition(" ")
    text = statement if statement.strip() else _prompting(console, "ns").last
    if not name or not text.strip():
        raise StqshError(r"\ns takes a name and a statement", hint=r"\ns free SELECT oid FROM taxis")
    keep(name, text)
    console.note(rf"\n {name} runs {named_queries()[name]}")


def _remove(console: Console, argument: str) -> None:
    name = argument.strip("; ")
    remove(name)
    console.note(f"named query {name} removed")


def _prompting(console: Console, name: str) -> PromptActions:
    if console.prompting is None:
        raise StqshError(f"\\{name} works at the prompt only, not in scripts")
    return console.prompting


def _switched(name: str, argument: str, *, now: bool = False) -> bool:
    word = argument.rstrip(";").lower()
    if word and word not in SWITCHES:
        raise StqshError(f"\\{name} takes on or off, not '{argument}'")
    return SWITCHES[word] if word else not now


def _check_format(argument: str) -> None:
    if argument:
        check_format(argument.rstrip(";"))


_check_pager, _check_timing = partial(_switched, "pager"), partial(_switched, "timing")
_CHECKS: dict[str, Callable[[str], object]] = {
    "format": _check_format,
    "pager": _check_pager,
    "timing": _check_timing,
}


def _said(switch: bool) -> str:
    return "on" if switch else "off"


_ON_OFF = ("on", "off")
_VERTICAL = "vertical"
COMMANDS: tuple[BackslashCommand, ...] = (
    BackslashCommand(("?", "h", "help"), "[COMMAND]", "show this list, or what one command does", _help),
    BackslashCommand(("q", "quit", "exit"), "", "leave the shell; the session continues", _quit),
    BackslashCommand(
        ("timing",),
        "[on|off]",
        "show how long each statement takes",
        _timing,
        check=_check_timing,
        choices=_ON_OFF,
    ),
    BackslashCommand(
        ("format",),
        "[FORMAT]",
        "set the output format: jsonl, csv, tsv, geojson, markdown, table or "
        "vertical; FORMAT x after a statement applies once",
        _format,
        check=_check_format,
        choices=FORMATS,
    ),
    BackslashCommand(
        ("pager",),
        "[on|off]",
        "show long results in $PAGER, or less",
        _pager,
        check=_check_pager,
        choices=_ON_OFF,
    ),
    BackslashCommand(
        ("pset",),
        "[format|pager|timing VALUE]",
        "set one of these options, or show them",
        _pset,
        check=_check_pset,
        choices=tuple(_OPTIONS),
    ),
    BackslashCommand(
        ("o", "out"),
        "[FILE | '|' COMMAND]",
        "send results to a file (out.csv, out.parquet, …) or a "
        "command; without an argument, to the terminal again",
        _output,
    ),
    BackslashCommand(
        ("watch",),
        "[i=SEC] [c=N]",
        "repeat the statement before it, or the last one, every SEC seconds "
        "(default 2), N times or until q or Ctrl-C",
        _watch,
        check=parse_interval,
    ),
    BackslashCommand(
        ("wide",),
        "",
        "show the last answer with all its columns, to scroll with ← and →; → on an empty line does so too "
        "where columns were left out",
        _wide,
        in_scripts=False,
    ),
    BackslashCommand(("i", "include"), "FILE", "run the statements of a script", _include, reads="include"),
    BackslashCommand(
        ("e", "edit"), "[FILE]", "edit the last statement, or a file, in $EDITOR", _edit, in_scripts=False
    ),
    BackslashCommand(
        ("restart",),
        "",
        "start the session's engine after it has died or was stopped",
        _restart,
        in_scripts=False,
    ),
    BackslashCommand(
        ("set",),
        "[NAME VALUE]",
        "set a variable, used as :name, :'name' or :\"name\"; without arguments, list them",
        _set,
        reads="set",
    ),
    BackslashCommand(("unset",), "NAME", "remove a variable", _unset, reads="unset"),
    BackslashCommand(("echo",), "TEXT", "print a text", _echo, reads="echo"),
    BackslashCommand(
        ("d", "describe"),
        "[NAME]",
        "describe a stream, a query or anything else that has a name; without one, list all",
        _nothing,
        expands=_described,
    ),
    BackslashCommand(
        ("dt",), "[PATTERN]", "list streams and tables", _nothing, expands=_lists("STREAMS", "TABLES")
    ),
    BackslashCommand(("dq",), "[PATTERN]", "list queries", _nothing, expands=_lists("QUERIES")),
    BackslashCommand(("dr",), "[PATTERN]", "list regions", _nothing, expands=_lists("REGIONS")),
    BackslashCommand(
        ("x",),
        "[on|off]",
        "show one value per line, or a table again",
        _upright,
        check=partial(_switched, "x"),
        choices=_ON_OFF,
    ),
    BackslashCommand(
        ("c", "connect"),
        "[SESSION]",
        "go to another session; without a name, say which one this is",
        _connect,
        in_scripts=False,
    ),
    BackslashCommand(
        ("!",), "[COMMAND]", "run a command of the system, or its shell", _shell, in_scripts=False
    ),
    BackslashCommand(
        ("n",),
        "[NAME [VALUE …]]",
        "run a named query with values for its $1, $2, …; without a name, list them",
        _named,
        expands=statement_of,
    ),
    BackslashCommand(
        ("ns",),
        "NAME [STATEMENT]",
        "keep a statement, or the last one, as a named query",
        _keep,
        in_scripts=False,
    ),
    BackslashCommand(("nd",), "NAME", "remove a named query", _remove, in_scripts=False),
)
"""All backslash commands."""
