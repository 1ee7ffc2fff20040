"""Files that are written: there complete or not at all, and never outside their folder."""

import errno
import os
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amped.base.errors import FileError
from amped.base.files import output_file, write_atomically

WHEN = "2026-11-20_14-05-09"
STAMP = "2026-11-20_14-05-09_"


class TestWritingAtomically:
    def names(self, folder):
        return sorted(path.name for path in folder.iterdir())

    def test_text_and_bytes_arrive_whole(self, tmp_path):
        assert write_atomically(tmp_path / "a.txt", "é\n").read_bytes() == b"\xc3\xa9\n"
        assert write_atomically(tmp_path / "a.png", b"\x00\xff").read_bytes() == b"\x00\xff"
        assert self.names(tmp_path) == ["a.png", "a.txt"]

    def test_missing_folders_are_made(self, tmp_path):
        assert write_atomically(tmp_path / "x" / "y" / "a.txt", "a").read_text() == "a"

    def test_an_existing_file_is_never_replaced_but_a_free_name_taken(self, tmp_path):
        written = [write_atomically(tmp_path / "a.txt", text).name for text in ("one", "two", "three")]
        assert written == ["a.txt", "a-2.txt", "a-3.txt"]
        assert [(tmp_path / name).read_text() for name in written] == ["one", "two", "three"]

    def test_overwrite_replaces(self, tmp_path):
        write_atomically(tmp_path / "a.txt", "one")
        assert write_atomically(tmp_path / "a.txt", "two", overwrite=True) == tmp_path / "a.txt"
        assert self.names(tmp_path) == ["a.txt"]
        assert (tmp_path / "a.txt").read_text() == "two"

    def test_without_hard_links_the_name_is_still_given_once(self, tmp_path, monkeypatch):
        def no_links(*_, **__):
            raise OSError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(os, "link", no_links)
        written = [write_atomically(tmp_path / "a.txt", text) for text in ("one", "two")]
        assert [(path.name, path.read_text()) for path in written] == [("a.txt", "one"), ("a-2.txt", "two")]
        assert self.names(tmp_path) == ["a-2.txt", "a.txt"]

    @pytest.mark.parametrize("step", ["fsync", "link"])
    @pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
    def test_a_full_disk_leaves_nothing_and_says_so(self, tmp_path, monkeypatch, step, code):
        self.broken(monkeypatch, step, OSError(code, os.strerror(code)))
        with pytest.raises(FileError, match="cannot be written") as caught:
            write_atomically(tmp_path / "a.txt", "text")
        assert os.strerror(code).lower() in str(caught.value)
        assert "nothing was left behind" in str(caught.value)
        assert self.names(tmp_path) == []

    @pytest.mark.parametrize("step", ["fsync", "link", "replace"])
    @pytest.mark.parametrize("interrupt", [KeyboardInterrupt, MemoryError, SystemExit])
    def test_an_interrupt_goes_through_and_leaves_nothing(self, tmp_path, monkeypatch, step, interrupt):
        self.broken(monkeypatch, step, interrupt())
        with pytest.raises(interrupt):
            write_atomically(tmp_path / "a.txt", "text", overwrite=step == "replace")
        assert self.names(tmp_path) == []

    def test_a_full_disk_keeps_the_file_that_was_to_be_overwritten(self, tmp_path, monkeypatch):
        write_atomically(tmp_path / "a.txt", "old")
        self.broken(monkeypatch, "fsync", OSError(errno.ENOSPC, "No space left on device"))
        with pytest.raises(FileError, match="no space left"):
            write_atomically(tmp_path / "a.txt", "new", overwrite=True)
        assert (tmp_path / "a.txt").read_text() == "old"
        assert self.names(tmp_path) == ["a.txt"]

    def test_a_folder_that_is_a_file(self, tmp_path):
        (tmp_path / "file").write_text("keep")
        with pytest.raises(FileError, match="is a file, not a folder") as caught:
            write_atomically(tmp_path / "file" / "a.txt", "text")
        assert "choose another --output-dir" in str(caught.value)
        assert (tmp_path / "file").read_text() == "keep"

    def test_a_folder_in_the_place_of_the_file(self, tmp_path):
        (tmp_path / "a.txt").mkdir()
        assert write_atomically(tmp_path / "a.txt", "text").name == "a-2.txt"
        with pytest.raises(FileError, match="cannot be written: is a directory"):
            write_atomically(tmp_path / "a.txt", "text", overwrite=True)
        assert self.names(tmp_path) == ["a-2.txt", "a.txt"]

    def test_a_name_too_long_for_the_disk(self, tmp_path):
        with pytest.raises(FileError, match="cannot be written: file name too long"):
            write_atomically(tmp_path / ("x" * 300), "text")
        assert self.names(tmp_path) == []

    @pytest.mark.parametrize("name", ["a\0b", "\ud800"])
    def test_a_name_that_no_file_can_have(self, tmp_path, name):
        with pytest.raises(FileError, match="cannot be written"):
            write_atomically(tmp_path / name, "text")
        assert self.names(tmp_path) == []

    def test_text_that_is_no_unicode(self, tmp_path):
        """JSON may carry half a surrogate pair: it is written in some form, or refused in our words."""
        try:
            write_atomically(tmp_path / "a.txt", "half \ud800 pair")
        except FileError:
            assert self.names(tmp_path) == []
        else:
            assert "half " in (tmp_path / "a.txt").read_text("utf-8")

    def test_the_file_is_readable_as_the_user_s_mask_says(self, tmp_path):
        before = os.umask(0o027)
        try:
            path = write_atomically(tmp_path / "a.txt", "text")
        finally:
            os.umask(before)
        assert path.stat().st_mode & 0o777 == 0o640

    @staticmethod
    def broken(monkeypatch, step, error):
        def fails(*_, **__):
            raise error

        monkeypatch.setattr(os, step, fails)


class TestNamesOfOutputFiles:
    def test_date_and_time_stand_before_the_name(self, tmp_path):
        assert output_file(tmp_path, "gemm_breakdown.txt", WHEN) == tmp_path / f"{STAMP}gemm_breakdown.txt"

    @pytest.mark.parametrize(
        ("name", "safe"),
        [
            ("../../x", "x"),
            ("/etc/passwd", "etc-passwd"),
            ("a/b", "a-b"),
            ("a\\b", "a-b"),
            ("..\\..\\x", "x"),
            ("\x00", "output"),
            ("a\x00b", "a-b"),
            ("", "output"),
            (".", "output"),
            ("..", "output"),
            ("../..", "output"),
            ("-rf", "rf"),
            ("~/x", "x"),
            ("a\nb", "a-b"),
            ("C:\\x", "C-x"),
            ("\ud800", "output"),
        ],
    )
    def test_a_name_cannot_leave_the_folder(self, tmp_path, name, safe):
        assert output_file(tmp_path, name, WHEN) == tmp_path / f"{STAMP}{safe}"

    def test_a_long_name_is_cut_to_what_a_disk_takes(self, tmp_path):
        name = output_file(tmp_path, "x" * 10_000, WHEN).name
        assert name == STAMP + "x" * 150

    @given(st.text(max_size=300))
    def test_any_name_is_a_plain_file_in_the_folder(self, name):
        path = output_file(Path("/out"), name, WHEN)
        assert path.parent == Path("/out")
        assert set(path.name) <= set(string.ascii_letters + string.digits + "._+-")
        assert path.name.startswith(STAMP)
        assert len(path.name) < 200
