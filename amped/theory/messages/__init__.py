"""Which collectives are called: of what kind, with how many bytes, in which group, how often.

The chapter takes the sizes of tensors, the mapping, and the parameters of stages. It hands on tuples of `Collective`
records, with a page for each kind of parallelism. The next chapter gives their times.

    tensor, context, experts    in a layer, for each micro-batch
    pipeline                    between two stages, for each micro-batch
    data                        gradients and weights, as ZeRO shards them
    summa                       tensor parallelism on a grid of rows and columns: panels are broadcast

The page `summa` has all of SUMMA, also the overlap of its panels. It therefore takes times of the chapters `links` and
`layer`, which are exceptions to the order of chapters.
"""

PAGES = ("tensor", "summa", "context", "experts", "data", "pipeline")

# What other chapters and rooms may name, by page; and the parameters that a config lists.
HANDS_ON = (
    # tensor
    "tensor_parallel_feedforwards_per_layer",
    "gathered_gradient_layouts",
    "tensor_collectives",
    # summa
    "output_head_panels",
    # context
    "gathered_attentions_per_layer",
    "local_key_value_bytes",
    "context_collectives",
    "grid_column_collectives",
    # experts
    "dispatch_bytes",
    "expert_collectives",
    "expert_tensor_collectives",
    # data
    "sharding_collectives",
    "expert_sharding_collectives",
    # pipeline
    "pipeline_collectives",
    "stage_send_gather_collectives",
    "tied_embedding_collectives",
)
