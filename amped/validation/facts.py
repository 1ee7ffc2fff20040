"""What a run may have done that amped has no parameter for.

A row lists it under `not_modeled`, so that nothing is lost.
"""

# Each fact, and what its value means.
FACTS = {
    "adapters": "adapters that are trained beside frozen weights, as in LoRA",
    "attention_precision": "format of attention's products where it is not 16 bit",
    "batch_ramp": "the batch grows during the measured steps",
    "compiled": "whether operators were compiled (torch.compile, XLA), beyond what the software's row says",
    "data_loading": "how the data came: mock, real, or from a slow store",
    "dispatcher": "the dispatcher of tokens to experts",
    "expert_buffers": "buffers of experts that are larger than what comes",
    "fp8_recipe": "how fp8 operands are scaled: delayed, current, blocks",
    "host_synchronization": "what makes the host wait for the accelerator in each micro-batch",
    "kernels": "kernels that amped does not tell apart",
    "layer_pattern": "kinds of layers that differ through the network",
    "logged_norms": "norms of parameters and counts of zeros are logged in each step",
    "measured_range": "which steps were measured, and how they were averaged",
    "optimizer_variant": "an optimizer, or a precision of its states, that amped does not have",
    "packed_sequences": "sequences of different lengths that share a row",
    "power_limit": "power or clock that was set below the part's own",
    "quantization": "a format that amped does not have, as int8",
    "recomputed_modules": "single modules that are recomputed",
    "tensor_split": "what tensor parallelism leaves whole or gathers",
    "version": "container or version of the software",
}
# A run with one of these is another kind of work, so that no prediction is made.
ESSENTIAL = ("adapters", "quantization")
