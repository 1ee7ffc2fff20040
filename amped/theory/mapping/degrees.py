"""Degrees of parallelism: into how many shares each dimension of the work is split; and the micro-batches.

A degree is the product of a part inside the node (the fast domain) and a part across nodes. The user may give the whole
degree, both parts, or one part; the other part is then 1. The page `placement` calculates the parts of a whole degree.
"""

import numpy as np

from amped.theory.language.quantity import MAPPING, SYSTEM, each_of, family, parameter, quantity
from amped.theory.nouns.divisors import common_divisor
from amped.theory.nouns.parallelisms import OF_A_STAGE, PARALLELISMS, PLACED, ROWS
from amped.theory.nouns.records import product

# The rows whose degree is 1 unless it is given; data parallelism takes the accelerators that the others leave.
GIVEN = tuple(row for row in ROWS if row.splits != "sequences")


@family(
    named=(
        "tensor_parallel_degree",
        "pipeline_parallel_degree",
        "context_parallel_degree",
        "expert_parallel_degree",
    ),
    KIND=tuple(row.name for row in GIVEN),
    COUNTED=tuple(row.counted for row in GIVEN),
    SOURCE=tuple(row.source for row in GIVEN),
)
@parameter("count", category=MAPPING, replaces=("intra_node_KIND_parallel_degree", "inter_node_KIND_parallel_degree"))
def KIND_parallel_degree():
    """The number of COUNTED (KIND parallelism); 1 unless given. Source: SOURCE."""
    return 1


@family(
    named=(
        "tensor_parallel_degree__of_parts",
        "pipeline_parallel_degree__of_parts",
        "data_parallel_degree__of_parts",
        "context_parallel_degree__of_parts",
        "expert_parallel_degree__of_parts",
    ),
    KIND=PARALLELISMS,
)
@quantity("count", when_given=("intra_node_KIND_parallel_degree", "inter_node_KIND_parallel_degree"))
def KIND_parallel_degree__of_parts(intra_node_KIND_parallel_degree, inter_node_KIND_parallel_degree):
    """The KIND-parallel degree: the product of its parts inside the node and across nodes.

    Source: AMPeD, table of mapping parameters.
    """
    return intra_node_KIND_parallel_degree * inter_node_KIND_parallel_degree


@quantity(
    "count",
    when_given=("tensor_parallel_rows", "tensor_parallel_columns"),
    even_with=("intra_node_tensor_parallel_degree", "inter_node_tensor_parallel_degree"),
)
def tensor_parallel_degree__of_grid(tensor_parallel_rows, tensor_parallel_columns):
    """The tensor-parallel degree: the product of the rows and the columns of the grid, if both are given.

    Source: arXiv 2410.00273, section 3.
    """
    return tensor_parallel_rows * tensor_parallel_columns


@each_of(OTHER=tuple(kind for kind in PLACED if kind != "data"))
@quantity("count", when_any_given=("number_of_accelerators", "number_of_nodes"), even_with=("number_of_nodes",))
def remaining_degree__of_machine(number_of_accelerators, OTHER_parallel_degree):
    """The data-parallel degree that uses all accelerators: their number divided by the other degrees.

    Source: arXiv 2104.04473, section 3.1 (d = n/(t·p)).
    """
    return number_of_accelerators / product(OTHER_parallel_degree)


@quantity("count")
def minibatch_size(batch_size, data_parallel_degree):
    """The number of sequences of a global batch that one data-parallel replica processes.

    Source: AMPeD, table of parameters.
    """
    return batch_size / data_parallel_degree


@quantity("count", category=MAPPING, when_given=("microbatch_size",))
def number_of_microbatches_per_minibatch__of_size(minibatch_size, microbatch_size):
    """The number of micro-batches that a replica processes in a step, if their size is given. Source: definition."""
    return minibatch_size / microbatch_size


@quantity("count", when_given=("microbatch_size", "number_of_microbatches_per_minibatch"))
def batch_size__of_microbatches(microbatch_size, number_of_microbatches_per_minibatch, data_parallel_degree):
    """The number of sequences in a global batch: those of all micro-batches of all replicas.

    Source: transformers, TrainingArguments (per_device_train_batch_size, gradient_accumulation_steps).
    """
    return microbatch_size * number_of_microbatches_per_minibatch * data_parallel_degree


@quantity("count")
def microbatches_per_flush(number_of_microbatches_per_minibatch, pipeline_flushes_per_step):
    """The number of micro-batches that pass through the pipeline before it is flushed.

    Source: arXiv 2104.04473, section 2.2.
    """
    return number_of_microbatches_per_minibatch / pipeline_flushes_per_step


@quantity("count", category=MAPPING, replaces=("number_of_microbatches_per_minibatch",))
def microbatch_size(minibatch_size, number_of_microbatches_per_minibatch):
    """The number of sequences in a micro-batch. Source: AMPeD, table of parameters."""
    return minibatch_size / number_of_microbatches_per_minibatch


@each_of(KIND=OF_A_STAGE)
@quantity("count", category=MAPPING)
def expert_tensor_parallel_degree(
    tensor_parallel_rows, expert_feedforward_dimension, KIND_parallel_degree, expert_parallel_degree
):
    """The number of accelerators that share the matrices of one expert.

        gcd(gcd(rows, expert_feedforward_dimension), accelerators / expert_parallel_degree)

    `rows` is the tensor-parallel degree of the dense layers, and `accelerators` those of a pipeline stage.
    The result is the largest divisor of `rows` that divides the hidden units of an expert and, times the
    expert-parallel degree, divides the accelerators of a stage.

    Source: Megatron-Core, MoE arguments (the degree of the dense layers); arXiv 2603.07685, sections
    3.3.1 and 3.3.2 (a degree of its own, usually smaller).
    """
    shares = common_divisor(tensor_parallel_rows, expert_feedforward_dimension)
    return common_divisor(shares, product(KIND_parallel_degree) / expert_parallel_degree)


# --- the machine that the degrees need -------------------------------------------------------------------------------


@each_of(KIND=PLACED)
@quantity("count", category=SYSTEM, replaces=("number_of_nodes",))
def number_of_accelerators(KIND_parallel_degree):
    """The number of accelerators that train: the product of the degrees.

    Source: arXiv 2104.04473, section 3.1 (n = p·t·d).
    """
    return product(KIND_parallel_degree)


@quantity("count", category=SYSTEM, when_given=("number_of_nodes",))
def number_of_accelerators__of_nodes(
    number_of_nodes, number_of_accelerators_per_node, launched_domain_size, scale_up_domain_size
):
    """The number of accelerators that train: all accelerators of the given servers.

    If they do not fit into one fast domain, only those count that a launcher gives to a run (64 of the 72 of an NVL72).

    Source: definition; the system's row (segments).
    """
    accelerators = number_of_nodes * number_of_accelerators_per_node
    launched = np.minimum(launched_domain_size / scale_up_domain_size, 1)
    return accelerators * np.where(accelerators <= scale_up_domain_size, 1, launched)


@quantity("count", category=SYSTEM, replaces=("number_of_accelerators",))
def number_of_nodes(number_of_accelerators, number_of_accelerators_per_node, usable_domain_size, scale_up_domain_size):
    """The number of servers that the accelerators need, if each gives only its usable ones to a run.

    Source: definition; the system's row (segments).
    """
    used = number_of_accelerators_per_node * usable_domain_size / scale_up_domain_size
    return np.ceil(number_of_accelerators / used)


# --- layers of a stage, on average -----------------------------------------------------------------------------------


@quantity("count")
def stage_layers(layers, pipeline_parallel_degree):
    """The average number of layers of one pipeline stage. Source: arXiv 2104.04473, section 2.2."""
    return layers / pipeline_parallel_degree
