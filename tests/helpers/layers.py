"""What records tell of a layer of an estimate, as floats, and layers whose seconds a test gives."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from types import ModuleType
from typing import Any, TypeVar

import amped
from amped.theory.layer import offload
from amped.theory.layer.waits import beside_kernels
from amped.theory.nouns.layer_records import (
    Exposure,
    Exposures,
    LayerComputation,
    LayerCopies,
    LayerKernels,
    LayerMessages,
    LayerPasses,
    LayerRepeats,
    LayerTimes,
    LayerWaits,
    PassWaits,
)
from amped.theory.nouns.parallelisms import BESIDE_KERNELS, IN_LAYERS
from amped.theory.nouns.stage_records import Held
from amped.theory.schedules.timeline import Work
from tests.helpers.formulas import module_of, page

Kind = TypeVar("Kind")


def of_layer(e: amped.Estimate, name: str, kind: type[Kind]) -> Kind:
    """The record of the only kind of layer that a network has."""
    (layer,) = e.results.records(name)
    assert isinstance(layer, kind)
    return layer


def computed(e: amped.Estimate) -> LayerComputation:
    """Seconds of the passes without messages: of kernels or of the host."""
    return of_layer(e, "layer_computation", LayerComputation)


def with_waits(e: amped.Estimate) -> LayerTimes:
    """Seconds of the passes with their waits."""
    return of_layer(e, "layer_times", LayerTimes)


def repeats(e: amped.Estimate) -> LayerRepeats:
    """Seconds of what may run again."""
    return of_layer(e, "layer_repeats", LayerRepeats)


def whole_bytes(e: amped.Estimate) -> float:
    """Bytes kept for the backward pass where nothing runs again."""
    return float(of_layer(e, "whole_activations", Held).bytes)


def kernels(e: amped.Estimate) -> LayerKernels:
    """Kernels beside which messages may run."""
    return of_layer(e, "layer_kernels", LayerKernels)


def whole_passes(e: amped.Estimate) -> LayerPasses:
    """Both passes with their messages."""
    return of_layer(e, "layer_pass_times", LayerPasses)


def waits(e: amped.Estimate) -> LayerWaits:
    """What each pass waits for."""
    return of_layer(e, "layer_waits", LayerWaits)


def copies(e: amped.Estimate) -> LayerCopies:
    """Copies from and to the host."""
    return of_layer(e, "layer_copies", LayerCopies)


def messages(e: amped.Estimate, kind: str) -> LayerMessages:
    """The messages of a parallelism in each pass."""
    return of_layer(e, f"{kind}_messages", LayerMessages)


def exposure(e: amped.Estimate, kind: str) -> Exposure:
    """What the messages of a parallelism cost in both passes."""
    return of_layer(e, "layer_exposures", Exposures).of(kind)


def of_parallelism(values: Sequence[Any], kind: str) -> Any:
    """Of values for each parallelism beside whose messages kernels run: that of one."""
    return values[BESIDE_KERNELS.index(kind)]


def overlapped_backward(e: amped.Estimate, kind: str, name: str) -> float:
    """Seconds of a named part of a parallelism's messages that run beside kernels of the pass of gradients."""
    sent = [messages(e, each).gradient for each in BESIDE_KERNELS]
    beside = beside_kernels(sent, kernels(e).gradient, computed(e).weight_gradient)  # type: ignore[no-untyped-call]
    parts = zip(of_parallelism(sent, kind).parts, of_parallelism(beside, kind), strict=True)
    (found,) = (seconds for part, seconds in parts if part.name == name)
    return float(found)


def idle_overlap(waited: PassWaits, kind: str) -> float:
    """Seconds of messages that run while the accelerator waits for its host."""
    wait = of_parallelism(waited.messages, kind)
    return float(wait.queued - wait.exposed)


# --- layers that a test makes ----------------------------------------------------------------------------------------


def changed(formula: Callable[..., tuple[Any, ...]], **fields: object) -> ModuleType:
    """A page with a formula of the book in whose records some fields have other values."""
    code = formula.__code__

    @wraps(formula)
    def other(*arguments: Any) -> tuple[Any, ...]:
        return tuple(replace(record, **fields) for record in formula(*arguments))

    other.__amped_arguments__ = code.co_varnames[: code.co_argcount]  # type: ignore[attr-defined]
    return module_of(other)


# Copies from and to the host that take nothing of the accelerator's memory bandwidth.
WITHOUT_INTERFERENCE = changed(offload.layer_copies__offloaded, interference=0.0)

# Layers of which a test gives the seconds of each pass.
GIVEN_PASSES = page("""
from amped.theory.nouns.layer_records import LayerTimes, LayerWindows

@parameter("s")
def layer_pass_forward_time():
    'Seconds of a forward pass. Source: a test.'

@parameter("s")
def layer_pass_input_gradient_time():
    'Seconds of the input gradients. Source: a test.'

@parameter("s")
def layer_pass_weight_gradient_time():
    'Seconds of the weight gradients. Source: a test.'

@records()
def layer_times(layer_pass_forward_time, layer_pass_input_gradient_time, layer_pass_weight_gradient_time):
    'The times of a layer. Source: a test.'
    passes = layer_pass_forward_time, layer_pass_input_gradient_time, layer_pass_weight_gradient_time
    return (LayerTimes("layer", *passes, sum(passes)),)

@records()
def layer_windows(layer_pass_forward_time):
    'A layer without messages and copies. Source: a test.'
    free, none = layer_pass_forward_time, 0.0 * layer_pass_forward_time
    passes = dict(forward=free, free_forward=free, backward=none, free_backward=none)
    return (LayerWindows("layer", **passes, exposed_copies=none, overlapped_copies=none),)
""")


EXPOSURE = """

@quantity("s")
def exposed_KIND_of_layer_time(layer_exposures):
    'What accelerators wait for KIND-parallel messages of a layer. Source: a test.'
    return layer_exposures[0].of("KIND").exposed

@quantity("s")
def overlapped_KIND_of_layer_time(layer_exposures):
    'KIND-parallel messages of a layer for which no accelerator waits. Source: a test.'
    return layer_exposures[0].of("KIND").overlapped
"""
# What the messages of a layer of the first kind cost, as quantities: for runs of many configs at once.
COSTS = page(
    """
@quantity("s")
def tensor_of_layer_time(tensor_messages, recomputed_layer_fraction):
    'Tensor-parallel messages of a layer in all passes. Source: a test.'
    sent = tensor_messages[0]
    return sent.forward.time + sent.gradient.time + sent.repeated.time * recomputed_layer_fraction

@quantity("s")
def context_of_layer_time(context_messages, communication_rounds):
    'Context-parallel messages of a layer in all passes. Source: a test.'
    sent = context_messages[0]
    return sent.forward.time * (communication_rounds - 1) + sent.gradient.time

@quantity("s")
def expert_of_layer_time(exchange_times):
    'Exchanges of tokens with experts of a layer in all passes. Source: a test.'
    return exchange_times[0].time
"""
    + "".join(EXPOSURE.replace("KIND", kind) for kind in IN_LAYERS)
)


def given_passes(layer: Work) -> dict[str, float]:
    """The values with which `GIVEN_PASSES` has layers of these seconds."""
    return {f"layer_pass_{name}_time": seconds for name, seconds in layer._asdict().items()}


# The stage that is the bottleneck, told by its layers of each kind and its ends: for runs of many configs at once.
BOTTLENECK = page(
    """
@quantity("count")
def bottleneck_sign(bottleneck_stage):
    'A number that two stages share only if they have the same layers and ends. Source: a test.'
    (stage,) = bottleneck_stage
    return sum(100.0 ** n * count for n, count in enumerate((stage.has_embedding, stage.has_output_head, *stage.kinds)))
"""
)
