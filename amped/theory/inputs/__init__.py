"""What is given: the network, the data, the software, the accelerator, the machine.

Takes nothing from other chapters: a leaf has a unit, a default (or none) and a source, and the other names follow from
leaves. Hands on sizes, precisions, peaks, bandwidths, latencies and efficiencies.

    network             layers, widths, kinds of attention; parameter_counts: parameters that follow from them
    training            batch, tokens, precisions, optimizer, and `performance_model`
    software            what a training framework does: columns of `software_specifications`
    accelerator         the datasheet; efficiencies: which share of it kernels reach, columns of `kernel_efficiencies`
    machine             nodes, the electrical networks inside and across them, hosts; optics: optical circuits
"""

PAGES = ("network", "parameter_counts", "training", "software", "accelerator", "efficiencies", "machine", "optics")
