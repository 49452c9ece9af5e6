"""Files with the caches of slots, so that a later client reads what an earlier one has built.

The cache of a stream's events on a slot is an index, `SLOT-STREAM.index`, and a file with the arrays that the
index names, whose name contains its checksum. Neither ever changes: both are replaced, the index last. A
file that is damaged, of another version, or about other events is not used, and is replaced in time. Losing
them costs time, never data.
"""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from stqsh import __version__
from stqsh.checksums import DamagedFileError, Seal, with_seal, without_seal
from stqsh.core.snapshots.cache.saved_views import (
    PackedViews,
    Place,
    SavedViews,
    lay_out,
    pack_views,
    unpack_views,
)
from stqsh.core.snapshots.cache.snapshot_cache import KeptViews
from stqsh.errors import SlotStateError
from stqsh.fs import atomic_write, replacing
from stqsh.storage.catalogue import live_streams
from stqsh.storage.control_log import ControlDb, get_meta
from stqsh.storage.home import SessionHome
from stqsh.storage.private_files import make_private_folder
from stqsh.storage.slot_files import map_file
from stqsh.storage.turns import rebuilt_slots

log = logging.getLogger("stqsh.client")

FORMAT = 3
"""The version of the files; those of other versions are not used."""


class _Origin(msgspec.Struct, frozen=True, array_like=True):
    """The state of the session to which the numbers of events refer, and the version that wrote the files."""

    format: int
    version: str
    session: str
    rebuilt: int


class _Arrays(msgspec.Struct, frozen=True, array_like=True):
    """A file with arrays, and where each of them is."""

    file: str
    seal: Seal
    places: dict[str, Place]


class _Index(msgspec.Struct, frozen=True, kw_only=True):
    origin: _Origin
    numbering: int
    sample: int
    scanned: float
    views: SavedViews | None = None
    arrays: _Arrays | None = None


class SessionViewFiles:
    """The files of a session's caches, in the folder `views` of its home."""

    def __init__(self, home: SessionHome, control: ControlDb) -> None:
        self._folder, self._control = home.views, control
        self._stored: dict[tuple[int, int], _Arrays] = {}

    def read(self, slot: int, stream: int) -> KeptViews | None:
        """Return the cache of a stream's events on a slot; None if there is none that can be used."""
        name = _name(slot, stream)
        try:
            content = without_seal((self._folder / f"{name}.index").read_bytes(), f"views/{name}.index")
            index = msgspec.msgpack.decode(content, type=_Index)
            if index.origin != self._origin():
                return None
            views = None
            if index.views is not None and index.arrays is not None:
                arrays: Any = map_file(self._folder / index.arrays.file)
                index.arrays.seal.check(memoryview(arrays), f"views/{index.arrays.file}")
                views = unpack_views(index.views, index.arrays.places, arrays)
                self._stored[slot, stream] = index.arrays
        except FileNotFoundError:
            return None
        except (OSError, DamagedFileError, SlotStateError, msgspec.MsgspecError) as problem:
            log.info("stored views are not used: %s", problem)
            return None
        return KeptViews(index.numbering, index.sample, views, index.scanned)

    def write(self, slot: int, stream: int, kept: KeptViews) -> None:
        """Store the cache of a stream's events on a slot; on a full disk it is not stored."""
        try:
            make_private_folder(self._folder)
            self._write(slot, stream, kept)
        except (OSError, SlotStateError) as problem:
            log.info("views are not stored: %s", problem)

    def _write(self, slot: int, stream: int, kept: KeptViews) -> None:
        packed = None if kept.views is None else pack_views(kept.views)
        arrays = None if packed is None else self._written(slot, stream, packed)
        index = _Index(
            origin=self._origin(),
            numbering=kept.numbering,
            sample=kept.sample,
            scanned=kept.scanned,
            views=None if packed is None else packed.index,
            arrays=arrays,
        )
        path = self._folder / f"{_name(slot, stream)}.index"
        atomic_write(path, with_seal(msgspec.msgpack.encode(index)), private=True, durable=False)
        self._clean(slot, stream, None if arrays is None else arrays.file)

    def _written(self, slot: int, stream: int, packed: PackedViews) -> _Arrays:
        """Return the file with the arrays; it is written unless it exists with the same arrays."""
        known = self._stored.get((slot, stream))
        is_there = known is not None and (self._folder / known.file).exists()
        if known is not None and is_there and known.places.keys() == packed.contents.keys():
            return known
        places, parts = lay_out(packed.contents)
        seal = Seal.of(*parts)
        made = _Arrays(f"{_name(slot, stream)}-{seal.checksum:016x}.arrays", seal, places)
        path = self._folder / made.file
        with replacing(path, private=True, durable=False) as hidden, hidden.open("wb") as file:
            file.writelines(parts)
        self._stored[slot, stream] = made
        return made

    def _clean(self, slot: int, stream: int, file: str | None) -> None:
        """Remove the arrays that the index no longer names, and the files of dropped streams."""
        live = {str(one.id) for one in live_streams(self._control)}
        for path in self._folder.glob("[0-9]*-[0-9]*"):
            of = path.stem.split("-")
            is_old = path.suffix == ".arrays" and of[:2] == [str(slot), str(stream)] and path.name != file
            if is_old or of[1] not in live:
                path.unlink(missing_ok=True)

    def _origin(self) -> _Origin:
        session = get_meta(self._control, "uuid") or ""
        return _Origin(FORMAT, __version__, session, rebuilt_slots(self._control).times)


def _name(slot: int, stream: int) -> str:
    return f"{slot}-{stream}"
