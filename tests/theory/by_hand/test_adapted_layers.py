"""How far a backward pass goes: adapters in the upper layers only, beside a loop in PyTorch that counts its products."""

from typing import Any

import pytest

import amped

D, LAYERS, WORDS, TOKENS, RANK = 64, 4, 100, 32, 4
SMALL: dict[str, Any] = {
    "dimensionality": D, "layers": LAYERS, "attention_heads": 4, "head_dimension": D // 4, "feedforward_dimension": 4 * D,
    "vocabulary_size": WORDS, "context": TOKENS, "microbatch_size": 1, "batch_size": 8, "tensor_parallel_degree": 1,
    "pipeline_parallel_degree": 1, "number_of_accelerators": 1, "zero_stage": 0, "activation_recomputation": "none",
    "norm_recomputation": False, "gated_mlp": False, "tied_embeddings": False, "adapters": "lora", "adapter_rank": RANK,
    "joint_adapters": True,
}  # fmt: skip


def adapted(layers: int, **overrides: Any) -> amped.Estimate:
    return amped.estimate("default", **SMALL | {"number_of_adapted_layers": layers} | overrides)


def product_flops(e: amped.Estimate) -> float:
    """The FLOPs of all products with weights of a micro-batch, forward and backward."""
    layer = (o for o in e.results.records("layer_operators") if o.kind == "contraction")
    head = (o for o in e.results.records("output_head_operators") if o.kind == "output_head_contraction")
    return LAYERS * sum(float(o.flops * o.count) for o in layer) + sum(float(o.flops * o.count) for o in head)


def counted_flops(adapted_layers: int, passes_gradients: bool) -> int:
    """The FLOPs of the products of a loop in PyTorch, whose attention is an addition of queries, keys and values."""
    torch = pytest.importorskip("torch", reason="the products of a loop are counted by PyTorch")
    from torch.utils.flop_counter import FlopCounterMode

    def weight(*sides: int, is_trained: bool = False) -> Any:
        return torch.randn(*sides, requires_grad=is_trained)

    def product(x: Any, width: int, *, has_adapter: bool) -> Any:
        y = x @ weight(x.shape[-1], width)
        if not has_adapter:
            return y
        return y + x @ weight(x.shape[-1], RANK, is_trained=True) @ weight(RANK, width, is_trained=True)

    with FlopCounterMode(display=False) as counter:
        x = torch.randn(TOKENS, D, requires_grad=passes_gradients)
        for layer in range(LAYERS):
            has = {"has_adapter": layer >= LAYERS - adapted_layers}
            joined = product(torch.nn.functional.layer_norm(x, (D,)), 3 * D, **has)
            x = x + product(sum(joined.split(D, -1)), D, **has)
            up = product(torch.nn.functional.layer_norm(x, (D,)), 4 * D, **has)
            x = x + product(torch.nn.functional.gelu(up), D, **has)
        (x @ weight(D, WORDS)).sum().backward()
    return counter.get_total_flops()


@pytest.mark.thorough
@pytest.mark.parametrize("layers", [1, 2, LAYERS])
def test_the_products_are_those_of_a_loop_whose_backward_pass_ends_at_the_lowest_adapter(layers: int) -> None:
    assert product_flops(adapted(layers)) == counted_flops(layers, passes_gradients=False)


@pytest.mark.thorough
def test_where_layers_are_recomputed_the_lowest_one_computes_the_gradient_of_its_input() -> None:
    """Source: transformers, modeling_utils.py (enable_input_require_grads)."""
    e = adapted(LAYERS, activation_recomputation="full")
    assert product_flops(e) == counted_flops(LAYERS, passes_gradients=True)


def test_layers_below_the_lowest_adapter_keep_nothing_and_are_not_recomputed() -> None:
    for policy in ("none", "full"):
        whole, half = (adapted(n, activation_recomputation=policy) for n in (LAYERS, LAYERS // 2))
        assert half["kept_activation_bytes_per_layer"] < 0.6 * whole["kept_activation_bytes_per_layer"]
        assert half["recomputation_time"] == pytest.approx(whole["recomputation_time"] / 2, rel=0.05)
        assert half["trained_parameters"] == whole["trained_parameters"] / 2


def test_a_trained_embedding_takes_the_backward_pass_to_the_first_layer() -> None:
    """The loop trains no head and no embedding: twice the FLOPs of the head's weight gradient come on top."""
    e = adapted(1, trained_ends="both")
    assert e["gradient_layer_fraction"] == 1
    assert e["compute_backward_time"] > adapted(1)["compute_backward_time"]


def test_fewer_adapted_layers_are_never_slower_and_need_never_more_memory() -> None:
    for policy in ("none", "selective", "full"):
        found = [adapted(n, activation_recomputation=policy) for n in range(1, LAYERS + 1)]
        for name in ("step_time", "memory_per_accelerator_bytes", "model_flops_per_accelerator"):
            values = [e[name] for e in found]
            assert values == sorted(values), (policy, name)


@pytest.mark.parametrize(
    "overrides",
    [
        {"tensor_parallel_degree": 2, "number_of_accelerators": 2},
        {"pipeline_parallel_degree": 2, "number_of_accelerators": 2},
        {"activation_recomputation": "alternate_products"},
    ],
)
def test_adapters_in_some_layers_are_refused_where_an_average_layer_describes_no_stage(
    overrides: dict[str, Any],
) -> None:
    with pytest.raises(amped.AmpedError, match="number_of_adapted_layers"):
        adapted(2, **overrides)
    adapted(LAYERS, **overrides)
