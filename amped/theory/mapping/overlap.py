"""Which communication may run beside computation: a switch for each kind, and the links that gradients have."""

from amped.theory.quantity import MAPPING, parameter, quantity


@parameter("boolean", category=MAPPING)
def overlap_tensor_communication():
    """Whether the reduction of an activation's gradient runs beside the gradient of the weight.

    Inputs that sequence parallelism gathers again run beside the other gradient in any case.
    Source: Megatron-LM, asynchronous tensor-parallel all-reduce.
    """
    return 1


@parameter("boolean", category=MAPPING)
def overlap_forward_tensor_communication():
    """Whether the forward gathers and scatters of sequence parallelism run beside the products they feed, in chunks.

    With them the gathers of gradients that products of the backward pass start from.
    Source: NVIDIA Transformer Engine, user buffers (tp-comm-overlap).
    """
    return 0


@parameter("boolean", category=MAPPING)
def overlap_context_communication():
    """Whether keys and values are exchanged while attention computes: a gather comes before it.

    Source: arXiv 2407.21783, section 3.3.2.
    """
    return 0


@parameter("boolean", choice="context_parallel_kind", value="ring")
def overlap_context_communication__ring():
    """Whether keys and values are exchanged while attention computes: a ring is made for that.

    Source: arXiv 2310.01889, section 3.
    """
    return 1


@parameter("boolean", category=MAPPING)
def overlap_expert_communication():
    """Whether tokens travel to experts while other micro-batches compute. Source: arXiv 2412.19437, section 3.2.1."""
    return 0


@parameter("boolean", category=MAPPING)
def overlap_pipeline_communication():
    """Whether stages hand micro-batches over while they compute. Source: Megatron-Core, --overlap-p2p-communication."""
    return 0


@quantity("boolean", category=MAPPING)
def overlap_data_communication(zero_stage):
    """Whether gradients are reduced beside the backward pass, and weights gathered beside passes.

    Unless given: where weights are sharded, as FSDP does, and else not, as Megatron-LM does not by itself.
    Source: arXiv 2304.11277 (FSDP), section 3.3; Megatron-LM, --overlap-grad-reduce.
    """
    return zero_stage >= 3


@parameter("boolean", category=MAPPING)
def overlap_offload_communication():
    """Whether copies from and to the host run beside computation, and beside the host's optimizer.

    Source: arXiv 2101.06840, section 4.1; Megatron-Core, --overlap-cpu-optimizer-d2h-h2d.
    """
    return 1


@quantity("boolean", category=MAPPING)
def gradients_have_own_links(inter_node_tensor_parallel_degree, inter_node_data_parallel_degree):
    """Whether gradients travel while tensor parallelism does.

    Unless given: where they cross nodes and tensor parallelism stays inside. Source: definition. Differs: what of gradients
    is added up inside nodes shares the links of tensor parallelism.
    """
    return (inter_node_tensor_parallel_degree <= 1) & (inter_node_data_parallel_degree > 1)
