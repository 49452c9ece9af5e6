"""The thread behind the prompt imports the language while the prompt does: neither sees half of a package."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import stqsh

_TWO_THREADS = """
import importlib.abc, sys, threading, time

begun, failed = threading.Event(), []

class SlowFinder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "lark" and threading.current_thread() is backstage:
            begun.set()
            time.sleep(0.3)

def work():
    try:
        import stqsh.lang.syntax.parse
    except BaseException as error:
        failed.append(error)

sys.meta_path.insert(0, SlowFinder())
backstage = threading.Thread(target=work)
backstage.start()
assert begun.wait(10)
import {module}
backstage.join()
assert not failed, failed
"""


def test_two_threads_may_import_the_language_at_once() -> None:
    for module in (
        "stqsh.lang.syntax.split",
        "stqsh.lang.syntax.parse_table",
        "stqsh.lang.ast_builder.rules",
    ):
        code = _TWO_THREADS.format(module=module)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, (module, done.stderr)


def test_a_module_imports_lark_before_parts_of_it() -> None:
    """A part alone would be locked by one thread and wait for the whole, which another thread has locked."""
    found = []
    for file in sorted(Path(stqsh.__file__).parent.rglob("*.py")):
        tree, is_whole = ast.parse(file.read_text(encoding="utf-8")), False
        for node in tree.body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            is_whole |= "lark" in names
            if not is_whole and any(name.startswith("lark.") for name in names):
                found.append(f"{file.name}:{node.lineno}")
    assert not found
