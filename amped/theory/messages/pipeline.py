"""Pipeline parallelism: a micro-batch sent from one stage to the next, and a tied embedding summed over two stages."""

import numpy as np

from amped.theory.language.quantity import records
from amped.theory.nouns.parameter_classes import EMBEDDINGS
from amped.theory.nouns.records import Collective, Group, latest
from amped.theory.nouns.stage_records import had, lacked


@records()
def pipeline_collectives(stage_message_bytes, tensor_parallel_rows, pipeline_group):
    """The message that sends a micro-batch to the next stage; each tensor-parallel rank sends its part.

    Source: arXiv 2104.04473, section 4.1.
    """
    share, after = stage_message_bytes / tensor_parallel_rows, ("feedforward_residual",)
    return (Collective("stage_send", "send_receive", volume=share, group=pipeline_group[0], count=1.0, after=after),)


@records()
def stage_send_gather_collectives(
    stage_message_bytes, row_group, pipeline_parallel_degree, sequence_split_degree, tensor_parallel_rows
):
    """The all-gather of the parts of a micro-batch that a stage has received from the previous stage.

    With sequence parallelism it is not needed, because each rank keeps only its part of the sequence.

    Source: arXiv 2104.04473, section 4.1 (scatter/gather).
    """
    calls = 1.0 * (sequence_split_degree < tensor_parallel_rows) * (pipeline_parallel_degree > 1)
    return (Collective("stage_send_gather", "all_gather", volume=stage_message_bytes, group=row_group[0], count=calls),)


@records()
def tied_embedding_collectives(
    pipeline_stages,
    tied_embedding_parameters,
    parameter_groups,
    parameter_classes,
    exchanged_gradient_precision,
    pipeline_parallel_degree,
    inter_node_pipeline_parallel_degree,
):
    """The all-reduce of the gradients of a tied embedding, if the embedding and the output head are on two stages.

    Each of the two stages has a copy of the weights. A pipeline that crosses nodes has its two ends on two nodes.

    Source: arXiv 1909.08053, section 3; Megatron-Core, distributed/finalize_model_grads.py (embedding group).
    """
    is_on_two_stages = latest(had(s.has_output_head, lacked(s.has_embedding, 1.0)) for s in pipeline_stages)
    trained = {c.name: c.changes for c in parameter_classes}[EMBEDDINGS]
    volume = trained * tied_embedding_parameters / parameter_groups[0].split_degree * exchanged_gradient_precision
    nodes = np.minimum(inter_node_pipeline_parallel_degree, 2)
    ends = Group("ends", intra=2 / nodes, inter=nodes)
    return (
        Collective(
            "tied_embedding",
            "all_reduce",
            group=ends,
            volume=volume,
            count=is_on_two_stages * (pipeline_parallel_degree > 1),
        ),
    )
