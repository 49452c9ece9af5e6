"""The names of the files of sinks that write files.

`NAME-STEP-PART.FORMAT`: the sink's name, the first step of the batch (12 digits), and the number of the part
of the batch (4 digits). Further tables of a part have `-1`, `-2`, … behind that. A file that is not complete
is hidden: its name begins with a dot.
"""

from __future__ import annotations

import re
from urllib.parse import quote


def file_name(sink: str, place: tuple[int, int, int], form: str) -> str:
    """Return the name of a file; signs of the sink's name that file names cannot have are escaped.

    Args:
        sink: the sink's name.
        place: step, part and table.
        form: the format.
    """
    step, part, table = place
    further = f"-{table}" if table else ""
    return f"{quote(sink, safe='')}-{step:012d}-{part:04d}{further}.{form}"


def hidden_name(name: str) -> str:
    """Return the name that a file has until it is complete."""
    return f".{name}.part"


def is_file_of(name: str, sink: str) -> bool:
    """Return whether a file has the name of a sink's files, complete or not."""
    stem = re.escape(quote(sink, safe=""))
    return re.fullmatch(rf"\.?{stem}-\d{{12}}-\d{{4}}(-\d+)?\.\w+(\.part)?", name) is not None
