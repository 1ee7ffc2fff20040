"""How long a kernel takes on one accelerator.

Takes the operators, the datasheet and the efficiencies. Hands on `kernel_rates` (one record of all rates) and the
durations of the operators of a layer, of the embedding, of the output head and of the optimizer.

    time of a kernel = overhead + max(work / rate, traffic / bandwidth)

`rates` says what large kernels sustain: the peak times the measured share. `kernels` says what a kernel's shape and
size
lose: tiles, waves of tiles, ramps.
"""

PAGES = ("rates", "kernels")
