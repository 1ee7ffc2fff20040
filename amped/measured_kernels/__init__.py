"""Tables of measured kernels: they are read, and become operators of the theory with measured times."""
