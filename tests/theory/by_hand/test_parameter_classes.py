"""Classes of parameters, worked out by hand: how many there are of each, and what those that are frozen do not cost."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import amped
from amped.theory.nouns.kernel_work import EntryCosts, contraction
from amped.theory.nouns.parameter_classes import CLASSES
from amped.theory.nouns.records import Gemm

NAMES = tuple(c.name for c in CLASSES)
HEAD = "from amped.quantity import records\nfrom amped.theory.nouns.parameter_classes import CLASSES, ParameterClass\n"
# Only the embedding and the output head are trained.
ENDS_TRAINED = (
    HEAD
    + '''

@records()
def parameter_classes(weight_precision):
    """Source: definition."""
    return tuple(ParameterClass(c.name, weight_precision, c.routed, trained=c.name == "embedding") for c in CLASSES)
'''
)
D, LAYERS, WORDS = 256, 4, 1000
SMALL: dict[str, Any] = {
    "dimensionality": D, "layers": LAYERS, "attention_heads": 4, "head_dimension": 64, "feedforward_dimension": 4 * D, "vocabulary_size": WORDS,
    "tensor_parallel_degree": 2, "pipeline_parallel_degree": 1, "zero_stage": 1, "activation_recomputation": "none",
}  # fmt: skip


@pytest.fixture
def trained(tmp_path: Path) -> Callable[[str], amped.Estimate]:
    def estimate(formulas: str) -> amped.Estimate:
        mine = tmp_path / "classes.py"
        mine.write_text(formulas, "utf-8")
        return amped.estimate("default", **SMALL, formulas=mine)

    return estimate


def counts(e: amped.Estimate, records: str, place: int = 0) -> dict[str, float]:
    names = [c.name for c in e.results.records("parameter_classes")]
    return dict(zip(names, map(float, e.results.records(records)[place].counts), strict=True))


def weight_gradients(e: amped.Estimate, part: str) -> set[str]:
    return {o.name for o in e.results.records(f"{part}_operators") if o.phase == "weight_gradient"}


def volumes(e: amped.Estimate) -> dict[str, float]:
    sent = [c for c in e.results.records("sharding_collectives") if c.count > 0]
    return {c.name: float(c.volume) for c in sent if c.name != "gradient_copies"}


def test_a_layer_of_gpt_has_twelve_squares_of_its_width_as_matrices_and_thirteen_widths_as_vectors() -> None:
    """Vectors: biases of 3d, d, 4d and d, and two norms of 2d."""
    e = amped.estimate("default")
    d = e["dimensionality"]
    assert counts(e, "layer_parameters") == {"matrices": 12 * d * d, "vectors": 13 * d, "embedding": 0, "experts": 0}


@pytest.mark.parametrize("config", ["default", "mixtral-8x7b"])
def test_the_classes_of_all_stages_add_up_to_the_network(config: str) -> None:
    e = amped.estimate(config, pipeline_parallel_degree=1, tied_embeddings=False)
    stage = e.results.records("stage_parameters")[-1]
    whole = stage.whole(e.results.records("parameter_classes"), e.results.records("parameter_groups"))
    assert float(whole) == pytest.approx(e["number_of_parameters"], rel=1e-12)


def test_a_product_with_frozen_weights_has_no_weight_gradient_and_keeps_no_input() -> None:
    def passes(*frozen: str) -> list[tuple[str, float]]:
        cost = EntryCosts("entry", 1.0, 1.0, 2.0, 2.0, 4.0, frozen)
        return [(o.phase, o.stash) for o in contraction(Gemm("it", 8.0, 4.0, 2.0), cost, stash=32.0)]

    everything = [("forward", 32.0), ("input_gradient", 0.0), ("weight_gradient", 0.0)]
    assert passes() == passes("experts") == everything
    assert passes("matrices") == [("forward", 0.0), ("input_gradient", 0.0)]


def test_frozen_layers_have_two_thirds_of_the_flops_and_neither_gradients_nor_states(
    trained: Callable[[str], amped.Estimate],
) -> None:
    e, whole = trained(ENDS_TRAINED), amped.estimate("default", **SMALL)
    layers, scores, head = (
        whole[f"{part}_multiply_accumulates"] * whole["flops_per_multiply_accumulate"]
        for part in ("layer", "attention", "output_head")
    )
    frozen = layers - scores
    assert whole["model_flops_per_accelerator"] == pytest.approx(3 * (layers + head), rel=1e-12)
    assert e["model_flops_per_accelerator"] == pytest.approx(2 * frozen + 3 * (scores + head), rel=1e-12)
    assert weight_gradients(whole, "layer")
    assert weight_gradients(e, "layer") == set()
    assert weight_gradients(e, "output_head") == {"output_head"}
    ends = counts(e, "stage_parameters", -1)["embedding"]
    bits = {name: e[f"{name}_precision"] for name in ("weight", "gradient")}
    assert e["gradient_bytes"] == pytest.approx(ends * bits["gradient"], rel=1e-12)
    assert e["weight_bytes"] == whole["weight_bytes"]
    assert e["updated_parameters"] * e["sharding_degree"] == pytest.approx(ends, rel=1e-12)
    assert volumes(e) == pytest.approx({"gradients": ends * bits["gradient"], "weights": ends * bits["weight"]})
