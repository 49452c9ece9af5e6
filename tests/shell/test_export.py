r"""A TAIL under `\o`: every row goes to the file, and the terminal tells how many there are."""

import gzip
import re
from contextlib import suppress
from pathlib import Path

import pytest

from shell.samples import START_US, updates
from shell.test_live_view import Q1, Query, Terminal, engine, enters, terminal
from stqsh.client.results import Rows, SnapshotMark
from stqsh.errors import CommandLineError, StqshError
from stqsh.shell.live.export import export
from stqsh.shell.render import PromptRenderer
from stqsh.shell.scripting.console import Console
from stqsh.shell.writers.redirect import open_outlet

__all__ = ["engine", "terminal"]
MANY = updates([Q1], [enters(12, str(number)) for number in range(5000)])


def test_a_file_gets_all_that_a_terminal_would_sample(terminal: Terminal, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    outlet = open_outlet(str(path))
    following = Query([SnapshotMark(Q1, 12, START_US, "begin"), MANY])
    said = export(following, outlet.writer("jsonl", one_query=True), terminal.screen, outlet.name)
    outlet.close()
    assert said == f"5 000 updates to {path}; left q1; it goes on"
    assert following.closed
    assert len(path.read_text().splitlines()) == 5001
    assert f"5 000 updates to {path}  Ctrl-C leaves"[:20] in terminal.buffer.getvalue().decode()
    assert terminal.lines() == []


def test_rows_are_in_the_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    outlet = open_outlet(str(path))
    outlet.writer("csv", one_query=True).updates(MANY)
    assert len(path.read_text().splitlines()) == 5001
    outlet.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_said() -> None:
    outlet = open_outlet("/dev/full")
    with pytest.raises(StqshError, match="cannot write /dev/full: no space left on device"):
        outlet.writer("csv", one_query=True).updates(MANY)
    with suppress(StqshError):  # what could not be written may be tried once more
        outlet.close()


def test_a_command_that_has_enough_ends_the_tail_with_a_word(terminal: Terminal) -> None:
    outlet = open_outlet("| exit 0")
    writer = outlet.writer("jsonl", one_query=True)
    following = Query([MANY] * 50)
    with pytest.raises(StqshError, match="the command exit 0 does not read any more"):
        export(following, writer, terminal.screen, outlet.name)
    assert following.closed
    outlet.close()


@pytest.mark.parametrize("command", ["kill -TTOU $$", "cat | kill -TTIN 0"])
def test_a_command_that_wants_the_terminal_is_ended(command: str) -> None:
    said = f"the command {re.escape(command)} wants the terminal"
    outlet = open_outlet(f"| {command}")
    with pytest.raises(StqshError, match=said):
        outlet.close()
    outlet = open_outlet(f"| {command}")
    writer = outlet.writer("csv", one_query=True)
    with pytest.raises(StqshError, match=said):
        for _ in range(50):  # more than a pipe has room for
            writer.updates(MANY)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("none/x.csv", "cannot write none/x.csv: no such file or directory"),
        ("none/x.parquet", "cannot write none/x.parquet: no such file or directory"),
        (".", "cannot write .: is a directory"),
        ("|", r"\o | takes a command"),
    ],
)
def test_what_cannot_be_written_is_said_at_once(words: str, said: str) -> None:
    with pytest.raises(CommandLineError) as caught:
        open_outlet(words)
    assert caught.value.message == said


@pytest.mark.parametrize("name", ["t.xlsx", "t.xml", "t.gpkg", "t.xlsx.gz", "t.Csvv"])
def test_an_ending_that_is_unknown_is_refused_and_the_known_ones_are_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(CommandLineError, match="no format is known that is written to") as caught:
        open_outlet(str(tmp_path / name))
    assert ".csv" in str(caught.value.hint) and ".parquet" in str(caught.value.hint)
    assert not list(tmp_path.iterdir())
    open_outlet(str(tmp_path / name), "csv").close()


@pytest.mark.parametrize("name", ["t", "t.txt", "night.2024", "t.log", "t.stq"])
def test_other_files_take_any_format(name: str, tmp_path: Path) -> None:
    outlet = open_outlet(str(tmp_path / name))
    outlet.close()
    assert outlet.format is None


def test_a_command_gets_json_lines_unless_another_format_is_set(tmp_path: Path) -> None:
    rows = Rows("x", ("n",), ((1,),))
    for format_, expected in ((None, '{"statement":1,"row":{"n":1}}\n'), ("csv", "n\n1\n")):
        console = Console(print, format=format_)
        console.direct(f"| cat > {tmp_path / 'out'}")
        PromptRenderer(console, None).data(rows)  # type: ignore[arg-type]
        console.close()
        assert (tmp_path / "out").read_text() == expected


def test_the_ending_of_a_file_says_its_format_unless_the_command_line_does(tmp_path: Path) -> None:
    for name, format_, expected in (
        ("x.csv", None, "csv"), ("x.csv", "tsv", "tsv"), ("x.md", None, "markdown"), ("x.txt", None, None),
    ):  # fmt: skip
        outlet = open_outlet(str(tmp_path / name), format_)
        assert outlet.format == expected
        outlet.close()
    with pytest.raises(CommandLineError, match="takes whole tables, not csv"):
        open_outlet(str(tmp_path / "x.arrow"), "csv")


def test_the_shell_writes_a_tail_where_the_console_says(
    terminal: Terminal, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    console = Console(print)
    console.direct(str(tmp_path / "out.arrow"))
    following = Query([MANY], interrupted=False)
    monkeypatch.setattr("stqsh.shell.render.open_screen", lambda stream: terminal.screen)
    PromptRenderer(console, None).follow(following)  # type: ignore[arg-type]
    console.close()
    assert capsys.readouterr().out == f"5 000 updates to {tmp_path}/out.arrow\n"
    assert (tmp_path / "out.arrow").stat().st_size > 10_000


def test_a_file_that_ends_in_gz_is_compressed(tmp_path: Path) -> None:
    path = tmp_path / "out.csv.gz"
    outlet = open_outlet(str(path))
    assert outlet.format == "csv"
    outlet.writer("csv", one_query=True).updates(MANY)
    outlet.close()
    assert len(gzip.decompress(path.read_bytes()).splitlines()) == 5001
    with pytest.raises(CommandLineError, match=r"x\.csv\.zst would not be compressed"):
        open_outlet("x.csv.zst")
