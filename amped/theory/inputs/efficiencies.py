"""Measured or fitted coefficients of an accelerator's kernels and links: columns of `kernel_efficiencies`."""
