"""Tables of measured kernels: they are read, and compared with predictions by the equations of estimates."""
