"""Records of passes: what a pipeline stage runs, one pass after another. The order of a schedule is a list of passes.

The kinds are `forward`, `input_gradient` and `weight_gradient`; `backward` computes both gradients.
"""

from __future__ import annotations

from typing import NamedTuple

FORWARD, BACKWARD, INPUT, WEIGHT = "forward", "backward", "input_gradient", "weight_gradient"


class Pass(NamedTuple):
    """One pass of a micro-batch through a chunk of layers of a stage.

    A pass that is joined forms a pair with the pass after it. A pair begins when the inputs of both passes have
    arrived, and hands on both results when both passes are done.
    """

    kind: str
    microbatch: int
    chunk: int
    joined: bool = False


Order = list[Pass]


class Pipe(NamedTuple):
    """The size of a pipeline: the number of its stages, of its micro-batches, and of chunks of layers on each stage."""

    stages: int
    microbatches: int
    chunks: int = 1
