"""Places in the forward pass of a layer for which operators and collectives of several pages wait.

A page uses a place as `after=`. Names that a network does not have are ignored. If one name of a place waits for
another one, only the first needs to be listed.
"""

# After the first norm, and after the second norm. If norms are after the blocks (post), what is there instead.
NORMALIZED = ("attention_norm", "norm_statistics all_reduce", "embedding_dropout")
PROJECTION_INPUTS = (*NORMALIZED, "attention_input all_gather", "key_and_value_input all_gather")
SUMMED = ("feedforward_norm", "attention_residual")
NETWORK_INPUTS = (*SUMMED, "feedforward_input all_gather", "gate_input all_gather")
# All-gathers of an input that another projection of the same block has gathered already.
REPEATED_GATHERS = ("key_and_value_input", "gate_input")
# When the accelerator's own queries, keys and values are there, and when those of others have arrived too.
ADAPTED = ("query_key_value_adapter_sum", "query_adapter_sum", "key_adapter_sum", "value_adapter_sum")
COMPRESSED_KEYS = ("key_value", "sparse_compression", "heavy_compression")
PRODUCTS_DONE = (
    "query_key_value",
    *ADAPTED,
    "query_up",
    "key_value_up",
    "query_absorption",
    "projection_bias",
    *COMPRESSED_KEYS,
)
PROJECTED = (*PRODUCTS_DONE, "query_key_norm", "rotary_positions", "rotation_sum")
COLUMNS_GATHERED = ("grid_column_keys_and_values all_gather", *PROJECTED)
EXCHANGED = (
    *COLUMNS_GATHERED,
    "keys_and_values all_gather",
    "keys_and_values send_receive",
    "heads all_to_all",
    "key_choice",
)
# When the scores are there, and their sums over the rows of a grid.
SCORED = ("attention_scores_inputs reduce", "attention_scores", "softmax_statistics all_reduce")
# When the heads have weighted all values, and when the heads are concatenated.
VALUES_WEIGHTED = ("attention_values", "fused_attention", "sink_scaling")
ATTENDED = (*VALUES_WEIGHTED, "value_absorption")
HEADS_EXCHANGED = (*ATTENDED, "attended_heads all_to_all")
HEADS_JOINED = (*HEADS_EXCHANGED, "attention_gate", "head_permutation")
# When tokens have arrived at their experts; when the inputs of their activation function are there, when the experts
# are done, and when all networks of a layer are done.
ARRIVED = ("expert_dispatch all_to_all", "expert_dispatch all_gather")
DISPATCHED = ("expert_permutation", *ARRIVED, "expert_tensor all_gather")
COMBINED = ("expert_combine all_to_all", "expert_combine reduce_scatter")
EXPERTS_UP_DONE = ("experts_up", "expert_up_bias", "expert_clamp")
EXPERTS_DONE = ("experts_down", "expert_down_bias")
NETWORKS_DONE = (
    "feedforward_down",
    *EXPERTS_DONE,
    *COMBINED,
    "expert_widening",
    "expert_output all_gather",
    "shared_experts_down",
    "shared_expert_gate",
    "feedforward_down reduce_scatter",
    "feedforward_down all_reduce",
)
ATTENTION_DONE = (
    "attention_output",
    "linear_attention_output",
    "attention_output reduce_scatter",
    "attention_output all_reduce",
)
