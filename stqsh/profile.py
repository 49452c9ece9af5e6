"""Profiles: the settings of a session, from a YAML file, the environment and defaults, all checked.

A profile is a file `NAME.yaml` of nested or dotted keys:

    spark:
      master: local[2,4]
    engine.slots: 2

It is looked for by path, then in the `profiles/` folder of the working copy, then in the one that comes
with the package. `STQSH_ENGINE_SLOTS=4` in the environment overrides `engine.slots`, and so on for each
key. Every value knows where it came from: `load_profile(None)["engine.slots"].origin`.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stqsh.errors import ProfileError
from stqsh.sizes import size_bytes

if TYPE_CHECKING:
    import yaml

Setting = str | int | float | bool | None
DEFAULT_PROFILE = "local"
FORMATS = ("auto", "jsonl", "csv", "tsv", "geojson", "markdown", "table", "vertical")
SCHEMES = ("auto", "dark", "light", "none")
SHEDDING = ("off", "object", "query")


@dataclass(frozen=True, slots=True)
class Key:
    """One known setting: its name, what it means, how its text is read, its default, what to offer."""

    name: str
    help: str
    read: Callable[[str], Setting]
    default: Callable[[], Setting]
    choices: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        """The environment variable that overrides this setting."""
        return "STQSH_" + self.name.upper().replace(".", "_")


@dataclass(frozen=True, slots=True)
class Value:
    """A setting's value and its origin: `default`, `file:line` or an environment variable's name."""

    value: Setting
    origin: str


@dataclass(frozen=True, slots=True)
class Profile(Mapping[str, Value]):
    """All settings of a session by dotted key, in the order of `KEYS`.

    `name` is what was asked for; `path` the file that was read (None where there is none).
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
        """The value of a text setting; "" where it is not set."""
        value = self.values_[key].value
        return "" if value is None else str(value)

    def number(self, key: str) -> int:
        """The value of a whole-number setting."""
        return int(self.values_[key].value or 0)

    def share(self, key: str) -> float:
        """The value of a setting from 0 to 1."""
        return float(self.values_[key].value or 0)

    @property
    def script(self) -> Path | None:
        """The script that a new session begins with; a profile names it relative to its own place."""
        text = self.text("session.script")
        if not text:
            return None
        is_own = self.path is not None and self["session.script"].origin.startswith(f"{self.path}:")
        return (self.path.parent if self.path and is_own else Path()) / Path(text).expanduser()

    def flag(self, key: str) -> bool:
        """The value of a yes/no setting."""
        return bool(self.values_[key].value)


def cores() -> int:
    """The processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("some text")
    return text


def _count(text: str) -> int:
    if not re.fullmatch(r"\d[\d_]*", text) or int(text) < 1:
        raise ValueError("a whole number of at least 1")
    return int(text)


def _flag(text: str) -> bool:
    words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    if text.lower() not in words:
        raise ValueError("true or false")
    return words[text.lower()]


def _memory(text: str) -> str:
    if not re.fullmatch(r"\d+[kmgtKMGT]", text):
        raise ValueError("a size such as 512m or 2g")
    return text.lower()


def _size(text: str) -> str:
    size_bytes(text)
    return text


def _share(text: str) -> float:
    if not re.fullmatch(r"\d+(\.\d*)?|\.\d+", text) or float(text) > 1:
        raise ValueError("a number from 0 to 1")
    return float(text)


def _budget(text: str) -> str | int:
    if re.fullmatch(r"\d[\d_]*", text) and int(text) > 0:
        return int(text)
    try:
        size_bytes(text)
    except ValueError:
        raise ValueError("a number of objects of at least 1, or a size such as '64 MB'") from None
    return text


def driver_memory() -> str:
    """A quarter of the machine's memory, from 1g to 4g."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{min(4, max(1, total >> 32))}g"


def _one_of(choices: tuple[str, ...]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return text

    return read


KEYS: tuple[Key, ...] = (
    Key("spark.master", "where Spark runs", _text, lambda: f"local[{cores()},4]"),
    Key("spark.executor.memory", "memory of each of a cluster's executors", _memory, lambda: None),
    Key("spark.executor.cores", "cores of each of a cluster's executors", _count, lambda: None),
    Key("engine.slots", "parts that the objects are dealt to, a multiple of the cores", _count, cores),
    Key("engine.memory", "memory of Spark's driver", _memory, driver_memory),
    Key(
        "engine.max_records_per_batch",
        "most records that one batch takes in; how many it does follows what batches cost",
        _count,
        lambda: 2_000_000,
    ),
    Key(
        "engine.spool_bytes",
        "payloads of so many bytes go through files, not through Spark, where all runs on one machine",
        _count,
        lambda: 16_384,
    ),
    Key(
        "updates.keep",
        "so much of the update log is kept update by update; older ones as the answers that they made",
        _size,
        lambda: "1 GB",
        ("'1 GB'", "'10 GB'"),
    ),
    Key("shell.autoplay", "streams made in the shell play at once", _flag, lambda: True, ("true", "false")),
    Key(
        "shell.format",
        "how results are shown; auto: tables on a terminal, else jsonl",
        _one_of(FORMATS),
        lambda: "auto",
        FORMATS,
    ),
    Key(
        "shell.scheme",
        "the prompt's colours: for a dark or a light terminal, or none",
        _one_of(SCHEMES),
        lambda: "auto",
        SCHEMES,
    ),
    Key(
        "shedding",
        "what goes over the budget: objects few queries want, or parts of queries",
        _one_of(SHEDDING),
        lambda: "off",
        SHEDDING,
    ),
    Key(
        "shedding.budget",
        "most that streams that RETAIN SIGNIFICANT may hold: objects, or a size",
        _budget,
        lambda: None,
        ("100000", "'64 MB'"),
    ),
    Key(
        "shedding.keep",
        "the share of the budget to which shedding brings the load down",
        _share,
        lambda: 0.9,
        ("0.9", "0.8", "0.5"),
    ),
    Key(
        "cache.factor",
        "how much of the cache area around regions that move or grow is kept, 0 to 1",
        _share,
        lambda: 1.0,
        ("1", "0.5", "0.25", "0"),
    ),
    Key("session.home_root", "the folder of the session homes", _text, lambda: None),
    Key(
        "session.script",
        "a script that the shell runs first in a new session; beside the profile that names it",
        _text,
        lambda: None,
    ),
)
"""Every setting there is: the only place that names them all."""

_BY_NAME = {key.name: key for key in KEYS}


def load_profile(name: str | None = None, environ: Mapping[str, str] | None = None) -> Profile:
    """Read the profile called `name` (a name or a path; else `STQSH_PROFILE`, else `local`).

    Raises `ProfileError` for a profile that is not there, an unknown key or a value of the wrong kind,
    with file and line.
    """
    environ = os.environ if environ is None else environ
    name = name or environ.get("STQSH_PROFILE") or DEFAULT_PROFILE
    path = _find(name)
    found = {key.name: Value(key.default(), "default") for key in KEYS}
    if path is not None:
        found.update(_read_file(path))
    found.update(_read_environment(environ))
    return Profile(name, path, found)


def profile_folders() -> tuple[Path, ...]:
    """Where profiles are looked for by name: the working copy, then the installed package."""
    package = Path(__file__).resolve().parent
    return (package.parent / "profiles", package / "profiles")


def _find(name: str) -> Path | None:
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
    import yaml

    if not isinstance(node, yaml.MappingNode):
        where = f"{path}:{node.start_mark.line + 1}"
        raise ProfileError(f"{where}: expected `key: value` lines", hint=None)
    for name_node, value_node in node.value:
        name = f"{prefix}{name_node.value}"
        where = f"{path}:{name_node.start_mark.line + 1}"
        empty = value_node.tag.endswith(":null")
        if _is_group(name) and (empty or isinstance(value_node, yaml.MappingNode)):
            yield from () if empty else _entries(value_node, path, f"{name}.")
            continue
        key = _known(name, where)
        if not isinstance(value_node, yaml.ScalarNode):
            raise ProfileError(f"{where}: {name} takes one value", hint=None)
        if empty:
            continue
        yield name, Value(_convert(key, value_node.value, where), where)


def _is_group(name: str) -> bool:
    return any(key.startswith(f"{name}.") for key in _BY_NAME)


def _known(name: str, where: str) -> Key:
    if name not in _BY_NAME:
        hint = _near(name, _BY_NAME) or f"known: {', '.join(_BY_NAME)}"
        raise ProfileError(f"{where}: unknown setting '{name}'", hint=hint)
    return _BY_NAME[name]


def _convert(key: Key, text: str, where: str) -> Setting:
    try:
        return key.read(text.strip())
    except ValueError as error:
        raise ProfileError(f"{where}: {key.name} is '{text}', expected {error}", hint=None) from error


def _near(name: str, known: Mapping[str, Key] | list[str]) -> str | None:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"maybe you meant {close[0]}" if close else None
