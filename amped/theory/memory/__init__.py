"""What the fullest accelerator holds.

The chapter takes parameters of stages, shards, the bytes that a layer keeps, and micro-batches in flight. It hands on
the bytes by part, whether they fit, and the largest micro-batch that fits.

    memory of an accelerator = weights + gradients + optimizer states + activations + working memory

The page `buffers` is working memory. The page `stages` has the states and activations of each stage, and answers the
inverse question: how large a micro-batch fits beside the states. The page `fullest_stage` finds the stage that needs
most, and adds up its parts. The page `host` is what is offloaded.
"""

PAGES = ("buffers", "stages", "fullest_stage", "host")

# What other chapters and rooms may name, by page; and the parameters that a config lists.
HANDS_ON = (
    # buffers
    "communication_buffer_bytes",
    "logits_gradient_bytes",
    "recomputed_layer_bytes",
    "rematerialized_layer_fraction",
    "working_gradient_bytes",
    "weight_buffer_bytes",
    "layer_working_bytes",
    # stages
    "kind_activations",
    "stage_states",
    "stage_activations",
    "stage_working",
    "largest_microbatch_size",
    # fullest_stage
    "fullest_stage_parameters",
    "fullest_stage_index",
    "weight_bytes",
    "gradient_bytes",
    "optimizer_state_bytes",
    "activation_bytes",
    "temporary_bytes",
    "memory_per_accelerator_bytes",
    "available_memory_bytes",
    "fits_in_memory",
    "memory_with_headroom_bytes",
    "keeps_memory_headroom",
    "allocator_reserved_bytes",
    # host
    "host_memory_bytes",
    "fits_in_host_memory",
)
