"""Checkpoints: their bytes, and the times until storage and the hosts have them. The table says for which one waits."""

from amped.theory.language.quantity import quantity
from amped.theory.nouns.records import total


@quantity("byte")
def checkpoint_bytes(network_parameters, parameter_classes, optimizer_states_by_class):
    """The bytes of a checkpoint: the weight and the optimizer states of each parameter that training changes.

    Source: definition; BLOOM's checkpoint has 2.3 TB for 176 billion parameters (BigScience, model card).
    """
    ((*counts,),) = [parameters.counts for parameters in network_parameters]
    return total(
        c.changes * number * (c.precision + state.bytes)
        for c, number, state in zip(parameter_classes, counts, optimizer_states_by_class, strict=True)
    )


@quantity("s")
def checkpoint_write_time(checkpoint_bytes, checkpoint_bandwidth_per_accelerator, number_of_accelerators):
    """The time until a checkpoint is in storage. Each accelerator writes its own share.

    Source: arXiv 2407.21783, section 3.3.1 (storage).
    """
    return checkpoint_bytes / (checkpoint_bandwidth_per_accelerator * number_of_accelerators)


@quantity("s")
def checkpoint_copy_time(checkpoint_bytes, host_link_bandwidth_per_accelerator, number_of_accelerators):
    """The time until a checkpoint is in the memory of the hosts.

    Source: arXiv 2402.15627, section 4.4 (the first of two stages).
    """
    return checkpoint_bytes / (host_link_bandwidth_per_accelerator * number_of_accelerators)
