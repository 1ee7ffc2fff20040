"""Measures kernels on this machine. The only part of amped that may import torch."""
