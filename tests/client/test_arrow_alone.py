"""Programs of the client do without pandas, whose import takes half a second."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
import pyarrow as pa
import stqsh

with stqsh.connect(temporary=True, autoplay=False):
    pa.array([1, 2])
    assert "pandas" not in sys.modules
    import pandas as pd

    assert pa.array(pd.Series([1, 2])).to_pylist() == [1, 2]
    assert pa.table({"x": [1]}).to_pandas().x.tolist() == [1]
"""


def test_a_session_imports_no_pandas_and_leaves_it_to_others(tmp_path: Path) -> None:
    environ = {**os.environ, "STQSH_HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", PROGRAM], env=environ, check=True, timeout=60)
