"""The given values: the network, the training, the software, the accelerator, the machine.

This chapter takes nothing from other chapters. A leaf has a unit, a default (or none) and a source; the other
quantities follow from leaves. The chapter gives sizes, precisions, peak rates, bandwidths, latencies and efficiencies.

    network             layers, widths, kinds of attention; parameter_counts: the parameters that follow from them
    training            batch, tokens, precisions, optimizer, and `performance_model`
    software            what a training framework does: columns of `software_specifications`
    accelerator         the datasheet; efficiencies: the share that kernels reach, columns of `kernel_efficiencies`
    machine             nodes, the electrical networks inside and across them, hosts; optics: optical circuits
"""

PAGES = ("network", "parameter_counts", "training", "software", "accelerator", "efficiencies", "machine", "optics")
