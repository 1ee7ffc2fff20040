"""Sizes of collectives for processes that are started anew: one of them comes late, or ends, when it reads its size."""

import os
import time
from typing import Any

from amped.kernels.specs import KernelSpec, spec


class Eventful(dict[str, Any]):
    """The dimensions of a collective; one of the processes waits, or ends, before it takes part."""

    late: tuple[int, float] = (-1, 0.0)
    ending: int = -1

    def __getitem__(self, name: str) -> Any:
        import torch

        rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else None
        if name == "ranks" and rank == self.late[0]:
            time.sleep(self.late[1])
        if name == "ranks" and rank == self.ending:
            os._exit(3)
        return super().__getitem__(name)


def eventful(kernel: str, size: int, ranks: int, late: tuple[int, float] = (-1, 0.0), ending: int = -1) -> KernelSpec:
    """A collective in which a process is late by some seconds, or ends."""
    made = spec(kernel, "float32", bytes=size, ranks=ranks)
    params = Eventful(made.params)
    params.late, params.ending = late, ending
    return KernelSpec(kernel, params, "float32")
