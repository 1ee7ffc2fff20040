"""A fine-tuning side by side: all weights, adapters, adapters on weights of 4 bits, each with the mapping that is chosen for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from amped.base.errors import AmpedError, ConfigError, collected
from amped.base.record import dataclass
from amped.configuring.lengths import LENGTHS, read_documents
from amped.drafting.asking import Asking
from amped.drafting.chooser import ADAPTER_TOKENS
from amped.estimation.estimation import Estimation, estimated
from amped.estimation.remedies import smallest_change

# What each way to fine-tune sets.
METHODS: Mapping[str, Mapping[str, object]] = {
    "full": {"adapters": "none"},
    "lora": {"adapters": "lora"},
    "dora": {"adapters": "dora"},
    "qlora": {"adapters": "lora", "frozen_weight_format": "nf4_double"},
}
USUAL = ("full", "lora", "qlora")
# What says how much is trained on, and the numbers of accelerators that are tried for a way that does not fit.
OF_TOKENS, BATCH, ACCELERATORS = (
    ("tokens_to_train", "samples", "number_of_steps"),
    "batch_size",
    "number_of_accelerators",
)
LARGER = (2, 4, 8, 16, 32)
# A larger machine needs at least this share of the memory of an accelerator, divided by how many times as large it is: what is
# kept is shared out at best, and the mapping is already one that keeps little.
LEAST_SHARE = 0.5


@dataclass(frozen=True)
class Way:
    """One way to fine-tune.

    Attributes:
        method: its name.
        settings: what it sets besides what was asked.
        estimate: the estimate of its fastest mapping that fits, or of one that lacks least memory.
        remedy: what would make it fit, in words; empty if it fits.
    """

    method: str
    settings: Mapping[str, object]
    estimate: Estimation
    remedy: str

    @property
    def fits(self) -> bool:
        """Whether it fits in memory."""
        return bool(self.estimate["fits_in_memory"])

    @property
    def adapts(self) -> bool:
        """Whether it trains adapters beside frozen weights."""
        return self.estimate.choices["adapters"] != "none"

    def to_dict(self) -> dict[str, Any]:
        """The way as plain data, with notices on preliminary rows, if any."""
        told = self.estimate.scenario.sources.preliminary
        way = {"method": self.method, "fits": self.fits, "remedy": self.remedy, "results": self.estimate.to_dict()}
        return way | ({"notices": told} if told else {})


def tuned(asking: Asking, methods: Sequence[str] = USUAL, epochs: float = 1.0) -> list[Way]:
    """Each way to fine-tune, the fastest that fits first; all have the same batch and train on the same tokens.

    Args:
        asking: what is asked, with no config.
        methods: names of `METHODS`.
        epochs: how often the documents of the data are trained on.

    Raises:
        ConfigError: for an unknown method, or if epochs are asked of data whose size is not known.
    """
    unknown = [name for name in methods if name not in METHODS]
    if unknown:
        raise ConfigError(f"there is no way to fine-tune called {', '.join(unknown)}", f"write {', '.join(METHODS)}")
    shared = dict(_tokens(asking, epochs))
    if BATCH not in asking.values:
        adapted = asking.completed({**shared, **METHODS["lora"]})
        shared[BATCH] = int(adapted.sources.given[BATCH])
    problems: list[Any] = []
    ways = [way for name in dict.fromkeys(methods) for way in _ways(asking, name, shared, problems)]
    if not ways:
        raise ConfigError(problems)
    return sorted(ways, key=lambda way: (not way.fits, way.estimate["training_time"]))


def _tokens(asking: Asking, epochs: float) -> Iterator[tuple[str, object]]:
    """The tokens to train, if what is asked does not say them: those of the file of documents, or as many as are usual.

    Raises:
        ConfigError: if epochs are asked of data whose size is not known.
    """
    lengths, named = asking.values.get(LENGTHS), {*OF_TOKENS} & asking.values.keys()
    documents = read_documents(str(lengths)) if lengths is not None else None
    if documents and documents.tokens and not named:
        yield "tokens_to_train", float(documents.tokens * epochs)
    elif epochs != 1:
        advice = "give the documents: --data lengths.csv; or all that is trained on: --set tokens_to_train=1e9"
        raise ConfigError(f"{epochs:g} epochs of data whose size is not known", advice)
    elif not named:
        yield "tokens_to_train", ADAPTER_TOKENS


def _ways(asking: Asking, method: str, shared: Mapping[str, object], problems: list[Any]) -> Iterator[Way]:
    """The way of a method; none, with the problems added, if no mapping of it is possible."""
    with collected(problems, method):
        given = {name: value for name, value in METHODS[method].items() if name not in asking.values}
        settings = {**shared, **given}
        e = estimated(asking.completed(settings))
        yield Way(method, settings, e, "" if e["fits_in_memory"] else _remedy(asking, settings, e))


def _remedy(asking: Asking, settings: Mapping[str, object], e: Estimation) -> str:
    """What would make a way fit: the fewest accelerators that are tried, or the smallest change on those that are there."""
    number, least = int(e[ACCELERATORS]), LEAST_SHARE * e["memory_per_accelerator_bytes"] / e["available_memory_bytes"]
    more = next(_enough(asking, settings, (number * factor for factor in LARGER if factor >= least)), 0)
    if more:
        return f"fits on {more:,} of these accelerators"
    change = smallest_change(e) if least <= LARGER[-1] else ""
    return f"fits with {change}" if " = " in change else f"{LARGER[-1]} times as many accelerators do not hold it"


def _enough(asking: Asking, settings: Mapping[str, object], numbers: Iterable[int]) -> Iterator[int]:
    """The numbers of accelerators on which a way fits."""
    for number in numbers:
        try:
            batch = max(number, int(str(settings.get(BATCH, number))))
            e = estimated(asking.completed({**settings, BATCH: batch, ACCELERATORS: number}))
        except AmpedError:
            continue
        if e["fits_in_memory"]:
            yield number
