"""Generate replay stores ahead of demand, piece by piece; a crash between two pieces loses nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from stqsh.errors import OptionError, SourceError
from stqsh.fs import settle
from stqsh.sources.dead_letters import DEAD_LETTERS
from stqsh.sources.formats.record_schema import RecordSchema, near
from stqsh.sources.generator.network import GeneratorOptions, GeneratorState, NetworkGenerator
from stqsh.sources.replay_store.manifest import Manifest, read_manifest, write_manifest
from stqsh.sources.replay_store.segments import joined, segment_name, state_path, ticks_path, write_segment
from stqsh.spec.stream import GeneratorSourceSpec, StreamSpec

GENERATORS: dict[str, Callable[[StreamSpec], NetworkGenerator]] = {"network": NetworkGenerator}

_SEGMENT_ROWS = 1 << 18
"""The number of rows after which a segment ends."""

_LEAST_ROWS, _LEAST_STEPS = 20_000, 300
"""The minimum numbers of rows and of steps generated at a time, so that segments are not tiny."""

Report = Callable[[float | None, str], None]


def generator_of(spec: StreamSpec) -> NetworkGenerator:
    """Return the generator of a stream, at its beginning.

    Raises:
        OptionError: the generator or an option is unknown; the message contains similar names.
    """
    return GENERATORS[_checked_name(spec)](spec)


def check_generator(spec: StreamSpec) -> None:
    """Check the generator of a stream and its options, without generating anything.

    Raises:
        OptionError: the generator or an option is unknown (the message contains similar names), or a value
            makes no sense.
    """
    _checked_name(spec)
    GeneratorOptions.of(spec)


def _checked_name(spec: StreamSpec) -> str:
    assert isinstance(spec.source, GeneratorSourceSpec)
    name = spec.source.name
    if spec.is_event:
        raise OptionError(
            f"GENERATOR '{name}' makes objects that move", "", hint="use it for a MOVING stream"
        )
    if name not in GENERATORS:
        hint = near(name, GENERATORS) or f"there is '{', '.join(GENERATORS)}'"
        raise OptionError(f"no generator '{name}'", "", hint=hint)
    return name


def begin(spec: StreamSpec, directory: Path, report: Report) -> Manifest:
    """Generate the whole store of a finite stream, or the first ticks of an endless one."""
    generator = generator_of(spec)
    (directory / DEAD_LETTERS).touch()
    manifest = Manifest(RecordSchema.of(spec).columns)
    np.savez(state_path(directory, 0), allow_pickle=False, **generator.state().arrays())
    steps = generator.options.steps
    if steps is None:
        until = generator.now_us // generator.options.tick_us
        return _generate(generator, directory, manifest, until)
    while not manifest.complete:
        manifest = _piece(generator, directory, manifest, None, publish=False)
        report(generator.step / max(1, steps), "generating")
    write_manifest(directory, manifest)
    return manifest


def extend(spec: StreamSpec, directory: Path, until_tick: int, needed_row: int = 0) -> Manifest:
    """Generate the records of a stream beyond `until_tick`; return the manifest.

    Only one process may call this at a time. The next call repairs an interrupted one.

    Args:
        needed_row: segments that end before this row are deleted.
    """
    manifest = read_manifest(directory)
    if manifest is None:
        raise SourceError(f"no replay store in {directory}")
    manifest = _trimmed(directory, manifest, needed_row)
    if manifest.complete or (manifest.segments and manifest.segments[-1].last_tick > until_tick):
        return manifest
    with np.load(state_path(directory, manifest.generated), allow_pickle=False) as arrays:
        generator = generator_of(spec).restored(GeneratorState.of(**arrays))
    return _generate(generator, directory, manifest, until_tick)


def _trimmed(directory: Path, manifest: Manifest, needed_row: int) -> Manifest:
    """Remove the segments before a row from the manifest, then delete their files."""
    kept = manifest.without(needed_row)
    if kept is not manifest:
        write_manifest(directory, kept)
        gone = range(manifest.gone_segments, kept.gone_segments)
        for path in (directory / segment_name(number) for number in gone):
            path.unlink(missing_ok=True)
            ticks_path(path).unlink(missing_ok=True)
    return kept


def _generate(generator: NetworkGenerator, directory: Path, manifest: Manifest, until_tick: int) -> Manifest:
    until_us = (until_tick + 1) * generator.options.tick_us
    while not manifest.complete and generator.now_us < until_us:
        manifest = _piece(generator, directory, manifest, until_us, publish=True)
    return manifest


def _piece(
    generator: NetworkGenerator, directory: Path, manifest: Manifest, until_us: int | None, *, publish: bool
) -> Manifest:
    """Generate a segment, and store the generator's state after it."""
    batches: list[pa.RecordBatch] = []
    rows, first, begun = 0, generator.step, manifest.generated
    while not generator.ended and rows < _SEGMENT_ROWS:
        enough = rows >= _LEAST_ROWS or generator.step - first >= _LEAST_STEPS
        if enough and until_us is not None and generator.now_us >= until_us:
            break
        batch = generator.advance()
        rows += batch.num_rows
        batches.append(batch)
    manifest = replace(manifest, complete=generator.ended, generated=generator.step)
    if rows:
        path = directory / segment_name(manifest.gone_segments + len(manifest.segments))
        segment = write_segment(path, joined(batches), manifest.rows)
        manifest = replace(manifest, segments=(*manifest.segments, segment))
    if publish:
        np.savez(state_path(directory, generator.step), allow_pickle=False, **generator.state().arrays())
        settle(state_path(directory, generator.step))
        write_manifest(directory, manifest)
        if begun != generator.step:
            state_path(directory, begun).unlink(missing_ok=True)
    return manifest
