"""When Python's garbage collector runs in the processes of stqsh.

It looks through all objects again and again while modules are imported, and finds next to nothing: commands
spent a tenth of their processor time on that, and an engine a fifth of what it takes to start.
"""

from __future__ import annotations

import gc


def collect_seldom() -> None:
    """Let the collector wait for more new objects, some megabytes, before it looks at them."""
    gc.set_threshold(50_000, 50)


def freeze_objects() -> None:
    """Exclude all live objects from later garbage collections.

    They are still freed when nothing refers to them any more.
    """
    gc.collect()
    gc.freeze()
