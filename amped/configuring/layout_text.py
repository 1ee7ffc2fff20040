"""Layouts of pipeline stages and patterns of layers: users write them as text, and formulas take counts.

A layout is written in one of three ways:

- the layers of each stage: `9,10*2,11`;
- Megatron-LM's letters: chunks in the order of the network between bars; `E` embedding, `t` layer, `m` a module that
  predicts further tokens, `L` the output head with its loss: `Et*3|(tt|)*29m|L`;
- counts, as amped itself uses them: stages between bars, their chunks between commas; in each chunk, between colons,
  the number of layers of every kind and the number of modules: `3:1:0,0:4:0|0:4:0,0:3:1`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import TypeVar

from amped.base.errors import ConfigError, quoted

Item = TypeVar("Item")
EMBEDDING, LAYER, PREDICTION, HEAD = "E", "t", "m", "L"
LETTERS = frozenset((EMBEDDING, LAYER, PREDICTION, HEAD, "|"))
# Texts that are longer, or that expand to more, are refused.
MOST_STAGES, MOST_LETTERS, LONGEST = 4096, 100_000, 10_000
HOW = "the layers of each stage in order, 9,10,10,11 or 9,10*2,11, or in Megatron-LM's letters, Et*3|(tt|)*29m|L"


class Layout(str):
    """A layout of the layers on pipeline stages, as text.

    The letters in it decide which of the three notations it is in.
    """

    @property
    def in_letters(self) -> bool:
        """Whether the layout is in Megatron-LM's notation."""
        return not self.isascii() or any(letter.isalpha() for letter in self)

    @property
    def counts(self) -> tuple[tuple[tuple[float, ...], ...], ...]:
        """For each stage and each of its chunks, the number of layers of every kind and, last, of prediction modules.

        Only for layouts in numbers, not in Megatron-LM's letters.
        """
        if ":" in self:
            stages = ([chunk.split(":") for chunk in stage.split(",")] for stage in self.split("|"))
            return tuple(tuple(tuple(map(float, chunk)) for chunk in stage) for stage in stages)
        return tuple(((float(layers), 0.0),) for layers in listed(self))

    @property
    def chunks(self) -> tuple[str, ...]:
        """The letters of each chunk in the order of the network; only for Megatron-LM's notation."""
        return tuple(_expanded("".join(self.replace(",", "").split())).split("|"))


def counted(stages: Sequence[Sequence[Sequence[int]]]) -> Layout:
    """The layout with these counts.

    Args:
        stages: for each stage and chunk, the number of layers of every kind and, last, of prediction modules.
    """
    return Layout("|".join(",".join(":".join(map(str, chunk)) for chunk in stage) for stage in stages))


def listed(text: str) -> list[int]:
    """The numbers of a list in which `10*2` stands for 10 twice.

    Raises:
        ValueError: for a text that is not such a list.
    """
    numbers = list(islice(map(_whole, _items(text)), MOST_STAGES + 1))
    if len(numbers) > MOST_STAGES:
        raise ValueError(text)
    return numbers


def _items(text: str) -> Iterator[str]:
    """The items of a list in order, each as often as it says.

    Raises:
        ValueError: for an item that is there too often or not at all.
    """
    for part in text.split(","):
        item, _, times = part.partition("*")
        if times and not 0 < _whole(times) <= MOST_STAGES:
            raise ValueError(part)
        yield from [item] * (_whole(times) if times else 1)


def read_layout(name: str, written: object) -> Layout:
    """The layout that a user wrote.

    Raises:
        ConfigError: for a text that is not a layout.
    """
    try:
        layout = Layout(_bare(written))
        if layout.in_letters:
            _refuse_letters(layout)
        else:
            listed(layout)
    except (ValueError, RecursionError) as error:
        why = f": {error}" if str(error).startswith("it ") else ""
        raise ConfigError(f"{quoted(written)} is no layout of layers{why}", f"'{name}' is text: {HOW}") from None
    return Layout(written) if isinstance(written, str) and layout.in_letters else layout


def _bare(written: object) -> str:
    """A text or a whole number as text without blanks; empty for other types.

    Raises:
        ValueError: for a text that is too long.
    """
    text = "".join(str(written).split()) if isinstance(written, str | int) and not isinstance(written, bool) else ""
    if len(text) > LONGEST:
        raise ValueError(f"it is longer than {LONGEST:,} letters")
    return text


def _refuse_letters(layout: Layout) -> None:
    """Refuses letters that Megatron-LM does not know, and an embedding or output head in the wrong place."""
    letters = "".join(layout.chunks)
    if layout.count("|") and len(layout.chunks) > MOST_STAGES:
        raise ValueError("it has too many chunks")
    if letters.count(EMBEDDING) != 1 or not letters.startswith(EMBEDDING):
        raise ValueError("it begins with the embedding, E, and has one")
    if letters.count(HEAD) != 1 or not letters.endswith(HEAD):
        raise ValueError("it ends with the output head, L, and has one")
    if LAYER in letters.partition(PREDICTION)[2]:
        raise ValueError("it has modules, m, before layers, t")


def _expanded(text: str) -> str:
    """The letters of a text with all brackets and repetitions expanded."""
    letters, rest = _sequence(text, 0)
    if rest != len(text):
        raise ValueError("it closes a bracket that it does not open")
    return letters


def _sequence(text: str, at: int) -> tuple[str, int]:
    """The expanded letters from the place `at` to the end or to the closing bracket, and the place where they end."""
    letters = ""
    while at < len(text) and text[at] != ")":
        if text[at] == "(":
            item, at = _sequence(text, at + 1)
            if at == len(text):
                raise ValueError("it opens a bracket that it does not close")
        elif text[at] in LETTERS:
            item = text[at]
        else:
            raise ValueError(f"it has {quoted(text[at])}, and its letters are E, t, m, L and |")
        times, at = _times(text, at + 1)
        if len(letters) + len(item) * times > MOST_LETTERS:
            raise ValueError("it has too many layers")
        letters += item * times
    return letters, at


def _times(text: str, at: int) -> tuple[int, int]:
    """How often the item before the place `at` is repeated, and the place where the text continues."""
    if at >= len(text) or text[at] != "*":
        return 1, at
    end = at + 1
    while end < len(text) and text[end].isdecimal():
        end += 1
    if not 0 < (times := _whole(text[at + 1 : end])) <= MOST_LETTERS:
        raise ValueError("it repeats something too often or not at all")
    return times, end


def _whole(text: str) -> int:
    """The whole number, of at most six digits, that a text is.

    Raises:
        ValueError: for another text.
    """
    if not (text.isascii() and text.isdecimal()) or len(text) > 6:
        raise ValueError(f"it has {quoted(text)} where a whole number stands")
    return int(text)


# A dense layer and a mixture layer, in a list of numbers and in a Python list.
MARKS = {"0": False, "[0]": False, "1": True, "[1]": True}


class Pattern(str):
    """Which layers are mixtures of experts: a list of 0 and 1, or n for layers 0, n, 2n and so on."""

    def of(self, layers: int) -> list[bool] | None:
        """For each layer, whether it is a mixture; None if the list has another number of layers."""
        if self.isdecimal() and int(self):  # 0 alone is a list of one dense layer
            return [place % int(self) == 0 for place in range(layers)]
        marks = list(_marks(self))
        return marks if len(marks) == layers else None


def read_pattern(name: str, written: object) -> Pattern:
    """The pattern that a user wrote.

    Raises:
        ConfigError: for a text that is not a pattern.
    """
    try:
        text = _bare(written).replace("+", ",")
        alone = text.isdecimal() and 0 < int(text) <= MOST_STAGES
        if not alone and not {*_marks(text)} <= {False, True}:
            raise ValueError(text)
    except ValueError:
        how = "0 for a dense layer and 1 for a mixture, 0*3,1*58, or a whole number n for every n-th layer"
        raise ConfigError(f"{quoted(written)} is no pattern of layers", f"'{name}' is text: {how}") from None
    return Pattern(text)


class Blocks(str):
    """The block of each layer of a network whose layers have one block each, in Megatron-LM's letters."""

    @property
    def letters(self) -> str:
        """The letters, one for each layer; `|` between the stages of a pipeline says nothing about them."""
        return self.replace("|", "")


def read_blocks(name: str, written: object) -> Blocks:
    """The blocks that a user wrote.

    Raises:
        ConfigError: for a text with other letters.
    """
    text = "".join(str(written).split())
    if not isinstance(written, str) or not text.strip("|") or {*text} - {*"M*-E|"} or len(text) > LONGEST:
        how = "M linear attention, * attention, - dense feed-forward network, E mixture of experts, as in MEM*EMEM*"
        raise ConfigError(f"{quoted(written)} is no pattern of blocks", f"'{name}' is text: {how}")
    return Blocks(text)


def _marks(text: str) -> Iterator[bool]:
    """The layers of a list of 0 and 1, in order."""
    for item in _items(text):
        if item not in MARKS:
            raise ValueError(item)
        yield MARKS[item]


def written_layout(stages: Sequence[Sequence[Sequence[int]]], at_first: bool = False) -> str:
    """Counts as a text that a user can give: the layers of each stage, or Megatron-LM's letters for several chunks.

    Args:
        stages: for each stage and chunk, the layers of every kind, and last the modules.
        at_first: whether the last chunk is on the first stage, as in V-shaped schedules.
    """
    one = all(len(stage) == 1 for stage in stages)
    modules = sum(chunk[-1] for stage in stages for chunk in stage)
    if one and stages[-1][-1][-1] == modules:
        return as_runs(sum(stage[0][:-1]) for stage in stages)
    order = [stage[n] for n in range(len(stages[0])) for stage in (stages[::-1] if at_first and n % 2 else stages)]
    texts = [_repeated(LAYER, sum(chunk[:-1])) + _repeated(PREDICTION, chunk[-1]) for chunk in order]
    texts = [EMBEDDING + texts[0], *texts[1:]]
    repeated = (f"{text}|" if number == 1 else f"({text}|)*{number}" for text, number in runs(texts[:-1]))
    return "".join(repeated) + texts[-1] + HEAD


def _repeated(letter: str, times: int) -> str:
    return letter * times if times < 2 else f"{letter}*{times}"


def runs(items: Iterable[Item]) -> list[tuple[Item, int]]:
    """The items in order, equal neighbors once, each with the number of neighbors."""
    return [(item, len([*same])) for item, same in groupby(items)]


def as_runs(items: Iterable[object]) -> str:
    """Items in order as a text; equal neighbors are written once, with their number."""
    return ",".join(f"{item}" if number == 1 else f"{item}*{number}" for item, number in runs(items))


def as_pattern(marks: Iterable[int]) -> str:
    """Marks of layers, a 0 or 1 for each, as a text: 0*3,1*58 is three dense layers and 58 mixtures."""
    return as_runs(map(int, marks))
