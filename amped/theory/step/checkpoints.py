"""Checkpoints: their bytes, the time for which one stops the training, and the time to read one back."""

from amped.theory.language.quantity import SYSTEM, quantity
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


@quantity("s", category=SYSTEM)
def checkpoint_time(checkpoint_write_time):
    """The time for which a checkpoint stops the training: until it is written. Source: definition."""
    return checkpoint_write_time


@quantity("s", category=SYSTEM, choice="checkpoint_mode", value="asynchronous")
def checkpoint_time__asynchronous(checkpoint_copy_time):
    """The time for which a checkpoint stops the training: until the hosts have it; they write while training goes on.

    Source: arXiv 2402.15627, section 4.4.
    """
    return checkpoint_copy_time


@quantity("s", category=SYSTEM, choice="checkpoint_mode", value="in_memory")
def checkpoint_time__in_memory(checkpoint_copy_time):
    """The time for which a checkpoint stops the training: until the hosts have it. It also stays in their memory.

    Source: GEMINI, SOSP 2023, section 4 (messages to the memory of other hosts fit beside those of the training).
    """
    return checkpoint_copy_time


@quantity("s")
def checkpoint_read_time(checkpoint_write_time):
    """The time to read the last checkpoint: as long as to write it.

    Source: assumption; one accelerator reads for all that need the same bytes (arXiv 2402.15627, section 4.4).
    """
    return checkpoint_write_time


@quantity("s", choice="checkpoint_mode", value="in_memory")
def checkpoint_read_time__in_memory(checkpoint_copy_time):
    """The time to read the last checkpoint from the memory of the hosts.

    Source: GEMINI, SOSP 2023, section 6. Differs: the one host that was replaced reads from another one's memory.
    """
    return checkpoint_copy_time


@quantity("s")
def checkpoint_flush_time(checkpoint_time):
    """The time of training until a checkpoint can be read: none, because training waits for it. Source: definition."""
    return 0 * checkpoint_time


@quantity("s", choice="checkpoint_mode", value="asynchronous")
def checkpoint_flush_time__asynchronous(checkpoint_write_time):
    """The time of training until a checkpoint can be read: the hosts write it beside the training.

    Source: PyTorch, torch.distributed.checkpoint.async_save (one save at a time).
    """
    return checkpoint_write_time
