"""Traces of runs: files of PyTorch's profiler and of Nsight Systems, and what a step in them is made of."""
