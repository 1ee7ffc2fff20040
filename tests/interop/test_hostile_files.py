"""Files that would take a machine's memory, or a terminal: each is refused in a moment with its line, or told in plain letters."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from amped.base.printable import printable
from tests.helpers.cli import amped
from tests.helpers.places import ROOT

SIZES = "--num-layers 32 --hidden-size 64 --num-attention-heads 4"
DOUBLED = "".join(f'V{level}="{f"$V{level - 1}" * 10}"\n' for level in range(1, 12))
LATER = "".join(f'V{level}="{f"$V{level - 1}" * 10}"\n' for level in range(11, 0, -1))
MERGED = "".join(f"b_{n}: &b_{n} {{<<: [*m, {', '.join([f'*b_{n - 1}'] * 9)}]}}\n" for n in range(1, 14))

REFUSED = {
    "a text that grows tenfold a line": (f"V0=xxxxxxxxxx\n{DOUBLED}pretrain_gpt.py --num-layers $V11", "line 6: the text grows beyond"),
    "variables that come later": (f"{LATER}V0=x\npretrain_gpt.py --num-layers $V11", "line 13: "),
    "empty variables without end": (f"{LATER}V0=\npretrain_gpt.py --num-layers $V11", "line 13: too many variables are replaced"),
    "an array that doubles": ("A=(x)\n" + 'A=("${A[@]}" "${A[@]}")\n' * 30 + "pretrain_gpt.py --num-layers $A", "the text grows beyond"),
    "variables in a circle": ("A=$B$B\nB=$A$A\npretrain_gpt.py --num-layers $A", "line 3: --num-layers takes"),
    "a quote inside a word": ('X="--bf16 --\'x"\npretrain_gpt.py $X --num-layers 2', "line 2: cannot be cut into words: No closing"),
    "merge keys of YAML": (f"m: &m {{a: 1}}\nb_0: &b_0 {{<<: [*m, *m]}}\n{MERGED}model: *b_13\n", "values when its aliases are written out"),
    "an anchor inside itself": ("model: &a {b: *a}\n", "line 1: has more than 500,000 values when its aliases are written out"),
    "lists of TOML": (f"[training]\nx = {'[' * 990}{']' * 990}\n", "nested deeper than 50 levels"),
    "shallower lists of TOML": (f"[training]\nx = {'[' * 90}{']' * 90}\n", "training.x: a value is nested deeper than 50 levels"),
    "a long key of TOML": (f"[training]\n{'.'.join(['a'] * 20_000)} = 1\n", "line 2: a key has more than 100 parts"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_would_never_end_is_refused(name: str, tmp_path: Path) -> None:
    content, told = REFUSED[name]
    (tmp_path / "file").write_text(content, "utf-8")
    found = amped("import", "file", folder=tmp_path)
    assert (found.returncode, found.stdout) == (2, "")
    assert told in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize("start", ["", 'A=""\n'], ids=["from the environment", "from nothing"])
def test_flags_that_are_appended_line_by_line_are_read(start: str, tmp_path: Path) -> None:
    appended = "".join(f'A="${{A}} --extra-{number} 1"\n' for number in range(300))
    (tmp_path / "run.sh").write_text(f"{start}{appended}torchrun pretrain_gpt.py $A {SIZES}", "utf-8")
    found = amped("import", "run.sh", folder=tmp_path)
    assert found.returncode == 0, found.stderr
    assert "--extra-299" in found.stderr


# A title, a screen that is cleared, a line that turns around, an 8-bit control, a null.
NASTY = "\x1b]0;owned\x1b\\ \x1b[2J \u202etxt.exe \x9b2J \x00"
FILES = {
    "run.sh": f"echo '{NASTY}'\ntorchrun pretrain_gpt.py {SIZES} --we\x1b]0;x\x07ird\u202e 3 --other '{NASTY}'\n",
    "run.yaml": 'model:\n  num_layers: 2\n  hidden_size: 64\n  num_attention_heads: 4\n  "a\\e]0;x\\ab\\u202e\\0": 3\n',
    "run.toml": '[training]\nseq_len = 8\n"a\\u001b]0;x\\u0007\\u202e" = 3\n',
    "wrong.yaml": 'model:\n  num_layers: "\\e[2J\\u202e"\n  hidden_size: 64\n  num_attention_heads: 4\n',
}


def on_a_terminal(*words: str, folder: Path) -> str:
    """What a command prints where both of its outputs are a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "amped", *words]
    environment = {**os.environ, "NO_COLOR": "1", "TERM": "xterm", "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=environment):
        os.close(theirs)
        printed = b""
        while part := _read(ours):
            printed += part
    os.close(ours)
    return printed.decode("utf-8")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # how Linux says that nobody writes any more
        return b""


@pytest.mark.thorough
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("more", [(), ("-o", "my.json"), ("--json",)], ids=["printed", "written", "json"])
def test_a_terminal_gets_no_escapes_of_a_file(name: str, more: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / name).write_text(FILES[name], "utf-8")
    printed = on_a_terminal("import", name, *more, folder=tmp_path)
    styles = printed.replace("\x1b[1m", "").replace("\x1b[0m", "").replace("\r", "")  # amped's own
    assert printable(styles) == styles
    assert "x1b" in printed or "u001b" in printed
    if (tmp_path / "my.json").exists():
        text = (tmp_path / "my.json").read_text("utf-8")
        assert printable(text) == text


def test_plain_letters_of_all_languages_stay() -> None:
    text = "Größe 模型 α → β, 10 µs\nline 2"
    assert printable(text) == text
    assert printable("a\x1bb\u202ec\ud800\t") == "a\\x1bb\\u202ec\\ud800\\t"
