r"""Reading scripts: commands between statements, `\G`, variables, inclusion, and the places of errors.

What is wrong is found before anything is done.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from stqsh.errors import CommandLineError, StqshError
from stqsh.lang.syntax.parse import parse
from stqsh.shell.scripting.blocks import CommandCall, StatementBlock, ends_vertical, is_command
from stqsh.shell.scripting.named_queries import keep, named_queries, remove, statement_of
from stqsh.shell.scripting.script_runner import shows_one_query
from stqsh.shell.scripting.scripts import read_scripts
from stqsh.shell.scripting.variables import given_variables, replaced


def read(text: str, file: str | None = "a.stq", **variables: str) -> list[StatementBlock | CommandCall]:
    return read_scripts([(text, file)], variables)


def told(steps: list[StatementBlock | CommandCall]) -> list[str]:
    """What the steps are, in short."""
    lines = []
    for step in steps:
        if isinstance(step, CommandCall):
            lines.append(f"\\{step.command.names[0]} {step.argument}".rstrip())
        else:
            numbered = enumerate(step.statements, step.number)
            lines += [
                f"{number} {one.text}{' ' + one.format if one.format else ''}" for number, one in numbered
            ]
    return lines


def test_commands_stand_between_statements_and_do_not_count() -> None:
    steps = read("\\timing on\nSHOW STATUS;\n  \\o out.csv  \nSHOW\nSTREAMS; SHOW SLOTS;\n\\o\n")
    assert told(steps) == [
        "\\timing on", "1 SHOW STATUS", "\\o out.csv", "2 SHOW\nSTREAMS", "3 SHOW SLOTS", "\\o",
    ]  # fmt: skip


def test_short_commands_stand_for_statements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STQSH_HOME", str(tmp_path))
    keep("near", "SELECT oid FROM s\n WHERE oid = '$1' AND n > $2;")
    steps = read("\\d taxis\n\\dt t*\n\\dq\n\\dr 'a?'\n\\n near 'a b' 3\nSHOW STATUS;\n\\d\n")
    assert told(steps) == [
        "1 DESCRIBE taxis", "2 SHOW STREAMS LIKE 't%'", "3 SHOW TABLES LIKE 't%'", "4 SHOW QUERIES",
        "5 SHOW REGIONS LIKE 'a_'", "6 SELECT oid FROM s\n WHERE oid = 'a b' AND n > 3", "7 SHOW STATUS",
        "8 SHOW STREAMS", "9 SHOW TABLES", "10 SHOW REGIONS", "11 SHOW QUERIES",
    ]  # fmt: skip


def test_a_named_query_is_kept_listed_filled_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STQSH_HOME", str(tmp_path))
    assert named_queries() == {}
    keep("near", "SELECT $1, $2 FROM s;")
    keep("all", "SHOW STATUS")
    assert list(named_queries()) == ["all", "near"]
    assert statement_of("near 'a b' c") == "SELECT a b, c FROM s;" and statement_of("all;") == "SHOW STATUS;"
    for words, said in (
        ("near x", "near takes 2 values, and 1 were given"),
        ("all x", "all takes no values, and 1 were given"),
        ("neer", "there is no named query 'neer'"),
        ("near 'x", "a quotation mark is not closed"),
    ):
        with pytest.raises(StqshError, match=said):
            statement_of(words)
    remove("near")
    assert list(named_queries()) == ["all"]
    with pytest.raises(StqshError, match="'1' cannot be a name"):
        keep("1", "RUN")
    (tmp_path / "named_queries.json").write_text("[")
    with pytest.raises(StqshError, match="cannot read"):
        named_queries()


def test_upright_ends_a_statement() -> None:
    steps = read("SHOW STATUS \\G SHOW SLOTS\\g\nSHOW STREAMS \\G;\n-- \\G\nSHOW SETTINGS;")
    assert told(steps) == [
        "1 SHOW STATUS vertical", "2 SHOW SLOTS", "3 SHOW STREAMS vertical", "4 SHOW SETTINGS",
    ]  # fmt: skip


def test_what_looks_like_a_command_in_a_string_or_comment_is_none() -> None:
    text = "SELECT oid FROM s WHERE a = 'x\n\\timing\n\\G';\n/*\n\\timing\n*/\n-- \\q\nSHOW STATUS;"
    assert len(told(read(text))) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SHOW STATUS;\n\\tming\n", "a.stq:2:1: there is no command \\tming\n  \\tming\n  ^^^^^^"),
        ("SHOW STATUS;\n\\o x\n\nSHOW SETINGS;", "a.stq:4:6: "),
        ("SHOW STATUS\n  \\timing\n;", "a.stq:2:3: a command within a statement\n    \\timing\n    ^^^^^^^"),
        ("SHOW STATUS;\nSELECT ' ;\n\\timing", "a.stq:2:8: this string has no closing quote"),
        ("\\e\n", "a.stq:1:1: \\e works at the prompt only, not in scripts"),
        (
            "SHOW STATUS;\n\\timing maybe\n",
            "a.stq:2:1: \\timing takes on or off, not 'maybe'\n  \\timing maybe\n  ^",
        ),
        ("\\pset pager 7\n", "a.stq:1:1: \\pager takes on or off, not '7'"),
        ("\\pset pagr on\n", "a.stq:1:1: \\pset has no option 'pagr'"),
        ("\\set 1a x\n", "a.stq:1:1: '1a' cannot be a variable's name"),
        ("\\unset x\n", "a.stq:1:1: there is no variable x"),
        ("SHOW STATUS;\n\\echo :wath\n", "a.stq:2:1: there is no variable wath\n  \\echo :wath\n  ^"),
        ("\n\\set a :wath\n", "a.stq:2:1: there is no variable wath"),
        ("SHOW STATUS;\nSHOW :wath;", "a.stq:2:6: there is no variable wath\n  SHOW :wath;\n       ^^^^^"),
    ],
)
def test_errors_have_their_place(text: str, said: str) -> None:
    with pytest.raises(StqshError) as caught:
        read(text, what="STATUS")
    assert caught.value.text().startswith(said)
    assert caught.value.exit_code == 2


def test_an_unknown_variable_has_its_near_name_and_the_remedy() -> None:
    with pytest.raises(StqshError) as caught:
        read("SHOW :wath;", what="STATUS")
    assert caught.value.text().endswith(
        "did you mean what?\nhint: \\set wath VALUE gives it one, and so does -v wath=VALUE"
    )


def test_variables_are_replaced_from_their_line_on() -> None:
    text = "SHOW :what;\n\\set what SLOTS\nSHOW :what;\n\\set what ':nothing'\n\\set n 'it''s'\nTAIL :\"n\";"
    assert told(read(text, what="STATUS")) == ["1 SHOW STATUS", "2 SHOW SLOTS", '3 TAIL "it\'s"']


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a = :x", "a = 5 km"),
        ("a = :'x'", "a = '5 km'"),
        ("a = :'quote'", "a = 'it''s \"q\"'"),
        (':"quote"', '"it\'s ""q"""'),
        ("':x' \":x\" -- :x\n/* :x */", "':x' \":x\" -- :x\n/* :x */"),
        ("(:x, :x)", "(5 km, 5 km)"),
        ("12:30 a::x :again", "12:30 a::x :x"),
    ],
)
def test_forms_of_variables(text: str, found: str) -> None:
    assert replaced(text, {"x": "5 km", "quote": 'it\'s "q"', "again": ":x"}) == found


def test_a_text_is_printed_with_the_variables_of_its_line() -> None:
    steps = read("\\set x 1\n\\echo one is :x\n\\set\tx\t2\n\\echo\ttwo is :x\n\\unset x\n")
    assert [step.argument for step in steps if isinstance(step, CommandCall)] == ["one is 1", "two is 2"]


def test_variables_of_the_command_line() -> None:
    assert given_variables(["a=1", "b=x=y", "c="]) == {"a": "1", "b": "x=y", "c": ""}
    for wrong in ("a", "=1", "1=a", "a=x\ny"):
        with pytest.raises(CommandLineError, match="-v takes name=value"):
            given_variables([wrong])


def test_scripts_are_included_by_their_own_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "b.stq").write_text("SHOW :what;\n\\i 'c.stq'\n")
    (tmp_path / "in" / "c.stq").write_text("\\set what SLOTS\nSHOW LOADD;")
    main = str(tmp_path / "a.stq")
    with pytest.raises(StqshError) as caught:
        read("\\i in/b.stq", main, what="STATUS")
    assert caught.value.text().startswith(f"{tmp_path}/in/c.stq:2:6: ")
    (tmp_path / "in" / "c.stq").write_text("\\set what SLOTS\nSHOW LOAD;")
    steps = read("\\i in/b.stq\nSHOW :what;", main, what="STATUS")
    assert told(steps) == ["1 SHOW STATUS", "2 SHOW LOAD", "3 SHOW SLOTS"]
    assert [step.file for step in steps if isinstance(step, StatementBlock)] == [
        f"{tmp_path}/in/b.stq", f"{tmp_path}/in/c.stq", main,
    ]  # fmt: skip


def test_scripts_that_include_themselves_or_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "a.stq").write_text("\\i b.stq\n")
    (tmp_path / "b.stq").write_text("\\i a.stq\n")
    with pytest.raises(CommandLineError, match=r"a\.stq includes itself"):
        read("\\i a.stq", str(tmp_path / "main.stq"))
    with pytest.raises(CommandLineError, match=r"a\.stq includes itself"):
        read(f"\\i ../{tmp_path.name}/b.stq", str(tmp_path / "a.stq"))
    with pytest.raises(CommandLineError, match=r"none\.stq: no such file"):
        read("\\i none.stq", str(tmp_path / "main.stq"))


def test_what_enter_runs() -> None:
    assert is_command("  \\timing") and not is_command("\\G") and not is_command("SHOW STATUS \\G")
    assert ends_vertical("SHOW STATUS \\G") and ends_vertical("SHOW STATUS\\G ;\n")
    assert not ends_vertical("SHOW '\\G") and not ends_vertical("SHOW \\G STATUS")
    assert not ends_vertical("SHOW STATUS -- \\G")


@pytest.mark.parametrize(
    ("text", "is_own", "is_single"),
    [
        ("TAIL a", False, True),
        ("TAIL a LIMIT 1; TAIL a ONLY -", False, True),
        ("TAIL a; TAIL b", False, False),
        ("TAIL a; SUBSCRIBE SELECT oid FROM taxis", False, False),
        ("SUBSCRIBE SELECT oid FROM taxis", False, True),
        ("REGISTER QUERY c AS SELECT oid FROM taxis; TAIL c", False, True),
        ("TAIL a; RUN", False, False),
        ("TAIL a", True, False),
        ("REGISTER QUERIES FROM FILE 'f.csv' AS SELECT oid FROM taxis; RUN", True, False),
    ],
)
def test_a_tail_in_a_session_with_other_queries_shows_one_query_only(
    text: str, is_own: bool, is_single: bool
) -> None:
    assert shows_one_query(list(parse(text)), {"a", "b"}, is_own=is_own) is is_single


@pytest.mark.parametrize(("queries", "is_single"), [(0, True), (1, True), (2, False)])
def test_the_end_of_a_script_in_its_own_session_shows_all_queries(queries: int, is_single: bool) -> None:
    text = "".join(f"REGISTER QUERY q{i} AS SELECT oid FROM taxis;" for i in range(queries))
    assert shows_one_query(list(parse(text)), set(), is_own=True) is is_single
