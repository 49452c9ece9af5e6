"""Streams over files, in few words: their specs, their stores, their dead letters."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stqsh.sources.dead_letters import DEAD_LETTERS
from stqsh.sources.replay_store.preparation import prepare
from stqsh.sources.replay_store.store import ReplayStore, open_store
from stqsh.spec.stream import StreamSpec
from support.specs import stream_spec

COLUMNS = [["oid", "STRING"], ["lon", "DOUBLE"], ["lat", "DOUBLE"], ["ts", "TIMESTAMP"], ["n", "BIGINT"]]


def stream(glob: object, **changes: Any) -> StreamSpec:
    """A StreamSpec over files; `options` and `format` are the source's, all else the stream's."""
    source = {
        "type": "file",
        "glob": str(glob),
        "format": changes.pop("format", None),
        "options": changes.pop("options", {}),
    }
    return stream_spec({"columns": COLUMNS, "x": "lon", "y": "lat", "source": source}, changes)


@dataclass
class Prepared:
    """A store, its rows as tuples of text, and its dead letters as (file name, line, reason, text)."""

    store: ReplayStore
    dead: list[tuple[str, int, str, str]]

    def column(self, name: str) -> list[Any]:
        return self.store.read(0, self.store.rows)[name].to_pylist()

    def rows(self) -> list[dict[str, Any]]:
        return self.store.read(0, self.store.rows).to_pylist()


def dead_letters(directory: Path) -> list[tuple[str, int, str, str]]:
    letters = [json.loads(line) for line in (directory / DEAD_LETTERS).read_text().splitlines()]
    return [(Path(each["file"]).name, each["line"], each["reason"], each["text"]) for each in letters]


def prepared(spec: StreamSpec, directory: Path, **arguments: Any) -> Prepared:
    manifest = prepare(spec, directory, report=lambda fraction, text: None, **arguments)
    dead = dead_letters(directory)
    assert manifest.dead == len(dead)
    return Prepared(open_store(directory), dead)
