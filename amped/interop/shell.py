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
    """A flag (name, with its dashes), the words that follow it, and the line of the file in which it stands."""

    name: str
    words: tuple[str, ...]
    line: int


@dataclass
class Script:
    """The flags of a launch script, and its other commands.

    Attributes:
        flags: the flags of the program, in order.
        launcher: the flags before the program's name, as of torchrun, and #SBATCH lines.
        others: other commands, which are not run, each after the number of its line.
    """

    flags: list[Flag] = field(default_factory=list)
    launcher: list[Flag] = field(default_factory=list)
    others: list[tuple[int, str]] = field(default_factory=list)


def arguments_of_log(text: str) -> list[Flag]:
    """The arguments that a log prints: a flag for each line like `name ..... value`."""
    lines = enumerate(map(ARGUMENT.match, text.splitlines()), 1)
    return [Flag(match[1], (match[2],), number) for number, match in lines if match]


def script_of(text: str, launch: str) -> Script:
    """The flags of a launch script or of an argument list.

    Args:
        text: the script.
        launch: a flag that every launch has; the statement with it is the launch.

    Raises:
        FileError: with the line, for a quote that does not end, or a text that grows too long.
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
            _add_statement(statement, number, variables, launch, script)
    return script


@dataclass
class Variables:
    """The variables of a script up to one of its lines.

    Attributes:
        values: the text of each variable.
        line: the line that is read, for messages.
        work: the characters that replacements have put in so far, with a constant for each replacement.
    """

    values: dict[str, str] = field(default_factory=dict)
    line: int = 1
    work: int = 0

    def assign(self, name: str, written: str, appended: bool) -> None:
        """Gives a variable its value: a text, or the words of an array; `appended` adds it to the earlier value (+=)."""
        value = self.expanded(written)
        earlier_value = self.values.get(name, "") + " " if appended else ""
        self.values[name] = earlier_value + (value[1:-1] if value.startswith("(") and value.endswith(")") else value)

    def expanded(self, text: str, enclosing: frozenset[str] = frozenset()) -> str:
        """A text with its variables replaced.

        Unknown variables stay as they are written, and so does a variable inside its own value.

        Args:
            text: the text.
            enclosing: the variables whose values are being replaced around this text.

        Raises:
            FileError: with the line, for a text that grows too long.
        """
        length = len(text)

        def replacement(match: re.Match[str]) -> str:
            """The text that replaces one variable."""
            nonlocal length
            name = match[1] or match[3]
            written = match[2] if name in enclosing else self.values.get(name, match[2])
            if written is None:
                return match[0]
            replaced = self.expanded(written, enclosing | {name})
            length += len(replaced)
            self._refuse_growth(length, len(replaced), name)
            return replaced

        return VARIABLE.sub(replacement, text)

    def _refuse_growth(self, length: int, added: int, name: str) -> None:
        """Counts a replacement, and refuses a text that is too long or replacements that are too many.

        Args:
            length: the length of the text after the replacement.
            added: the length of the replacement.
            name: the variable.

        Raises:
            FileError: with the line.
        """
        self.work += added + WORK_OF_A_REPLACEMENT
        if length > LONGEST_TEXT or self.work > MOST_WORK:
            what = f"the text grows beyond {LONGEST_TEXT:,} characters where ${name} is replaced"
            if length <= LONGEST_TEXT:
                what = f"too many variables are replaced up to here, last ${name}"
            raise FileError(Problem(what, f"line {self.line}", "write the flags themselves"))


def _add_statement(statement: str, number: int, variables: Variables, launch: str, script: Script) -> None:
    """Adds the flags of a statement to the script if it is the launch, else adds the statement to the other commands.

    Flags before the name of a .py file belong to the launcher, those after it to the program.
    """
    expanded_statement = variables.expanded(statement)
    if f"{launch} " not in f"{expanded_statement.replace('=', ' ')} ":
        script.others.append((number, statement.strip().split("\n")[0][:60]))
        return
    words = _launch_words(expanded_statement, number)
    program_place = next((place for place, word in enumerate(words) if word.endswith(".py")), -1)
    script.launcher += _flags_of_words(words[: max(program_place, 0)], number)
    script.flags += _flags_of_words(words[program_place + 1 :], number)


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """The statements of a script, each after the number of its first line.

    Continued lines, quotes and arrays are joined, and comments removed.

    Raises:
        FileError: if a quote or a bracket does not end.
    """
    start, statement = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        start = start if statement else number
        code = _without_comment(line) if not _ends_inside_quote(statement) else line
        if code.rstrip().endswith("\\"):
            statement += code.rstrip()[:-1] + " "
            continue
        statement += code
        if _continues(statement):
            if number - start > LONGEST_STATEMENT:
                break
            statement += "\n"
            continue
        if statement.strip():
            yield start, statement
        statement = ""
    if statement.strip():
        if _continues(statement):
            raise FileError(Problem("a quote or a bracket is opened and not closed", f"line {start}"))
        yield start, statement


def _ends_inside_quote(text: str) -> bool:
    """Whether a text ends inside a quote."""
    quote, escaped = "", False
    for letter in text:
        if escaped or (letter == "\\" and quote != "'"):
            escaped = not escaped
        else:
            quote = _quote_after(letter, quote)
    return bool(quote)


def _quote_after(letter: str, quote: str) -> str:
    """The quote that is open after a letter, given the quote that is open before it; empty for none."""
    if quote:
        return "" if letter == quote else quote
    return letter if letter in "'\"" else ""


def _continues(text: str) -> bool:
    """Whether a statement continues in the next line, because it is inside a quote or inside the brackets of an array."""
    match = ASSIGNED.match(text.strip())
    is_in_array = match is not None and match[3].startswith("(") and not text.rstrip().endswith(")")
    return is_in_array or _ends_inside_quote(text)


def _without_comment(line: str) -> str:
    """A line without its comment: up to a `#` that begins a word outside quotes."""
    quote = ""
    for place, letter in enumerate(line):
        if letter == "#" and not quote and (place == 0 or line[place - 1].isspace()):
            return line[:place]
        quote = _quote_after(letter, quote)
    return line


def _launch_words(text: str, number: int) -> list[str]:
    """The words of a launch. A quoted text of several flags is split into them.

    Raises:
        FileError: with the line, if quotes do not match.
    """
    try:
        words = shlex.split(text.replace("\n", " "), comments=False)
        parts = [shlex.split(word) if word.lstrip().startswith("--") and " " in word else [word] for word in words]
    except ValueError as error:
        raise FileError(Problem(f"cannot be cut into words: {error}", f"line {number}")) from None
    return [word for part in parts for word in part]


def _flags_of_words(words: list[str], number: int) -> list[Flag]:
    """The flags of a launch, from its words: `--name value …` and `--name=value`; words before the first flag are left out."""
    flags: list[Flag] = []
    for word in words:
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word.partition("=")
            flags.append(Flag(name, (value,) if equals else (), number))
        elif flags:
            flags[-1] = Flag(flags[-1].name, (*flags[-1].words, word), number)
    return flags


def refuse_command(flag: Flag) -> None:
    """Refuses a flag whose value is given by a command or by an unknown variable.

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
