"""Profiles: where values come from, and what a wrong one is answered with."""

from pathlib import Path

import pytest

from stqsh.errors import ProfileError
from stqsh.lang.syntax.parse import parse
from stqsh.profile import load_profile, profile_folders
from stqsh.settings import FORMATS, KEYS, cores


def profile(tmp_path: Path, text: str, environ: dict[str, str] | None = None):
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return load_profile(str(path), environ or {})


def test_the_default_profile_knows_every_key() -> None:
    found = load_profile(None, {})
    assert list(found) == [key.name for key in KEYS]
    assert found.text("spark.master") == f"local[{cores()},4]"
    assert found.number("engine.slots") == cores()
    assert found.flag("shell.autoplay") is True
    assert found["engine.slots"].origin == "default"


def test_values_come_from_the_file_nested_or_dotted_then_from_the_environment(tmp_path: Path) -> None:
    text = "spark:\n  master: yarn\nengine.slots: 8\nshell:\n"
    found = profile(tmp_path, text, {"STQSH_ENGINE_SLOTS": "4", "STQSH_OTHER": "x"})
    assert found.text("spark.master") == "yarn"
    assert found["spark.master"].origin == f"{tmp_path}/mine.yaml:2"
    assert found.number("engine.slots") == 4
    assert found["engine.slots"].origin == "STQSH_ENGINE_SLOTS"


def test_settings_of_spark_are_kept_as_they_are_nested_or_dotted(tmp_path: Path) -> None:
    text = """spark:
  master: yarn
  authenticate: true
  authenticate.secret.file: /run/secret
  kubernetes: {container.image: "stqsh:1"}
spark.executor.memoryOverhead: 2g
"""
    found = profile(tmp_path, text)
    assert {name: value.value for name, value in found.of_spark().items()} == {
        "spark.authenticate": "true",
        "spark.authenticate.secret.file": "/run/secret",
        "spark.kubernetes.container.image": "stqsh:1",
        "spark.executor.memoryOverhead": "2g",
    }
    assert found["spark.executor.memoryOverhead"].origin == f"{tmp_path}/mine.yaml:6"
    assert found.text("spark.master") == "yarn"


def test_shedding_is_a_setting_and_a_group_of_settings(tmp_path: Path) -> None:
    found = profile(tmp_path, "shedding: off\nshedding.budget: 64 MB\ncache:\n  factor: 0.25\n")
    assert (found.text("shedding"), found["shedding.budget"].value) == ("off", "64 MB")
    assert (found.share("cache.factor"), found.share("shedding.keep")) == (0.25, 0.9)


@pytest.mark.parametrize("text", ["0", "0 MB", "0kb"])
def test_no_memory_for_views_may_have_a_unit(tmp_path: Path, text: str) -> None:
    assert profile(tmp_path, f"cache.views: {text}").text("cache.views") == "0"


def test_an_unknown_key_is_named_with_its_line_and_a_near_one(tmp_path: Path) -> None:
    with pytest.raises(ProfileError) as caught:
        profile(tmp_path, "engine:\n  memory: 2g\n  slot: 4\n")
    assert caught.value.message == f"{tmp_path}/mine.yaml:3: unknown setting 'engine.slot'"
    assert caught.value.hint == "maybe you meant engine.slots"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("engine.slots: many", ":1: engine.slots is 'many', expected a whole number of at least 1"),
        ("engine.slots: 0", ":1: engine.slots is '0', expected a whole number of at least 1"),
        ("engine:\n  memory: lots", ":2: engine.memory is 'lots', expected a size such as 512m or 2g"),
        ("shell.autoplay: perhaps", ":1: shell.autoplay is 'perhaps', expected true or false"),
        ("shedding: some", ":1: shedding is 'some', expected one of off, object, query"),
        (
            "shedding.budget: lots",
            ":1: shedding.budget is 'lots',"
            " expected a number of objects of at least 1, or a size such as '64 MB'",
        ),
        ("shedding:\n  keep: 2", ":2: shedding.keep is '2', expected a number from 0 to 1"),
        ("shell.format: xml", f":1: shell.format is 'xml', expected one of {', '.join(('auto', *FORMATS))}"),
        ("engine.slots: [1, 2]", ":1: engine.slots takes one value"),
        ("- a\n- b", ":1: expected `key: value` lines"),
        ("a: b: c", ":1: not valid YAML: mapping values are not allowed here"),
    ],
)
def test_a_wrong_value_is_one_clear_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ProfileError) as caught:
        profile(tmp_path, text)
    assert caught.value.message == f"{tmp_path}/mine.yaml{message}"


def test_a_wrong_environment_variable_is_named() -> None:
    with pytest.raises(ProfileError, match=r"environment variable STQSH_ENGINE_SLOTS: engine.slots is 'x'"):
        load_profile(None, {"STQSH_ENGINE_SLOTS": "x"})


def test_a_profile_that_is_not_there_is_named_with_a_near_one(tmp_path: Path) -> None:
    with pytest.raises(ProfileError) as caught:
        load_profile("locl", {})
    assert (caught.value.message, caught.value.hint) == (
        "there is no profile 'locl'",
        "maybe you meant local",
    )
    with pytest.raises(ProfileError, match="there is no profile file"):
        load_profile(str(tmp_path / "none.yaml"), {})


def test_the_profile_may_be_named_by_the_environment(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("engine.slots: 3")
    assert load_profile(None, {"STQSH_PROFILE": str(tmp_path / "p.yaml")}).number("engine.slots") == 3


def test_an_empty_profile_is_fine(tmp_path: Path) -> None:
    assert profile(tmp_path, "# nothing\n").path == tmp_path / "mine.yaml"


def test_every_profile_that_comes_with_stqsh_is_valid() -> None:
    found = sorted(profile_folders()[0].glob("*.yaml"))
    assert "local" in [path.stem for path in found]
    for path in found:
        load_profile(str(path), {})


def test_every_key_has_help_and_a_default_that_it_accepts() -> None:
    for key in KEYS:
        assert key.help
        default = key.default()
        assert default is None or key.read(str(default)) == default


def test_each_profile_that_comes_along_can_be_read() -> None:
    names = {path.stem for folder in profile_folders() for path in folder.glob("*.yaml")}
    assert "local" in names
    for name in names:
        assert load_profile(name, {}).path is not None


@pytest.mark.parametrize("path", sorted(profile_folders()[0].glob("*.yaml")), ids=lambda path: path.stem)
def test_each_profile_that_comes_along_reads_and_its_script_parses(path: Path) -> None:
    found = load_profile(path.stem, {})
    assert found.path == path
    if found.script is not None:
        assert parse(found.script.read_text(encoding="utf-8"), str(found.script))


def test_a_script_lies_beside_the_profile_that_names_it_else_where_the_user_is(tmp_path: Path) -> None:
    assert load_profile("local", {}).script is None
    assert profile(tmp_path, "session.script: mine.stq").script == tmp_path / "mine.stq"
    found = profile(tmp_path, "session.script: a.stq", {"STQSH_SESSION_SCRIPT": "mine.stq"})
    assert found.script == Path("mine.stq")


def test_the_profile_of_soles_experiments() -> None:
    found = load_profile("lafayette", {})
    assert found["cache.factor"].value == 0.25
    assert found["cache.factor"].origin.endswith("lafayette.yaml:13")
    assert found.flag("shell.autoplay") is False
