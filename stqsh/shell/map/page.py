"""The page of a map: one file that asks nothing of any network, made of a template and a state."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent


def page(state: bytes) -> bytes:
    """The page that shows a state (JSON, see `stqsh.shell.map.state`)."""
    before, after = _template()
    # Within a script element only `</` and `<!--` would mean anything.
    return before + state.replace(b"<", b"\\u003c") + after


@cache
def _template() -> tuple[bytes, bytes]:
    """The page before its state and after it."""
    text = (_FOLDER / "page.html").read_text(encoding="utf-8")
    for name, file in (("style", "page.css"), ("script", "page.js")):
        text = text.replace("{{" + name + "}}", (_FOLDER / file).read_text(encoding="utf-8").strip())
    before, after = text.split("{{state}}")
    return before.encode(), after.encode()
