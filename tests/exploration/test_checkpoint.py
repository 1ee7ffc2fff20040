"""What is finished is never lost: not to a kill at any moment, not to Ctrl-C, not to a full disk; and never mixed up."""

import contextlib
import json
import os
import pty
import resource
import signal
import time
from pathlib import Path

import pytest

from amped.base import version
from amped.base.errors import FileError
from amped.exploration.journal import header, journal, read_findings
from amped.exploration.running import Run, found_in
from tests.helpers.executors import alone, exactly, search, small_parts, started


@pytest.fixture(autouse=True)
def parts_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    small_parts(monkeypatch)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "kept.jsonl"


def numbers(path: Path) -> list[int]:
    """The parts whose line is whole."""
    lines = path.read_bytes().split(b"\n")[1:-1] if path.exists() else []
    return [json.loads(line)["part"] for line in lines]


def wait_until(happened: object, seconds: float = 40.0) -> None:
    end = time.monotonic() + seconds
    while not happened():  # type: ignore[operator]
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


def alive(process: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent to look does not."""
    status = Path(f"/proc/{process}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


def children(process: int) -> list[int]:
    listed = Path(f"/proc/{process}/task/{process}/children")
    return [int(child) for child in listed.read_text().split()]


# --- ends --------------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_killed_and_resumed_the_answer_is_the_same_and_no_finished_part_is_done_again(
    folder: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = started(folder, "--workers", 2, "--resume", kept, PAUSE=0.1)
    wait_until(lambda: len(numbers(kept)) >= 2)
    workers = children(run.pid)
    run.kill()
    run.wait()
    finished = numbers(kept)
    assert 2 <= len(finished) < len(search(folder).parts)
    try:
        wait_until(lambda: not any(map(alive, workers)), 10)  # orphans do not go on
    finally:
        for worker in filter(alive, workers):
            os.kill(worker, signal.SIGKILL)
        run.communicate()

    log = kept.with_suffix(".log")
    monkeypatch.setenv("LOG", str(log))
    found = found_in(search(folder), Run(findings=kept))
    again = [int(line) for line in log.read_text().split()]
    assert sorted(again + finished) == [part.number for part in search(folder).parts]
    assert exactly(found) == exactly(alone(folder))


@pytest.mark.thorough
@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"])
def test_an_interrupt_ends_with_its_code_and_a_bar_was_on_the_terminal(
    folder: Path, kept: Path, how: signal.Signals, code: int
) -> None:
    terminal, its_end = pty.openpty()
    run = started(
        folder,
        "--executor",
        "processes",
        "--workers",
        1,
        "--resume",
        kept,
        PAUSE=0.5,  # seconds are left when it is interrupted
        stderr=its_end,
        TERM="xterm",
        COLUMNS="120",
    )
    os.close(its_end)
    wait_until(lambda: len(numbers(kept)) >= 3)  # the rate is told from the second on
    run.send_signal(how)
    out, _ = run.communicate(timeout=20)
    told = everything(terminal)
    assert run.returncode == code
    assert out == ""
    assert "million/s" in told
    assert f"interrupted; what is finished is in {kept}" in told.replace("\r\n", "")
    assert "the best so far: " in told
    assert "Traceback" not in told
    assert exactly(found_in(search(folder), Run(findings=kept))) == exactly(alone(folder))


def everything(terminal: int) -> str:
    """What was written to a terminal."""
    told = b""
    while True:
        try:
            more = os.read(terminal, 65536)
        except OSError:  # its other end is closed
            more = b""
        if not more:
            os.close(terminal)
            return told.decode("utf-8", "replace")
        told += more


def test_a_full_disk_is_told_and_leaves_what_was_finished(folder: Path, kept: Path) -> None:
    found_in(search(folder), Run(findings=kept))
    whole = len(kept.read_bytes())
    kept.unlink()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (whole * 2 // 3, before[1]))
        with pytest.raises(FileError, match=r"(?s)cannot be written: file too large.*--resume"):
            found_in(search(folder), Run(findings=kept))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert kept.read_bytes().endswith(b"}\n")
    assert 0 < len(numbers(kept)) < len(search(folder).parts)
    assert exactly(found_in(search(folder), Run(findings=kept))) == exactly(alone(folder))


@pytest.mark.thorough
def test_wherever_the_file_was_torn_it_goes_on(folder: Path, kept: Path) -> None:
    found_in(search(folder, top=1), Run(findings=kept))
    whole = kept.read_bytes()
    ends = [place for place, letter in enumerate(whole) if letter == ord("\n")]
    asked = search(folder, top=1)
    wanted = exactly(found_in(asked))
    torn = {0, 1, ends[0], ends[0] + 1, ends[0] + 2, ends[3], ends[3] + 1, len(whole) - 1}
    for length in sorted(torn):
        kept.write_bytes(whole[:length])
        assert exactly(found_in(asked, Run(findings=kept))) == wanted, length
        assert sorted(numbers(kept)) == [part.number for part in asked.parts]


def test_what_a_power_cut_leaves_behind_the_last_line_is_taken_away(folder: Path, kept: Path) -> None:
    found_in(search(folder), Run(findings=kept))
    whole = kept.read_bytes()
    kept.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]) + bytes(2 * len(whole)))
    assert exactly(found_in(search(folder), Run(findings=kept))) == exactly(alone(folder))
    assert len(kept.read_bytes()) < 1.1 * len(whole)
    assert sorted(numbers(kept)) == [part.number for part in search(folder).parts]


def test_a_finished_run_is_told_again_without_evaluating_anything(
    folder: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found_in(search(folder), Run(findings=kept))
    monkeypatch.setenv("LOG", str(kept.with_suffix(".log")))
    assert exactly(found_in(search(folder), Run(findings=kept))) == exactly(alone(folder))
    assert not kept.with_suffix(".log").exists()


# --- refusals ----------------------------------------------------------------------------------------------------------


def test_the_findings_of_another_config_are_refused_with_the_difference(folder: Path, kept: Path) -> None:
    found_in(search(folder), Run(findings=kept))
    before = kept.read_bytes()
    with pytest.raises(FileError) as refusal:
        found_in(search(folder, top=6, batch_size=64), Run(findings=kept))
    told = str(refusal.value)
    assert f"{kept}" in told
    assert "options.top: 5 there, 6 here" in told
    assert "overrides.batch_size: nothing there, 64 here" in told
    assert kept.read_bytes() == before


def test_the_findings_of_another_version_are_refused_with_the_difference(
    folder: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found_in(search(folder), Run(findings=kept))
    here = version.__version__
    monkeypatch.setattr(version, "__version__", "9.9.9")
    with pytest.raises(FileError, match=f"amped: '{here}' there, '9.9.9' here"):
        found_in(search(folder), Run(findings=kept))


def test_other_formulas_are_another_exploration(folder: Path, kept: Path) -> None:
    found_in(search(folder), Run(findings=kept))
    asked = search(folder)
    formulas = Path(str(asked.request.question.formulas))
    written = formulas.read_text()
    try:
        formulas.write_text(written + "\n")
        with pytest.raises(FileError, match=r"formulas: '\w+' there, '\w+' here"):
            found_in(asked, Run(findings=kept))
    finally:
        formulas.write_text(written)


def test_other_code_of_amped_is_another_exploration(folder: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found_in(search(folder), Run(findings=kept))
    monkeypatch.setattr("amped.exploration.identity.code", lambda: "edited")
    with pytest.raises(FileError, match=r"code of amped: '\w+' there, 'edited' here"):
        found_in(search(folder), Run(findings=kept))


@pytest.mark.parametrize(
    "content", ['{"a": 1}', '{"a": 1}\n', "plain text\n", '{"format": "amped findings 1"}\n', "[]\n"]
)
def test_another_file_is_never_written_to(folder: Path, kept: Path, content: str) -> None:
    kept.write_text(content)
    with pytest.raises(FileError, match="is not a file of findings"):
        found_in(search(folder), Run(findings=kept))
    assert kept.read_text() == content


def test_damage_before_the_last_line_is_told_with_its_line(folder: Path, kept: Path) -> None:
    found_in(search(folder), Run(findings=kept))
    lines = kept.read_text().splitlines(keepends=True)
    lines[2] = '{"part": 1, "seconds": 0.1, "found": {}}\n'
    kept.write_text("".join(lines))
    with pytest.raises(FileError, match="line 3: is damaged"):
        found_in(search(folder), Run(findings=kept))


def test_two_runs_do_not_write_to_one_file(folder: Path, kept: Path) -> None:
    asked = search(folder)
    top = header(asked.request, len(asked.parts), (1, 1))
    with journal(kept, top), pytest.raises(FileError, match="another run writes to it"), journal(kept, top):
        pass


@pytest.mark.parametrize("path", ["/proc/nowhere/kept.jsonl", "."])
def test_a_file_that_cannot_be_made_is_told(folder: Path, path: str) -> None:
    with pytest.raises(FileError, match="cannot be written"):
        found_in(search(folder), Run(findings=Path(path)))


@pytest.mark.thorough
def test_every_change_of_a_byte_is_noticed(folder: Path, tmp_path: Path) -> None:
    """A line that was changed is refused, or computed again if it is the last; it is never believed."""
    kept = tmp_path / "kept.jsonl"
    found = found_in(search(folder), Run(findings=kept))
    whole = kept.read_bytes()
    for place in range(0, len(whole), max(len(whole) // 60, 1)):
        changed = bytearray(whole)
        changed[place] ^= 1
        kept.write_bytes(changed)
        with contextlib.suppress(FileError):  # a change before the last line is refused
            assert exactly(found_in(search(folder), Run(findings=kept))) == exactly(found)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no endless device here")
def test_a_device_is_no_file_of_findings(folder: Path) -> None:
    with pytest.raises(FileError, match="is no regular file"):
        read_findings(Path("/dev/zero"))
    with pytest.raises(FileError, match="is no regular file"):  # it was a traceback
        found_in(search(folder), Run(findings=Path("/dev/null")))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_is_no_file_of_findings(folder: Path, tmp_path: Path) -> None:
    """It waited for ever."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="is no regular file"):
        found_in(search(folder), Run(findings=tmp_path / "pipe"))
    with pytest.raises(FileError, match="is no regular file"):
        read_findings(tmp_path / "pipe")
