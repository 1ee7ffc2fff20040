"""Measures kernels on this machine. It is the only part of amped that may import torch."""
