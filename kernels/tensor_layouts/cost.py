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
            statistics once. Assumes a framework's kernels: layer norm keeps its input, its backward is one kernel for dx
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
    """What an operator computes and moves."""

    def counted(counts: Mapping[str, int]) -> int:
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

    def arithmetic_time(self, of: Work) -> float:
        """Time (s) of the arithmetic at the peak rate of contractions; other classes are never bound by arithmetic."""
        return of.flop / self.flop_rate

    def traffic_time(self, of: Work) -> float:
        """Time (s) of the compulsory traffic at the peak bandwidth."""
        return of.words * self.word_bytes / self.bandwidth

    def bound(self, of: Work) -> float:
        """Least time (s) of an operator: that of its arithmetic or its traffic, whichever is longer.

        Source: roofline model.
        """
        return max(self.arithmetic_time(of), self.traffic_time(of))

    def mue(self, of: Work, seconds: float) -> float:
        """Memory usage efficiency (%): the compulsory traffic per measured time, as a share of the peak bandwidth.

        100·(Q/D)·(bandwidth achieved/peak) with bandwidth achieved = D/t, so that the traffic D really moved cancels.
        Source: Fuhrer et al. 2018, as used by Ivanov et al. 2021, section 3.3.
        """
        return 100 * self.traffic_time(of) / seconds

    def percent_of_peak(self, of: Work, seconds: float) -> float:
        """Arithmetic rate over the measured time, in % of the peak. Source: definition."""
        return 100 * self.arithmetic_time(of) / seconds

    def is_memory_bound(self, of: Work) -> bool:
        """Whether traffic at peak takes longer than arithmetic at peak: MUE > %-of-peak, whatever the time."""
        return self.traffic_time(of) > self.arithmetic_time(of)


@dataclass(frozen=True)
class Total:
    """The sums over some operators."""

    operators: int
    flop: int
    words: int
    unfused_words: int


def total(operators: Iterable[Operator], dimensions: Dimensions) -> Total:
    """The sums over the operators."""
    of = [work(operator, dimensions) for operator in operators]
    return Total(len(of), sum(w.flop for w in of), sum(w.words for w in of), sum(w.words_unfused for w in of))


def totals_by_class(operators: Sequence[Operator], dimensions: Dimensions) -> dict[str, Total]:
    """The sums for each class."""
    return {kind: total((o for o in operators if o.kind == kind), dimensions) for kind in CLASSES}


def fusion_saves(operators: Sequence[Operator], dimensions: Dimensions) -> tuple[float, float]:
    """The fraction of all words that fusion removes, and of the words that contractions do not move."""
    rest = total((o for o in operators if o.kind != CONTRACTION), dimensions).unfused_words
    all_words = total(operators, dimensions)
    saved = all_words.unfused_words - all_words.words
    return saved / all_words.unfused_words, saved / rest


def line(operator: Operator, dimensions: Dimensions, device: Device | None, seconds: float | None) -> dict[str, object]:
    """All that is known about one operator, for a table or JSON."""
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
    """All that is known about a layer, for a table or JSON."""
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
