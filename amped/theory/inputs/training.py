"""What is trained on, for how long, with which optimizer, and in which precisions; and which model predicts the time."""

import numpy as np

from amped.theory.quantity import NETWORK, family, parameter, quantity, selector


@selector("operators", "amped")
def performance_model():
    """Which formulas predict the time: of every operator, or the closed form of the AMPeD paper.

    Source: arXiv 2410.00273 (operators); Moolchandani et al., ISPASS 2023 (amped).
    """
    return "operators"


@parameter("count", category=NETWORK)
def batch_size():
    """Sequences in a global batch. Source: definition."""


@parameter("count", category=NETWORK)
def training_tokens():
    """Tokens the published model was trained on, as its table row says. Source: the row's own."""


@parameter("1", category=NETWORK, above=0)
def tokens_per_parameter():
    """Tokens to train on for each parameter where nobody says. Source: arXiv 2203.15556 (Chinchilla), about 20."""
    return 20


@quantity("count", category=NETWORK, replaces=("samples", "number_of_steps"))
def tokens_to_train(tokens_per_parameter, number_of_parameters):
    """Tokens of the whole training. Source: arXiv 2203.15556, table 3 (where no budget is given)."""
    return tokens_per_parameter * number_of_parameters


@quantity("count", category=NETWORK, when_given=("training_tokens",))
def tokens_to_train__published(training_tokens):
    """Tokens of the whole training: what the published model was trained on. Source: the row's own."""
    return training_tokens


@quantity("count", category=NETWORK, when_given=("samples",), even_with=("training_tokens", "number_of_steps"))
def tokens_to_train__of_samples(samples, context):
    """Tokens of the whole training from its sequences. Source: definition."""
    return samples * context


@quantity("count", category=NETWORK, when_given=("number_of_steps",), even_with=("training_tokens",))
def tokens_to_train__of_steps(number_of_steps, batch_size, context):
    """Tokens of the whole training from its steps. Source: definition."""
    return number_of_steps * batch_size * context


@quantity("count", category=NETWORK, replaces=("tokens_to_train", "number_of_steps"))
def samples(tokens_to_train, context):
    """Sequences of the whole training. Source: definition."""
    return tokens_to_train / context


@quantity("count", category=NETWORK, replaces=("tokens_to_train", "samples"))
def number_of_steps(tokens_to_train, batch_size, context):
    """Optimizer steps of the whole training; the last batch may be partly empty. Source: AMPeD, training time."""
    return np.ceil(tokens_to_train / (batch_size * context))


@parameter("byte", category=NETWORK, bare="bit", above=0)
def weight_precision():
    """Size of a weight in the forward and backward pass (a bare number is bits). Source: arXiv 1710.03740."""
    return 2


@family(TENSOR=("weight", "weight", "activation", "activation"), FORMAT=("fp32", "tf32", "fp32", "tf32"))
@parameter("byte", bare="bit", above=0, choice="matrix_precision", value="FORMAT")
def TENSOR_precision__FORMAT():
    """Size of a number where matrices are multiplied in FORMAT. Source: definition."""
    return 4


@parameter("byte", category=NETWORK, bare="bit", above=0)
def activation_precision():
    """Size of an activation (a bare number is bits). Source: arXiv 1710.03740."""
    return 2


@parameter("byte", category=NETWORK, bare="bit", above=0)
def gradient_precision():
    """Size of an accumulated and communicated gradient (a bare number is bits).

    Source: arXiv 2205.05198, 18 bytes a parameter.
    """
    return 4


@parameter("byte", category=NETWORK, bare="bit", above=0)
def optimizer_state_precision():
    """Size of a number the optimizer keeps (a bare number is bits). Source: arXiv 1910.02054, section 3.1."""
    return 4


@parameter("byte", category=NETWORK, bare="bit", above=0)
def logits_precision():
    """Size of an output logit in the loss (a bare number is bits). Source: arXiv 2205.05198, section 4.3."""
    return 4


@selector("fp32", "tf32", "fp16", "bf16", "fp8", "fp4", category=NETWORK)
def matrix_precision():
    """Format in which matrices are multiplied. Source: arXiv 1710.03740."""
    return "fp16"


@selector("fp32", category=NETWORK, when_given=("fp32_peak_flop_rate",))
def matrix_precision__single():
    """fp32, where the accelerator has no 16-bit format. Source: definition."""
    return "fp32"


@selector("fp16", category=NETWORK, when_given=("fp16_peak_flop_rate",), even_with=("fp32_peak_flop_rate",))
def matrix_precision__half():
    """fp16, where the accelerator has it and not bf16. Source: arXiv 1710.03740."""
    return "fp16"


@selector(
    "bf16",
    category=NETWORK,
    when_given=("bf16_peak_flop_rate",),
    even_with=("fp16_peak_flop_rate", "fp32_peak_flop_rate"),
)
def matrix_precision__brain():
    """bf16, where the accelerator has it. Source: arXiv 1905.12322."""
    return "bf16"


@selector("adam", "sgd", "none", category=NETWORK)
def optimizer():
    """Optimizer of the weights; none: passes alone, as when a layer is measured. Source: arXiv 1412.6980 (Adam)."""
    return "adam"


@parameter("boolean", category=NETWORK)
def flash_attention():
    """Whether attention is one fused kernel that keeps no score matrix. Source: arXiv 2205.14135."""
    return 0


@selector("full", "causal", category=NETWORK)
def attention_flop_convention():
    """Whether counted FLOPs take all scores or the causal half: published utilizations differ.

    Source: arXiv 2104.04473, eq. 3 (full).
    """
    return "full"


@parameter("boolean", category=NETWORK)
def gradient_clipping():
    """Whether gradients are scaled down to a norm of at most some bound, which passes over them twice.

    Source: arXiv 1211.5063; Megatron-LM, --clip-grad 1.0.
    """
    return 1


# --- rules -----------------------------------------------------------------------------------------------------------


@quantity("boolean", constrains="samples")
def samples_and_tokens_agree(samples, context, tokens_to_train):
    """The sequences of the training have its tokens. Source: definition."""
    return np.abs(samples * context - tokens_to_train) < context


@quantity("boolean", constrains="number_of_steps")
def steps_and_tokens_agree(number_of_steps, batch_size, context, tokens_to_train):
    """The steps of the training are as many as its tokens need. Source: definition."""
    return number_of_steps == np.ceil(tokens_to_train / (batch_size * context))
