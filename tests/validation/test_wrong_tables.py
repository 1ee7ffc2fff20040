"""A table of measurements that is wrong: the command line tells the line and the column, and exits with 2."""

import csv
import io
from collections.abc import Mapping

import pytest

from tests.helpers.cli import amped
from tests.helpers.validation import RUN


def written(*rows: Mapping[str, object]) -> bytes:
    """The rows of a table, as its file."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, [*rows[0]])
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue().encode()


ACCENTED = written(RUN | {"network": "réseau"}).decode()
WRONG = {
    "unknown column": (written(RUN | {"tensor_paralel_degree": 2}), "line 1, column 'tensor_paralel_degree': unknown column"),
    "wrong unit": (written(RUN | {"measured_step_time": "5 GB"}), "line 2, column 'measured_step_time': 'GB' is not a unit of time"),
    "contradicting degrees": (
        written(RUN, RUN | {"id": "other", "data_parallel_degree": 8}),
        "line 3, columns 'number_of_accelerators' and 'data_parallel_degree': degrees of 8 do not give 16 accelerators",
    ),
    "degrees that do not divide": (
        written({**RUN, "data_parallel_degree": "", "tensor_parallel_degree": 3, "set": "context_parallel_degree=2"}),
        "line 2, columns 'number_of_accelerators' and 'tensor_parallel_degree' and 'context_parallel_degree': "
        "degrees of 3 x 2 do not give 16 accelerators",
    ),
    "no time at all": (
        written(RUN | {"measured_step_time": "0 s"}), "line 2, column 'measured_step_time': 0 s cannot have been measured",
    ),
    "memory that no number can be divided by": (
        written(RUN | {"measured_memory_bytes": "1e-308"}),
        "line 2, column 'measured_memory_bytes': 1e-308 cannot have been measured",
    ),
    "no measured quantity": (written(RUN | {"measured_step_time": ""}), "line 2, column 'measured_step_time': nothing was measured"),
    "no column of a measured quantity": (b"id,layers\na,1\n", "line 1: no column says what was measured"),
    "duplicate id": (written(RUN, RUN), "lines 2 and 3, column 'id': the id 'mine' stands 2 times"),
    "formula in a cell": (written(RUN | {"layers": "=A1+B1"}), "line 2, column 'layers': '=A1+B1' is not a number"),
    "cell of 10 MB": (written(RUN | {"network": "x" * 10_000_000}), "line 2, column 'network': the cell has 10000000 characters"),
    "cell without a head": (b",measured_step_time\r\na,1\r\n", "line 2, column '': the column has no name"),
    "head of 10 MB": (b"x" * 10_000_000 + written(RUN), "line 1, column 'xxx"),
    "Latin letters": (ACCENTED.encode("latin-1"), "line 2, column 10: is not UTF-8 text"),
    "two bytes a letter": (ACCENTED.encode("utf-16"), "line 1, column 1: is not UTF-8 text"),
    "unknown dispatcher": (written(RUN | {"dispatcher": "deepeep"}), "line 2, column 'dispatcher': 'deepeep' is no choice of 'dispatcher'"),
    "unknown library": (
        written(RUN | {"library_release": "cudn 9.11"}), "line 2, column 'library_release': unknown library_release 'cudn'",
    ),
    "no release": (written(RUN | {"software_release": "NeMo"}), "line 2, column 'software_release': software_release 'NeMo' names no release"),
    "empty": (b"", "line 1: the table is empty"),
    "blank": (b"\n\n", "line 1: the table is empty"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "told"), WRONG.values(), ids=WRONG)
def test_a_wrong_table_is_told_with_line_and_column(tmp_path, content, told):
    (tmp_path / "runs.csv").write_bytes(content)
    done = amped("validate", "--table", "runs.csv", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"runs.csv:\n  {told}" in done.stderr
    assert len(done.stderr.splitlines()) == 3  # the file, the problem, and what to do
    assert len(done.stderr) < 1000
