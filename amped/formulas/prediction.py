"""Multi-token prediction: modules behind the last layer, each a layer and the output head once more for a token further on."""

from amped.quantity import NETWORK, parameter, quantity, records
from amped.records import Gemm, contraction


@parameter("count", category=NETWORK, at_least=0)
def multi_token_prediction_layers():
    """Modules that predict tokens further on, each with a projection, a layer of its own, and the shared output head.

    Source: arXiv 2412.19437, section 2.2.
    """
    return 0


@quantity("count")
def prediction_MoE_layers(multi_token_prediction_layers, number_of_MoE_layers):
    """Layers of those modules that have a mixture of experts: all, where the network has mixtures. Source: arXiv 2412.19437."""
    return multi_token_prediction_layers * (number_of_MoE_layers > 0)


@quantity("count")
def prediction_dense_layers(multi_token_prediction_layers, prediction_MoE_layers):
    """Layers of those modules that have a dense feed-forward network. Source: arXiv 2412.19437, section 2.2."""
    return multi_token_prediction_layers - prediction_MoE_layers


@quantity("count")
def prediction_parameters(
    multi_token_prediction_layers, prediction_MoE_layers, prediction_dense_layers, dimensionality, norm_vectors,
    attention_parameters, norm_parameters, feedforward_parameters, router_and_shared_expert_parameters,
):  # fmt: skip
    """Parameters of those modules without routed experts; embedding and head are shared with the network.

    Two norms, and a projection of both normalised inputs, stand before the layer and its own final norm behind it.
    Source: arXiv 2412.19437, eq. 21–23.
    """
    norms = 3 * norm_vectors * dimensionality
    each = 2 * dimensionality * dimensionality + norms + attention_parameters + norm_parameters
    mixtures = prediction_MoE_layers * router_and_shared_expert_parameters
    return multi_token_prediction_layers * each + prediction_dense_layers * feedforward_parameters + mixtures


@quantity("count")
def prediction_expert_parameters(prediction_MoE_layers, number_of_experts, expert_parameters):
    """Parameters of the routed experts of those modules. Source: arXiv 2412.19437, section 2.2."""
    return prediction_MoE_layers * number_of_experts * expert_parameters


@quantity("count")
def prediction_expert_parameters_per_accelerator(prediction_expert_parameters, expert_split_degree):
    """Parameters of those experts on one accelerator of the stage with the output head. Source: arXiv 2412.19437."""
    return prediction_expert_parameters / expert_split_degree


@records()
def prediction_gemms(microbatch_tokens, dimensionality, tensor_parallel_rows, multi_token_prediction_layers):
    """Projection of a token's state and the next token's embedding into one. Source: arXiv 2412.19437, eq. 21."""
    width = dimensionality / tensor_parallel_rows
    return (
        Gemm("prediction_projection", microbatch_tokens, width, 2 * dimensionality, 1.0, multi_token_prediction_layers),
    )


@records()
def prediction_operators(
    prediction_gemms, residual_bytes, activation_precision, matrix_operand_precision, gradient_precision,
    flops_per_multiply_accumulate,
):  # fmt: skip
    """That projection, which keeps both inputs. Source: arXiv 2412.19437, eq. 21."""
    entry = (flops_per_multiply_accumulate, matrix_operand_precision, activation_precision, gradient_precision)
    (projection,) = prediction_gemms
    return contraction(projection, *entry, 2 * residual_bytes, projection.count)


@quantity("boolean", constrains="multi_token_prediction_layers", choice="pipeline_schedule", value="zero_bubble_v")
def predictions_follow_the_last_stage__zero_bubble_v(multi_token_prediction_layers):
    """In the form of a V the first stage has the output head, and no modules that predict further tokens.

    Source: arXiv 2405.15362, section 3.
    """
    return multi_token_prediction_layers == 0
