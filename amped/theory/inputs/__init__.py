"""What is given: the network, the data, the software, the accelerator, the machine. Leaves with units and sources."""

PAGES = ("network", "parameter_counts", "training", "software", "accelerator", "efficiencies", "machine", "optics")
