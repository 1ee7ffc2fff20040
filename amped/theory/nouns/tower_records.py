"""Records of towers: the matrices of a projector between a tower and the decoder, and parameters by class."""

from typing import Any

from amped.base.record import record
from amped.theory.nouns.records import Record

# The first, the middle and the last matrices of a projector.
PROJECTOR_MATRICES = ("projector_in", "projector_between", "projector_out")


@record
class ProjectorMatrix(Record):
    """A matrix of a projector.

    Attributes:
        inputs, outputs: its inner and its outer width.
        count: the number of such matrices in a projector.
    """

    inputs: Any
    outputs: Any
    count: Any


@record
class ClassCount(Record):
    """The number of parameters of one class, which is its name."""

    count: Any
