"""Every candidate that several processes evaluate: the file of one process, to the last byte, however the parts come."""

import io
from pathlib import Path

import pytest

from amped.base.errors import ConfigError, FileError
from amped.exploration.all_candidates import spool, written
from amped.exploration.answer import column_types
from amped.exploration.executors import Spread, opened
from amped.exploration.running import Run, found_in
from amped.report.rows_formats import STREAMS
from tests.helpers.cli import verb
from tests.helpers.executors import arguments, files, search, small_parts

PARTS = 8


@pytest.fixture(autouse=True)
def parts_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    small_parts(monkeypatch)


def every_row(folder: Path, kind: str, workers: int) -> bytes:
    pytest.importorskip("pyarrow")
    asked, stream = search(folder), io.BytesIO()
    assert len(asked.parts) > PARTS
    keep = STREAMS[kind](stream)
    keep.start(column_types(asked))
    with opened(Spread(workers=workers)) as engine:
        assert engine is not None
        found_in(asked, Run(engine, keep=keep, beside=folder / "beside"))
        keep.close()
    return stream.getvalue()


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_two_processes_write_what_one_writes_and_a_worker_that_dies_writes_no_row_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    alone = every_row(tmp_path, kind, 1)
    monkeypatch.setenv("FLAG", str(tmp_path / "died"))
    assert every_row(tmp_path, kind, 2) == alone
    assert (tmp_path / "died").exists()
    assert list((tmp_path / "beside").iterdir()) == []


@pytest.mark.thorough
def test_the_command_does_the_same(tmp_path: Path) -> None:
    line = [each for each in arguments(tmp_path) if each not in ("--format", "json")]
    for name, more in (("one", []), ("two", ["--workers", 2])):
        verb(*line, "--keep-all", "--output", tmp_path / f"{name}.csv", *more)
    one, two = ((tmp_path / f"{name}.csv").read_bytes() for name in ("one", "two"))
    assert one == two
    assert one.count(b"\n") == search(tmp_path).candidates + 1
    assert not list(tmp_path.glob(".amped-*"))


def test_parts_wait_for_those_before_them(tmp_path: Path) -> None:
    seen: list[int] = []

    class Keep:
        def start(self, _: object) -> None:
            raise AssertionError

        def take(self, columns: dict[str, int]) -> None:
            seen.append(columns["block"])

    with spool(tmp_path, Keep(), [3, 1, 2]) as spooled:
        for part in (1, 2, 3):
            with written(spooled.folder, part) as keep:
                for block in (10 * part, 10 * part + 1):
                    keep.take({"block": block})  # type: ignore[dict-item]
            spooled.finished(part)
            assert seen == ([30, 31, 10, 11, 20, 21] if part == 3 else [])
        assert not list(Path(spooled.folder).iterdir())
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="every worker must reach"), written(str(tmp_path / "gone"), 1):
        pass


@pytest.mark.parametrize("option", ["--resume", "--shard"])
def test_what_keeps_the_best_of_parts_only_goes_with_no_file_of_every_row(tmp_path: Path, option: str) -> None:
    config, _ = files(tmp_path)
    value = {"--resume": tmp_path / "found.jsonl", "--shard": "1/2"}[option]
    with pytest.raises(ConfigError, match="not every row"):
        verb("explore", "-c", config, "--keep-all", "--output", tmp_path / "x.csv", option, value)
