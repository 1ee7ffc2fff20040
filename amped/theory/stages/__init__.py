"""What each pipeline stage holds.

The chapter takes the layers, the pipeline degree (or a layout) and the counts of parameters. It hands on the layers and
the parameters of the first, the middle and the last stage, the records `pipeline_stages`, and the parameters of one
accelerator.

    layers = first stage + (stages − 2) × middle stage + last stage

The first stage also has the embedding, and the last stage the output head; a single stage has both. With the schedule
`zero_bubble_v` and `dualpipe_v` the first stage has both ends.
"""

PAGES = ("layers", "parameters")

# What other chapters and rooms may name, by page; and the parameters that a config lists.
HANDS_ON = (
    # layers
    "first_stage_layers",
    "last_stage_layers",
    "middle_stage_layers",
    "largest_stage_layers",
    "stage_ends",
    "pipeline_stages",
    "dense_stage_layers",
    "MoE_stage_layers",
    "attention_passes",
    "linear_attention_passes",
    "branch_passes",
    "dense_layer_passes",
    "MoE_layer_passes",
    "layers_divide_by_stages_and_chunks",
    # parameters
    "kind_parameters",
    "output_head_stage_parameters",
    "output_head_stage_expert_parameters",
    "parameter_groups",
    "stage_parameters",
    "layer_parameters",
    "tied_embedding_parameters",
    "non_expert_parameters_per_accelerator",
    "network_parameters",
    "trained_parameters",
    "trained_parameters_per_accelerator",
    "expert_class_parameters",
    "expert_parameters_per_accelerator",
)
