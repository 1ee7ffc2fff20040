"""Conditions under which formulas apply, if several formulas use them.

A page uses a condition in a mark: `@quantity("byte", **OFFLOADED)`.
"""

# States that may be offloaded to the host. A formula about offload applies if one of these parameters is given.
OFFLOADS = ("optimizer_offload", "activation_offload", "weight_offload")
OFFLOADED = {"when_any_given": OFFLOADS}
# A layout lists the layers of every pipeline stage.
LISTED = {"when_given": ("pipeline_layout",)}
# The two performance models: AMPeD's closed form, and the sum of the times of operators.
CLOSED_FORM = {"choice": "performance_model", "value": "amped"}
BY_OPERATORS = {"choice": "performance_model", "value": "operators"}
# Kinds of layers whose operators differ: latent vectors for keys and values, an indexer that chooses keys, norms behind
# the blocks, grids of SUMMA.
MULTI_LATENT = {"choice": "attention_kind", "value": "multi_latent"}
# Products beside the blocks of a layer: branches, and wider heads in layers without a window.
BRANCHED = {"when_any_given": ("branch_weights", "full_attention_head_dimension", "full_attention_key_value_heads")}
INDEXED = {"when_given": ("indexer_heads",)}
# Attention to a window of keys and to entries that stand for several tokens, some of which an indexer chooses.
COMPRESSED = {"choice": "attention_kind", "value": "compressed", **INDEXED}
# Several residual streams, which hyper-connections mix around each block.
HYPER_CONNECTED = {"when_given": ("residual_streams",)}
POST_NORMS = {"choice": "norm_position", "value": "post"}
SUMMA = {"choice": "tensor_parallel_strategy", "value": "2d_summa"}
SUMMA_SCORES = {"choice": "grid_attention", "value": "summa"}
# A compiler that computes values once more if they do not fit into memory.
REMATERIALIZED = {"choice": "memory_fitting", "value": "rematerialization"}
GPIPE = {"choice": "pipeline_schedule", "value": "gpipe"}
ZERO_BUBBLE_H1 = {"choice": "pipeline_schedule", "value": "zero_bubble_h1"}
ZERO_BUBBLE_V = {"choice": "pipeline_schedule", "value": "zero_bubble_v"}
DUALPIPE_V = {"choice": "pipeline_schedule", "value": "dualpipe_v"}
# A network with a tower: an encoder of images or of sound in front of it.
WITH_TOWER = {"choice": "tower", "value": "encoder"}
