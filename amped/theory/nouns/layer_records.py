"""Records of a layer: the kernels of its passes, the messages beside them, what is waited for, and how long it is."""

from __future__ import annotations

from typing import Any

from amped.base.record import record
from amped.theory.nouns.records import Duration, Record, total


@record
class LayerDurations(Record):
    """The operators of a layer of one kind, and how long each takes."""

    durations: tuple[Duration, ...]


@record
class KindTime(Record):
    """The seconds of something in a layer of one kind."""

    time: Any


@record
class KernelGroup(Record):
    """The kernels of one group: those of products, those of attention, or all others.

    Attributes:
        time: the seconds of all their calls.
        flops: the FLOPs of their matrix products.
    """

    time: Any
    flops: Any


@record
class PassKernels(Record):
    """The seconds of the kernels of one pass of a layer, beside which messages may run.

    Attributes:
        every: all kernels of the pass; those of weight gradients are not among them.
        products: the products with weights among them.
        attention_core: the scores, the softmax, the dropout and the weighted values among them.
    """

    every: Any
    products: Any
    attention_core: Any


@record
class LayerKernels(Record):
    """The kernels of a layer in its forward pass, in a forward pass that runs again, and in the pass of gradients."""

    forward: PassKernels
    repeated: PassKernels
    gradient: PassKernels


@record
class PassHost(Record):
    """The seconds in which the host handles one pass of a layer.

    Attributes:
        every: all operators of the pass that it launches.
        experts: those of the experts among them, which it launches last.
    """

    every: Any
    experts: Any


@record
class LayerHost(Record):
    """The seconds in which the host handles each pass of a layer."""

    forward: PassHost
    input_gradient: PassHost
    weight_gradient: PassHost


@record
class LayerComputation(Record):
    """The seconds of each pass of a layer: of its kernels or of the host, which launches them, whichever is longer.

    Attributes:
        forward, input_gradient, weight_gradient: the seconds of these passes.
        recomputation: the seconds of all that runs again.
    """

    forward: Any
    input_gradient: Any
    weight_gradient: Any
    recomputation: Any

    @property
    def backward(self) -> Any:
        """The seconds of both gradients and of what runs again."""
        return self.input_gradient + self.weight_gradient + self.recomputation


@record
class LayerRepeats(Record):
    """The seconds of what the backward pass may run again in a layer.

    Attributes:
        whole: the seconds of a forward pass that runs again.
        attention_core: the seconds of the attention core in a forward pass.
        streaming: the seconds of the norms and element-wise operators outside the attention core.
        products: the seconds of the products that the policy names.
    """

    whole: Any
    attention_core: Any
    streaming: Any
    products: Any


@record
class ProductShares(Record):
    """The shares of products with weights that run again, by product.

    Attributes:
        attention_output: the share of the product after attention.
        up: the share of the up projections, with their gates.
        projections: the share of the projections before attention.
    """

    attention_output: Any
    up: Any
    projections: Any


@record
class MessagePart(Record):
    """A part of the messages of a pass, and the kernels beside which it may run.

    Attributes:
        time: the seconds of these messages.
        window: the field of `PassKernels` with these kernels, or `weight_gradients`.
        share: the share of these kernels that need none of these messages.
        overlap: the share of the possible overlap that the software reaches.
        needed_first: whether the pass of the layer before needs these messages, but not the kernels of the window.
    """

    time: Any
    window: str
    share: Any
    overlap: Any
    needed_first: bool = False


@record
class Messages(Record):
    """The messages of one parallelism in one pass of a layer.

    Attributes:
        time: the seconds of all of them.
        parts: those that may run beside kernels, in the order in which they take kernels.
    """

    time: Any
    parts: tuple[MessagePart, ...] = ()


@record
class LayerMessages(Record):
    """The messages of one parallelism in a layer: forward, in a forward pass that runs again, and with gradients."""

    forward: Messages
    repeated: Messages
    gradient: Messages


@record
class Wait(Record):
    """What the messages of one parallelism cost in a pass of a layer.

    Attributes:
        time: the seconds of all messages.
        overlapped: the seconds of messages that run beside kernels.
        queued: the seconds that messages add to the queue of kernels; they contain the slowdown of kernels.
        exposed: the seconds for which the pass waits.
    """

    time: Any
    overlapped: Any
    queued: Any
    exposed: Any


@record
class PassWaits(Record):
    """What a pass of a layer waits for.

    Attributes:
        idle: the seconds in which no kernel runs, because the host launches kernels too slowly.
        messages: what the messages of each parallelism cost that may run beside kernels, in the order of the queue.
        exchange: the seconds that exchanges of tokens with experts add, if no other micro-batch runs at that time.
        reductions: the seconds of messages beside weight gradients for which the layer before waits.
    """

    idle: Any
    messages: tuple[Wait, ...]
    exchange: Any
    reductions: Any

    @property
    def queued(self) -> Any:
        """The seconds that all messages but exchanges add to the queue of kernels."""
        return total(wait.queued for wait in self.messages)


@record
class LayerWaits(Record):
    """What a layer waits for in its forward pass, in a forward pass that runs again, and in the pass of gradients."""

    forward: PassWaits
    repeated: PassWaits
    gradient: PassWaits


@record
class PassTime(Record):
    """A whole pass of a layer with its messages: the forward pass, or the backward pass with all that runs again.

    Attributes:
        exposed: for each parallelism beside whose messages kernels may run: the seconds for which the pass waits.
        link: the seconds of all messages of the pass, exchanges among them.
        tensor_link: the seconds of the tensor-parallel messages among them.
        exchange: the seconds that exchanges of tokens with experts add, if no other micro-batch runs at that time.
        exchanged: the seconds of these exchanges that run beside another micro-batch.
        exposed_exchange: the seconds of exchanges for which the pass waits.
        serial: the seconds of the pass with all its waits, if no other micro-batch runs at that time.
    """

    exposed: tuple[Any, ...]
    link: Any
    tensor_link: Any
    exchange: Any
    exchanged: Any
    exposed_exchange: Any
    serial: Any

    @property
    def resident(self) -> Any:
        """The seconds of the pass with its waits for messages, but without copies from and to the host."""
        return self.serial - self.exchange + self.exposed_exchange


@record
class LayerPasses(Record):
    """Both passes of a layer with their messages.

    Attributes:
        forward, backward: the passes.
        hiding: the seconds that a backward pass saves because weight gradients hide messages that input gradients need.
    """

    forward: PassTime
    backward: PassTime
    hiding: Any


@record
class HostPath(Record):
    """What copies between an accelerator and its host use.

    Attributes:
        link: byte/s of the link to the host, in each direction.
        memory: byte/s of the host's memory, both directions together.
        tensor, others: 1 if tensor-parallel messages, and all other messages of a layer, use the link too, else 0.
    """

    link: Any
    memory: Any
    tensor: Any
    others: Any

    def free(self, pass_time: PassTime) -> Any:
        """The seconds of a pass in which no messages of the layer use the link to the host."""
        in_use = self.tensor * pass_time.tensor_link + self.others * (pass_time.link - pass_time.tensor_link)
        return pass_time.resident - in_use


@record
class OffloadedLayer(Record):
    """The bytes of the weights, gradients and activations of a layer that the host holds for an accelerator."""

    weights: Any
    gradients: Any
    activations: Any

    @property
    def moved(self) -> Any:
        """The bytes that copies move through the accelerator's memory in both passes."""
        return 2 * (self.weights + self.activations) + self.gradients


@record
class LayerCopies(Record):
    """The seconds of copies from and to the host in a layer; zero if nothing is offloaded.

    Attributes:
        forward, backward: the copies of these passes.
        overlapped_forward, overlapped_backward: those of them that run beside computation.
        interference: what computation loses because copies use the accelerator's memory.
        beside_messages: messages that copies hide, although weight gradients could hide them, too.
        forward_link, backward_link: copies on the link over which gradients leave the node.
    """

    forward: Any
    backward: Any
    overlapped_forward: Any
    overlapped_backward: Any
    interference: Any
    beside_messages: Any
    forward_link: Any
    backward_link: Any

    @property
    def overlapped(self) -> Any:
        """The seconds of copies that run beside computation, in both passes."""
        return self.overlapped_forward + self.overlapped_backward

    @property
    def exposed(self) -> Any:
        """The seconds that a layer loses: copies that it waits for, and the slowdown by those that overlap."""
        return self.forward + self.backward - self.overlapped + self.interference

    @property
    def forward_wait(self) -> Any:
        """The seconds for which a forward pass waits for copies."""
        return self.forward - self.overlapped_forward


@record
class Exposure(Record):
    """What the messages of one parallelism cost in both passes of a layer.

    Attributes:
        exposed: the seconds for which accelerators wait.
        overlapped: the seconds of messages for which no accelerator waits.
    """

    exposed: Any
    overlapped: Any


@record
class Exposures(Record):
    """What the messages of each parallelism of a layer cost."""

    exposures: tuple[Exposure, ...]

    def of(self, kind: str) -> Exposure:
        """The cost of the messages of the parallelism with the given name."""
        return {exposure.name: exposure for exposure in self.exposures}[kind]


@record
class LayerTimes(Record):
    """The seconds of a micro-batch in a layer of one kind.

    Attributes:
        forward, input_gradient, weight_gradient: each pass with its waits; input gradients with all that runs again.
        whole: all passes with all waits.
    """

    forward: Any
    input_gradient: Any
    weight_gradient: Any
    whole: Any


@record
class LayerWindows(Record):
    """The passes of a micro-batch in a layer of one kind, beside which gradients and weights are sent, in seconds.

    Attributes:
        forward, backward: a pass with its waits for messages and copies.
        free_forward, free_backward: the part of it in which the links that gradients use are free, at least.
        exposed_copies, overlapped_copies: the copies from and to the host that are waited for, and those that run
            beside computation.
    """

    forward: Any
    backward: Any
    free_forward: Any
    free_backward: Any
    exposed_copies: Any
    overlapped_copies: Any
