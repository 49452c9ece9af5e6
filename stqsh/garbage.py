"""Control when Python's garbage collector runs in the processes of stqsh.

While modules are imported, it scans all objects repeatedly and finds almost no garbage: that took a tenth of
the processor time of commands, and a fifth of the time of an engine's start.
"""

from __future__ import annotations

import gc


def collect_seldom() -> None:
    """Run the collector only after more new objects, some megabytes of them."""
    gc.set_threshold(50_000, 50)


def freeze_objects() -> None:
    """Exclude all live objects from later garbage collections.

    They are still freed when their reference count drops to zero.
    """
    gc.collect()
    gc.freeze()
