"""A network of round numbers on DGX A100, and many mappings of it: the world that the laws of physics are held against."""

from functools import cache
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

import amped
from amped.configuring.config import Config

LAYERS = 16
DENSE = {
    "neural_network_training_parameters": {"parameters": {
        "layers": {"value": LAYERS}, "dimensionality": {"value": 4096}, "attention_heads": {"value": 32},
        "vocabulary_size": {"value": 51200}, "context": {"value": 2048}, "batch_size": {"value": 256},
        "tokens_to_train": {"value": "10 G"},
    }},
    "mapping_parameters": {"parameters": {
        "data_parallel_degree": {"value": 4}, "tensor_parallel_degree": {"value": 4},
        "pipeline_parallel_degree": {"value": 4}, "context_parallel_degree": {"value": 2},
        "microbatch_size": {"value": 2}, "pipelined_weight_sharding": {"value": True},
    }},
    "system_architecture_parameters": {"lookup_config": {"lookup_table_row": "DGX A100"}},
    "accelerator_architecture_parameters": {"lookup_config": {"lookup_table_row": "A100 SXM 80GB"}},
}  # fmt: skip
EXPERTS = {"number_of_experts": 8, "experts_per_token": 2, "expert_tensor_parallel_degree": 1,
           "expert_parallel_degree": 4}  # fmt: skip
# With one share of everything nothing is sent.
ONE_OF_ALL = {"data_parallel_degree": 1, "tensor_parallel_degree": 1, "pipeline_parallel_degree": 1,
              "context_parallel_degree": 1}  # fmt: skip
few = settings(max_examples=15, deadline=None)
degree = st.sampled_from([1, 2, 4, 8])

mappings = st.fixed_dictionaries({
    "performance_model": st.sampled_from(["operators", "amped"]),
    "data_parallel_degree": degree, "tensor_parallel_degree": degree, "pipeline_parallel_degree": degree,
    "context_parallel_degree": st.sampled_from([1, 2]), "microbatch_size": st.sampled_from([1, 2, 4]),
    "zero_stage": st.sampled_from([0, 1, 2, 3]), "sequence_parallel": st.booleans(),
    "activation_recomputation": st.sampled_from(["none", "selective", "full"]),
    "overlap_data_communication": st.booleans(), "overlap_tensor_communication": st.booleans(),
    "overlap_context_communication": st.booleans(), "overlap_pipeline_communication": st.booleans(),
    "pipeline_schedule": st.sampled_from(["1f1b", "gpipe"]), "flash_attention": st.booleans(),
    "placement_order": st.sampled_from(["tensor_context_data_pipeline", "tensor_context_pipeline_data"]),
})  # fmt: skip


@cache
def read() -> Config:
    return amped.load_config(DENSE)


def trained(**values: Any) -> amped.Estimate:
    return amped.estimate(read(), **values)
