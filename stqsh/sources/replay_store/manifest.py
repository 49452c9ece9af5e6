"""The manifest of a replay store: manifest.json, which is replaced atomically.

If a session's storage is not its home, each manifest is a blob of its own, and the last one is valid.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from stqsh.checksums import DamagedFileError, Seal, with_seal, without_seal
from stqsh.fs import atomic_write, settle
from stqsh.storage.blobs import Blobs, home_blobs

MANIFEST = "manifest.json"
_PUBLISHED = "manifest-"


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment in the manifest; `file` ends in `.arrow`, and the range of ticks is inclusive.

    The seals are those of the file and of its index, None if an older version wrote them.
    """

    file: str
    rows: int
    first_tick: int
    last_tick: int
    seal: Seal | None = None
    ticks_seal: Seal | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of a store; `complete` means that no segment will ever be added."""

    columns: tuple[tuple[str, str], ...]
    segments: tuple[Segment, ...] = ()
    complete: bool = False
    dead: int = 0
    #: The number of ticks that a generator has completed. Not used by files.
    generated: int = 0
    #: For an endless stream: how many segments and rows are deleted because they were taken long ago, ...
    gone_segments: int = 0
    gone_rows: int = 0
    #: ... and the tick with which the deleted part began.
    began_tick: int | None = None
    #: For an event stream: how many records were skipped as duplicates, ...
    duplicates: int = 0
    #: ... x1, y1, x2, y2 around most records, and the places (x, y) of some, evenly spaced in the store.
    bounds: tuple[float, float, float, float] | None = None
    sample: tuple[tuple[float, float], ...] = ()
    #: ... and whether its first grid has large cells, as in older versions.
    has_coarse_grid: bool = True

    @property
    def rows(self) -> int:
        """Count the rows of all segments, including deleted ones."""
        return self.gone_rows + sum(segment.rows for segment in self.segments)

    @property
    def first_tick(self) -> int | None:
        """Return the tick of the first row ever; None while there has been none."""
        if self.began_tick is not None:
            return self.began_tick
        return self.segments[0].first_tick if self.segments else None

    @property
    def last_tick(self) -> int | None:
        """Return the tick of the last row; None while there is no row."""
        return self.segments[-1].last_tick if self.segments else None

    def without(self, row: int) -> Manifest:
        """Return the manifest without the segments that end before a row; the last segment always stays."""
        kept, gone = list(self.segments), self.gone_rows
        while len(kept) > 1 and gone + kept[0].rows <= row:
            gone += kept.pop(0).rows
        if len(kept) == len(self.segments):
            return self
        count = self.gone_segments + len(self.segments) - len(kept)
        return replace(
            self,
            segments=tuple(kept),
            gone_segments=count,
            gone_rows=gone,
            began_tick=self.first_tick,
        )


_DECODER = msgspec.json.Decoder(Manifest)


def store_blobs(place: Path | Blobs) -> Blobs:
    """Return the files of a store as blobs; errors show their names relative to the session's folder."""
    return place if isinstance(place, Blobs) else home_blobs(place, stored_name(place, ""))


def read_manifest(place: Path | Blobs) -> Manifest | None:
    """Return the manifest of a store, None if there is none yet.

    Raises:
        DamagedFileError: it differs from what was written.
    """
    blobs = store_blobs(place)
    content = _manifest_bytes(blobs)
    return None if content is None else _decoded(content, f"{blobs.within}{MANIFEST}")


def _decoded(content: bytes, file: str) -> Manifest:
    if not content.startswith(b"{"):  # older versions wrote no seal
        content = without_seal(content, file)
    try:
        return _DECODER.decode(content)
    except msgspec.DecodeError as error:
        raise DamagedFileError(file) from error


def _manifest_bytes(blobs: Blobs) -> bytes | None:
    if not blobs.at_home:
        names = published_manifests(blobs)
        return bytes(blobs.read(names[-1])) if names else None
    assert blobs.folder is not None, "a home is a folder"
    try:
        return (blobs.folder / MANIFEST).read_bytes()
    except FileNotFoundError:
        return None


def published_manifests(blobs: Blobs) -> list[str]:
    """Return the names of a store's manifests in a storage that is not the home, the newest last."""
    return blobs.names(_PUBLISHED)


def publish_manifest(blobs: Blobs, directory: Path, manifest: Manifest) -> bool:
    """Publish a home's manifest as the newest one in a storage outside the home; the one before it stays.

    Returns:
        False, without publishing it, if the home has another manifest by now than the given one.
    """
    content = (directory / MANIFEST).read_bytes()
    if _decoded(content, stored_name(directory, MANIFEST)) != manifest:
        return False
    known = published_manifests(blobs)
    number = 1 + int(known[-1].removeprefix(_PUBLISHED).partition(".")[0]) if known else 0
    blobs.put(f"{_PUBLISHED}{number:012d}.json", [content])
    blobs.delete(known[:-1])
    return True


def manifest_seal(place: Path | Blobs) -> str:
    """Return the checksum of a store's manifest, which covers the checksums of all its records.

    Raises:
        DamagedFileError: the manifest is missing.
    """
    content = _manifest_bytes(blobs := store_blobs(place))
    if content is None:
        raise DamagedFileError(f"{blobs.within}{MANIFEST}", "is gone")
    return f"{Seal.of(content).checksum:016x}"


def stored_name(directory: Path, file: str) -> str:
    """Return the name of a store's file relative to the session's folder, for errors."""
    return f"{directory.parent.name}/{directory.name}/{file}"


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Replace the manifest atomically; readers see its segments from now on."""
    atomic_write(directory / MANIFEST, with_seal(msgspec.json.encode(manifest)))
    settle(directory)
