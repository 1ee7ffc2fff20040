"""Overlap, as one statement: what uses a resource, and what of its time passes beside that of others.

    resource                      who is busy there                            beside it may run
    computation                   kernels, exchanges that wait in their queue  links, link to the host, host
    links inside the fast domain  tensor, context, expert, data                kernels that need no message of them
    links across fast domains     the same, and hand-overs of a pipeline       these; links inside, for gradients
    host                          launches of kernels, its optimizer           everything: it runs ahead
    link to the host              copies of what is offloaded                  kernels; links that share no card with it

A part of a step takes at least as long as its busiest resource, and at most the sum of all. Which of its work may run
beside which is the business of switches (`mapping/overlap.json`), of software (chunks that really hide) and of the
schedule (whether there is another micro-batch): each says a share of what could.

`beside` is the only way in which time is hidden. What is left of a part is `apart - share * min(message, window)`: the
message and the window are both in `apart`, once each, so that it is a mixture of their sum and the longer of both.
Therefore a part never grows when a resource becomes faster, and a switch never slows it; what computation loses to
messages beside it is at most what is hidden. New overlap keeps this law where it calls `beside` with parts of the same
time, and takes what is hidden out of the window of the next.
"""

import numpy as np


def beside(message, window, share=1.0):
    """Seconds of a message that pass in a window, or a share of them where not all of the work may overlap.

    Source: definition; a resource serves one at a time.
    """
    return share * np.maximum(np.minimum(message, window), 0)


def waited(queue, idle):
    """Seconds that kernels in a queue add to a pass whose host leaves the accelerator idle for some time.

    The pass takes max(kernels + queue, host), and without the queue max(kernels, host). Source: definition.
    """
    return np.maximum(queue - idle, 0)
