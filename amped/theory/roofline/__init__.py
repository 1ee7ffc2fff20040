"""How long a kernel takes on one accelerator.

The chapter takes the operators, the datasheet and the efficiencies. It hands on `kernel_rates` (one record of all
rates) and the durations of the operators of a layer, of the embedding, of the output head and of the optimizer.

    time of a kernel = overhead + max(work / rate, traffic / bandwidth)

The page `rates` says what large kernels sustain: the peak times the measured share. The page `kernels` says what a
kernel loses by its shape and size: partly filled tiles, partly filled waves of tiles, ramps. The page `measured` takes
the times of kernels that the user has measured.
"""

PAGES = ("rates", "kernels", "measured")
