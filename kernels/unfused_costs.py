"""The work of a measured call: that of its kernel, with the traffic of what torch runs as several kernels."""

from __future__ import annotations

from amped.kernels.formats import FORMATS
from amped.kernels.specs import Record, entries, record_work
from amped.theory.nouns.kernel_work import Traffic

# Tensors that pass through memory because torch has no single kernel, on every device and on processors. Source: what
# torch 2.13 dispatches; a sparse loss only reads its rows, and drawing random numbers only writes.
PASSES = {"swiglu": 5, "cross_entropy_backward": 4}
ON_PROCESSORS = {"rms_norm": 7, "rms_norm_backward": 23, "dropout": 6, "bias_gelu_dropout": 10}


def work_of(record: Record, device: str) -> Traffic:
    """The work of the call of a record on a device."""
    minimum = record_work(record)
    passes = (PASSES | (ON_PROCESSORS if device == "cpu" else {})).get(record["kernel"])
    if passes is None:
        return minimum
    return minimum._replace(read=passes * FORMATS[record["dtype"]].bytes * entries(record["params"]) - minimum.written)
