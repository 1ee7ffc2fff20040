"""Tables of measured kernels: read, predicted by the equations of estimates, and set beside them."""
