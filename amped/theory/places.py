"""Places in the forward pass of a layer at which operators and collectives of several pages wait.

A page uses one as `after=`. What a network does not have is passed over; what another of a place waits for needs no
mention.
"""

# Behind the first norm, and behind the second; where norms are behind the blocks, behind what is there instead.
NORMALIZED = ("attention_norm", "norm_statistics all_reduce", "embedding_dropout")
PROJECTION_INPUTS = (*NORMALIZED, "attention_input all_gather")
SUMMED = ("feedforward_norm", "attention_residual")
NETWORK_INPUTS = (*SUMMED, "feedforward_input all_gather")
# Where own queries, keys and values are, and where those of others have come too.
PRODUCTS_DONE = ("query_key_value", "query_up", "key_value_up", "query_absorption", "projection_bias")
PROJECTED = (*PRODUCTS_DONE, "query_key_norm", "rotary_positions")
COLUMNS_GATHERED = ("grid_column_keys_and_values all_gather", *PROJECTED)
EXCHANGED = (*COLUMNS_GATHERED, "keys_and_values all_gather", "keys_and_values send_receive", "heads all_to_all")
# Where scores are, and their sums over rows of a grid.
SCORED = ("attention_scores_inputs reduce", "attention_scores", "softmax_statistics all_reduce")
# Where heads have seen all values, and where they lie side by side.
VALUES_WEIGHTED = ("attention_values", "fused_attention", "sink_scaling")
ATTENDED = (*VALUES_WEIGHTED, "value_absorption")
HEADS_EXCHANGED = (*ATTENDED, "attended_heads all_to_all")
HEADS_JOINED = (*HEADS_EXCHANGED, "head_permutation")
# Where tokens have come to their experts; behind these, and behind all of a layer's networks.
DISPATCHED = ("expert_permutation", "expert_dispatch all_to_all", "expert_tensor all_gather")
EXPERTS_DONE = ("experts_down", "expert_down_bias")
NETWORKS_DONE = (
    "feedforward_down",
    *EXPERTS_DONE,
    "expert_combine all_to_all",
    "expert_output all_gather",
    "shared_experts_down",
    "feedforward_down reduce_scatter",
    "feedforward_down all_reduce",
)
ATTENTION_DONE = ("attention_output", "attention_output reduce_scatter", "attention_output all_reduce")
