"""Bad files, full disks and interrupts: nothing that is read is lost and nothing is written by half."""

import errno
import os
from pathlib import Path

import pytest

from amped.base.errors import AmpedError, ConfigError, FileError
from amped.library import estimate
from amped.theory.language.quantity import MAPPING
from tests.helpers.cli import config_file, verb
from tests.helpers.config import config


class TestFiles:
    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (b"", "line 1, column 1: is not valid JSON"),
            (b"{'a': 1}", "line 1, column 2: is not valid JSON"),
            (b'{"a": "\xff"}', "is not UTF-8 text"),
            (b'{"description": "a", "description": "b"}', "the key 'description' stands twice in one object"),
            (b'{"a": NaN}', "NaN is not a JSON number"),
            (b'{"a": 1e400}', "1e400 is not a JSON number"),
            (b'{"a": ' + b"9" * 5000 + b"}", "an integer of 5000 digits is not a JSON number"),
            (b'{"a":' * 20_000, "nested too deeply"),
            (b"[]", "not an object"),
        ],
    )
    def test_a_config_that_cannot_be_read(self, tmp_path, content, words):
        path = config_file(tmp_path, content)
        with pytest.raises(AmpedError) as caught:
            estimate(path)
        assert caught.value.file == str(path)
        assert words in str(caught.value)

    def test_ten_megabytes_in_a_value(self, tmp_path):
        path = config_file(tmp_path, config(MAPPING, microbatch_size="9" * 10**7))
        with pytest.raises(ConfigError) as caught:
            estimate(path)
        assert caught.value.problems[0].where == f"{MAPPING}.parameters.microbatch_size"
        assert len(str(caught.value)) < 500

    def test_a_folder_as_config(self, tmp_path):
        with pytest.raises(FileError, match="cannot be read: is a directory"):
            estimate(tmp_path)

    @pytest.mark.parametrize("name", ["x" * 300, "x" * 5000, "a/" * 3000, "a\0b", ""])
    def test_a_name_that_no_file_has(self, name):
        with pytest.raises(FileError):
            estimate(name)

    def test_a_config_without_permission(self, tmp_path, monkeypatch):
        def denied(*_, **__):
            raise PermissionError(errno.EACCES, "Permission denied")

        path = config_file(tmp_path, config())
        monkeypatch.setattr(Path, "open", denied)
        with pytest.raises(FileError, match="cannot be read: permission denied"):
            estimate(path)

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            ("hello", "is not valid JSON"),
            ("[]", "is not a lookup table"),
            ("{}", "holds no table"),
            ('{"table": "t", "rows": 3}', "is not a table of rows"),
        ],
    )
    def test_a_lookup_file_that_is_none(self, tmp_path, content, words):
        path = config_file(tmp_path, content)
        with pytest.raises(AmpedError, match=words) as caught:
            estimate("minimal", lookup_tables=path)
        assert caught.value.file == str(path)


class TestWhatIsWritten:
    def names(self, folder):
        return sorted(path.name.partition("_")[2].partition("_")[2] for path in folder.iterdir())

    @pytest.mark.parametrize("step", ["fsync", "link"])
    def test_a_full_disk_at_the_second_file_keeps_the_first_whole_and_no_part_of_the_second(
        self, tmp_path, monkeypatch, capsys, step
    ):
        self.fails_at(monkeypatch, step, 2, OSError(errno.ENOSPC, "No space left on device"))
        with pytest.raises(FileError, match="cannot be written: no space left on device") as caught:
            verb("estimate", "--config", "minimal", "--output-dir", tmp_path, "--gemm")
        assert caught.value.file.endswith("_training_time_breakdown.txt")
        assert self.names(tmp_path) == ["config_summary.txt"]
        assert "TIME" in capsys.readouterr().out

    @pytest.mark.parametrize("step", ["fsync", "link"])
    def test_an_interrupt_at_the_second_file_leaves_no_part_of_it(self, tmp_path, monkeypatch, capsys, step):
        self.fails_at(monkeypatch, step, 2, KeyboardInterrupt())
        assert verb("estimate", "--config", "minimal", "--output-dir", tmp_path, "--gemm") == 130
        assert self.names(tmp_path) == ["config_summary.txt"]
        assert "TIME" in capsys.readouterr().out

    @pytest.mark.parametrize("name", ["estimate", "mat-dims"])
    def test_an_output_folder_that_cannot_be(self, tmp_path, capsys, name):
        (tmp_path / "file").write_text("keep")
        with pytest.raises(FileError, match="cannot be written") as caught:
            verb(name, "--config", "minimal", "--output-dir", tmp_path / "file" / "out")
        assert "choose another --output-dir" in str(caught.value)
        assert [path.name for path in tmp_path.iterdir()] == ["file"]
        assert capsys.readouterr().out

    def test_an_output_file_that_exists_is_not_overwritten(self, tmp_path):
        path = tmp_path / "ranking.csv"
        path.write_text("keep")
        with pytest.raises(AmpedError, match="exists and is not overwritten"):
            verb("explore", "--config", "minimal", "--top", 1, "--format", "csv", "--output", path)
        assert path.read_text() == "keep"

    def test_names_in_a_config_cannot_leave_the_output_folder(self, tmp_path, monkeypatch, capsys):
        out = tmp_path / "inner" / "out"
        out.parent.mkdir()
        monkeypatch.chdir(out.parent)
        path = config_file(tmp_path, config() | {"description": "../../escaped", "$schema": "/etc/escaped"})
        verb("estimate", "--config", path, "--output-dir", out, "--gemm", "--compute-graph")
        assert sorted(p.name for p in tmp_path.iterdir()) == ["inner", "mine.json"]
        assert [p.name for p in out.parent.iterdir()] == ["out"]
        assert len(self.names(out)) == 6
        assert "escaped" in capsys.readouterr().out

    def test_two_runs_in_one_second_keep_both(self, tmp_path, capsys):
        for _ in range(3):
            verb("estimate", "--config", "minimal", "--output-dir", tmp_path)
        assert len(list(tmp_path.iterdir())) == 6
        assert capsys.readouterr().err == ""

    @staticmethod
    def fails_at(monkeypatch, step, turn, error):
        """The `turn`-th call of an operating-system function raises."""
        calls, real = [], getattr(os, step)

        def sometimes(*arguments, **named):
            calls.append(step)
            if len(calls) == turn:
                raise error
            return real(*arguments, **named)

        monkeypatch.setattr(os, step, sometimes)
