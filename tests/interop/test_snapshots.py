"""Memory snapshots of PyTorch: read as plain data alone, and put beside an estimate."""

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from amped.base.errors import FileError
from amped.interop.snapshots import read_snapshot
from tests.helpers.cli import amped

GIGA = 10**9


def stack(name: str) -> list[dict[str, Any]]:
    """A stack whose innermost frame is PyTorch's."""
    return [
        {"filename": "/opt/torch/nn/linear.py", "line": 3, "name": "forward"},
        {"filename": "/me/train.py", "line": 40, "name": name},
    ]


def entry(action: str, address: int, size: int, name: str = "") -> dict[str, Any]:
    """An entry of a trace."""
    return {
        "action": action,
        "addr": address * GIGA,
        "size": size * GIGA,
        "stream": 0,
        "frames": stack(name) if name else [],
    }


def block(address: int, size: int, state: str, name: str) -> dict[str, Any]:
    """A block of a segment."""
    return {
        "address": address * GIGA,
        "size": size * GIGA,
        "requested_size": size * GIGA - 512,
        "state": state,
        "frames": stack(name),
    }


def written(folder: Path, snapshot: object) -> Path:
    """The file of a snapshot."""
    (folder / "snapshot.pickle").write_bytes(pickle.dumps(snapshot))
    return folder / "snapshot.pickle"


def run(folder: Path) -> Path:
    """The snapshot of a run: weights of 8 GB stay, 6 and 5 GB come and go in 20 reserved, and 30 more are refused at the end."""
    blocks = [block(0, 8, "active_allocated", "weights"), block(8, 12, "inactive", "nothing")]
    segments = [{"device": 0, "address": 0, "total_size": 20 * GIGA, "blocks": blocks}]
    trace = [
        entry("segment_alloc", 0, 20), entry("alloc", 8, 6, "forward"), entry("alloc", 14, 5, "loss"), entry("free_requested", 14, 5),
        entry("free_completed", 14, 5), entry("free_completed", 8, 6), entry("oom", 0, 30),
    ]  # fmt: skip
    return written(folder, {"segments": segments, "device_traces": [trace, []], "allocator_settings": {}})


def test_the_peak_what_held_it_and_what_is_reserved_are_read(tmp_path: Path) -> None:
    (device,) = read_snapshot(run(tmp_path))
    assert (device.peak, device.peak_reserved, device.allocated, device.reserved) == (
        19 * GIGA,
        20 * GIGA,
        8 * GIGA,
        20 * GIGA,
    )
    assert device.places == (
        ("weights (train.py:40)", 8 * GIGA),
        ("forward (train.py:40)", 6 * GIGA),
        ("loss (train.py:40)", 5 * GIGA),
    )
    assert (device.split, device.rounded, device.refused, device.has_history) == (12 * GIGA, 512, 30 * GIGA, True)


def test_without_a_history_the_end_is_read(tmp_path: Path) -> None:
    segments = [{"device": 1, "total_size": 4 * GIGA, "blocks": [block(0, 3, "active_allocated", "weights")]}]
    (device,) = read_snapshot(written(tmp_path, {"segments": segments, "device_traces": []}))
    assert (device.device, device.peak, device.has_history) == (1, 3 * GIGA, False)


def test_it_stands_beside_the_estimate(tmp_path: Path) -> None:
    told = amped(
        "why", "--model", "Llama 3 8B", "--gpus", 8, "--snapshot", run(tmp_path), folder=tmp_path, columns=80
    ).stdout
    assert told.startswith("Device 0 held 19.0 GB at most, -")
    assert "It was out of memory when 30.0 GB were asked for." in told
    assert "12.0 GB of 20.0 GB are reserved and not allocated at its end" in told


def test_what_amped_writes_is_read_as_its_estimate(tmp_path: Path) -> None:
    asked = ("--model", "Llama 3 8B", "--gpus", 8, "--pp", 2, "--snapshot", "snapshot.pickle")
    amped("estimate", *asked, folder=tmp_path)
    assert ", +0.0 % of the estimate" in " ".join(amped("why", *asked, folder=tmp_path).stdout.split())


class Code:
    """What runs when it is unpickled."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, ("hacked",)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (pickle.dumps({"segments": [Code()]}), "asks for"),
        (pickle.dumps({"segments": []})[:9], "is no memory snapshot"),
        (b"\x00not a pickle", "is no memory snapshot"),
        (pickle.dumps([1, 2]), "has no list 'segments'"),
        (pickle.dumps({"segments": [{"device": 0}], "device_traces": []}), "that amped can read"),
    ],
    ids=["code", "cut", "foreign", "list", "without blocks"],
)
def test_what_is_no_snapshot_is_refused_and_nothing_in_it_runs(content: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / "it.pickle").write_bytes(content)
    with pytest.raises(FileError) as refused:
        read_snapshot(tmp_path / "it.pickle")
    assert told in str(refused.value)
    done = amped("why", "--snapshot", "it.pickle", folder=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "hacked").exists()
