"""Take a sample of a source's files: the beginnings and ends of some of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from stqsh.sources.formats.json_documents import has_features
from stqsh.sources.formats.json_elements import find_document, read_head, read_json_text
from stqsh.sources.formats.row_blocks import COMPRESSIONS, PLAIN, read_text_blocks
from stqsh.sources.source_files import SourceFile, format_of
from stqsh.spec.stream import FileSourceSpec

_SAMPLED_FILES = 8
#: The estimated number of bytes of text per byte of a compressed or columnar file of unknown size.
_INFLATION = 6
_PACKED = (".zst", ".gz", ".parquet", ".pq")
#: The last bytes of a gzip file contain the size of its text.
_ISIZE = 4
#: Files that can only be read from their beginning are read completely up to this size of text.
_READ_THROUGH = 96 << 20
_PIECE, _HEAD = 1 << 18, 1 << 16


class Sample(NamedTuple):
    """The files to read instead of all files of a source.

    Attributes:
        files: some of the source's files, or excerpts of them.
        read: the bytes of text in them.
        total: the bytes of text in all files of the source.
        has_ends: whether the sample includes the ends of files.
    """

    files: list[SourceFile]
    read: int
    total: int
    has_ends: bool = True


@contextmanager
def sampled(files: Sequence[SourceFile], source: FileSourceSpec, budget: int) -> Iterator[Sample]:
    """Yield some evenly spaced files of a source, with about `budget` bytes of text in all.

    Text files are replaced by excerpts, which are deleted afterwards; other files may exceed the budget.
    """
    sizes = [text_size(file) for file in files]
    if sum(sizes) <= budget:
        yield Sample([*files], sum(sizes), sum(sizes))
        return
    chosen = np.unique(np.linspace(0, len(files) - 1, _SAMPLED_FILES).astype(np.int64)).tolist()
    share, found, read, has_ends = budget // len(chosen), list[SourceFile](), 0, True
    with TemporaryDirectory(prefix="stqsh-") as scratch:
        for number in chosen:
            file, size = files[number], min(sizes[number], share)
            excerpt = _Excerpt(file, size)
            if size < sizes[number]:
                excerpt = _excerpt(file, source, size, Path(scratch))
            found.append(excerpt.file)
            has_ends &= excerpt.has_end
            read += sizes[number] if excerpt.file is file else excerpt.read
        yield Sample(found, read, sum(sizes), has_ends)


def text_size(file: SourceFile) -> int:
    """Return the size of a file's text: exact for gzip, an estimate for other compressed files."""
    suffix = file.path.suffix.lower()
    if suffix == ".gz" and file.size > _ISIZE:
        with file.path.open("rb") as content:
            content.seek(-_ISIZE, 2)
            size = int.from_bytes(content.read(_ISIZE), "little")
        return size if size >= file.size else file.size * _INFLATION
    return file.size * (_INFLATION if suffix in _PACKED else 1)


class _Excerpt(NamedTuple):
    """A file with an excerpt, the number of bytes excerpted, and whether these include the end."""

    file: SourceFile
    read: int
    has_end: bool = True


def _excerpt(file: SourceFile, source: FileSourceSpec, size: int, folder: Path) -> _Excerpt:
    """Write an excerpt of about `size` bytes of a text file; other files are returned as they are."""
    kind, is_packed = format_of(file.path, source), file.path.suffix.lower() in COMPRESSIONS
    if kind not in ("csv", "jsonl") or (kind == "jsonl" and has_features(file.path)):
        return _Excerpt(file, size)
    path = folder / f"{file.index}-{file.path.name.removesuffix(file.path.suffix if is_packed else '')}"
    is_document = kind == "jsonl" and find_document(read_head(file.path, _HEAD), file.path) is not None
    if is_document:
        path = path.with_suffix(".jsonl")
    has_end = True
    if is_packed or is_document:
        has_end = _write_blocks(file, is_document, size, path)
        size = path.stat().st_size
    else:
        _write_ends(file.path, size, path)
    return _Excerpt(SourceFile(file.index, path, path.stat().st_size), size, has_end)


def _write_blocks(file: SourceFile, is_document: bool, size: int, path: Path) -> bool:
    """Write the first blocks of a file, and the last block if it is not too large; return whether it was."""
    blocks = read_json_text(file.path, _PIECE) if is_document else read_text_blocks(file.path, PLAIN, _PIECE)
    count = max(1, size // 2 // _PIECE)
    is_to_end = text_size(file) <= _READ_THROUGH
    with path.open("wb") as excerpt:
        for block in islice(blocks, count):
            excerpt.write(block.text)
        for block in deque(blocks, count) if is_to_end else ():
            excerpt.write(block.text)
    return is_to_end


def _write_ends(origin: Path, size: int, path: Path) -> None:
    """Write the beginning and the end of a file, in complete lines."""
    with origin.open("rb") as content, path.open("wb") as excerpt:
        head = content.read(size // 2)
        excerpt.write(head[: head.rfind(b"\n") + 1])
        content.seek(-(size - size // 2), 2)
        content.readline()
        excerpt.write(content.read())
