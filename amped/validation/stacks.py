"""What software does where a row is silent: the documented defaults of training frameworks.

A default holds until a column or a note says otherwise, and a row tells which it took. No framework's own efficiency is
here: only what it computes, keeps and sends.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

GPT_SHAPE = {
    "positions": "learned", "norm_vectors": 2, "query_key_value_bias": True, "attention_output_bias": True,
    "mlp_bias": True,
}  # fmt: skip
# Networks with gated feed-forward networks are of Llama's family. Source: arXiv 2302.13971, section 2.2.
LLAMA_SHAPE = {
    "positions": "rope", "norm_vectors": 1, "query_key_value_bias": False, "attention_output_bias": False,
    "mlp_bias": False, "dropout": 0,
}  # fmt: skip


@dataclass(frozen=True)
class Stack:
    """A framework of an era.

    Attributes:
        name: as told; `pattern` what a row's framework (lower case) matches, `until` the last year of the era.
        defaults: values by canonical name; `pipelined` those that hold where there are several pipeline stages.
        columns: values of blank columns.
        pads_vocabulary: the vocabulary is padded to a multiple of this times the tensor-parallel degree; 0: it is not.
        selective: what the framework calls selective recomputation.
        sources: where that is documented.
    """

    name: str
    pattern: str
    defaults: Mapping[str, Any]
    sources: str
    until: int = 9999
    columns: Mapping[str, str] = field(default_factory=dict)
    pads_vocabulary: int = 0
    selective: str = "selective"


MEGATRON_COLUMNS = {"activation_recompute": "none", "virtual_pipeline_stages": "1", "micro_batch": "1",
                    "sequence_parallel": "0", "zero_stage": "0", "ep": "1", "flash_attention": "1"}  # fmt: skip
FSDP_COLUMNS = {"activation_recompute": "none", "zero_stage": "3", "sequence_parallel": "0", "micro_batch": "1",
                "virtual_pipeline_stages": "1", "ep": "1", "flash_attention": "1"}  # fmt: skip
STACKS = (
    Stack("Composer FSDP", r"composer|llm-?foundry|mosaic",
          {**GPT_SHAPE, "dropout": 0, "gradient_precision": 32, "overlap_data_communication": True},
          "llm-foundry MPTConfig (no_bias false, learned positions, dropout 0) and its FSDP yamls", columns=FSDP_COLUMNS),
    Stack("torchtitan", r"torchtitan",
          {**LLAMA_SHAPE, "gradient_precision": 32, "overlap_data_communication": True},
          "torchtitan llama3 model, FSDP2 mixed precision (reduce in fp32)",
          columns=FSDP_COLUMNS | {"activation_recompute": "selective"}, selective="alternate_products"),
    Stack("NeMo AutoModel", r"automodel",
          {**LLAMA_SHAPE, "gradient_precision": 32, "overlap_data_communication": True},
          "PyTorch FSDP2 mixed precision", columns=FSDP_COLUMNS),
    Stack("Megatron-DeepSpeed", r"deepspeed",
          {**GPT_SHAPE, "dropout": 0.1, "gradient_precision": 16, "overlap_data_communication": False},
          "Megatron-DeepSpeed arguments.py, as Megatron-LM; DeepSpeed reduces gradients behind the last backward pass",
          columns=MEGATRON_COLUMNS | {"flash_attention": "0"}, pads_vocabulary=128),
    Stack("NeMo or Megatron-Bridge", r"nemo|megatron-?bridge",
          {**GPT_SHAPE, "dropout": 0, "gradient_precision": 32, "overlap_data_communication": True,
           "overlap_context_communication": True, "context_parallel_kind": "ring"},
          "NeMo and Megatron-Bridge performance recipes (distributed optimizer with both overlaps; dropout 0)",
          columns=MEGATRON_COLUMNS | {"zero_stage": "1"}, pads_vocabulary=128),
    Stack("Megatron-LM, 2021", r"megatron-lm$",
          {**GPT_SHAPE, "dropout": 0.1, "gradient_precision": 16, "overlap_data_communication": False,
           "overlap_tensor_communication": False},
          "Megatron-LM arguments.py; mpu/layers.py at aed2f75e20 (ColumnParallelLinear waits for its all-reduce)",
          until=2021, columns=MEGATRON_COLUMNS | {"flash_attention": "0"}, pads_vocabulary=128),
    Stack("Megatron-LM, 2022", r"megatron-lm$",
          {**GPT_SHAPE, "dropout": 0.1, "gradient_precision": 32, "overlap_data_communication": False},
          "Megatron-LM arguments.py; arXiv 2205.05198 (18 bytes a parameter, asynchronous all-reduce)",
          until=2022, columns=MEGATRON_COLUMNS | {"flash_attention": "0"}, pads_vocabulary=128),
    Stack("Megatron-Core's layers under plain autograd", r"megatron-core .*layer",
          {"dropout": 0, "gradient_precision": 16},
          "Megatron-LM, tests/functional_tests/test_cases/common/moe_perf (bf16 weights, no biases, no main gradients)",
          columns=MEGATRON_COLUMNS),
    Stack("plain PyTorch", r"^pytorch$", {"gradient_precision": 16, "overlap_data_communication": False},
          "torch.autograd: gradients are of the weights' precision", columns=MEGATRON_COLUMNS),
    Stack("Megatron-Core", r"megatron",
          {**GPT_SHAPE, "dropout": 0.1, "gradient_precision": 32, "overlap_context_communication": True,
           "context_parallel_kind": "ring"},
          "Megatron-LM arguments.py (bf16 accumulates and reduces in fp32; Transformer Engine exchanges keys in a ring)",
          columns=MEGATRON_COLUMNS, pads_vocabulary=128),
)  # fmt: skip
UNKNOWN = Stack("an unknown framework", "", {}, "amped's own defaults",
                columns={"activation_recompute": "none", "virtual_pipeline_stages": "1", "micro_batch": "1"})  # fmt: skip


def stack_of(framework: str, source: str) -> Stack:
    """The stack of a row: by its framework, and by the year of its source where a framework has had several eras."""
    found = re.findall(r"\b(?:20(\d\d)\b|arxiv[ :]?(\d\d)\d\d\.)|(?<=[a-z])20(\d\d)\b", source.casefold())
    years = [2000 + int(next(filter(None, each))) for each in found]
    year = min(years, default=9999)
    name = framework.casefold().strip()
    return next((s for s in STACKS if re.search(s.pattern, name) and year <= s.until), UNKNOWN)


def defaults_of(stack: Stack, gated: bool, context: float, weights_sharded: bool) -> dict[str, Any]:
    """The defaults of a stack for one network.

    Sharded weights are prefetched beside passes (arXiv 2304.11277, section 3.3.2) unless the stack says otherwise.
    """
    taken: dict[str, Any] = {"overlap_data_communication": True} if weights_sharded else {}
    taken |= stack.defaults
    taken |= LLAMA_SHAPE if gated and stack is not UNKNOWN else {}
    return taken | ({"position_table": int(context)} if taken.get("positions") == "learned" else {})
