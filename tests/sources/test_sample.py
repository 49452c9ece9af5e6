"""The sample data are what the command makes, and small."""

from __future__ import annotations

from pathlib import Path

from support.streams import prepared, stream

from stqsh.sources.generator.sample_taxis import write_sample

SAMPLE = Path(__file__).parents[2] / "sample_data"
COLUMNS = [["oid", "STRING"], ["lon", "DOUBLE"], ["lat", "DOUBLE"], ["ts", "TIMESTAMP"], ["status", "STRING"]]


def test_the_command_makes_the_same_bytes_again(tmp_path) -> None:
    write_sample(tmp_path)
    made, kept = (
        {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (tmp_path, SAMPLE)
    )
    del kept["demo.stq"], kept["talk.stq"]
    assert made == kept
    assert len(made) == 201 + 8


def test_it_is_small() -> None:
    assert sum(path.stat().st_size for path in SAMPLE.rglob("*") if path.is_file()) < 5_000_000


def test_two_records_are_put_aside_and_all_others_are_read(tmp_path) -> None:
    result = prepared(stream(SAMPLE / "taxis/*.csv", columns=COLUMNS), tmp_path / "store")
    assert [(file, line, reason.split(":")[0]) for file, line, reason, _ in result.dead] == [
        ("taxi-042.csv", 42, "lat"),
        ("taxi-042.csv", 43, "ts"),
    ]
    assert result.store.last_tick - result.store.first_tick < 900
    assert sum(lon is None for lon in result.column("lon")) == 1
