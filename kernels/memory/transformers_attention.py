"""Attention of transformers that writes its scores, and the same with dropout that is computed again.

Modules of transformers look up by a name in their config which function computes their attention: "eager" is a function
of the model's own file. A module gets a copy of its config with another name, under which the function below stands.
"""

from __future__ import annotations

import copy
import inspect
import math
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from amped.kernels.memory.attention import attended

if TYPE_CHECKING:
    from amped.kernels.memory.sites import Seen

NAME = "amped_dropout_recomputation"
OTHERS = "its attention computes something else than dropout(softmax(scores)) @ values"
CACHED = "its call takes a cache, so that it cannot be run twice: use_cache=False"


def writes_its_scores(module: nn.Module) -> bool:
    """Whether a module of transformers looks up its attention by name, and the name is that of explicit attention."""
    if getattr(vars(module).get("config"), "_attn_implementation", None) != "eager":
        return False
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    return code is not None and "get_interface" in code.co_names


def changed_config(module: nn.Module) -> Any:
    """A copy of a module's config, with the name of the attention whose dropout is computed again."""
    sys.modules["transformers"].AttentionInterface.register(NAME, _attention)
    config = copy.deepcopy(module.config)
    config._attn_implementation = NAME
    return config


def why_other(module: nn.Module, changed: Mapping[str, Any], call: Seen) -> str:
    """The reason why a module's attention must stay as it is; empty if its output with the changed config is the same."""
    if any(value is not None and not isinstance(value, Tensor | tuple | bool | int | float) for value in call.given):
        return CACHED
    outputs, before = [], vars(module).copy()
    for config in ({}, changed):
        vars(module).update(config)
        with torch.no_grad(), torch.random.fork_rng():
            outputs.append(call.again(module, call.first))
    vars(module).update(before)
    one, two = (output[0] if isinstance(output, tuple) else output for output in outputs)
    return "" if torch.allclose(one, two, *[8 * torch.finfo(one.dtype).eps] * 2) else OTHERS


def _attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None,
    scaling: float | None = None, dropout: float = 0.0, position_bias: Tensor | None = None, **_: Any,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The weighted values and their weights, with arguments as transformers' own attention functions have them.

    Keys and values of grouped heads are repeated.
    """
    key, value = (t.repeat_interleave(query.shape[1] // t.shape[1], 1) for t in (key, value))
    scores = (query @ key.transpose(-2, -1)) * (1 / math.sqrt(query.shape[-1]) if scaling is None else scaling)
    for added in (position_bias, attention_mask):
        scores = scores if added is None else scores + added
    output, weights = attended(scores, value, dropout if module.training else 0.0)
    return output.transpose(1, 2).contiguous(), weights
