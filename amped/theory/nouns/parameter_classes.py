"""The classes of parameters: which are kept, sent and trained in the same way, and how many of each there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from amped.base.record import record
from amped.theory.nouns.records import MATRICES, Record, total


@record
class ParameterClass(Record):
    """A class of parameters: all that are split, kept, sent and trained in the same way.

    Attributes:
        precision: the bytes of a weight.
        routed: whether they are parameters of routed experts, which are split and sharded in their own way.
        trained: whether training changes them. Parameters that are frozen have no gradients and no optimizer states.
    """

    precision: Any = 0.0
    routed: bool = False
    trained: bool = True

    @property
    def changes(self) -> float:
        """1 if training changes these parameters, else 0."""
        return 1.0 * self.trained

    def among(self, groups: Sequence[ParameterGroup]) -> ParameterGroup:
        """The group to which this class belongs.

        Args:
            groups: the group of all parameters except routed experts, and the group of routed experts.
        """
        return groups[self.routed]

    def split_degree(self, groups: Sequence[ParameterGroup]) -> Any:
        """The number of shares into which model parallelism splits these parameters.

        Args:
            groups: the group of all parameters except routed experts, and the group of routed experts.
        """
        return self.among(groups).split_degree


VECTORS, EMBEDDINGS, EXPERTS = "vectors", "embedding", "experts"
ADAPTERS, EXPERT_ADAPTERS = "adapters", "expert_adapters"
TOWER, PROJECTOR = "tower", "projector"
# The classes of a training that changes all parameters: weights of products in layers; biases and norms in layers; both
# ends of the network; routed experts. The order is that of the numbers in `Parameters` and in `ModelState`. A training
# with adapters has the classes `ADAPTERS` and `EXPERT_ADAPTERS` too, and one with a tower `TOWER` and `PROJECTOR`.
CLASSES = (
    ParameterClass(MATRICES),
    ParameterClass(VECTORS),
    ParameterClass(EMBEDDINGS),
    ParameterClass(EXPERTS, routed=True),
)


@record
class ParameterGroup(Record):
    """The parameters that are split and sharded in the same way: the routed experts, or all other parameters.

    Attributes:
        split_degree: the number of shares into which model parallelism splits the parameters.
        weight_shards, gradient_shards, optimizer_state_shards: the number of shares into which ZeRO splits each state
            of the parameters of an accelerator.
    """

    split_degree: Any
    weight_shards: Any
    gradient_shards: Any
    optimizer_state_shards: Any


@record
class Parameters(Record):
    """The numbers of parameters by class: of a block, of a layer, or of one accelerator of a stage before sharding.

    Attributes:
        counts: the number of parameters of each class.
    """

    counts: tuple[Any, ...]

    def shared(self, classes: Sequence[ParameterClass]) -> Any:
        """The number of all parameters except routed experts."""
        return total(n for c, n in zip(classes, self.counts, strict=True) if not c.routed)

    def routed(self, classes: Sequence[ParameterClass]) -> Any:
        """The number of parameters of routed experts."""
        return total(n for c, n in zip(classes, self.counts, strict=True) if c.routed)

    def trained(self, classes: Sequence[ParameterClass]) -> Any:
        """The number of all parameters that training changes, except routed experts."""
        return total(n for c, n in zip(classes, self.counts, strict=True) if c.trained and not c.routed)

    def whole(self, classes: Sequence[ParameterClass], groups: Sequence[ParameterGroup]) -> Any:
        """The number of parameters before model parallelism splits them; `counts` are the numbers after the split.

        Args:
            classes: all classes of parameters, in the order of `counts`.
            groups: the group of all parameters except routed experts, and the group of routed experts.
        """
        return total(n * c.split_degree(groups) for c, n in zip(classes, self.counts, strict=True))

    def split(self, classes: Sequence[ParameterClass], groups: Sequence[ParameterGroup]) -> Parameters:
        """The numbers of parameters on one accelerator; `counts` are those before model parallelism splits them.

        Args:
            classes: all classes of parameters, in the order of `counts`.
            groups: the group of all parameters except routed experts, and the group of routed experts.
        """
        counts = (n / c.split_degree(groups) for c, n in zip(classes, self.counts, strict=True))
        return Parameters(self.name, tuple(counts))


def counted(name: str, classes: Sequence[ParameterClass], counts: Mapping[str, Any]) -> Parameters:
    """The numbers of parameters of all classes as one record.

    Args:
        name: the name of the record.
        classes: all classes, in the order of the record.
        counts: the number of parameters by the name of the class; a class that is missing has none.
    """
    return Parameters(name, tuple(counts.get(c.name, 0.0) for c in classes))


@record
class ModelState(Record):
    """The bytes that are kept for each parameter: of its weight, its gradient, or its optimizer states.

    Attributes:
        bytes: the bytes of a parameter of each class in the shard of one accelerator.
        offload: the share of these bytes that the host keeps.
    """

    bytes: tuple[Any, ...]
    offload: Any

    def of(self, parameters: Parameters) -> Any:
        """The bytes of this state for the given parameters, on the accelerator and on the host together."""
        return total(n * size for n, size in zip(parameters.counts, self.bytes, strict=True))


@record
class WeightMatrix(Record):
    """A weight matrix of a layer, as tensor parallelism cuts it; all sides are those before the cut.

    Attributes:
        whole: the side that is not cut.
        cut: the side that is cut, if any.
        shares: the number of shares into which it is cut.
        count: the number of such matrices on an accelerator, in all its layers.
        routed: whether they are weights of routed experts.
    """

    whole: Any
    cut: Any
    shares: Any
    count: Any
    routed: bool = False

    @property
    def shorter(self) -> Any:
        """The shorter side of the matrix before it is cut."""
        return np.minimum(self.whole, self.cut)

    @property
    def longer(self) -> Any:
        """The longer side of the matrix before it is cut."""
        return np.maximum(self.whole, self.cut)
