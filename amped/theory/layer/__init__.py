"""One layer for one micro-batch, and the two ends of the network.

Takes the durations of operators and of collectives, and the switches for overlap. Hands on times per layer: computation
by pass, communication that is waited for (exposed), communication that runs beside computation (overlapped), and copies
from and to the host.

    layer_time = forward + input gradients + weight gradients + recomputation + exposed communication

`passes` adds up kernels; a pass takes no less than the host needs to launch them. `overlap` lets each second of
kernels hide one second of messages, once; `waits` puts the others into the queue of kernels, and exchanges of experts
beside another micro-batch. `offload` has the host, `times` the sums. How resources go together is one statement, in
`theory/resources.py`.
"""

PAGES = ("passes", "overlap", "waits", "offload", "times")
