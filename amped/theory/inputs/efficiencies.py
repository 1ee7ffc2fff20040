"""Measured or fitted coefficients of the kernels and links of an accelerator: columns of `kernel_efficiencies`."""
