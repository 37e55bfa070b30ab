"""A run does not pay for pandas, and what needs pandas later still gets it."""

from __future__ import annotations

import subprocess
import sys

_SCRIPT = """
import sys
from codequarry.pipelines.arrow_alone import leave_pandas_out
leave_pandas_out()
import pyarrow as pa
table = pa.table({"name": ["open", None], "row": [1, 2]})
assert "pandas" not in sys.modules
assert table.to_pandas()["row"].tolist() == [1, 2]
import pandas
assert pa.array(pandas.Series([3, None], dtype="Int64")).to_pylist() == [3, None]
leave_pandas_out()
"""


def test_arrow_leaves_pandas_out_until_something_converts_to_it() -> None:
    subprocess.run([sys.executable, "-c", _SCRIPT], check=True)
