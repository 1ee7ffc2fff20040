"""Flags in a shell script, an argument list or the arguments block of a log. Nothing is run.

Assignments are followed (`NAME=value`, arrays, `$NAME`, `${NAME:-default}`, `${NAME[@]}`). A value that only a command would
give (`$(…)`, backticks, arithmetic) is refused where a flag needs it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

from amped.base.errors import FileError, Problem

ASSIGNED = re.compile(r"(?:export\s+|declare\s+(?:-\w+\s+)?|local\s+)?([A-Za-z_]\w*)(\+?)=(.*)", re.S)
VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)(?:\[[@*]\])?(?::?-([^{}]*))?\}|([A-Za-z_]\w*))")
COMMAND = re.compile(r"\$\(|`")
# A line of the block of arguments in a log: a name, dots, a value; a rank or a time may stand before it.
ARGUMENT = re.compile(r"^\W*(?:[\w:./ \[\]-]*?[\s:\]])?([a-z]\w+) \.{2,} ?(.*?)\s*$")
HEADER = re.compile(r"^#SBATCH\s+--?([\w-]+)[=\s]+(\S+)")
LONGEST_STATEMENT = 400  # lines
# No text with its variables replaced is longer: the longest argument that Linux passes on (MAX_ARG_STRLEN).
LONGEST_TEXT = 131_072
# What all replacements of a script may put in, and what one costs beside its length: characters.
MOST_WORK, WORK_OF_A_REPLACEMENT = 20_000_000, 100


@dataclass(frozen=True)
class Flag:
    """A flag with its words, and the line of the file where it stands."""

    name: str
    words: tuple[str, ...]
    line: int


@dataclass
class Script:
    """What a script says: the flags of its launch, the words before them, and the lines that are not followed.

    Attributes:
        flags: the flags of the program, in order.
        launcher: the flags before the program's name, as of torchrun, and #SBATCH lines.
        others: lines with other commands, which are not run.
    """

    flags: list[Flag] = field(default_factory=list)
    launcher: list[Flag] = field(default_factory=list)
    others: list[tuple[int, str]] = field(default_factory=list)


def arguments_of_log(text: str) -> list[Flag]:
    """The block of arguments of a log: a line `name ..... value` for each."""
    lines = enumerate(map(ARGUMENT.match, text.splitlines()), 1)
    return [Flag(match[1], (match[2],), number) for number, match in lines if match]


def script_of(text: str, launch: str) -> Script:
    """The flags of a script or of an argument list.

    Args:
        text: the script.
        launch: a flag that the launch has, by which it is found.

    Raises:
        FileError: with the line, for a quote that does not end, or a value that only a command would give.
    """
    variables, script = Variables(), Script()
    for number, line in enumerate(text.splitlines(), 1):
        if match := HEADER.match(line.strip()):
            script.launcher.append(Flag(f"--{match[1]}", (match[2],), number))
    for number, statement in _statements(text):
        variables.line = number
        if match := ASSIGNED.fullmatch(statement.strip()):
            variables.assign(match[1], match[3].strip(), appended=bool(match[2]))
        else:
            _follow(statement, number, variables, launch, script)
    return script


@dataclass
class Variables:
    """The variables of a script, at the line that is read, and how much work their replacements were so far."""

    values: dict[str, str] = field(default_factory=dict)
    line: int = 1
    work: int = 0

    def assign(self, name: str, written: str, appended: bool) -> None:
        """Gives a variable its value: a text, or the words of an array."""
        value = self.expanded(written)
        before = self.values.get(name, "") + " " if appended else ""
        self.values[name] = before + (value[1:-1] if value.startswith("(") and value.endswith(")") else value)

    def expanded(self, text: str, inside: frozenset[str] = frozenset()) -> str:
        """A text with its variables replaced. Unknown ones stay as they are written, and so does one inside its own value.

        Raises:
            FileError: with the line, for a text that grows beyond all use.
        """
        length = len(text)

        def value(match: re.Match[str]) -> str:
            nonlocal length
            name = match[1] or match[3]
            written = match[2] if name in inside else self.values.get(name, match[2])
            if written is None:
                return match[0]
            replaced = self.expanded(written, inside | {name})
            length += len(replaced)
            self._refuse_growth(length, len(replaced), name)
            return replaced

        return VARIABLE.sub(value, text)

    def _refuse_growth(self, length: int, added: int, name: str) -> None:
        """Refuses a text that is too long, or replacements that are too many."""
        self.work += added + WORK_OF_A_REPLACEMENT
        if length > LONGEST_TEXT or self.work > MOST_WORK:
            what = f"the text grows beyond {LONGEST_TEXT:,} characters where ${name} is replaced"
            if length <= LONGEST_TEXT:
                what = f"too many variables are replaced up to here, last ${name}"
            raise FileError(Problem(what, f"line {self.line}", "write the flags themselves"))


def _follow(statement: str, number: int, variables: Variables, launch: str, script: Script) -> None:
    """Takes the flags of a statement, if it is the launch; else notes it as not followed."""
    written = variables.expanded(statement)
    if f"{launch} " not in f"{written.replace('=', ' ')} ":
        script.others.append((number, statement.strip().split("\n")[0][:60]))
        return
    words = _words(written, number)
    program = next((place for place, word in enumerate(words) if word.endswith(".py")), -1)
    script.launcher += _flags(words[: max(program, 0)], number)
    script.flags += _flags(words[program + 1 :], number)


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """The statements of a script with their first lines: continued lines, quotes and arrays are joined, comments gone."""
    start, held = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        start = start if held else number
        bare = _without_comment(line) if not _inside_quote(held) else line
        if bare.rstrip().endswith("\\"):
            held += bare.rstrip()[:-1] + " "
            continue
        held += bare
        if _is_open(held):
            if number - start > LONGEST_STATEMENT:
                break
            held += "\n"
            continue
        if held.strip():
            yield start, held
        held = ""
    if held.strip() and _is_open(held):
        raise FileError(Problem("a quote or a bracket is opened and not closed", f"line {start}"))
    if held.strip():
        yield start, held


def _inside_quote(text: str) -> bool:
    """Whether a text ends inside a quote."""
    quote, escaped = "", False
    for letter in text:
        if escaped or (letter == "\\" and quote != "'"):
            escaped = not escaped
        else:
            quote = _quote_after(letter, quote)
    return bool(quote)


def _quote_after(letter: str, quote: str) -> str:
    """The quote that is open behind a letter, if this one was open before it; empty for none."""
    if quote:
        return "" if letter == quote else quote
    return letter if letter in "'\"" else ""


def _is_open(text: str) -> bool:
    """Whether a statement goes on in the next line: inside a quote, or in the brackets of an array."""
    match = ASSIGNED.match(text.strip())
    opened = match is not None and match[3].startswith("(") and not text.rstrip().endswith(")")
    return opened or _inside_quote(text)


def _without_comment(line: str) -> str:
    """A line up to a `#` that begins a word outside of quotes."""
    quote = ""
    for place, letter in enumerate(line):
        if letter == "#" and not quote and (place == 0 or line[place - 1].isspace()):
            return line[:place]
        quote = _quote_after(letter, quote)
    return line


def _words(text: str, number: int) -> list[str]:
    """The words of a launch; text in quotes that holds several flags is cut into them."""
    try:
        words = shlex.split(text.replace("\n", " "), comments=False)
        cut = [shlex.split(word) if word.lstrip().startswith("--") and " " in word else [word] for word in words]
    except ValueError as error:
        raise FileError(Problem(f"cannot be cut into words: {error}", f"line {number}")) from None
    return [part for parts in cut for part in parts]


def _flags(words: list[str], number: int) -> list[Flag]:
    """Words as flags: `--name value …` and `--name=value`."""
    flags: list[Flag] = []
    for word in words:
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word.partition("=")
            flags.append(Flag(name, (value,) if equals else (), number))
        elif flags:
            flags[-1] = Flag(flags[-1].name, (*flags[-1].words, word), number)
    return flags


def refuse_command(flag: Flag) -> None:
    """Refuses a value that only a command or an unknown variable would give.

    Raises:
        FileError: with the line.
    """
    written = " ".join(flag.words)
    if COMMAND.search(written):
        what = f"takes its value from a command, {written!r}, and amped runs none"
    elif "$" in written:
        what = f"takes {written!r}, which the file does not give"
    else:
        return
    raise FileError(Problem(f"{flag.name} {what}", f"line {flag.line}", "write the value"))
