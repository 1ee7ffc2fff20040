"""Tempo's modules under the names of its published code, for a model that was written with them.

They are amped's: `convert` places them by itself, and is what to use in a new model.
"""

from __future__ import annotations

from amped.base.errors import ConfigError
from amped.kernels.memory.attention import SoftmaxDropoutMatmul
from amped.kernels.memory.in_place_activation import InplaceGELU as InplaceGelu
from amped.kernels.memory.in_place_norm import InplaceLayerNorm

__all__ = ["Combined", "InplaceGelu", "InplaceLayerNorm"]


class Combined(SoftmaxDropoutMatmul):
    """Softmax over the last dimension, dropout, and the product with the values: `Combined(dim, p)(scores, values)`."""

    def __init__(self, dim: int = -1, p: float = 0.0) -> None:
        """Takes the arguments of Tempo's module.

        Raises:
            ConfigError: for another dimension than the last.
        """
        if dim not in (-1, 3):
            raise ConfigError(
                f"a softmax over dimension {dim} is not there", "give dim=-1: the keys are the last dimension"
            )
        super().__init__(p)
