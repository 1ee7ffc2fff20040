"""A memory snapshot of a run beside the estimate, on the screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amped.interop.snapshots import DeviceMemory
from amped.report import human
from amped.report.tables import Part, drawn
from amped.report.width import columns, wrapped

# Room that is reserved and not allocated, as a share, above which it is told how to have less of it.
MUCH = 0.1


@drawn
def snapshot_screen(devices: Sequence[DeviceMemory], estimated_bytes: float) -> Iterator[Part]:
    """Each device's peak beside the estimate, what is reserved beside it, and what held most."""
    for device in devices:
        for sentence in _sentences(device, estimated_bytes):
            yield "\n".join(wrapped(sentence, columns()))
        for place, held in device.places:
            yield "\n".join(wrapped(f"  {_gigabytes(held):>9}  {place}", columns()))
    yield ""


def _sentences(device: DeviceMemory, expected: float) -> Iterator[str]:
    """What a snapshot says of one device."""
    when = "at most" if device.has_history else "at its end (no history was recorded)"
    yield (
        f"Device {device.device} held {_gigabytes(device.peak)} {when}, {100 * (device.peak / expected - 1):+.1f} % of the estimate "
        f"({_gigabytes(expected)}), and had {_gigabytes(device.peak_reserved)} reserved."
    )
    if device.refused:
        yield f"It was out of memory when {_gigabytes(device.refused)} were asked for."
    if device.split > MUCH * device.reserved:
        yield (
            f"{_gigabytes(device.split)} of {_gigabytes(device.reserved)} are reserved and not allocated at its end: fragments, or room that is "
            "kept. PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True has less of it."
        )
    if device.rounded > MUCH * device.allocated:
        yield f"{_gigabytes(device.rounded)} are what blocks have more than was asked for."
    if device.places:
        yield "What held most at the peak:"


def _gigabytes(size: float) -> str:
    """Bytes as people read them."""
    return f"{size / human.GIGA:.1f} GB" if size >= human.GIGA / 10 else f"{size / 1e6:.1f} MB"
