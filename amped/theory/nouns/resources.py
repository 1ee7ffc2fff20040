"""Overlap in one place: which work uses a resource, and which other work may run at the same time.

    resource                      is used by                                   at the same time may run
    computation                   kernels, messages that wait in their queue   links, link to the host, host
    links inside the fast domain  tensor, context, expert, data                kernels that need no message of them
    links across fast domains     tensor, context, expert, data, pipeline      kernels; links inside, for gradients
    host                          launches of kernels, its optimizer           everything: the host runs ahead
    link to the host              copies of what is offloaded                  kernels; links without a common card

A part of a step takes at least as long as its busiest resource, and at most the sum of all its resources. Three things
decide which part of the work may overlap: switches (`mapping/overlap_switches.json`), software (how many chunks really
overlap) and the schedule (whether there is another micro-batch). Each of them gives a share of the possible overlap.

`beside` is the only way to hide time. With it a part of a step takes `apart - share * min(message, window)`. The sum
`apart` contains the message and the window once each, so the result is a mixture of their sum and of the longer one. A
part therefore never takes longer if a resource becomes faster, and a switch never slows it down. Computation loses at
most the hidden time to the messages beside it. New overlap must keep this law: call `beside` with parts of one sum, and
remove the hidden time from the window of the next message.
"""

import numpy as np


def beside(message, window, share=1.0):
    """The seconds of a message that run at the same time as other work.

        share · max(min(message, window), 0)

    Args:
        message: the seconds of the message.
        window: the seconds of the other work.
        share: the share of both that the software overlaps.

    Source: definition; a resource serves one user at a time.
    """
    return share * positive(np.minimum(message, window))


def remaining(time, meanwhile):
    """The seconds of a message that remain after a wait: max(time - meanwhile, 0).

    A message that runs while the accelerator waits for the host in any case lengthens no pass.

    Args:
        time: the seconds of the message.
        meanwhile: the seconds of the wait.

    Source: definition.
    """
    return time - np.minimum(time, meanwhile)


def positive(value):
    """The value where it is above zero, else zero.

    The code compares with an array of zeros, because a processor compares an array with a number more slowly.

    Source: definition.
    """
    return np.maximum(value, np.zeros(np.shape(value)[-1:]))
