"""The page of a map: one file that asks nothing of any network, made of a template and a state."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "web"
_SCRIPTS = ("view.js", "painting.js", "legend.js", "live.js")
"""In the order in which they stand in the page."""


def page(state: bytes) -> bytes:
    """The page that shows a state (JSON, see `stqsh.shell.map.page.page_state`)."""
    before, after = _template()
    # Within a script element only `</` and `<!--` would mean anything.
    return before + state.replace(b"<", b"\\u003c") + after


@cache
def _template() -> tuple[bytes, bytes]:
    """The page before its state and after it."""
    script = "\n".join(_read(name) for name in _SCRIPTS)
    text = _read("page.html").replace("{{style}}", _read("page.css")).replace("{{script}}", script)
    before, after = text.split("{{state}}")
    return before.encode(), after.encode()


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8").strip()
