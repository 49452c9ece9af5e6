"""Profiles: the settings of a session, from a YAML file, the environment and defaults, all checked.

A profile is a file `NAME.yaml` of nested or dotted keys:

    spark:
      master: local[2,4]
    engine.slots: 2

Keys below `spark` that are not settings of stqsh are passed to Spark unchanged.

A profile is found by path, else by name in the `profiles/` folder of the working copy, else in that of the
package. An environment variable such as `STQSH_ENGINE_SLOTS=4` overrides a key (`engine.slots`). Every value
records its origin: `load_profile(None)["engine.slots"].origin`.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stqsh.errors import ProfileError
from stqsh.settings import KEYS, Setting, SettingValue

if TYPE_CHECKING:
    import yaml

DEFAULT_PROFILE = "local"
KAFKA = "kafka"
"""The section of a profile for Kafka's clients."""
SPARK = "spark."
"""The prefix of the names of Spark's settings."""


@dataclass(frozen=True, slots=True)
class Value:
    """A setting's value and its origin: `default`, `file:line` or the name of an environment variable."""

    value: SettingValue
    origin: str


@dataclass(frozen=True, slots=True)
class Profile(Mapping[str, Value]):
    """All settings of a session by dotted key, in the order of `KEYS`, and the given settings of Spark.

    `name` is the requested name; `path` is the file that was read, None if there is none.
    """

    name: str
    path: Path | None
    values_: Mapping[str, Value]

    def __getitem__(self, key: str) -> Value:
        return self.values_[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_)

    def __len__(self) -> int:
        return len(self.values_)

    def text(self, key: str) -> str:
        """Return the value of a text setting; "" if it is not set."""
        value = self.values_[key].value
        return "" if value is None else str(value)

    def number(self, key: str) -> int:
        """Return the value of a whole-number setting."""
        return int(self.values_[key].value or 0)

    def share(self, key: str) -> float:
        """Return the value of a setting that is a number with a fraction, such as one from 0 to 1."""
        return float(self.values_[key].value or 0)

    @property
    def script(self) -> Path | None:
        """Return the script that a new session runs first; a profile names it relative to itself."""
        text = self.text("session.script")
        if not text:
            return None
        is_own = self.path is not None and self["session.script"].origin.startswith(f"{self.path}:")
        return (self.path.parent if self.path and is_own else Path()) / Path(text).expanduser()

    def of_spark(self) -> dict[str, Value]:
        """Return Spark's own settings: those below `spark` that are not in `KEYS`."""
        return {key: value for key, value in self.values_.items() if is_of_spark(key)}

    def flag(self, key: str) -> bool:
        """Return the value of a yes/no setting."""
        return bool(self.values_[key].value)


_BY_NAME = {key.name: key for key in KEYS}


def is_of_spark(name: str) -> bool:
    """Return whether a setting is Spark's own, which stqsh only passes through.

    >>> is_of_spark("spark.executor.memoryOverhead"), is_of_spark("spark.master")
    (True, False)
    """
    return name.startswith(SPARK) and name not in _BY_NAME


def load_profile(name: str | None = None, environ: Mapping[str, str] | None = None) -> Profile:
    """Read a profile.

    Raises `ProfileError` for a profile that is not there, an unknown key or a value of the wrong kind,
    with file and line.

    >>> load_profile("local", {"STQSH_ENGINE_SLOTS": "4"})["engine.slots"]
    Value(value=4, origin='STQSH_ENGINE_SLOTS')
    """
    environ = os.environ if environ is None else environ
    name = name or environ.get("STQSH_PROFILE") or DEFAULT_PROFILE
    path = find_profile(name)
    found = {key.name: Value(key.default(), "default") for key in KEYS}
    if path is not None:
        found.update(_read_file(path))
    found.update(_read_environment(environ))
    return Profile(name, path, found)


def profile_folders() -> tuple[Path, ...]:
    """Return the folders that are searched for profiles: the working copy, then the installed package."""
    package = Path(__file__).resolve().parent
    return (package.parent / "profiles", package / "profiles")


def find_profile(name: str) -> Path | None:
    """Return the file of a profile; None for a default profile without a file.

    Raises:
        ProfileError: there is none.
    """
    if os.sep in name or name.endswith((".yaml", ".yml")):
        path = Path(name).expanduser()
        if not path.is_file():
            raise ProfileError(f"there is no profile file {name}", hint=None)
        return path
    for folder in profile_folders():
        path = folder / f"{name}.yaml"
        if path.is_file():
            return path
    if name == DEFAULT_PROFILE:
        return None
    known = sorted({path.stem for folder in profile_folders() for path in folder.glob("*.yaml")})
    raise ProfileError(
        f"there is no profile '{name}'",
        hint=_near(name, known)
        or f"profiles: {', '.join(known) or 'none'}; or give the path of a .yaml file",
    )


def _read_environment(environ: Mapping[str, str]) -> dict[str, Value]:
    return {
        key.name: Value(
            _convert(key, environ[key.variable], f"environment variable {key.variable}"), key.variable
        )
        for key in KEYS
        if key.variable in environ
    }


def _read_file(path: Path) -> dict[str, Value]:
    import yaml

    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ProfileError(f"{path}:{line}: not valid YAML: {error.problem}", hint=None) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(f"cannot read the profile {path}: {error}", hint=None) from error
    return dict(_entries(root, path, "")) if root is not None else {}


def _entries(node: yaml.Node, path: Path, prefix: str) -> Iterator[tuple[str, Value]]:
    if _kind(node) != "mapping":
        where = f"{path}:{node.start_mark.line + 1}"
        raise ProfileError(f"{where}: expected `key: value` lines", hint=None)
    for name_node, value_node in node.value:
        name = f"{prefix}{name_node.value}"
        where = f"{path}:{name_node.start_mark.line + 1}"
        if name == KAFKA:  # of Kafka's clients, see stqsh.sources.live.kafka_client; some are secret
            continue
        empty = value_node.tag.endswith(":null")
        if _is_group(name) and (empty or _kind(value_node) == "mapping"):
            yield from () if empty else _entries(value_node, path, f"{name}.")
            continue
        if is_of_spark(name) and _kind(value_node) == "mapping":
            yield from _entries(value_node, path, f"{name}.")
            continue
        key = None if is_of_spark(name) else _known(name, where)
        if _kind(value_node) != "scalar":
            raise ProfileError(f"{where}: {name} takes one value", hint=None)
        if empty:
            continue
        yield name, Value(_convert(key, value_node.value, where) if key else value_node.value, where)


def _kind(node: yaml.Node) -> str:
    """Return "mapping", "sequence" or "scalar"."""
    return str(node.id)  # type: ignore[attr-defined]  # the stubs have it in the subclasses only


def _is_group(name: str) -> bool:
    return any(key.startswith(f"{name}.") for key in _BY_NAME)


def _known(name: str, where: str) -> Setting:
    if name not in _BY_NAME:
        hint = _near(name, _BY_NAME) or f"known: {', '.join(_BY_NAME)}"
        raise ProfileError(f"{where}: unknown setting '{name}'", hint=hint)
    return _BY_NAME[name]


def _convert(key: Setting, text: str, where: str) -> SettingValue:
    try:
        return key.read(text.strip())
    except ValueError as error:
        raise ProfileError(f"{where}: {key.name} is '{text}', expected {error}", hint=None) from error


def _near(name: str, known: Mapping[str, Setting] | list[str]) -> str | None:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"maybe you meant {close[0]}" if close else None
