"""Files that are read: JSON without surprises, and bytes that are none."""

import contextlib
import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amped.base import files
from amped.base.errors import FileError
from amped.base.files import AtomicFile, files_below, parse_json, read_json, read_text, temporary_name
from tests.helpers.places import ROOT


def refused(text):
    """The problems of JSON text that is refused."""
    with pytest.raises(FileError) as caught:
        parse_json(text, "file.json")
    assert str(caught.value).startswith("file.json:")
    return caught.value.problems


# Texts without what a terminal obeys instead of showing it.
SHOWN = st.text(st.characters(exclude_categories=["Cc", "Cs"]))


class TestStrictJson:
    def test_plain_json_is_read(self):
        assert parse_json('{"a": [1, 2.5, "x", true, null, -1e3]}') == {"a": [1, 2.5, "x", True, None, -1000.0]}

    def test_keys_may_repeat_in_different_objects(self):
        assert parse_json('{"a": {"b": 1}, "c": {"b": 2}}') == {"a": {"b": 1}, "c": {"b": 2}}

    def test_a_key_that_stands_twice_is_named(self):
        (problem,) = refused('{"batch_size": 1, "batch_size": 2}')
        assert problem.what == "the key 'batch_size' stands twice in one object"
        assert problem.advice == "keep one"

    def test_all_keys_that_stand_twice_are_told_at_once(self):
        problems = refused('{"a": 1, "a": 2, "b": {"c": 1, "c": 1}, "d": NaN}')
        assert {p.what for p in problems} == {
            "the key 'a' stands twice in one object",
            "the key 'c' stands twice in one object",
            "NaN is not a JSON number",
        }

    @pytest.mark.parametrize(
        ("text", "where"),
        [
            ("", "line 1, column 1"),
            ("hello", "line 1, column 1"),
            ('{"a": 1,\n "b" 2}', "line 2, column 6"),
            ('{"a": 1,\n "b": 2 ,\n\n}', "line 2, column 9"),
            ("[[1],\n ]", "line 1, column 5"),
            ("[1,}", "line 1, column 3"),
            ("[1,", "line 1, column 4"),
            ("{,}", "line 1, column 2"),
            ("{'a': 1}", "line 1, column 2"),
            ('{"a": 1} x', "line 1, column 10"),
            ('{"a": [1, 2}', "line 1, column 12"),
            ('{"a": "\n"}', "line 1, column 8"),
            ('{"a": 01}', "line 1, column 8"),
            ("[1,\n 2,\n tru]", "line 3, column 2"),
        ],
    )
    def test_broken_json_is_told_with_line_and_column(self, text, where):
        (problem,) = refused(text)
        assert problem.where == where
        assert problem.what.startswith("is not valid JSON: ")

    @pytest.mark.parametrize(("text", "closing"), [('{"a": 1,\n\n}', "}"), ("[1, 2, ]", "]"), ("[1,}", "}")])
    def test_a_comma_that_nothing_follows_is_told_alike_by_every_python(self, text, closing):
        (problem,) = refused(text)
        assert problem.what == f"is not valid JSON: a comma stands before '{closing}'"
        assert problem.advice == "take it away"

    @pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1E+999"])
    def test_numbers_that_are_none(self, number):
        (problem,) = refused(f'{{"a": {number}}}')
        assert number in problem.what
        assert "is not a JSON number" in problem.what

    @pytest.mark.parametrize("digits", [401, 5_000, 100_000])
    def test_integers_of_absurd_length(self, digits):
        (problem,) = refused("[" + "9" * digits + "]")
        assert problem.what == f"an integer of {digits} digits is not a JSON number"

    @pytest.mark.parametrize("text", ["[" * 20_000, "[" * 20_000 + "]" * 20_000, '{"a":' * 20_000 + "1" + "}" * 20_000])
    def test_nesting_without_end(self, text):
        (problem,) = refused(text)
        assert "nested too deeply" in problem.what

    @given(st.text(max_size=60))
    def test_any_text_is_json_or_an_error_of_ours(self, text):
        with contextlib.suppress(FileError):
            assert json.loads(json.dumps(parse_json(text), allow_nan=False)) == json.loads(text)

    json_values = st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**100), 2**100)
        | st.floats(allow_nan=False, allow_infinity=False)
        | SHOWN,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(SHOWN, inner, max_size=4),
        max_leaves=12,
    )

    @given(json_values)
    def test_what_json_writes_is_read_back(self, value):
        assert parse_json(json.dumps(value)) == value


class TestReading:
    def test_a_byte_order_mark_is_skipped(self, tmp_path):
        path = tmp_path / "bom.json"
        path.write_bytes(b'\xef\xbb\xbf{"a": 1}')
        assert read_json(path) == {"a": 1}

    @pytest.mark.parametrize("content", [b'{"a": "\xff"}', "{}".encode("utf-16"), '{"a": "\u00e9"}'.encode("latin-1")])
    def test_bytes_that_are_not_utf8(self, tmp_path, content):
        path = tmp_path / "latin.json"
        path.write_bytes(content)
        with pytest.raises(FileError, match="is not UTF-8 text") as caught:
            read_json(path)
        assert caught.value.file == str(path)

    def test_a_missing_file(self, tmp_path):
        with pytest.raises(FileError, match="no such file"):
            read_text(tmp_path / "nowhere.json")

    def test_a_folder(self, tmp_path):
        with pytest.raises(FileError, match="cannot be read: is a directory"):
            read_text(tmp_path)

    def test_a_path_through_a_file(self, tmp_path):
        (tmp_path / "file").write_text("{}")
        with pytest.raises(FileError, match="cannot be read: not a directory"):
            read_text(tmp_path / "file" / "config.json")

    @pytest.mark.parametrize("name", ["a\0b", "x" * 5000])
    def test_a_name_that_no_file_has(self, name):
        with pytest.raises(FileError, match=r"cannot be read|no such file"):
            read_text(Path(name))

    @pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no endless device here")
    def test_a_device_without_end_is_not_read_to_its_end(self):
        with pytest.raises(FileError, match="is larger than 64 MB"):
            read_text(Path("/dev/zero"))

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
    def test_a_pipe_is_read_and_one_without_a_writer_is_given_up(self, tmp_path, monkeypatch):
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        monkeypatch.setattr(files, "PATIENCE", 0.05)
        with pytest.raises(FileError, match=r"is a pipe that nobody wrote to for 0\.05 s"):
            read_text(pipe)
        monkeypatch.setattr(files, "PATIENCE", 10.0)
        writer = threading.Thread(target=pipe.write_text, args=("{}",))
        writer.start()
        assert read_text(pipe) == "{}"
        writer.join()

    @pytest.mark.parametrize(
        "text", ['{"\\u001b[2J": 1}', '{"a": "\\u001b]0;title\\u0007"}', '{"a": {"b": "\\u009b"}}']
    )
    def test_what_a_terminal_would_obey_is_refused(self, text):
        with pytest.raises(FileError, match="has a control character"):
            parse_json(text)

    def test_a_file_without_permission(self, tmp_path, monkeypatch):
        def denied(*_, **__):
            raise PermissionError(errno.EACCES, "Permission denied")

        path = tmp_path / "secret.json"
        path.write_text("{}")
        monkeypatch.setattr(Path, "open", denied)
        with pytest.raises(FileError, match="cannot be read: permission denied"):
            read_text(path)

    def test_a_file_of_gigabytes_is_not_loaded(self, tmp_path):
        path = tmp_path / "huge.json"
        with path.open("wb") as stream:
            stream.truncate(3_000_000_000)  # sparse: takes no space
        with pytest.raises(FileError, match="is larger than 64 MB"):
            read_json(path)


def test_files_that_come_with_amped_are_strict_json():
    rooms = ("amped/schema", "configs", "lookup_tables", "amped/calibration", "amped/validation", "amped/interop")
    for path in (path for room in rooms for path in (ROOT / room).glob("*.json")):
        text = path.read_text("utf-8")
        assert parse_json(text, path.name) == parse_json(text, path.name, is_ours=True)


def test_a_key_that_stands_twice_is_refused_in_amped_s_own_files_too():
    with pytest.raises(FileError, match="the key 'a' stands twice"):
        parse_json('{"a": 1, "a": 2}', is_ours=True)


# --- what a killed process leaves ---


def test_what_a_killed_process_left_is_removed_by_the_next_and_nothing_else(tmp_path):
    """Its files and folders; those of processes that run, of other machines and of the user stay."""
    child = subprocess.run(
        [sys.executable, "-c", "from amped.base.files import temporary_name; print(temporary_name())"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    dead, own = child.stdout.strip(), temporary_name()
    (tmp_path / dead).mkdir()
    (tmp_path / dead / "part-1").write_text("half")
    kept = [f"{own}.part", ".amped-of_another_machine-1-0.part", ".amped-mine", "amped.json"]
    for name in (f"{dead}.part", *kept):
        (tmp_path / name).write_text("half")
    with AtomicFile(tmp_path / "whole.txt") as file:
        file.stream.write(b"whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*kept, "whole.txt"])


def test_what_another_user_left_hinders_nobody(tmp_path, monkeypatch):
    """It may not be removed, in a folder such as /tmp."""
    (left := tmp_path / f"{temporary_name()}.part").write_text("half")
    monkeypatch.setattr(files, "_runs", lambda process: False)
    unlink = Path.unlink

    def refused_for_it(path, missing_ok=False):
        if path == left:
            raise PermissionError(errno.EPERM, "Operation not permitted")
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", refused_for_it)
    with AtomicFile(tmp_path / "whole.txt") as file:
        file.stream.write(b"whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([left.name, "whole.txt"])


def test_the_files_below_a_folder_leave_hidden_ones_alone(tmp_path: Path) -> None:
    for name in ("b.json", "inner/a.csv", "inner/note.md", ".hidden/c.json", ".d.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    (tmp_path / "gone.json").symlink_to(tmp_path / "nothing")
    assert files_below(tmp_path, ".json", ".csv") == [tmp_path / "b.json", tmp_path / "inner" / "a.csv"]


def test_a_folder_of_too_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_FILES", 2)
    for name in ("a", "b"):
        (tmp_path / name).touch()
    assert files_below(tmp_path, ".json") == []
    (tmp_path / "c").touch()
    with pytest.raises(FileError, match=r"(?s)holds more than 2 files.*name the folder that has those you mean"):
        files_below(tmp_path, ".json")
