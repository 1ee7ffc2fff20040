"""The pipeline: its schedule, and how layers are laid out over stages and chunks."""

from amped.theory.quantity import MAPPING, parameter, selector


@selector("1f1b", "gpipe", "zero_bubble_h1", "zero_bubble_v", category=MAPPING)
def pipeline_schedule():
    """Order of forward and backward passes; with virtual stages, 1f1b is interleaved.

    The zero-bubble schedules put off weight gradients, which no other stage waits for, to when they would be idle; that
    of the V gives each stage two chunks of layers, the second on the way back, so that the first stage has the head too.
    Source: arXiv 2104.04473, section 2.2; arXiv 2401.10241 (ZB-H1); arXiv 2405.15362 (V-ZB).
    """
    return "1f1b"


@parameter("boolean", category=MAPPING)
def uneven_chunks():
    """Whether the layers of a stage may be dealt out unevenly to its chunks, which are then timed as if all were alike.

    Source: Megatron-Core, --pipeline-model-parallel-layout; PyTorch, torch.distributed.pipelining.
    """
    return 0


@parameter("layout", category=MAPPING, replaces=("number_of_first_stage_layers", "number_of_last_stage_layers"))
def pipeline_layout():
    """Layers of each pipeline stage, from the first to the last: 9,10,10,11 or 9,10*2,11.

    Source: Megatron-Core, --pipeline-model-parallel-layout.
    """
