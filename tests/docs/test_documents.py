"""The documents: their examples run, their links lead somewhere, and no statement lacks a section."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from support.local import local_session
from support.running import run_script

from stqsh.client.api import Session
from stqsh.client.read.subscription import Subscription
from stqsh.client.run import RunHandle
from stqsh.docs import TOPICS, document, document_path
from stqsh.docs.manual import options, sections
from stqsh.lang.binder import query_options
from stqsh.lang.errors import NotSupportedError
from stqsh.lang.syntax import KEYWORDS
from stqsh.lang.syntax.split import split
from stqsh.profile import load_profile
from stqsh.settings import KEYS
from stqsh.shell.scripting.backslash_commands import COMMANDS

ROOT = Path(__file__).parents[2]
FILES = {"README": ROOT / "README.md", **{topic: document_path(topic) for topic in TOPICS}}


@dataclass(frozen=True)
class Fence:
    """A fenced block: the document, the line it begins with, what it claims to be, and its text."""

    document: str
    line: int
    claim: str
    text: str


def fences(document: str) -> Iterator[Fence]:
    text = FILES[document].read_text(encoding="utf-8")
    for found in re.finditer(r"^```(.*)\n((?:.*\n)*?)```$", text, re.MULTILINE):
        yield Fence(document, text.count("\n", 0, found.start()) + 1, found[1].strip(), found[2])


def fences_of(*claims: str) -> list[Fence]:
    return [one for document in FILES for one in fences(document) if one.claim in claims]


def perform(session: Session, text: str) -> None:
    for outcome in session.outcomes(text):
        if isinstance(outcome, Subscription):
            list(outcome)
            outcome.close()
        elif isinstance(outcome, RunHandle):
            outcome.wait()


@pytest.mark.parametrize("topic", [topic for topic in FILES if any(f.claim == "sql" for f in fences(topic))])
def test_the_statements_of_a_document_run_in_their_order(
    topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sample_data").symlink_to(ROOT / "sample_data")
    (tmp_path / "stqsh").symlink_to(ROOT / "stqsh")
    monkeypatch.chdir(tmp_path)  # some statements write files
    with local_session(tmp_path / "home", published=True) as opened:
        connection = opened.connection
        session = Session(
            opened.home, load_profile(None, {}), autoplay=False, allow_run=True, connection=connection
        )
        for one in fences(topic):
            for piece in split(one.text) if one.claim in ("sql", "sql not-supported") else ():
                if one.claim == "sql not-supported":
                    with pytest.raises(NotSupportedError):
                        perform(session, f"{piece.text};")
                else:
                    perform(session, f"{piece.text};")


@pytest.mark.parametrize("one", fences_of("sql live"), ids=lambda one: f"{one.document}:{one.line}")
def test_the_statements_of_a_live_session_run(one: Fence, tmp_path: Path) -> None:
    with local_session(tmp_path) as session:
        perform(session, one.text)


@pytest.mark.parametrize("one", fences_of("console"), ids=lambda one: f"{one.document}:{one.line}")
def test_a_script_that_a_document_shows_prints_these_lines(
    one: Fence, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    command, *shown = one.text.splitlines()
    file = re.fullmatch(r"\$ stqsh run (\S+) --format jsonl", command)
    assert file is not None, "a `console` block begins with: $ stqsh run FILE --format jsonl"
    with local_session(tmp_path) as session:
        printed = iter(
            run_script(session, Path(file[1]).read_text(encoding="utf-8"), Path(file[1])).splitlines()
        )
    lines = [json.loads(line) for line in shown if line != "…"]
    assert lines
    for line in lines:
        assert line in (json.loads(other) for other in printed), line


@pytest.mark.parametrize("one", fences_of("python"), ids=lambda one: f"{one.document}:{one.line}")
def test_an_example_in_python_is_python(one: Fence) -> None:
    compile(one.text, f"{one.document}.md", "exec")


def test_a_fence_says_what_it_is() -> None:
    claims = {
        "sql",
        "sql live",
        "sql not-supported",
        "console",
        "python",
        "text",
        "shell",
        "toml",
        "yaml",
        "dockerfile",
    }
    assert {one.claim for document in FILES for one in fences(document)} <= claims


def headings(text: str) -> list[str]:
    return re.findall(
        r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )


def anchors(text: str) -> set[str]:
    """The anchors of headings, as GitHub makes them."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings(text)}


@pytest.mark.parametrize("name", FILES)
def test_every_link_leads_somewhere(name: str) -> None:
    text = FILES[name].read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    for connection in links:
        if connection.startswith("https://"):
            continue
        path, _, anchor = connection.partition("#")
        target = FILES[name].parent / path if path else FILES[name]
        assert target.exists(), connection
        assert not anchor or anchor in anchors(target.read_text(encoding="utf-8")), connection


@pytest.mark.parametrize("topic", TOPICS)
def test_the_sections_are_those_that_markdown_has(topic: str) -> None:
    """The headings, and the first examples, by the parser of CommonMark that rich uses."""
    tokens = MarkdownIt("commonmark").enable("table").parse(document(topic))
    found: dict[str, str] = {}
    name, is_filled = "", False
    for token, text in pairwise(tokens):
        if token.type == "heading_open":
            name, is_filled = (text.content if token.tag != "h1" else ""), False
        elif token.level == 0 and not token.type.endswith("_close") and name and token.type != "inline":
            found.setdefault(name, "")
            if token.type == "fence" and token.info.split()[0] == "sql" and not is_filled:
                is_filled, found[name] = True, token.content.rstrip("\n")
    assert {one.name: one.example for one in sections(topic)} == found


def test_every_keyword_is_explained() -> None:
    words = set(re.findall(r"[A-Z]+", document("language")))
    assert {word.upper() for word in KEYWORDS} - words == set()


def test_every_backslash_command_is_explained() -> None:
    text = document("shell")
    names = {name for command in COMMANDS for name in command.names}
    assert {name for name in names if not re.search(rf"`\\{re.escape(name)}[ `]", text)} == set()


def test_every_setting_is_explained() -> None:
    rows = "\n".join(re.findall(r"^\|.*", document("operations"), re.MULTILINE))
    assert {key.name for key in KEYS} - set(re.findall(r"`([a-z_.]+)", rows)) == set()


def test_every_option_of_a_query_is_explained() -> None:
    assert set(options()["WITH"]) == set(query_options.OPTIONS)


def test_every_mention_of_a_document_in_the_code_is_of_one_that_exists() -> None:
    mentioned = {
        (path.relative_to(ROOT).as_posix(), name)
        for folder in ("stqsh", "tests")
        for path in (ROOT / folder).rglob("*.py")
        for name in re.findall(r"([a-z_]{3,})\.md\b", path.read_text(encoding="utf-8"))
    }
    assert mentioned
    assert {(path, name) for path, name in mentioned if name not in TOPICS} == set()


@pytest.mark.parametrize("topic", TOPICS)
def test_every_document_begins_with_a_title(topic: str) -> None:
    assert document(topic).startswith("# ")


@pytest.mark.parametrize("topic", TOPICS)
def test_every_file_that_a_document_names_is_there(topic: str) -> None:
    named = re.findall(r"`((?:stqsh/)?[a-z0-9_]+/[a-z0-9_/.]*)`", document(topic))
    kept = {"state/", "updates/", "readers/", "answers/", "checkpoint/", "streams/", "tables/", "sinks/",
            "views/", "routes/"}  # fmt: skip
    missing = [
        name
        for name in named
        if not any((ROOT / root / name).exists() for root in ("", "stqsh", "tests/extension_package"))
        and name not in kept
    ]
    assert not missing
