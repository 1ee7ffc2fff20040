"""Records of the kernels of linear and of sparse attention: how they use the cores of an accelerator."""

from __future__ import annotations

from typing import Any

from amped.base.record import record


@record
class Cores:
    """What the laws of such kernels take from an accelerator.

    Attributes:
        number: its cores.
        frequency: cycles of a core per second.
        flop_rate: the 16-bit rate that its largest products sustain.
        bandwidth: bytes per second that large streams reach.
        share_found: gives the time to move bytes as a share of the time from memory, from the bytes that all tensors
            need; below 1 in a benchmark that finds them in the shared cache.
    """

    number: Any
    frequency: Any
    flop_rate: Any
    bandwidth: Any
    share_found: Any = None

    @property
    def cycles(self) -> Any:
        """The cycles of all cores in a second."""
        return self.number * self.frequency

    def moving_time(self, moved: Any, needed: Any) -> Any:
        """The seconds to move `moved` bytes of tensors that need `needed` bytes of room."""
        share = 1.0 if self.share_found is None else self.share_found(needed)
        return moved * share / self.bandwidth


@record
class ScanKernel:
    """How the kernels of a linear attention go over the chunks of a sequence.

    Attributes:
        chunk: the tokens of a chunk.
        flops: operations of a core in a cycle, in the kernels that compute all chunks side by side.
        step: cycles of the kernel that hands the state from chunk to chunk, for each of them.
        carried: the sequences of a head whose states a core hands on as fast as that of one.
        stores: 1 if what one kernel hands to the next lies in memory, 0 if one kernel does all.
    """

    chunk: float
    flops: float
    step: float
    carried: float
    stores: float


@record
class SparseKernel:
    """How a sparse attention computes its scores and values, and what its layer does besides products.

    Attributes:
        share: the share of the 16-bit rate that its products reach.
        most: the operations of a core in a cycle that they never exceed; infinite for kernels with the instructions of
            the generation.
        heads: the fewest heads for which it computes; those that a layer lacks are padded.
        row: cycles of a core for each token: rotations, casts, writes to a cache, and the selection.
        passes: how often each entry of queries and outputs is read or written, besides by the products.
        score, head_score: cycles of a core for each score of the indexer, and for each of its heads in a score.
        pads: 1 if it computes for as many keys as it may select, whether or not there are so many.
    """

    share: float
    row: float
    passes: float
    score: float = 0.0
    head_score: float = 0.0
    heads: float = 1.0
    most: float = float("inf")
    pads: float = 0.0
