"""What can be moved on the page: each control has the name of an option, or of a parameter where there is no option."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from amped.base.aliases import aliases
from amped.base.files import shipped_json
from amped.base.numbers import settable
from amped.drafting.chooser import MAPPED
from amped.estimation.estimation import Estimation
from amped.exploration.search_space import HEADROOM
from amped.pipeline_layouts.laying_out import LAYOUT
from amped.report import human
from amped.theory.language.catalogue import catalogue
from amped.theory.nouns.conditions import OFFLOADS
from amped.theory.nouns.divisors import divisors
from amped.theory.nouns.shardings import SHARDINGS

CHOICE, TEXT = "choice", "words"


class Control(NamedTuple):
    """A control of the page.

    Attributes:
        name: the option of the command line without its hyphens; the canonical name where there is none.
        label: what stands beside it.
        kind: a slider over whole numbers, a choice of words, a share of one, or a field for a number with a unit.
        group: the heading below which it stands.
        hint: what it means, in a few words.
    """

    name: str
    label: str
    kind: str
    group: str
    hint: str

    @property
    def canonical(self) -> str:
        """The name of its parameter."""
        return aliases().canonical(self.name)


# The controls below their headings.
CONTROLS = tuple(
    Control(group=group, **row) for group, rows in shipped_json("web", "page/controls.json").items() for row in rows
)
BY_CANONICAL = {control.canonical: control.name for control in CONTROLS}
# What a field for a number shows as a share.
FRACTIONS = (HEADROOM,)
# Rows of tables that the page chooses, and the network of a file that is dropped on it.
ROWS, DROPPED = ("model", "system", "software"), "network"
# What a search finds; the page holds it, so that a slider that moves searches nothing. A layout belongs to one number of stages
# and chunks, and an estimate finds it by itself.
SEARCHED = tuple(BY_CANONICAL.get(name, name) for name in MAPPED)
# What *best mapping* searches anew.
SEARCHED_ANEW = (*SEARCHED, LAYOUT)
# The largest degree and number of accelerators on a slider; how many times the batch is halved and doubled; the powers of two of
# sequences, and the most chunks.
MOST_DEGREE, MOST_ACCELERATORS, AROUND = 64, 2**15, 5
SHORTEST, LONGEST, MOST_CHUNKS = 9, 20, 16


def shown(e: Estimation) -> dict[str, str]:
    """The text that each control shows for an estimate, by the control's name, and the precision."""
    values = {control.name: _shown(e, control) for control in CONTROLS} | {"precision": e.precision}
    return {name: value for name, value in values.items() if value is not None}


def _shown(e: Estimation, control: Control) -> str | None:
    """The text that a control shows for an estimate; None if the estimate does not have its parameter."""
    name = control.canonical
    if name in e.choices:
        return str(e.choices[name])
    if control.kind == TEXT:
        return human.percent(e[name]) if name in FRACTIONS else human.count(e[name])
    return written(e[name]) if name in e else "0" if name in OFFLOADS else None


def written(value: Any) -> str:
    """A value as --set takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(settable(value)) if isinstance(value, float) else str(value)


def held(e: Estimation) -> dict[str, str]:
    """The mapping that a search found for an estimate, by the names of the page; empty if all of it was given.

    It has the number of chunks per stage ("vp") even if that is 1.
    """
    overrides = {BY_CANONICAL.get(name, name): value for name, value in e.scenario.question.overrides.items()}
    mapping = {name: written(value) for name, value in overrides.items() if name in SEARCHED}
    return {"vp": written(e["virtual_pipeline_stages"]), **mapping} if mapping else {}


def places(e: Estimation) -> dict[str, list[int]]:
    """The values to which each slider can move, by its name: divisors of the divided number, or powers of two."""
    number, layers = int(e["number_of_accelerators"]), int(e["layers"])
    stages, replica = int(e["pipeline_parallel_degree"]), int(e["minibatch_size"])
    experts = int(e["number_of_experts"]) if "number_of_experts" in e else 1
    degrees = _divisors(number, MOST_DEGREE)
    return {
        "gpus": _doublings(1, MOST_ACCELERATORS),
        "tp": degrees, "cp": degrees, "pp": [d for d in degrees if d <= layers],
        "ep": _divisors(experts, number),
        "mbs": _divisors(replica, MOST_DEGREE), "vp": [*range(1, (max(layers // stages, 1) if stages > 1 else 1) + 1)][:MOST_CHUNKS],
        "gbs": _around(int(e["batch_size"])), "seq": [2**power for power in range(SHORTEST, LONGEST)],
    }  # fmt: skip


def _divisors(number: int, most: int) -> list[int]:
    """The divisors of a number that are at most `most`."""
    return [divisor for divisor in divisors(number) if 0 < divisor <= most]


def _doublings(first: int, last: int) -> list[int]:
    """The number `first`, doubled again and again up to `last`."""
    return [first * 2**power for power in range((last // first).bit_length())]


def _around(number: int) -> list[int]:
    """A number with its halves (while they are whole) and its doublings, up to `AROUND` of each."""
    halves = next((power for power in range(AROUND) if number % 2 ** (power + 1)), AROUND)
    return _doublings(number // 2**halves, number * 2**AROUND)


def described() -> list[dict[str, Any]]:
    """The controls as JSON for the page, each with the words of its choice."""
    return [control._asdict() | {"options": _options(control)} for control in CONTROLS]


def _options(control: Control) -> list[str]:
    """The words that a control for a choice offers, also words that set several parameters; empty for other controls."""
    if control.kind != CHOICE:
        return []
    if control.name == "zero":
        return [str(stage) for stage in range(len(SHARDINGS))]
    words = aliases().values.get(control.canonical, {})
    several = [word for word, meant in words.items() if meant.get(control.canonical) != word and len(meant) > 1]
    return [*catalogue()[control.canonical].mark.choices, *several]


def concerned(text: str) -> list[str]:
    """The names of the controls whose options or parameters a sentence names, in the order of the sentence."""
    names: Mapping[str, Iterable[str]] = {
        **{c.name: (f"--{c.name} ", c.canonical) for c in CONTROLS}, "model": ("transformer_network_parameters", "--model "),
        "system": ("system_specifications", "--system "), "software": ("software_specifications",),
    }  # fmt: skip
    first = {name: min((text.find(w) for w in words if w in f"{text} "), default=-1) for name, words in names.items()}
    return sorted((name for name, place in first.items() if place >= 0), key=first.__getitem__)
