"""Flop and words of an operator, the time no device can beat, and how near a measured time comes to it.

Words are elements that cross an operator's inputs and outputs, each tensor once: the compulsory traffic.
Source: Ivanov et al. 2021, section 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from amped.kernels.layouts.spec import CLASSES, CONTRACTION, LAYERS, LETTERS, Dimensions, Operator


def flop(operator: Operator, dimensions: Dimensions) -> int:
    """Arithmetic of an operator: two for each multiply-accumulate. Source: definition."""
    if operator.einsum:
        letters = set(operator.einsum) - set(",->")
        return 2 * dimensions.size("".join(letters))
    return sum(count * dimensions.size(letters) for letters, count in operator.flop.items())


def words(operator: Operator, dimensions: Dimensions) -> int:
    """Elements read and written by an operator, each tensor once. Source: Ivanov et al. 2021, section 3.2."""
    return words_read(operator, dimensions) + words_written(operator, dimensions)


def words_read(operator: Operator, dimensions: Dimensions) -> int:
    """Elements of an operator's inputs. Source: definition."""
    return sum(dimensions.size(LETTERS[name]) for name in operator.inputs)


def words_written(operator: Operator, dimensions: Dimensions) -> int:
    """Elements of an operator's outputs. Source: definition."""
    return sum(dimensions.size(LETTERS[name]) for name in operator.outputs)


def words_unfused(operator: Operator, dimensions: Dimensions) -> int:
    """Elements read and written by the elementary kernels that a fused one replaces, parameters and statistics once.

    Assumes a framework's kernels: layer norm keeps its input, its backward is one kernel for dx and one for dγ and dβ.
    Source: definition. Differs: the paper's own un-fused count, of which only a total is published (−22.91 %).
    """
    if not operator.unfused:
        return words(operator, dimensions)
    counted = {frozenset(letters) for letters in operator.unfused}
    small = (LETTERS[name] for name in (*operator.inputs, *operator.outputs))
    rest = sum(dimensions.size(letters) for letters in small if frozenset(letters) not in counted)
    return rest + sum(count * dimensions.size(letters) for letters, count in operator.unfused.items())


@dataclass(frozen=True)
class Device:
    """What a device could do at best: flop/s of each class, byte/s, and the bytes of a word."""

    flop_rate: float
    bandwidth: float
    word_bytes: float = 2.0

    def bound(self, operator: Operator, dimensions: Dimensions) -> float:
        """Least time (s) of an operator: its arithmetic or its traffic at peak, the longer. Source: roofline model.

        Assumes peak contraction rate for all arithmetic, as that of the other classes never counts.
        """
        arithmetic = flop(operator, dimensions) / self.flop_rate
        return max(arithmetic, words(operator, dimensions) * self.word_bytes / self.bandwidth)

    def mue(self, operator: Operator, dimensions: Dimensions, seconds: float) -> float:
        """Memory usage efficiency (%): compulsory traffic in the measured time, of the peak bandwidth.

        100·(Q/D)·(bandwidth achieved/peak) with bandwidth achieved = D/t, so that the traffic D really moved cancels.
        Source: Fuhrer et al. 2018, as used by Ivanov et al. 2021, section 3.3.
        """
        return 100 * words(operator, dimensions) * self.word_bytes / (seconds * self.bandwidth)

    def percent_of_peak(self, operator: Operator, dimensions: Dimensions, seconds: float) -> float:
        """Arithmetic rate in the measured time, % of peak. Source: definition."""
        return 100 * flop(operator, dimensions) / (seconds * self.flop_rate)

    def is_memory_bound(self, operator: Operator, dimensions: Dimensions) -> bool:
        """Whether traffic at peak takes longer than arithmetic at peak: MUE > %-of-peak, whatever the time."""
        traffic = words(operator, dimensions) * self.word_bytes / self.bandwidth
        return traffic > flop(operator, dimensions) / self.flop_rate


@dataclass(frozen=True)
class Total:
    """Sums over some operators."""

    operators: int
    flop: int
    words: int
    unfused_words: int


def total(operators: Iterable[Operator], dimensions: Dimensions) -> Total:
    """Sums over the operators."""
    of = list(operators)
    return Total(
        len(of),
        sum(flop(operator, dimensions) for operator in of),
        sum(words(operator, dimensions) for operator in of),
        sum(words_unfused(operator, dimensions) for operator in of),
    )


def totals_by_class(operators: Iterable[Operator], dimensions: Dimensions) -> dict[str, Total]:
    """Sums for each class."""
    of = list(operators)
    return {kind: total((o for o in of if o.kind == kind), dimensions) for kind in CLASSES}


def fusion_saves(operators: Iterable[Operator], dimensions: Dimensions) -> tuple[float, float]:
    """Fraction of all words that fusion removes, and of the words that are not the contractions'."""
    of = list(operators)
    every, rest = (total(some, dimensions) for some in (of, [o for o in of if o.kind != CONTRACTION]))
    saved = every.unfused_words - every.words
    return saved / every.unfused_words, saved / rest.unfused_words


def line(
    operator: Operator, dimensions: Dimensions, device: Device | None = None, seconds: Mapping[str, float] | None = None
) -> dict[str, object]:
    """All that is known of one operator, for a table or JSON."""
    told: dict[str, object] = {
        "operator": operator.name,
        "class": operator.kind,
        "pass": "forward" if operator.forward else "backward",
        "flop": flop(operator, dimensions),
        "words_in": words_read(operator, dimensions),
        "words_out": words_written(operator, dimensions),
        "words_unfused": words_unfused(operator, dimensions),
    }
    if device:
        told["bound_us"] = 1e6 * device.bound(operator, dimensions)
        told["limited_by"] = "memory" if device.is_memory_bound(operator, dimensions) else "arithmetic"
    time = (seconds or {}).get(operator.name)
    if device and time:
        told |= {
            "time_us": 1e6 * time,
            "mue_percent": device.mue(operator, dimensions, time),
            "peak_percent": device.percent_of_peak(operator, dimensions, time),
            "gap": time / device.bound(operator, dimensions),
        }
    return told


def told(
    dimensions: Dimensions, attention: str, device: Device | None, seconds: Mapping[str, float]
) -> dict[str, object]:
    """All that is known of a layer, for a table or JSON."""
    operators = LAYERS[attention]
    of_all, of_rest = fusion_saves(operators, dimensions)
    return {
        "dimensions": vars(dimensions),
        "attention": attention,
        "operators": [line(operator, dimensions, device, seconds) for operator in operators],
        "classes": {name: vars(part) for name, part in totals_by_class(operators, dimensions).items()},
        "total": vars(total(operators, dimensions)),
        "fusion_saves_fraction": of_all,
        "fusion_saves_fraction_of_fused_kernels": of_rest,
    }
