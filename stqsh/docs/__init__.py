"""Find the documents, Markdown files that `HELP topic;` and `stqsh docs` show.

`stqsh.docs.manual` reads their sections, and `stqsh.docs.drawing` draws them on a terminal.
"""

from __future__ import annotations

from pathlib import Path

TOPICS: dict[str, str] = {
    "language": "all statements and clauses",
    "shell": "the prompt, live views, backslash commands, scripts",
    "kafka": "live streams: Kafka, standard input, sockets, INSERT INTO, HTTP",
    "python": "sessions, results, updates and streams in Python and notebooks",
    "architecture": "how stqsh is built: the paths of a record and of a statement",
    "operations": "session homes, recovery, disk, memory, clusters, settings",
    "cluster": "Spark's clusters: what hosts need, settings, security, failures",
    "extending": "a package of your own: file formats, functions, kinds of query",
    "benchmarks": "figures, and how to measure them",
    "glossary": "the terms of the project",
    "changelog": "what changed, by version",
}
"""The topics of the documents, and a summary of each."""


def document_path(topic: str) -> Path:
    """Return the file of a topic."""
    return Path(__file__).with_name(f"{topic}.md")


def document(topic: str) -> str:
    """Return the Markdown text of a topic.

    Raises:
        KeyError: there is no such topic.

    >>> document("glossary").splitlines()[0]
    '# Glossary'
    """
    if topic not in TOPICS:
        raise KeyError(topic)
    return document_path(topic).read_text(encoding="utf-8")
