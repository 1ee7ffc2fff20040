"""A training in phases: pre-training, fine-tuning, preference optimization, distillation; each an estimate or a given time.

A plan is a JSON object: settings that all phases share, and "phases", a list. A phase has a "name", a "kind", and settings of its
own; or a "time" that was measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from amped.base.aliases import aliases
from amped.base.errors import AmpedError, ConfigError, Problem, quoted
from amped.base.files import read_json, shipped_text
from amped.base.record import dataclass
from amped.base.units import parse
from amped.drafting.asking import Asking
from amped.estimation.estimation import Estimation, estimated
from amped.exploration.search_space import HEADROOM_BYTES

PHASES, NAME, KIND, TIME, TEACHER = "phases", "name", "kind", "time", "teacher"
# What each kind of phase does besides training on its tokens. A preference pair has two answers; a reference and a teacher are
# frozen networks whose forward passes run beside those of the network; a reward model has a number for an output head.
TRAIN, SFT, DPO, DISTILLATION, REWARD = KINDS = ("train", "sft", "dpo", "distillation", "reward_model")
# The parts of a step that stand between computations, of which forward passes have their share.
BETWEEN = (
    "exposed_tensor_communication_time", "exposed_context_communication_time", "exposed_expert_communication_time",
    "exposed_pipeline_communication_time", "pipeline_bubble_time",
)  # fmt: skip
COMPUTED = ("compute_forward_time", "compute_backward_time", "recomputation_time", "weight_update_time")
# Kinds whose samples are pairs of sequences, and what a kind of phase computes at the end of a sequence.
OF_PAIRS = (DPO, REWARD)
ENDS: Mapping[str, Mapping[str, object]] = {REWARD: {"predicted_tokens_per_sequence": 1}}
FROZEN: Mapping[str, object] = {"optimizer": "none", "activation_recomputation": "full", "adapters": "none"}


@dataclass(frozen=True)
class Phase:
    """A phase of a training.

    Attributes:
        name, kind: what it is called, and what it does; the kind is empty if its time is given.
        time: its seconds.
        memory: the bytes of an accelerator, with a frozen network beside; 0 if its time is given.
        available: the bytes that an accelerator has; 0 if its time is given.
        estimate: the estimate of the network that is trained; None if the time is given.
        beside: the seconds of the frozen network's passes, in `time`.
        notes: what stands behind the numbers, in words.
    """

    name: str
    kind: str
    time: float
    memory: float = 0.0
    available: float = 0.0
    estimate: Estimation | None = None
    beside: float = 0.0
    notes: str = ""

    @property
    def fits(self) -> bool:
        """Whether it fits in memory, as far as amped knows."""
        return self.memory <= self.available

    @property
    def cost(self) -> float | None:
        """The cost in dollars, if a price is known."""
        e = self.estimate
        return None if e is None or "cost" not in e else float(e["cost"] / e["training_time"] * self.time)

    def to_dict(self) -> dict[str, Any]:
        """The phase as plain data."""
        results = {} if self.estimate is None else {"results": self.estimate.to_dict()}
        return {
            "name": self.name, "kind": self.kind, "time": self.time, "memory_per_accelerator_bytes": self.memory, "fits": self.fits,
            "cost": self.cost, "time_of_frozen_network": self.beside, "notes": self.notes, **results,
        }  # fmt: skip


def template() -> str:
    """A plan to start from, as text."""
    return shipped_text("drafting", "plan_of_phases.json")


def read_plan(path: Path) -> dict[str, Any]:
    """A plan of phases from a file.

    Raises:
        FileError, ConfigError: for a file that is no JSON, or has no list of phases.
    """
    plan = read_json(path)
    phases = plan.get(PHASES) if isinstance(plan, dict) else None
    if not isinstance(phases, list) or not phases or not all(isinstance(phase, dict) for phase in phases):
        advice = "`amped phases --template` prints a plan to start from"
        raise ConfigError(f"a plan has a list {quoted(PHASES)} of objects", advice, file=str(path))
    return dict(plan)


def phased(plan: Mapping[str, Any], lookup_tables: Any = None) -> list[Phase]:
    """The phases of a plan, in its order.

    Raises:
        AmpedError: with the problems of all phases, each at its path in the plan.
    """
    shared = {name: value for name, value in plan.items() if name != PHASES and not name.startswith("$")}
    phases, problems = [], list[Problem]()
    for place, written in enumerate(plan[PHASES]):
        try:
            phases.append(_phase(shared, written, place, lookup_tables))
        except AmpedError as error:
            problems += error.at(f"{PHASES}[{place}]")
    if problems:
        raise ConfigError(problems)
    return phases


def _phase(shared: Mapping[str, Any], written: Mapping[str, Any], place: int, lookup_tables: Any) -> Phase:
    """One phase: of a given time, or estimated."""
    own = {name: value for name, value in written.items() if name not in (NAME, KIND, TIME, TEACHER)}
    name, kind = str(written.get(NAME, f"phase {place + 1}")), str(written.get(KIND, TRAIN))
    if TIME in written:
        return Phase(name, "", parse(written[TIME], "s"), notes="given")
    if kind not in KINDS:
        raise ConfigError(f"{quoted(kind)} is no kind of phase", f"it is one of {', '.join(KINDS)}")
    values = dict(_canonical({**shared, **own}))
    if kind in OF_PAIRS and "samples" in values:
        values["samples"] = 2 * float(str(values["samples"]))
    values |= {name: value for name, value in ENDS.get(kind, {}).items() if name not in values}
    e, (beside, more, notes) = _with_frozen(kind, written, values, lookup_tables)
    time = e["training_time"] * (1 + beside / e["step_time"])
    held = e["memory_per_accelerator_bytes"] + more
    return Phase(name, kind, time, held, e["available_memory_bytes"], e, time - e["training_time"], notes)


def _with_frozen(
    kind: str, written: Mapping[str, Any], values: Mapping[str, object], lookup_tables: Any
) -> tuple[Estimation, tuple[float, float, str]]:
    """The estimate of a phase, and what its frozen network takes; the mapping leaves room for it where one does."""
    e = estimated(Asking(None, values, lookup_tables).completed())
    frozen = _frozen(kind, e, written, values, lookup_tables) or (0.0, 0.0, "")
    if not frozen[1] or e["memory_per_accelerator_bytes"] + frozen[1] <= e["available_memory_bytes"]:
        return e, frozen
    roomy = estimated(Asking(None, {**values, HEADROOM_BYTES: frozen[1]}, lookup_tables).completed())
    return roomy, _frozen(kind, roomy, written, values, lookup_tables) or frozen


def _canonical(values: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """The settings by amped's names; short names of options are understood."""
    for name, value in values.items():
        yield from aliases().given(name, value).items()


def _frozen(
    kind: str, e: Estimation, written: Mapping[str, Any], values: Mapping[str, object], lookup_tables: Any
) -> tuple[float, float, str] | None:
    """The seconds in a step and the bytes of an accelerator that a frozen network takes, and a note; None if there is none.

    The reference of a network with adapters is the network without them: it takes time, and no memory.

    Raises:
        ConfigError: for a distillation without a teacher.
    """
    if kind == DPO:
        has_adapters = e.choices["adapters"] != "none"
        weights = 0.0 if has_adapters else float(e["weight_bytes"])
        beside = "the network without its adapters" if has_adapters else "a second copy of the weights"
        return forward_time(e), weights, f"reference: {beside}"
    if kind != DISTILLATION:
        return None
    if TEACHER not in written:
        raise ConfigError(
            "a distillation has no teacher", f'name its network: "{TEACHER}": NAME, which `amped list models` shows'
        )
    taught = {n: v for n, v in values.items() if not n.endswith("_degree") and n not in ("microbatch_size", *FROZEN)}
    batch = {"batch_size": e["batch_size"], "context": e["context"]}
    teacher = estimated(
        Asking(None, {**taught, **batch, **FROZEN, "model": written[TEACHER]}, lookup_tables).completed()
    )
    return forward_time(teacher), float(teacher["weight_bytes"]), f"teacher: {written[TEACHER]}, frozen"


def forward_time(e: Estimation) -> float:
    """The seconds of the forward passes of a step, with their share of the waits between computations."""
    share = e["compute_forward_time"] / sum(e[name] for name in COMPUTED)
    return float(e["compute_forward_time"] + share * sum(e[name] for name in BETWEEN))
