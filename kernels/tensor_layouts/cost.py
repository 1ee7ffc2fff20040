"""Flop and words of an operator, the least time that a device needs, and how near a measured time comes to it.

Words are elements that cross an operator's inputs and outputs, each tensor once: the compulsory traffic.
Source: Ivanov et al. 2021, section 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from amped.kernels.layer_shape import Dimensions
from amped.kernels.tensor_layouts.spec import CLASSES, CONTRACTION, LAYERS, LETTERS, Operator


@dataclass(frozen=True)
class Work:
    """What an operator computes and moves.

    Attributes:
        flop: the arithmetic, where a multiply-accumulate counts two. Source: definition.
        words_in, words_out: elements read and written, each tensor once. Source: Ivanov et al. 2021, section 3.2.
        words_unfused: elements read and written by the elementary kernels that a fused one replaces, parameters and
            statistics once. Assumes a framework's kernels: layer norm keeps its input, its backward is one
              kernel for dx
            and one for dγ and dβ. Source: definition. Differs: the paper's own un-fused count, of which only a total is
            published (−22.91 %).
    """

    flop: int
    words_in: int
    words_out: int
    words_unfused: int

    @property
    def words(self) -> int:
        """Elements read and written."""
        return self.words_in + self.words_out


def work(operator: Operator, dimensions: Dimensions) -> Work:
    """The work of an operator: its arithmetic and the elements that it moves."""

    def counted(counts: Mapping[str, int]) -> int:
        """The sum over several tensors, given by their letters, of a count for each of their elements."""
        return sum(count * dimensions.size(letters) for letters, count in counts.items())

    read, written = ([LETTERS[name] for name in names] for names in (operator.inputs, operator.outputs))
    flop = (
        2 * dimensions.size("".join(set(operator.einsum) - set(",->"))) if operator.einsum else counted(operator.flop)
    )
    words_in, words_out = (sum(map(dimensions.size, tensors)) for tensors in (read, written))
    counted_letters = {frozenset(letters) for letters in operator.unfused}
    rest = sum(dimensions.size(letters) for letters in (*read, *written) if frozenset(letters) not in counted_letters)
    return Work(flop, words_in, words_out, rest + counted(operator.unfused))


@dataclass(frozen=True)
class Device:
    """The peak rates of a device: flop/s of contractions, byte/s, and the bytes of a word."""

    flop_rate: float
    bandwidth: float
    word_bytes: float = 2.0

    def arithmetic_time(self, demand: Work) -> float:
        """Time (s) of an operator's arithmetic at the peak rate of contractions.

        This rate serves for all classes, because only contractions are ever bound by arithmetic.
        """
        return demand.flop / self.flop_rate

    def traffic_time(self, demand: Work) -> float:
        """Time (s) of the compulsory traffic at the peak bandwidth."""
        return demand.words * self.word_bytes / self.bandwidth

    def bound(self, demand: Work) -> float:
        """Least time (s) of an operator: that of its arithmetic or its traffic, whichever is longer.

        Source: roofline model.
        """
        return max(self.arithmetic_time(demand), self.traffic_time(demand))

    def mue(self, demand: Work, seconds: float) -> float:
        """Memory usage efficiency (%): the compulsory traffic per measured time, as a share of the peak bandwidth.

        100·(Q/D)·(bandwidth achieved/peak) with bandwidth achieved = D/t, so that the traffic D really moved cancels.
        Source: Fuhrer et al. 2018, as used by Ivanov et al. 2021, section 3.3.
        """
        return 100 * self.traffic_time(demand) / seconds

    def percent_of_peak(self, demand: Work, seconds: float) -> float:
        """The arithmetic per measured time, as a share (%) of the peak rate. Source: definition."""
        return 100 * self.arithmetic_time(demand) / seconds

    def is_memory_bound(self, demand: Work) -> bool:
        """Whether an operator is limited by memory: its traffic at the peak bandwidth takes longer than its arithmetic.

        Then `mue` exceeds `percent_of_peak` for any measured time, because both divide by that time.
        """
        return self.traffic_time(demand) > self.arithmetic_time(demand)


@dataclass(frozen=True)
class Total:
    """The sums over several operators: their number, flop, words, and words of kernels that are not fused."""

    operators: int
    flop: int
    words: int
    unfused_words: int


def total(operators: Iterable[Operator], dimensions: Dimensions) -> Total:
    """The sums over these operators."""
    works = [work(operator, dimensions) for operator in operators]
    return Total(
        len(works), sum(w.flop for w in works), sum(w.words for w in works), sum(w.words_unfused for w in works)
    )


def totals_by_class(operators: Sequence[Operator], dimensions: Dimensions) -> dict[str, Total]:
    """The sums over the operators of each class, by class."""
    return {kind: total((o for o in operators if o.kind == kind), dimensions) for kind in CLASSES}


def fusion_saves(operators: Sequence[Operator], dimensions: Dimensions) -> tuple[float, float]:
    """The share of words that fusion removes: of the words of all operators, and of those without contractions."""
    rest = total((o for o in operators if o.kind != CONTRACTION), dimensions).unfused_words
    all_words = total(operators, dimensions)
    saved = all_words.unfused_words - all_words.words
    return saved / all_words.unfused_words, saved / rest


def line(operator: Operator, dimensions: Dimensions, device: Device | None, seconds: float | None) -> dict[str, object]:
    """All figures of one operator, by column, for a table or JSON.

    Bounds need a device; measured time, and how near it is to the peaks, need `seconds`, too.
    """
    demand = work(operator, dimensions)
    direction = "forward" if operator.forward else "backward"
    columns: dict[str, object] = {"operator": operator.name, "class": operator.kind, "pass": direction, **vars(demand)}
    if device:
        limit = "memory" if device.is_memory_bound(demand) else "arithmetic"
        columns |= {"bound_us": 1e6 * device.bound(demand), "limited_by": limit}
    if device and seconds:
        columns |= {
            "time_us": 1e6 * seconds, "mue_percent": device.mue(demand, seconds),
            "peak_percent": device.percent_of_peak(demand, seconds), "gap": seconds / device.bound(demand),
        }  # fmt: skip
    return columns


def told(
    dimensions: Dimensions, attention: str, device: Device | None, seconds: Mapping[str, float]
) -> dict[str, object]:
    """All figures of a layer, for a table or JSON. `seconds` are the measured times by operator."""
    operators = LAYERS[attention]
    of_all, of_rest = fusion_saves(operators, dimensions)
    return {
        "dimensions": vars(dimensions),
        "attention": attention,
        "operators": [line(operator, dimensions, device, seconds.get(operator.name)) for operator in operators],
        "classes": {name: vars(part) for name, part in totals_by_class(operators, dimensions).items()},
        "total": vars(total(operators, dimensions)),
        "fusion_saves_fraction": of_all,
        "fusion_saves_fraction_of_fused_kernels": of_rest,
    }
