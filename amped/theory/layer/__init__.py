"""The time of one layer for one micro-batch, and of the embedding and the output head.

This chapter takes the durations of operators and of collectives, and the switches for overlap. It gives times per
layer: computation by pass, communication for which the accelerator waits (exposed), communication that runs beside
computation (overlapped), and copies from and to the host.

    layer_time = forward + input gradients + weight gradients + recomputation + exposed communication

Each record of this chapter has a record for each kind of layer, in the order of `layer_kinds`. The page `passes` adds
up kernel times; a pass takes at least the time in which the host launches its kernels. `messages` says which messages a
pass sends, and beside which kernels they may run. `waits` lets each second of kernels hide at most one second of
messages, puts the remaining messages into the queue of kernels, and lets exchanges of experts run beside another
micro-batch. `offload` has the copies from and to the host. `times` has the sums. `theory/resources.py` tells in one place which resources can be busy at once.
"""

PAGES = ("passes", "messages", "waits", "offload", "times")
