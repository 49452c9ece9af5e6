"""What the tests of sources share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.streams import Prepared, prepared, stream


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Prepared]:
    """Write the given files, prepare a stream over them, and give what came of it."""

    def load(files: dict[str, str | bytes], glob: str = "in/*", **changes: Any) -> Prepared:
        for name, content in files.items():
            path = tmp_path / "in" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return prepared(stream(tmp_path / glob, **changes), tmp_path / "store")

    return load
