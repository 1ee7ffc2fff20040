"""Waiting in a pass of a layer: for messages in the queue of its kernels, for the host, and for exchanges of experts.

Messages that no kernel hides are kernels in the queue of the computing kernels. A pass therefore takes

    max(kernels + messages, host)

Each kind of message is charged with the time that it adds, in the order tensor, context, expert. A backward pass is the
pass of gradients; with recomputation it has a repeated forward pass too.
"""

import numpy as np

from amped.theory.language.quantity import each_of, quantity, records
from amped.theory.nouns.layer_records import Exposure, Exposures, LayerPasses, LayerWaits, PassTime, PassWaits, Wait
from amped.theory.nouns.parallelisms import OF_TOKENS
from amped.theory.nouns.records import least, total
from amped.theory.nouns.resources import beside, remaining

# --- the queue -------------------------------------------------------------------------------------------------------


# For each window of messages: the windows whose kernels it takes. Products and attention are kernels of the pass, too.
WITHIN = {
    "every": ("every",),
    "products": ("products", "every"),
    "attention_core": ("attention_core", "every"),
    "weight_gradients": ("weight_gradients",),
}


def beside_kernels(messages, kernels, weight_gradients=0.0):
    """The seconds of the parts of messages that run beside kernels of the pass: a list of parts for each message.

    A second of kernels hides one second of messages; earlier messages use kernels first. The kernels that hide a
    message are no longer free in the other windows that contain them.

    Args:
        messages: the messages of each parallelism, in the order of the queue.
        kernels: the kernels of the pass.
        weight_gradients: the seconds of the weight gradients that follow a pass of gradients.

    Source: definition; a kernel hides at most its own time.
    """
    free_seconds = {name: getattr(kernels, name) for name in ("every", "products", "attention_core")}
    free_seconds, overlapped = free_seconds | {"weight_gradients": weight_gradients}, []
    for message in messages:
        parts = []
        for part in message.parts:
            windows = WITHIN[part.window]
            time = beside(part.time, least(free_seconds[name] for name in windows) * part.share, part.overlap)
            free_seconds |= {name: free_seconds[name] - time for name in windows}
            parts.append(time)
        overlapped.append(parts)
    return overlapped


def pass_waits(messages, kernels, computing, exchange, slowdown, weight_gradients=0.0):
    """The waiting time that each message adds to a pass, in the order of the queue, and that exchanges of tokens add.

        queued  = messages − overlapped · (1 − slowdown)
        exposed = max(queued − what is left of the idle time, 0)

    Messages that run beside kernels slow the kernels down. While the accelerator waits for the host to launch kernels,
    messages cost nothing; the first in the queue use this time first.

    Args:
        messages: the messages that may run beside kernels, one entry for each parallelism.
        kernels: the kernels of the pass.
        computing: the seconds of the pass without messages: of its kernels or of the host.
        exchange: the seconds of the exchanges of tokens with experts in the pass.
        slowdown: what kernels lose for each second of a message beside them.
        weight_gradients: the seconds of the weight gradients that follow a pass of gradients.

    Source: definition; messages are kernels in the same queue as computing kernels.
    """
    idle, queued_before, waits, reductions = computing - kernels.every, 0.0, [], 0.0
    for message, part_times in zip(messages, beside_kernels(messages, kernels, weight_gradients), strict=True):
        overlapped = total(part_times)
        queued = message.time - overlapped * (1 - slowdown)
        exposed = remaining(queued, remaining(idle, queued_before))
        waits.append(Wait(message.name, time=message.time, overlapped=overlapped, queued=queued, exposed=exposed))
        needed_times = [time for part, time in zip(message.parts, part_times, strict=True) if part.needed_first]
        queued_before, reductions = queued_before + queued, total([reductions, *needed_times])
    exchange_wait = remaining(exchange, remaining(idle, queued_before))
    return PassWaits(kernels.name, idle=idle, messages=tuple(waits), exchange=exchange_wait, reductions=reductions)


@each_of(KIND=OF_TOKENS)
@records()
def layer_waits(
    layer_kernels,
    layer_computation,
    layer_repeats,
    tensor_messages,
    KIND_messages,
    exchange_times,
    communication_rounds,
    overlap_slowdown_fraction,
):
    """What a layer of each kind waits for in its forward pass, in a repeated one, and in the pass of gradients.

    Source: arXiv 1909.08053, section 3 (tensor); arXiv 2310.01889, section 3 (context); arXiv 2006.16668, section 3
    (expert).
    """
    layers, token_messages = [], [messages[0] for messages in KIND_messages]
    for kernels, times, repeats, tensor, exchange in zip(
        layer_kernels, layer_computation, layer_repeats, tensor_messages, exchange_times, strict=True
    ):
        messages = (tensor, *token_messages)
        exchange_arguments = (exchange.time / communication_rounds, overlap_slowdown_fraction)
        forward = pass_waits([m.forward for m in messages], kernels.forward, times.forward, *exchange_arguments)
        repeated = pass_waits([m.repeated for m in messages], kernels.repeated, repeats.whole, *exchange_arguments)
        gradients = [m.gradient for m in messages]
        gradient = pass_waits(
            gradients, kernels.gradient, times.input_gradient, *exchange_arguments, times.weight_gradient
        )
        layers.append(LayerWaits(kernels.name, forward=forward, repeated=repeated, gradient=gradient))
    return tuple(layers)


# --- exchanges beside another micro-batch ----------------------------------------------------------------------------


@quantity("1")
def exchange_slowdown_fraction(overlap_slowdown_fraction, expert_exchange_processor_fraction):
    """The time that computation loses for each second of an exchange of tokens that runs at the same time.

        1 − (1 − overlap_slowdown_fraction) · (1 − expert_exchange_processor_fraction)

    All communication slows kernels down; an exchange also takes processors of the accelerator away from the kernels.

    Source: arXiv 2412.19437, section 3.2.2.
    """
    return 1 - (1 - overlap_slowdown_fraction) * (1 - expert_exchange_processor_fraction)


@quantity("1", choice="feedforward_kind", value="mixture")
def exchange_overlap_fraction__mixture(overlap_expert_communication, steady_microbatch_fraction):
    """The share of an exchange of tokens with experts that can run beside another micro-batch.

    Exchanges can overlap in the steady phase of the schedule. Source: arXiv 2412.19437, section 3.2.1.
    """
    return overlap_expert_communication * steady_microbatch_fraction


def pass_time(name, computing, waits, repeats, exchange, overlap, slowdown):
    """A whole pass: its kernels, its waits, and what of its exchanges runs beside another micro-batch.

        serial    = kernels + exposed messages + exchanges
        exchanged = overlap · min(exchanges, serial − messages)

    Assumes that the same pass of the other micro-batch runs at that time, while other messages leave the links free.

    Args:
        name: the name of the pass.
        computing: the seconds of the pass without messages.
        waits: what the pass waits for.
        repeats: pairs of the waits of a forward pass that runs again, and of the share of the layers that run it; empty
            for a forward pass.
        exchange: the seconds of the exchanges of tokens with experts in the pass.
        overlap: the share of an exchange that can run beside another micro-batch.
        slowdown: the seconds that computation loses for each second of an exchange beside it.

    Source: arXiv 2412.19437, section 3.2.1.
    """
    exposed_times, exchange_wait = [wait.exposed for wait in waits.messages], waits.exchange
    message_times = [wait.time for wait in waits.messages]
    for repeated, share in repeats:
        exposed_times = [
            exposed + wait.exposed * share for exposed, wait in zip(exposed_times, repeated.messages, strict=True)
        ]
        message_times = [time + wait.time * share for time, wait in zip(message_times, repeated.messages, strict=True)]
        exchange_wait = exchange_wait + repeated.exchange * share
    link, serial = total([*message_times, exchange]), computing + total(exposed_times) + exchange_wait
    exchanged = beside(exchange_wait, serial - link, overlap)
    return PassTime(
        name,
        exposed=tuple(exposed_times),
        link=link,
        tensor_link=message_times[0],
        exchange=exchange_wait,
        exchanged=exchanged,
        exposed_exchange=exchange_wait - exchanged * (1 - slowdown),
        serial=serial,
    )


@records()
def layer_pass_times(
    layer_computation,
    layer_waits,
    exchange_times,
    communication_rounds,
    recomputed_layer_fraction,
    exchange_overlap_fraction,
    exchange_slowdown_fraction,
    overlap_slowdown_fraction,
):
    """Both passes of a layer of each kind, with their messages and with exchanges beside another micro-batch.

    Source: arXiv 2412.19437, section 3.2.1; arXiv 2205.05198, section 5 (recomputation).
    """
    layers, exchange_shares = [], (exchange_overlap_fraction, exchange_slowdown_fraction)
    for times, waits, exchange in zip(layer_computation, layer_waits, exchange_times, strict=True):
        forward_exchange, repeats = exchange.time / communication_rounds, [(waits.repeated, recomputed_layer_fraction)]
        forward = pass_time("forward", times.forward, waits.forward, (), forward_exchange, *exchange_shares)
        backward = pass_time(
            "backward", times.backward, waits.gradient, repeats, exchange.time - forward_exchange, *exchange_shares
        )
        hiding = hiding_time(
            times, waits.gradient, backward, forward_exchange, overlap_slowdown_fraction, *exchange_shares
        )
        layers.append(LayerPasses(times.name, forward=forward, backward=backward, hiding=hiding))
    return tuple(layers)


def hiding_time(times, waits, backward, exchange, slowdown, overlap, exchange_slowdown):
    """The time that a backward pass saves because weight gradients hide messages that the input gradients need.

        saved = min(max(messages + r − idle, 0), r) + exchanges that only weight gradients hide

    r is the time of reductions beside weight gradients, without the time by which they slow these down. `idle` is the
    time in which the accelerator waits for the host: messages that run then cost nothing, with or without this order.

    Args:
        times: the seconds of each pass of the layer.
        waits: what the pass of gradients waits for.
        backward: the backward pass with its messages.
        exchange: the seconds of the exchanges of tokens with experts in one pass.
        slowdown: the seconds that kernels lose for each second of a message beside them.
        overlap: the share of an exchange that can run beside another micro-batch.
        exchange_slowdown: the seconds that computation loses for each second of an exchange beside it.

    Source: arXiv 2412.19437, section 3.2.1; arXiv 2401.10241, section 1 (B and W).
    """
    reduced = waits.reductions * (1 - slowdown)
    saved = np.clip(waits.queued + exchange + reduced - waits.idle, 0, reduced)
    free_time = backward.serial - backward.link - (times.weight_gradient - saved)
    hidden_by_weights = backward.exchanged - beside(backward.exchange, free_time, overlap)
    return saved + hidden_by_weights * (1 - exchange_slowdown)


# --- both passes -----------------------------------------------------------------------------------------------------


@records()
def layer_exposures(
    layer_pass_times,
    layer_waits,
    exchange_times,
    grid_column_gather_time_per_layer,
    communication_rounds,
    recomputed_layer_fraction,
    overlap_slowdown_fraction,
    exchange_slowdown_fraction,
):
    """For a layer of each kind: what the messages of each parallelism cost, in both passes.

    Source: arXiv 2205.05198, section 4.2.2 (tensor); arXiv 2310.01889, section 3 (context); arXiv 2412.19437, section
    3.2.1 (expert).
    """
    layers = []
    for passes, waits, exchange in zip(layer_pass_times, layer_waits, exchange_times, strict=True):
        forward_pass, backward_pass = passes.forward, passes.backward
        tensor, *others = (
            forward + backward for forward, backward in zip(forward_pass.exposed, backward_pass.exposed, strict=True)
        )
        exchanges = forward_pass.exposed_exchange + backward_pass.exposed_exchange
        slowdown_time = exchange_slowdown_fraction * (forward_pass.exchanged + backward_pass.exchanged)
        gathered = tensor + grid_column_gather_time_per_layer
        exposures = [Exposure("tensor", gathered, overlapped_tensor_time(waits, recomputed_layer_fraction))]
        for place, exposed in enumerate(others, 1):
            forward, gradient = waits.forward.messages[place], waits.gradient.messages[place]
            overlapped = overlapped_token_time(
                forward, gradient, exposed, communication_rounds, overlap_slowdown_fraction
            )
            exposures.append(Exposure(forward.name, exposed, overlapped))
        exposures.append(Exposure("expert", exchanges, time_without_wait(exchange.time, exchanges, slowdown_time)))
        layers.append(Exposures(passes.name, tuple(exposures)))
    return tuple(layers)


def overlapped_tensor_time(waits, repeated_share):
    """The time of tensor-parallel messages for which no accelerator waits: they run beside kernels, or beside the host.

    Tensor-parallel messages are the first in the queue.

    Args:
        waits: what the passes of the layer wait for.
        repeated_share: the share of the layers whose forward pass runs again.

    Source: definition; messages are kernels in the same queue as computing kernels.
    """
    forward, repeated, gradient = (one_pass.messages[0] for one_pass in (waits.forward, waits.repeated, waits.gradient))
    forward_time = bounded_overlap(forward.time, forward.overlapped, forward.queued - forward.exposed)
    exposed = gradient.exposed + repeated.exposed * repeated_share
    idle = gradient.queued + repeated_share * repeated.queued - exposed
    beside_kernels = gradient.overlapped + repeated.overlapped * repeated_share
    return forward_time + bounded_overlap(repeated.time * repeated_share + gradient.time, beside_kernels, idle)


def bounded_overlap(whole, beside_kernels, while_idle):
    """The time of messages that run beside kernels, or while the accelerator waits for the host.

    Args:
        whole: the time of all messages, which bounds the result.
        beside_kernels: the time of the messages beside kernels.
        while_idle: the time of the messages while the accelerator waits for the host.

    Source: definition.
    """
    return np.clip(beside_kernels + while_idle, 0, whole)


def overlapped_token_time(forward, gradient, exposed, rounds, slowdown):
    """The time of messages of keys and values, in both passes of a layer, for which no accelerator waits.

    Args:
        forward: what the messages cost in a forward pass.
        gradient: what the messages cost in the pass of gradients.
        exposed: the seconds for which accelerators wait in both passes.
        rounds: the number of passes that communicate: forward, repeated and backward passes.
        slowdown: the seconds that kernels lose for each second of a message beside them.

    Source: arXiv 2310.01889, section 3.
    """
    slowed = slowdown * (forward.overlapped * (rounds - 1) + gradient.overlapped)
    return time_without_wait(forward.time * (rounds - 1) + gradient.time, exposed, slowed)


def time_without_wait(whole, exposed, slowed):
    """The time of messages for which no accelerator waits.

    Args:
        whole: the time of all messages.
        exposed: the time that accelerators lose because of the messages. It contains `slowed`, unless that is hidden
            while the accelerator waits for the host.
        slowed: the time by which hidden messages slow kernels down.

    Source: definition.
    """
    return np.clip(whole - exposed + slowed, 0, whole)
