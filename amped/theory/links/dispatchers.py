"""Kernels that send tokens to their experts and back by themselves: cores move the bytes, while links carry them."""

import numpy as np

from amped.theory.language.quantity import records
from amped.theory.nouns.link_records import ExchangeKernel

# DeepEP's normal kernels. Fitted to four fifths of the shapes of ai-dynamo/aiconfigurator (sglang 0.5.12 and 0.5.6 on
# H100, B200 and GB200 with 4 to 24 cores, and on 2 and 4 nodes of H100), all accelerators with the same numbers: a core
# sends 27 bytes in a nanosecond. The links are those of the tables.
DEEPEP = {
    "expert_dispatch": ExchangeKernel(
        "expert_dispatch",
        token=0.446,
        copy=0.0778,
        sent=37.4e-6,
        crossing=76.6e-6,
        received=0.0,
        written=0.0,
        added=0.0,
        start=32.0,
    ),
    "expert_combine": ExchangeKernel(
        "expert_combine",
        token=0.0,
        copy=0.0,
        sent=37.1e-6,
        crossing=213e-6,
        received=0.57,
        written=51.6e-6,
        added=30.9e-6,
        start=42.0,
    ),
}
# All-to-alls of tokens inside a rack, which write to the memory of the others. Fitted to four fifths of the shapes of
# ai-dynamo/aiconfigurator (TensorRT-LLM, NVLinkTwoSided, GB200 with 2 to 64 ranks), on all cores.
IN_RACK = {
    "expert_dispatch": ExchangeKernel(
        "expert_dispatch",
        token=0.0,
        copy=0.477,
        sent=232e-6,
        crossing=0.0,
        received=5.3,
        written=0.0,
        added=0.0,
        start=12.1,
    ),
    "expert_combine": ExchangeKernel(
        "expert_combine",
        token=0.0,
        copy=0.0556,
        sent=319e-6,
        crossing=0.0,
        received=1.77,
        written=615e-6,
        added=0.0,
        start=13.7,
    ),
}


def exchange_time(kernel, collective, tokens, copies, cores, unit, byte, network):
    """The time of an exchange by a kernel of its own.

        time = unit·start + ⁴√(links⁴ + sending⁴ + receiving⁴)
        sending = unit·(tokens·(token + copies·copy) + bytes·(sent + crossing share·crossing)) / cores
        receiving = unit·(tokens·received + bytes·(written / copies + added)) / cores

    `links` is the time in which links carry the bytes, without the latency of their messages, which `start` has.

    Args:
        kernel: the work of a core, as in `ExchangeKernel`.
        collective: the exchange as an all-to-all; its volume is the bytes of all copies.
        tokens: the tokens of an accelerator.
        copies: the copies of a token.
        cores: the cores that the kernel takes.
        unit: the time in which the kernel's numbers count.
        byte: the size in which they count bytes.
        network: the links that carry the copies.

    Source: deepseek-ai/DeepEP, csrc/kernels/intranode.cu and internode.cu (half of the blocks send, half receive);
    Williams et al., CACM 52(4), 2009. Differs: the fourth root of the sum of fourth powers replaces the longest.
    """
    number, crossing = collective.volume / byte, collective.crossing * (collective.inter > 1)
    sending = tokens * (kernel.token + copies * kernel.copy) + number * (kernel.sent + crossing * kernel.crossing)
    receiving = tokens * kernel.received + number * (kernel.written / np.maximum(copies, 1) + kernel.added)
    carry, nothing = network.times[collective.kind], collective.having(volume=0 * collective.volume)
    carried = carry(collective, network) - carry(nothing, network)
    work = np.hypot(carried * carried, np.hypot((unit * sending / cores) ** 2, (unit * receiving / cores) ** 2))
    return (collective.group.degree > 1) * (kernel.start * unit + np.sqrt(work))


@records(choice="dispatcher", value="deepep", when_given=("number_of_cores",))
def expert_durations__deepep(
    expert_collectives,
    network,
    routed_tokens,
    experts_per_token,
    deduplicated_dispatch_fraction,
    expert_exchange_processor_fraction,
    number_of_cores,
    exchange_core_time,
    fp8_precision,
):
    """The time of one call of each exchange of tokens between experts by DeepEP's kernels.

    Source: deepseek-ai/DeepEP, README (normal kernels); the equations of this page.
    """
    cores, copies = (
        expert_exchange_processor_fraction * number_of_cores,
        experts_per_token * deduplicated_dispatch_fraction,
    )
    of_kernel = (routed_tokens, copies, cores, exchange_core_time, fp8_precision, network[0])
    plain = network[0].durations(expert_collectives)
    return tuple(
        duration.having(time=exchange_time(DEEPEP[c.name], c, *of_kernel))
        for duration, c in zip(plain, expert_collectives, strict=True)
    )
