"""The given values: the network, the training, the software, the accelerator, the machine.

This chapter takes nothing from other chapters. A leaf has a unit, a default (or none) and a source; the other
quantities follow from leaves. The chapter gives sizes, precisions, peak rates, bandwidths, latencies and efficiencies.

    network             layers, widths, kinds of attention; parameter_counts: the parameters that follow from them
    tower_sizes         an encoder of images or of sound in front of it: its sizes and parameters
    training            batch, tokens, precisions, optimizer, and `performance_model`
    software            what a training framework does: columns of `software_specifications`
    accelerator         the datasheet; efficiencies: the share that kernels reach, columns of `kernel_efficiencies`
    machine             nodes, the electrical networks inside and across them, hosts; optics: optical circuits
"""

PAGES = (
    "network",
    "tower_sizes",
    "parameter_counts",
    "training",
    "software",
    "accelerator",
    "efficiencies",
    "machine",
    "optics",
)

# What other chapters and rooms may name, by page; and the parameters that a config lists.
HANDS_ON = (
    # network
    "latent_projections",
    "query_key_width",
    "value_width",
    "projected_key_value_heads",
    "wider_head_entries",
    "attentions_per_layer",
    "expert_width",
    "linear_attention_fraction",
    "mixers_per_layer",
    "mixer_layer_fraction",
    "network_layer_fraction",
    "dense_fraction",
    "layer_kinds",
    "MoE_fraction",
    "shared_expert_fraction",
    "windowed_layer_fraction",
    "indexers_per_layer",
    "heavily_compressed_fraction",
    "has_vocabulary",
    # tower_sizes
    "tower_parameters",
    "tower_projector_parameters",
    "tower_class_parameters",
    "tower_classes",
    "projector_matrices",
    # parameter_counts
    "predictions_in_output_head",
    "attention_gate_width",
    "attention_matrix_parameters",
    "attention_parameters",
    "feedforward_parameters",
    "expert_parameters",
    "router_and_shared_expert_parameters",
    "norm_parameters",
    "embedding_parameters",
    "output_head_parameters",
    "number_of_parameters",
    "active_parameters",
    "parameter_classes",
    "attention_vector_parameters",
    "linear_attention_parameters",
    "linear_attention_vector_parameters",
    "number_of_branch_layers",
    "branch_parameters",
    "branch_vector_parameters",
    "linear_key_width",
    "linear_value_width",
    "feedforward_vector_parameters",
    "router_vector_parameters",
    "router_width",
    "cross_attention_parameters",
    "relative_position_parameters",
    "multi_token_prediction_MoE_layers",
    "multi_token_prediction_dense_layers",
    "multi_token_prediction_parameters",
    "multi_token_prediction_expert_parameters",
    # training
    "performance_model",
    # software
    "attention_kernel_fraction",
    "kernel_head_ramp",
    "kernel_backward_head_ramp",
    # accelerator
    "matrix_peak_flop_rate",
    "attention_peak_flop_rate",
    # machine
    "inter_node_bandwidth_per_accelerator",
)
