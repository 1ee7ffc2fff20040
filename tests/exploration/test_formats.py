"""What an exploration writes: the same numbers in every format, to the last bit, and never half a file."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import amped
from amped.base.errors import AmpedError
from amped.base.files import AtomicFile
from amped.configuring.scenario import read_scenario
from amped.exploration.answer import explored
from amped.exploration.request import Options
from amped.exploration.running import Run
from amped.report import rows_formats
from amped.report.rows_formats import CsvStream, ParquetStream, as_csv, as_parquet
from tests.helpers.cli import amped as command
from tests.helpers.cli import verb
from tests.helpers.explore import KEYS_OF_JSON, SMALL

parquet = pytest.importorskip("pyarrow.parquet")
VARY = {"system": ["DGX A100", "DGX H100"], "memory_bandwidth": [1e12, "2 TB/s"]}


@pytest.fixture(scope="module")
def found():
    return amped.explore(SMALL, vary=VARY, top=7)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.json"
    path.write_text(json.dumps(SMALL), "utf-8")
    return path


def same(written: object, value: object) -> bool:
    return written == (str(value) if isinstance(value, str | bool) else repr(value))


@pytest.fixture(scope="module", params=["csv", "parquet"])
def written(request, tmp_path_factory):
    """Every row of a space with rows, a choice and an axis, and what the exploration told."""
    path = tmp_path_factory.mktemp("every") / f"every.{request.param}"
    vary = {**VARY, "performance_model": ["operators", "amped"]}
    with AtomicFile(path) as file:
        stream = {"csv": CsvStream, "parquet": ParquetStream}[request.param](file.stream)
        told = explored(read_scenario(SMALL), Options(5), vary, Run(keep=stream))
        stream.close()
    return told, rows_of(path)


class TestTheBest:
    def test_csv_has_a_header_of_names_and_a_line_for_each_row(self, found):
        lines = list(csv.DictReader(io.StringIO(as_csv(found.columns, found.best))))
        assert list(lines[0]) == list(found.best[0])
        assert len(lines) == len(found.best) == 7
        for line, row in zip(lines, found.best, strict=True):
            assert [name for name in row if not same(line[name], row[name])] == []

    def test_parquet_is_read_as_the_rows_it_was_written_from(self, found):
        table = parquet.read_table(io.BytesIO(as_parquet(found.columns, found.best)))
        assert table.to_pylist() == found.best

    def test_json_is_the_object_that_is_promised(self, small, tmp_path):
        told = json.loads(command("explore", small, "--json", folder=tmp_path).stdout)
        assert list(told) == KEYS_OF_JSON
        assert told["best"] == amped.explore(SMALL).best
        assert all(isinstance(count, int) for count in told["removed"].values())

    @pytest.mark.thorough
    @pytest.mark.parametrize("suffix", ["csv", "json", "parquet", "txt"])
    def test_the_format_is_what_the_file_s_name_says(self, small, tmp_path, suffix):
        path = tmp_path / f"best.{suffix}"
        verb("explore", "-c", small, "--output", path, "--top", 2)
        content = path.read_bytes()
        starts = {"csv": b"data_parallel", "json": b"{", "parquet": b"PAR1"}
        assert content.startswith(starts.get(suffix, b"8,100 candidates"))

    def test_nothing_feasible_still_makes_a_file_with_its_header(self, small, tmp_path):
        verb("explore", "-c", small, "--set", "memory_capacity=1 MB", "--output", tmp_path / "best.csv")
        lines = (tmp_path / "best.csv").read_text().splitlines()
        assert "fits_in_memory" in lines[0]

    @pytest.mark.thorough
    @pytest.mark.parametrize("more", [[], ["--vary", "system=DGX A100,DGX H100", "--vary", "memory_bandwidth=1e12,2e12"],
                                      ["--space", "full"], ["--pareto", "training_time,memory", "--each", "zero_stage"],
                                      ["--vary", "batch_size=16,32", "--vary", "inter_node_bandwidth=1e10,2e10,4e10"]])  # fmt: skip
    def test_a_redirected_table_is_plain_and_no_wider_than_a_page(self, small, tmp_path, more):
        done = command("explore", "-c", small, *more, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert {"\x1b", "…"} & set(done.stdout) == set()
        assert max(map(len, done.stdout.splitlines())) <= 120
        assert [line for line in done.stdout.splitlines() if line != line.rstrip()] == []


class TestEveryCandidate:
    @pytest.mark.thorough
    def test_there_are_as_many_as_are_counted(self, written):
        told, rows = written
        assert len(rows) == told.candidates > 10_000
        assert sum(row["feasible"] for row in rows) == told.feasible
        assert 0 < told.feasible < told.candidates

    def test_the_best_of_them_are_the_best(self, written):
        told, rows = written
        times = sorted(row["training_time"] for row in rows if row["feasible"])
        assert times[:5] == [row["training_time"] for row in told.best]

    def test_each_is_the_estimate_of_its_mapping(self, written):
        told, rows = written
        feasible = [row for row in rows if row["feasible"]]
        for place in np.random.default_rng(7).choice(len(feasible), 25, replace=False):
            row = feasible[place]
            single = amped.estimate(SMALL, **{name: row[name] for name in told.swept if row[name] is not None})
            assert [n for n in ("step_time", "memory_per_accelerator_bytes") if single[n] != row[n]] == []

    @pytest.mark.thorough
    def test_both_formats_have_the_same(self, tmp_path, small):
        for kind in ("csv", "parquet"):
            verb("explore", "-c", small, "--keep-all", "--output", tmp_path / f"every.{kind}")
        one, other = (rows_of(tmp_path / f"every.{kind}") for kind in ("csv", "parquet"))
        assert one == other
        assert all(row["data_parallel_degree"] * row["tensor_parallel_degree"] * row["pipeline_parallel_degree"]
                   * row.get("context_parallel_degree", 1) == 16 for row in one)  # fmt: skip

    def test_without_a_file_they_are_all_that_is_printed(self, small, tmp_path):
        done = command("explore", "-c", small, "--keep-all", "--format", "csv", folder=tmp_path)
        lines = list(csv.DictReader(done.stdout.splitlines()))
        assert len(lines) == amped.explore(SMALL).candidates
        assert list(tmp_path.iterdir()) == [small]

    def test_row_groups_are_written_as_they_fill(self, monkeypatch):
        monkeypatch.setattr(rows_formats, "GROUP_ROWS", 1000)
        stream = io.BytesIO()
        writer = ParquetStream(stream)
        told = explored(read_scenario(SMALL), Options(1), {"memory_bandwidth": [1e12, 2e12, 3e12]}, Run(keep=writer))
        written_before = stream.tell()
        writer.close()
        groups = parquet.ParquetFile(io.BytesIO(stream.getvalue())).metadata
        assert groups.num_rows == told.candidates > 5000
        assert groups.num_row_groups > 2
        assert written_before > len(stream.getvalue()) / 2

    @pytest.mark.parametrize("kind", ["csv", "parquet"])
    def test_an_interrupt_leaves_nothing_behind(self, tmp_path, small, monkeypatch, kind):
        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr({"csv": CsvStream, "parquet": ParquetStream}[kind], "take", interrupted)
        assert verb("explore", "-c", small, "--keep-all", "--output", tmp_path / f"every.{kind}") == 130
        assert list(tmp_path.iterdir()) == [small]

    @pytest.mark.thorough
    def test_memory_stays_as_it_is_however_many_rows_there_are(self, tmp_path):
        run = """
import re, sys
from amped.exploration.answer import explored
from amped.exploration.request import Options
from amped.exploration.running import Run
from amped.report.rows_formats import ParquetStream
from amped.configuring.scenario import read_scenario
with open(sys.argv[1], "wb") as file:
    stream = ParquetStream(file)
    found = explored(read_scenario("default"), Options(), {"memory_bandwidth": [1e12 + n * 1e10 for n in range(7)]}, Run(keep=stream))
    stream.close()
print(found.candidates, int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024)
"""
        done = subprocess.run([sys.executable, "-c", run, tmp_path / "x"], capture_output=True, text=True, check=True)
        rows, used = map(int, done.stdout.split())
        assert rows > 1e6
        assert used < 2**29


class TestRefusals:
    def test_a_file_that_is_there(self, small, tmp_path):
        (tmp_path / "a.parquet").write_text("mine")
        for more in ([], ["--keep-all"]):
            with pytest.raises(AmpedError, match="not overwritten"):
                verb("explore", "-c", small, "--output", tmp_path / "a.parquet", *more)
        assert (tmp_path / "a.parquet").read_text() == "mine"

    def test_pyarrow_that_is_missing_is_told_before_any_work(self, small, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        monkeypatch.setattr("amped.exploration.answer.explored", None)
        with pytest.raises(AmpedError, match=r"pip install 'amped\[parquet\]'"):
            verb("explore", "-c", small, "--output", tmp_path / "a.parquet")
        verb("explore", "-c", small, "--help")

    @pytest.mark.parametrize(("more", "told"), [
        (["--format", "parquet"], "not for the screen"),
        (["--keep-all"], "does not write table"),
        (["--json", "--format", "csv"], "exclude one another"),
        (["--keep-all", "--format", "json"], "does not write json"),
        (["--keep-all", "--output", "x.txt"], "does not write table"),
        (["--along", "zero_stage"], "add --plot"),
    ])  # fmt: skip
    def test_what_cannot_be_written(self, small, more, told):
        with pytest.raises(AmpedError, match=told):
            verb("explore", "-c", small, *more)

    def test_a_full_disk_is_told_and_leaves_nothing(self, tmp_path):
        def written() -> None:
            with AtomicFile(tmp_path / "a.csv") as file:
                file.stream.write(b"some")
                raise OSError(28, "No space left on device")

        with pytest.raises(AmpedError, match="no space left"):
            written()
        assert list(tmp_path.iterdir()) == []


def rows_of(path: Path) -> list[dict[str, object]]:
    """The rows of a file: numbers as floats, truths as booleans, empty cells as None."""
    if path.suffix == ".parquet":
        return parquet.read_table(path).to_pylist()  # type: ignore[no-any-return]
    words = {"True": True, "False": False, "": None}
    with path.open(newline="") as lines:
        return [{n: words[v] if v in words else number(v) for n, v in row.items()} for row in csv.DictReader(lines)]


def number(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        return text
