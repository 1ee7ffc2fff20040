"""SUMMA: panels that travel beside the products of the panels before, and those that are waited for."""

import numpy as np

from amped.quantity import quantity
from amped.records import total


@quantity("s", choice="tensor_parallel_strategy", value="2d_summa")
def hidden_forward_exchange_per_layer__2d_summa(hidden_panel_time_per_pass_forward):
    """Panels that travel beside the products of the panels before, forward. Source: arXiv 2410.00273, section 3."""
    return hidden_panel_time_per_pass_forward


@quantity("s", choice="tensor_parallel_strategy", value="2d_summa")
def hidden_backward_exchange_per_layer__2d_summa(hidden_panel_time_per_pass_backward):
    """Panels that travel beside the products of the panels before, backward. Source: arXiv 2410.00273, section 3."""
    return hidden_panel_time_per_pass_backward


@quantity("s")
def hidden_panel_time_per_pass_forward(tensor_durations, layer_durations, summa_panels, overlap_tensor_communication):
    """Panels that travel beside products in a forward pass. Source: arXiv 2410.00273, section 3."""
    return overlap_tensor_communication * hidden_panels("forward", tensor_durations, layer_durations, summa_panels)


@quantity("s")
def hidden_panel_time_per_pass_backward(tensor_durations, layer_durations, summa_panels, overlap_tensor_communication):
    """Panels that travel beside the two products of a backward pass. Source: arXiv 2410.00273, section 3."""
    args = (tensor_durations, layer_durations, summa_panels)
    both = hidden_panels("input_gradient", *args) + hidden_panels("weight_gradient", *args)
    return overlap_tensor_communication * both


def hidden_panels(phase, messages, kernels, panels):
    """Of each product all panels but one travel beside the product of another, as far as that lasts.

    Source: arXiv 2410.00273, section 3. Differs: its tool waits once more than there are panels left to wait for.
    """
    named = {d.name for d in messages}
    products = [k for k in kernels if k.phase == phase and f"{k.name}_inputs" in named]
    sent = {k.name: panel_time(k.name, messages) for k in products}
    return total((panels - 1) * np.minimum(sent[k.name], k.time / panels) * k.count for k in products)


def panel_time(name, messages):
    """Time in which the next panel of both operands of a product arrives. Source: arXiv 2410.00273, section 3."""
    return total(d.time for d in messages if d.name in (f"{name}_inputs", f"{name}_weights"))


@quantity("s", choice="tensor_parallel_strategy", value="2d_summa")
def exposed_forward_exchange_per_layer__2d_summa(
    tensor_forward_communication_time_per_layer, hidden_panel_time_per_pass_forward, overlap_slowdown_fraction
):
    """Panels that accelerators wait for forward: the first of each product, and what products do not hide.

    Source: arXiv 2410.00273, section 3. What is hidden still slows products.
    """
    beside = hidden_panel_time_per_pass_forward * (1 - overlap_slowdown_fraction)
    return tensor_forward_communication_time_per_layer - beside


@quantity("s", choice="tensor_parallel_strategy", value="2d_summa")
def exposed_backward_exchange_per_layer__2d_summa(
    tensor_forward_communication_time_per_layer, statistics_time_per_layer, hidden_panel_time_per_pass_backward,
    exposed_forward_exchange_per_layer, recomputed_layer_fraction, overlap_slowdown_fraction,
):  # fmt: skip
    """Panels that accelerators wait for backward, twice as many, and as forward when recomputing.

    Source: arXiv 2410.00273, section 3.
    """
    both = 2 * tensor_forward_communication_time_per_layer - statistics_time_per_layer
    beside = hidden_panel_time_per_pass_backward * (1 - overlap_slowdown_fraction)
    return both - beside + exposed_forward_exchange_per_layer * recomputed_layer_fraction


@quantity("s")
def statistics_time_per_layer(tensor_durations):
    """Sums of norms and softmax among it, as many backward. Source: arXiv 2410.00273, section 3."""
    return total(d.time * d.count for d in tensor_durations if d.kind == "all_reduce")
