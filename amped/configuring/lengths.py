"""The lengths of documents: from a file, or from a mean and a percentile, to the numbers that equations need of them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from amped.base.errors import ConfigError, FileError, Problem, quoted
from amped.base.files import is_file, read_text
from amped.base.record import dataclass

# The names of the two settings, and how documents fill sequences: several in one; each in its own, padded to the end, or to
# the longest of its micro-batch; or several in as many accelerators as the longest needs.
LENGTHS, PACKING = "lengths", "packing"
PACKED, PADDED, LONGEST, DYNAMIC = WAYS = ("packed", "padded", "longest", "dynamic")
# The most documents that are packed; of more, as many are drawn. The documents that stand for a distribution.
MOST_PACKED, DRAWN = 20_000, 4_000
# Columns of a file that name a length, and how many documents have it.
OF_LENGTHS, OF_COUNTS = (
    ("length", "lengths", "tokens", "num_tokens", "n_tokens"),
    ("count", "counts", "number", "documents"),
)
BETWEEN, NORMAL_95 = re.compile(r"[\s,;]+"), 1.6448536269514722
NUMBER, MOST_PROBLEMS = re.compile(r"-?[\d.]"), 5
DISTRIBUTION = re.compile(r"\s*mean\s*=?\s*([\d.]+)\s*,?\s*p95\s*=?\s*([\d.]+)\s*")
ADVICE = 'write a file with a length on each line, or "mean 500, p95 1500"'


@dataclass(frozen=True)
class Documents:
    """The documents of a training.

    Attributes:
        lengths: the tokens of each document, or of documents drawn from them.
        number: the number of all documents; 0 if only their distribution is known.
        tokens: the number of tokens of all documents; 0 if only their distribution is known.
    """

    lengths: tuple[int, ...]
    number: int = 0
    tokens: int = 0


@dataclass(frozen=True)
class Filled:
    """How documents fill sequences.

    Attributes:
        settings: values of parameters by name.
        text: what the user should be told.
    """

    settings: Mapping[str, float]
    text: str


def read_documents(written: str) -> Documents:
    """The documents of a file of lengths, of a text such as "mean 500, p95 1500", or of one length.

    Raises:
        ConfigError, FileError: for a text or a file that gives no lengths; a problem names its line.
    """
    path = Path(written)
    if is_file(path):
        return _of_file(written, path.stat().st_mtime)
    found = DISTRIBUTION.fullmatch(written)
    if found:
        return Documents(_log_normal(*map(float, found.groups())))
    if written.strip().isdigit() and int(written) > 0:
        return Documents((int(written),))
    raise ConfigError(f"{quoted(written)} is no file and no distribution of lengths", ADVICE)


@lru_cache(maxsize=8)
def _of_file(written: str, _changed: float) -> Documents:
    """The documents of a file, which is read again only if it was changed."""
    rows = [*_rows(written, read_text(Path(written)).splitlines())]
    if not rows:
        raise FileError("the file has no length of a document", ADVICE, written)
    lengths, counts = (np.array(column) for column in zip(*rows, strict=True))
    number = int(counts.sum())
    if number > MOST_PACKED:
        places = np.searchsorted(
            np.cumsum(counts), np.linspace(0, number - 1, MOST_PACKED).astype(np.int64), side="right"
        )
        drawn = lengths[places]
    else:
        drawn = np.repeat(lengths, counts)
    order = np.random.default_rng(0).permutation(len(drawn)) if counts.max() > 1 else np.arange(len(drawn))
    return Documents(tuple(drawn[order].tolist()), number, int(lengths @ counts))


def _rows(file: str, lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """A length and the number of documents that have it, for each line of a file; the first line may name the columns.

    Raises:
        FileError: with the first problems, for lines that have no whole number above zero.
    """
    names: tuple[str, ...] = ("length", "count")
    problems: list[Problem] = []
    for place, line in enumerate(lines, 1):
        words = [word for word in BETWEEN.split(line.strip().replace('"', "")) if word]
        if place == 1 and words and not NUMBER.match(words[0]):
            names = _columns(file, words)
            continue
        cells = dict(zip(names, words, strict=False))
        length, count = (next((v for n, v in cells.items() if n in of), "1") for of in (OF_LENGTHS, OF_COUNTS))
        if words and not (length.isdigit() and count.isdigit() and int(length) > 0):
            problems.append(Problem(f"{quoted(line.strip()[:40])} is no length of a document", f"line {place}", ADVICE))
        elif words:
            yield int(length), int(count)
    if problems:
        raise FileError(problems[:MOST_PROBLEMS], file=file)


def _columns(file: str, words: Sequence[str]) -> tuple[str, ...]:
    """The names of the columns of a file, from its first line.

    Raises:
        FileError: if no column has lengths.
    """
    names = tuple(word.lower() for word in words)
    if not set(names) & {*OF_LENGTHS}:
        problem = Problem(f"no column has lengths: {', '.join(names)[:60]}", "line 1", f"name it {OF_LENGTHS[0]}")
        raise FileError(problem, file=file)
    return names


def _log_normal(mean: float, p95: float) -> tuple[int, ...]:
    """Documents whose lengths have this mean and this 95th percentile, by a log-normal distribution, in drawn order.

    Raises:
        ConfigError: if no such distribution has both.
    """
    ratio = math.log(p95 / mean) if p95 > 0 and mean > 0 else -1.0
    if not 0 <= 2 * ratio <= NORMAL_95**2:
        most = math.exp(NORMAL_95**2 / 2)
        raise ConfigError(f"no log-normal distribution has the mean {mean:g} and the 95th percentile {p95:g}",
                          f"the percentile is 1 to {most:.1f} times the mean; give a file of lengths otherwise")  # fmt: skip
    deviation = NORMAL_95 - math.sqrt(NORMAL_95**2 - 2 * ratio)
    from statistics import NormalDist

    normal = NormalDist()
    at = [normal.inv_cdf((place + 0.5) / DRAWN) for place in range(DRAWN)]
    lengths = np.maximum(np.rint(mean * np.exp(deviation * np.array(at) - deviation**2 / 2)), 1).astype(np.int64)
    return tuple(np.random.default_rng(0).permutation(lengths).tolist())


@lru_cache(maxsize=32)
def filled(documents: Documents, context: int, way: str, ranks: int = 1) -> Filled:
    """How documents fill sequences of `context` tokens: packed by first fit, or padded, each in its own sequence.

    Documents that are longer are cut. A context group of several ranks gets two equal blocks of each packed document for
    each rank, so that documents are padded to a multiple of twice their number.
    """
    lengths = np.minimum(documents.lengths, context)
    split = padded_to_blocks(lengths, ranks, context) if way == PACKED else lengths
    places = first_fit(split.tolist(), [context] * len(split)) if way == PACKED else np.arange(len(lengths))
    sequences = int(places.max()) + 1
    squares = np.bincount(places, weights=split.astype(float) ** 2)
    settings = {
        "document_tokens": float(min(squares.sum() / lengths.sum(), context)),
        "sequence_fill": float(lengths.sum() / (sequences * context)),
        "documents_per_sequence": len(lengths) / sequences,
        "attention_work_deviation": float(squares.std() / squares.mean()),
    }
    return Filled(settings, _told(documents, context, way, settings))


def _told(documents: Documents, context: int, way: str, settings: Mapping[str, float]) -> str:
    """What the user should be told of documents in sequences."""
    lengths = np.array(documents.lengths)
    text = (f"{described(documents)}, {way} into sequences of {context:,}: "
            f"{settings['documents_per_sequence']:.3g} in each, {settings['sequence_fill'] * 100:.0f} % filled")  # fmt: skip
    return text + cut(lengths, context)


def described(documents: Documents) -> str:
    """The number of the documents, if it is known, and their lengths in words."""
    lengths = np.array(documents.lengths)
    of = f"{documents.number:,} documents" if documents.number else "documents"
    return f"{of} of {lengths.mean():,.0f} tokens (95 %: up to {np.percentile(lengths, 95):,.0f})"


def cut(lengths: np.ndarray, context: int) -> str:
    """The end of a text on documents, if some of them are longer than a sequence; else empty."""
    share = float((lengths > context).mean())
    return f"; {share * 100:.2g} % of them are longer and are cut" if share else ""


def padded_to_blocks(lengths: np.ndarray, ranks: np.ndarray | int, context: int) -> np.ndarray:
    """The lengths of documents, padded so that each of several ranks gets two equal blocks of each; at most `context`.

    Source: NVIDIA Megatron-Bridge, docs/training/packed-sequences (pad_seq_to_mult is twice the context degree).
    """
    multiple = np.where(np.asarray(ranks) > 1, 2 * np.asarray(ranks), 1)
    padded: np.ndarray = np.minimum(-(-lengths // multiple) * multiple, context)
    return padded


def first_fit(lengths: Sequence[int], rooms: Sequence[int]) -> np.ndarray:
    """The sequence of each document, if each goes into the first sequence that has room for it.

    A document for which no sequence has room opens one with its own element of `rooms`. A tree over the sequences has the
    most room below each of its nodes, so that a document takes as many steps as the tree has levels.
    """
    leaves = 1 << max(len(lengths) - 1, 1).bit_length()
    most, places, opened = [max(rooms)] * (2 * leaves), [], 0
    for length, room in zip(lengths, rooms, strict=True):
        node = 1
        while node < leaves:
            node = 2 * node if most[2 * node] >= length else 2 * node + 1
        places.append(node - leaves)
        most[node] = (room if places[-1] == opened else most[node]) - length
        opened = max(opened, places[-1] + 1)
        while node > 1:
            node //= 2
            most[node] = max(most[2 * node], most[2 * node + 1])
    return np.array(places)
