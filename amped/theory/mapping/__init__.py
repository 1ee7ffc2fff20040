"""How the work is mapped to the machine.

This chapter takes the inputs. It gives the size of each parallel group, the part of each group inside the fast domain
("node"), the micro-batches of a replica, the shards of ZeRO, the grid of tensor parallelism, the switches for overlap
and offload, and the first rules.

    number_of_accelerators = data × tensor × pipeline × context
    a degree               = its part inside the fast domain × its part across nodes

Expert groups lie inside data × context × tensor, so the expert-parallel degree is no factor of the first equation.

The pages `degrees` and `placement` have these equations. `grid` splits tensor parallelism into rows × columns.
`sharding` splits the model states by ZeRO. `groups` has the groups through which messages go. `experts` tells on how
many accelerators and nodes the experts of a token are. A rule is a boolean that must be true. A rule stands in the
chapter of its last argument, so the page `rules` has the rules that need only inputs and mapping.
"""

PAGES = (
    "degrees",
    "placement",
    "grid",
    "context",
    "sharding",
    "groups",
    "pipeline",
    "host_shares",
    "overlap_switches",
    "experts",
    "rules",
)

# What other chapters and rooms may name, by page; and the parameters that a config lists.
HANDS_ON = (
    # degrees
    "minibatch_size",
    "microbatches_per_flush",
    "stage_layers",
    # placement
    "usable_domain_size",
    "number_of_used_fast_domain_places",
    # grid
    "weight_split_degree",
    "sequence_split_degree",
    "input_width_split_degree",
    "output_width_split_degree",
    "product_panels",
    "activations_on_a_grid",
    "token_split_degree",
    "the_grid_has_the_tensor_degree",
    # context
    "ulysses_degree",
    "query_split_degree",
    "unbalanced_sequence_split_degree",
    "context_levels",
    # sharding
    "expert_split_degree",
    "expert_sharding_degree",
    "optimizer_state_shards",
    "gradient_shards",
    "weight_shards",
    "expert_optimizer_state_shards",
    "expert_gradient_shards",
    "expert_weight_shards",
    "gradients_are_scattered_each_microbatch",
    "gradients_delay_handovers",
    "data_exchanges_per_step",
    "weights_are_gathered_each_microbatch",
    "whole_gradient_bytes_per_parameter",
    "exchanged_gradient_precision",
    "gradient_copy_bytes_per_parameter",
    "passing_gradient_bytes_per_parameter",
    "weight_copy_bytes_per_parameter",
    # groups
    "pipeline_group",
    "context_group",
    "expert_group",
    "row_group",
    "column_group",
    "expert_tensor_group",
    "replica_group",
    "expert_replica_group",
    "shard_group",
    # overlap_switches
    "steady_microbatch_fraction",
    # experts
    "expert_load_factor",
    "deduplicated_dispatch_fraction",
    "inter_node_dispatch_fraction",
    # rules
    "attention_heads_divide_by_the_tensor_degree",
    "key_heads_match_the_tensor_degree",
    "the_feedforward_network_divides_by_the_tensor_degree",
    "the_context_divides_by_the_context_degree",
    "experts_divide_by_the_expert_degree",
    "experts_divide_by_the_expert_tensor_degree",
)
