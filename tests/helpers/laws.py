"""Many shapes of training, which between them use every formula: the world that the laws are held against."""

from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from typing import Any

import pytest

from amped.configuring.scenario import read_scenario
from amped.engine.evaluate import run
from amped.engine.resolve import plan
from amped.estimation.estimation import OPTIONAL_RESULTS, Estimation, estimated
from amped.theory.language.catalogue import Formula, catalogue
from amped.theory.links import electrical, optical
from amped.theory.nouns.records import Record
from tests.helpers.contract import KINDS
from tests.helpers.formulas import sectioned
from tests.helpers.places import DATA

Values = dict[str, Any]

# A dense network of round numbers without a table row, on a machine of 64 accelerators without one.
TOY: Values = {
    "layers": 8, "dimensionality": 1024, "attention_heads": 16, "vocabulary_size": 32768, "context": 512,
    "batch_size": 128, "number_of_accelerators_per_node": 8, "fp16_peak_flop_rate": "100 TFLOP/s",
    "memory_capacity": "40 GB", "memory_bandwidth": "1 TB/s",
}  # fmt: skip
EXPERTS: Values = {"number_of_experts": 8, "experts_per_token": 2, "number_of_MoE_layers": 4,
           "expert_tensor_parallel_degree": 1}  # fmt: skip
RECOMPUTED: Values = {"activation_recomputation": "block", "number_of_recomputed_layers": 4}
CLOCK: Values = {
    "frequency": "1.5 GHz",
    "number_of_cores": 100,
    "functional_units_per_core": 4,
    "mac_per_cycle_per_unit": 256,
}
NONLINEAR: Values = {"nonlinear_functional_units_per_core": 4, "nonlinear_operations_per_cycle_per_unit": 4}
ENCODER: Values = {"model": "BERT large", "tensor_parallel_degree": 2, "pipeline_parallel_degree": 2, "norm_position": "post",
           "causal": False, "tokens_to_train": "1 G"}  # fmt: skip
# CLIP ViT-L/14 at 336 pixels with the projector of LLaVA-1.5.
TOWER: Values = {
    "tower_layers": 24, "tower_dimensionality": 1024, "tower_attention_heads": 16, "tower_patch_values": 588,
    "tower_position_table": 578, "tower_outer_norms": 2, "tower_tokens": 577, "tower_tokens_handed_on": 576,
}  # fmt: skip
GRID: Values = {"tensor_parallel_rows": 4, "tensor_parallel_columns": 2}
SUMMA: Values = GRID | {"tensor_parallel_strategy": "2d_summa"}
FAILURES: Values = {
    "accelerator_mean_time_between_failures": "1 Ms",
    "checkpoint_time": "60 s",
    "restart_time": "600 s",
}
ELECTRICITY: Values = {
    "electricity_price": "0.08 USD/kWh",
    "carbon_intensity": "400 g/kWh",
    "power_usage_effectiveness": 1.2,
    "water_usage_effectiveness": "0.12 L/kWh",
}
DEEPSEEK: Values = {"model": "DeepSeek V3", "tensor_parallel_degree": 1, "pipeline_parallel_degree": 1, "batch_size": 1024,
            "expert_parallel_degree": 64, "zero_stage": 3}  # fmt: skip
COMPRESSED: Values = {
    "attention_kind": "compressed",
    "output_latent_dimension": 128, "query_latent_dimension": 256, "rotary_head_dimension": 64, "attention_window": 128, "indexer_heads": 8,
    "indexed_keys": 64, "number_of_sparsely_compressed_layers": 48, "number_of_heavily_compressed_layers": 40, "positions": "rope",
}  # fmt: skip
# Networks whose layers are lists of kinds, on pipelines, so that a layout counts each kind.
HYBRID: Values = {"tensor_parallel_degree": 2, "pipeline_parallel_degree": 4, "data_parallel_degree": 16, "expert_parallel_degree": 8,
                  "number_of_accelerators": 128, "batch_size": 512, "context": 4096}  # fmt: skip
OPTICS: Values = {"network_kind": "optical_circuit_switched"}


def each_kind(place: str) -> Values:
    return {f"{place}_node_{kind}_parallel_degree": 2 for kind in KINDS}


WHOLES: Values = {f"{kind}_parallel_degree": 4 for kind in KINDS}
EAGER_EXPERTS = {
    "expert_assignment": "in_turn", "deduplicated_dispatch": True, "expert_bias": True, "expert_bias_addition": "separate",
    "attention_kernel": "flex", "flash_attention": True, "attention_sinks": True, "query_key_norm": True,
    "expert_launches": "each",
}  # fmt: skip
MEASURED: Values = {"measured_kernel_table": str(DATA / "measured_kernels.json"), "accelerator": "B200 SXM",
                    "flash_attention": True, "dropout": 0}  # fmt: skip
SHAPES: dict[str, tuple[str | Values, Values]] = {
    "default, full recomputation": ("default", {}),
    "no recomputation": ("default", {"activation_recomputation": "none"}),
    "selective recomputation": ("default", {"activation_recomputation": "selective", "sequence_parallel": True}),
    "block recomputation": ("default", RECOMPUTED),
    "alternate products recomputed": ("default", {"activation_recomputation": "alternate_products"}),
    "kept products": ("default", {"activation_recomputation": "kept_products"}),
    "closed form": ("default", {"performance_model": "amped"}),
    "closed form, mixture of experts": ("mixtral-8x7b", {"performance_model": "amped"}),
    "closed form, nothing offloaded": ("default", {"performance_model": "amped", "optimizer_offload": 0}),
    "closed form, toy": (TOY | {"performance_model": "amped"}, {}),
    "encoder": ("default", ENCODER),
    "encoder, its scores in one kernel": ("default", ENCODER | {"flash_attention": True, "dropout": 0}),
    **{f"{name} on links": ("default", {"collective_algorithm": name, "tensor_parallel_degree": 16})
       for name in electrical.ALGORITHMS},
    "optical circuits": ("default", OPTICS),
    **{f"{name} on circuits": ("default", OPTICS | {"collective_algorithm": name}) for name in optical.ALGORITHMS},
    "optical circuits, experts": ("mixtral-8x7b", OPTICS | {"circuits_inside_node": True}),
    "optical circuits, a grid": ("default", OPTICS | SUMMA),
    "optical circuits, toy without a fast network": (TOY, OPTICS),
    "failures": ("default", FAILURES),
    "electricity": ("default", ELECTRICITY),
    "failures, checkpoints every hour": ("default", FAILURES | {"checkpoint_interval_time": "1 hour"}),
    "checkpoints by Young": ("default", {"checkpoint_interval_law": "young"}),
    "asynchronous checkpoints": ("default", {"checkpoint_mode": "asynchronous"}),
    "checkpoints in memory": ("default", {"checkpoint_mode": "in_memory"}),
    "a bought machine": ("default", ELECTRICITY | {"purchase_cost": "40000 USD"}),
    "offload": ("default", {"optimizer_offload": True, "activation_offload": 0.5, "weight_offload": 0.25}),
    **{f"offload, {name}": ("default", {"weight_offload": 0.5, "pipeline_schedule": name})
       for name in ("zero_bubble_h1", "zero_bubble_v")},
    "offload, sharded": ("default", {"optimizer_offload": 0.5, "zero_stage": 2, "host_memory_bandwidth": "100 GB/s"}),
    "offload, gradients stay": ("default", {"optimizer_offload": 1, "zero_stage": 2, "gradient_offload": 0}),
    "LoRA": ("default", {"adapters": "lora"}),
    "LoRA on weights of 4 bits": ("default", {"adapters": "lora", "frozen_weight_format": "nf4_double"}),
    "DoRA on weights of 4 bits": ("default", {"adapters": "dora", "frozen_weight_format": "nf4", "trained_ends": "both"}),
    "LoRA in half of the layers": ("default", {"adapters": "lora", "number_of_adapted_layers": 48, "batch_size": 1024, "microbatch_size": 1, "tensor_parallel_degree": 1,
                                                "pipeline_parallel_degree": 1, "activation_recomputation": "full"}),
    "DoRA in half of the layers": ("default", {"adapters": "dora", "number_of_adapted_layers": 48, "batch_size": 1024, "microbatch_size": 1, "tensor_parallel_degree": 1,
                                                "pipeline_parallel_degree": 1, "activation_recomputation": "selective"}),
    **{f"LoRA, {policy}": ("default", {"adapters": "lora", "activation_recomputation": policy})
       for policy in ("alternate_products", "kept_products")},
    **{f"adapters of experts, {sharing}": ("mixtral-8x7b", {"adapters": "lora", "expert_adapters": sharing, "zero_stage": 1})
       for sharing in ("shared", "each")},
    "an optimizer in the backward pass": ("default", {
        "optimizer_placement": "in_backward", "zero_stage": 3, "pipeline_parallel_degree": 1, "tensor_parallel_degree": 8,
        "number_of_microbatches_per_minibatch": 1, "microbatch_size": 1, "batch_size": 128,
        "pipelined_weight_sharding": True}),
    **{name: ("default", {"optimizer": name, "zero_stage": 1}) for name in ("shampoo", "soap")},
    "current scaling": ("llama-3-70b", {"matrix_precision": "fp8", "fp8_scaling": "current"}),
    "measured kernels in fp8, scaled by their own maximum": ("mixtral-8x7b", {**MEASURED, "matrix_precision": "fp8", "fp8_scaling": "current"}),
    "layers in 16 bits": ("llama-3-70b", {"matrix_precision": "fp8", "end_layer_format": "activations"}),
    "attention in fp8": ("llama-3-70b", {"attention_format": "fp8"}),
    "a batch of micro-batches": ({name: value for name, value in TOY.items() if name != "batch_size"}
                                | {"microbatch_size": 2, "number_of_microbatches_per_minibatch": 4}, {}),
    **{f"a tower, {name}": ("llama-3-70b", TOWER | {"tower_training": name, "tower_recomputation": 0.5})
       for name in ("trained", "projector", "frozen")},
    "a tower of few given sizes, LoRA": ("default", {"tower_layers": 12, "tower_dimensionality": 768, "tower_attention_heads": 12,
                                                     "tower_tokens": 196, "adapters": "lora"}),
    "closed form, a tower": ("default", TOWER | {"performance_model": "amped"}),
    "measured kernels, a tower": ("default", {**MEASURED, **TOWER, "matrix_precision": "bf16"}),
    "packed documents": ("llama-3-70b", {"document_tokens": 1500, "documents_per_sequence": 7, "sequence_fill": 0.9,
                                         "attention_work_deviation": 0.3, "rotary_by_document": True}),
    "padded to the longest": ("llama-3-70b", {"document_tokens": 1500, "sequence_fill": 0.1, "attention_work_deviation": 0.3,
                                              "sequence_tokens_deviation": 0.2, "longest_microbatch_factor": 1.5}),
    "split as documents need": ("llama-3-70b", {"context_parallel_degree": 4, "split_token_fraction": 0.4, "whole_context_fraction": 0.3,
                                                "split_context_degree": 2.5, "document_tokens": 1500,
                                                "documents_per_sequence": 6}),
    "rings of several sizes, none smaller": ("llama-3-70b", {"context_parallel_degree": 4, "split_context_degree": 2}),
    "context parallelism of two levels": ("llama-3-70b", {"context_parallel_kind": "hierarchical", "context_parallel_degree": 4,
                                                          "tensor_parallel_degree": 4}),
    "no optimizer": ("default", {"optimizer": "none"}),
    **{f"Muon, {mode}": (name, {"optimizer": "muon", "zero_stage": 1, "muon_tensor_parallel_mode": mode, "muon_replicas": who})
       for mode, name, who in (("blockwise", "default", "owner"), ("duplicated", "mixtral-8x7b", "all"),
                               ("distributed", "default", "all"), ("layer_sharded", "mixtral-8x7b", "owner"))},
    **{name: ("default", {"optimizer": name, "weight_averages": 1}) for name in ("adam_8bit", "adafactor", "lion")},
    **{f"keys chosen by an indexer, {loss}": ("default", DEEPSEEK | {"indexer_heads": 8, "indexer_loss": loss} | more)
       for loss, more in (("none", {}), ("chosen_keys", {"indexed_keys": 256}), ("all_keys", {"context": 32768}))},
    "hyper-connections": ("default", {"residual_streams": 4, "dropout": 0, "sequence_parallel": True}),
    "one stream, norms behind the blocks": ("default", {"residual_streams": 1, "dropout": 0, "norm_position": "post"}),
    "hyper-connections, closed form": ("default", {"residual_streams": 2, "dropout": 0, "performance_model": "amped"}),
    "compressed keys": ("default", COMPRESSED | {"attention_flop_convention": "full", "sequence_parallel": True}),
    "compressed keys of documents": ("default", COMPRESSED | {"document_tokens": 1024, "documents_per_sequence": 2, "context_parallel_degree": 2, "data_parallel_degree": 8}),
    "keys of latent vectors of outputs, none compressed": (TOY | {"output_latent_dimension": 64, "query_latent_dimension": 128,
                                                                  "rotary_head_dimension": 16, "indexer_heads": 4}, {}),
    "chosen blocks of keys": ("default", {"attention_kind": "grouped_query", "key_value_heads": 8, "indexer_heads": 8, "indexer_head_weights": False,
                                          "indexed_block_tokens": 64, "indexed_keys": 512, "number_of_sparse_attention_layers": 48}),
    "hybrid sharding": ("default", {"zero_stage": 3, "sharding_degree": 4, "pipelined_weight_sharding": True}),
    "uneven stages": ("default", {"number_of_first_stage_layers": 11, "number_of_last_stage_layers": 7,
                                  "pipeline_parallel_degree": 8}),
    "fewer layers in the first stage": ("default", {"number_of_first_stage_layers": 5}),
    "fewer layers in the last stage": ("default", {"number_of_last_stage_layers": 5}),
    "memory policies": ("default", {"in_place_activation": True, "in_place_norm": True, "dropout_recomputation": True}),
    "gpipe": ("default", {"pipeline_schedule": "gpipe"}),
    "zero bubble": ("default", {"pipeline_schedule": "zero_bubble_h1"}),
    "zero bubble in a V": ("default", {"pipeline_schedule": "zero_bubble_v"}),
    "DualPipeV": ("default", {"pipeline_schedule": "dualpipe_v"}),
    "DualPipeV of a mixture": ("mixtral-8x7b", {"pipeline_schedule": "dualpipe_v"}),
    "closed form, DualPipeV": ("default", {"pipeline_schedule": "dualpipe_v", "performance_model": "amped"}),
    "a layout, DualPipeV": ("default", {"pipeline_schedule": "dualpipe_v", "pipeline_layout": "12*8"}),
    "closed form, zero bubble": ("default", {"pipeline_schedule": "zero_bubble_h1", "performance_model": "amped"}),
    "closed form, zero bubble in a V": ("default", {"pipeline_schedule": "zero_bubble_v", "performance_model": "amped"}),
    "a layout": ("default", {"pipeline_layout": "11,12*3,13*2,12,11"}),
    "a layout, gpipe": ("default", {"pipeline_layout": "11,12*3,13*2,12,11", "pipeline_schedule": "gpipe"}),
    "a layout, zero bubble": ("default", {"pipeline_layout": "11,12*3,13*2,12,11", "pipeline_schedule": "zero_bubble_h1"}),
    "a layout, zero bubble in a V": ("default", {"pipeline_schedule": "zero_bubble_v", "pipeline_layout": "12*8"}),
    "a layout, interleaved": ("default", {"pipeline_layout": "Et*5|(t*6|)*14t*7L"}),
    "interleaved": ("default", {"virtual_pipeline_stages": 3}),
    "pipeline placed before data": ("default", {"placement_order": "tensor_context_pipeline_data"}),
    "sgd": ("default", {"optimizer": "sgd"}),
    "norms of each update": ("default", {"optimizer": "lamb", "predicted_tokens_per_sequence": 307}),
    "graphs of layers on servers of a given bandwidth": ("default", {"cuda_graph_scope": "layer",
                                                                     "inter_node_bandwidth": "100 GB/s"}),
    "a graph of the step": ("default", {"cuda_graph_scope": "step"}),
    "a graph up to the router": ("mixtral-8x7b", {"cuda_graph_scope": "router"}),
    "a graph of the router alone": ("mixtral-8x7b", {"cuda_graph_scope": "router_alone"}),
    "causal convention": ("default", {"attention_flop_convention": "causal"}),
    "fp32": ("default", {"matrix_precision": "fp32"}),
    "tf32": ("default", {"matrix_precision": "tf32"}),
    "fp16": ("default", {"matrix_precision": "fp16"}),
    "fp8": ("llama-3-70b", {"matrix_precision": "fp8"}),
    "fp8, gradients added up apart": ("llama-3-70b", {
        "matrix_precision": "fp8", "weight_gradient_accumulation": "separate", "flash_attention": True, "attention_kernel": "flash_2"}),
    "attention that is not fused, nor its softmax": ("default", {"flash_attention": False, "softmax_kernels": "separate"}),
    "an old accelerator without 16 bit": ("default", {"accelerator": "P4"}),
    "a half-precision accelerator": ("default", {"accelerator": "V100"}),
    "context parallel": ("default", {"context_parallel_degree": 4}),
    "context parallel, gathered": ("default", {"context_parallel_degree": 4, "context_parallel_kind": "all_gather"}),
    "context parallel, heads exchanged": ("default", {"context_parallel_degree": 4, "context_parallel_kind": "all_to_all"}),
    "grid of SUMMA": ("default", SUMMA),
    "grid of SUMMA, scores too": ("default", SUMMA | {"grid_attention": "summa", "flash_attention": False}),
    "grid of weights and tokens": ("default", GRID | {"tensor_parallel_strategy": "2d_context"}),
    "toy, a grid": (TOY, GRID | {"tensor_parallel_strategy": "2d_context"}),
    "grid given by its rows": ("default", {"tensor_parallel_rows": 2, "tensor_parallel_strategy": "2d_context"}),
    "layers with a window": ("default", {"attention_window": 256, "number_of_windowed_layers": 48, "flash_attention": True}),
    "eager software": ("default", {"software": "torchtitan"}),
    "a compiler that makes a program fit": ("default", {"memory_fitting": "rematerialization"}),
    "software of the first fused attention": ("default", {"software": "Megatron-LM 2021", "flash_attention": True,
                                                         "deterministic": True}),
    "replicas that own whole tensors": ("default", {"software": "InternEvo", "zero_stage": 1}),
    "mixture of experts": ("mixtral-8x7b", {}),
    **{f"mixture of experts, {name}": ("mixtral-8x7b", {"dispatcher": name}) for name in ("allgather", "deepep", "hybridep")},
    "mixture of experts, as a benchmark of PyTorch's runs it": ("mixtral-8x7b", EAGER_EXPERTS),
    "biases of experts, those of outputs apart": (
        "mixtral-8x7b", {"expert_bias": True, "expert_bias_addition": "separate_output", "clamped_activation": True,
                         "activation_clamping": "separate", "scaled_rotation": True, "scaled_rotation_kernels": "separate"}),
    "mixture of experts in fp8, weighted apart": ("mixtral-8x7b", {
        "matrix_precision": "fp8", "fp8_scaling": "blocks", "expert_weighting": "separate", "accelerator": "B200 SXM"}),
    "products in fp4": ("llama-3-70b", {"matrix_precision": "fp4", "accelerator": "GB200"}),
    "further tokens predicted": ("mixtral-8x7b", {"multi_token_prediction_layers": 1}),
    "a V without further predictions": ("default", {"pipeline_schedule": "zero_bubble_v", "layers": 96}),
    "latent attention": ("mixtral-8x7b", DEEPSEEK),
    "amped style": ("amped-style", {}),
    "nodes given": ("minimal", {}),
    "a Megatron row": ("megatron-145.6B", {}),
    "samples given": ("default", {"samples": 1e6}),
    "steps given": ("default", {"number_of_steps": 1000}),
    "nothing but the toy": (TOY, {}),
    "toy with samples": (TOY, {"samples": 1e6}),
    "toy, data degree given": (TOY, {"data_parallel_degree": 8}),
    "toy, both parts": (TOY | EXPERTS, each_kind("intra") | each_kind("inter") | {"scale_up_domain_size": 16}),
    "branches beside the blocks": ("default", {"branch_weights": 1e9, "shared_key_value_layers": 8}),
    "wider heads without a window": ("default", {
        "attention_window": 512, "number_of_windowed_layers": 48, "full_attention_head_dimension": 512}),
    "Mamba beside attention": ("default", {
        "linear_attention_kind": "mamba1", "number_of_linear_attention_layers": 96, "linear_value_heads": 1024,
        "linear_value_head_dimension": 1, "linear_key_heads": 1, "linear_key_head_dimension": 16}),
    "gated recurrences": ("default", {
        "linear_attention_kind": "gated_recurrence", "number_of_linear_attention_layers": 48, "number_of_attention_layers": 48,
        "linear_value_heads": 96, "linear_value_head_dimension": 128}),
    "short convolutions over ranks of tokens": ("default", {
        "linear_attention_kind": "short_convolution", "number_of_linear_attention_layers": 48, "number_of_attention_layers": 48,
        "linear_value_heads": 1024, "linear_value_head_dimension": 1, "context_parallel_degree": 2}),
    "gated delta net and attention": ("default", HYBRID | {"model": "Qwen3-Next 80B-A3B"}),
    "gated delta net in every second layer": ("default", {
        "linear_attention_kind": "gated_delta_net", "number_of_linear_attention_layers": 48, "number_of_attention_layers": 48,
        "linear_key_heads": 48, "linear_value_heads": 96, "linear_key_head_dimension": 128, "linear_value_head_dimension": 128}),
    "Kimi delta attention, dense and mixtures": ("default", HYBRID | {"model": "Kimi Linear 48B-A3B"}),
    "Mamba-2, attention and mixtures in layers of one block": ("default", HYBRID | {"model": "Nemotron 3 Nano 30B-A3B"}),
    "lightning attention over ranks of tokens": ("default", HYBRID | {
        "model": "MiniMax-Text-01", "context_parallel_degree": 2, "data_parallel_degree": 8}),
    "toy, part inside alone": (TOY | EXPERTS, each_kind("intra") | {"scale_up_domain_size": 16}),
    "toy, part across alone": (TOY | EXPERTS, each_kind("inter")),
    "toy, whole and part inside": (TOY | EXPERTS, WHOLES | each_kind("intra") | {"scale_up_domain_size": 16}),
    "toy, whole and part across": (TOY | EXPERTS, WHOLES | each_kind("inter") | {"scale_up_domain_size": 16}),
    "toy, number of micro-batches": (TOY, {"number_of_microbatches_per_minibatch": 4}),
    "toy, rate from the clock": ({k: v for k, v in TOY.items() if "peak" not in k} | CLOCK, {}),
    "toy, nonlinear units": ({k: v for k, v in TOY.items() if "peak" not in k} | CLOCK | NONLINEAR, {}),
    "toy, fp32 alone": ({k: v for k, v in TOY.items() if "peak" not in k} | {"fp32_peak_flop_rate": 2e13}, {}),
    "toy, shared keys": (TOY, {"key_value_heads": 4}),
    "toy, latent attention": (TOY, {
        "key_value_latent_dimension": 128, "rotary_head_dimension": 32, "head_dimension": 96,
        "value_head_dimension": 64, "optimizer_state_precision": 16,
    }),
    "toy, latent vectors attended to": (TOY, {
        "key_value_latent_dimension": 128, "rotary_head_dimension": 32, "head_dimension": 96,
        "value_head_dimension": 64, "absorbed_latent_attention": True, "positions": "rope", "flash_attention": True,
    }),
    "toy, offload": (TOY, {"optimizer_offload": True, "host_link_bandwidth": "20 GB/s"}),
    "toy, flash attention": (TOY, {"flash_attention": True, "dropout": 0, "gated_mlp": True}),
    **{f"measured kernels in {p}": ("default", {**MEASURED, "matrix_precision": p}) for p in ("bf16", "fp16", "fp32", "tf32", "fp4", "fp8")},
    "measured kernels in fp8, scaled in blocks": ("mixtral-8x7b", {**MEASURED, "matrix_precision": "fp8", "fp8_scaling": "blocks"}),
}  # fmt: skip
# No result, but a user may have it calculated, or `explain` it.
ASKED_BY_NAME = ("samples", "attention_core_forward_time_per_layer", "repeated_time_per_layer")

every_shape = pytest.mark.parametrize("shape", SHAPES)


@cache
def estimate_of(shape: str) -> Estimation:
    config, overrides = SHAPES[shape]
    if isinstance(config, dict):  # everything in one config, so that nothing replaces anything
        config, overrides = sectioned(config | overrides), {}
    estimate = estimated(read_scenario(config, overrides))
    sources = estimate.scenario.sources
    targets = [name for name in estimate.plan.targets if name not in OPTIONAL_RESULTS]
    wider = plan(catalogue(), (*targets, *ASKED_BY_NAME), sources, OPTIONAL_RESULTS)
    return Estimation(estimate.scenario, run(wider, sources.given))


def every_formula() -> list[Formula]:
    return [formula for quantity in catalogue().values() for formula in quantity.formulas]


def title(formula: Formula) -> str:
    return formula.function.__name__


def used_formulas() -> set[Formula]:
    used: set[Formula | None] = set()
    for shape in SHAPES:
        estimate = estimate_of(shape)
        used |= {*estimate.plan.by_name.values()}
        known, given = estimate.scenario.catalogue, frozenset(estimate.scenario.sources.given)
        for name in set(known.selectors) - set(estimate.scenario.sources.choices):
            used |= {known[name].chosen(given, {})}
        # A leaf without a default is used where a plan reads the value given for it.
        used |= {f for name in estimate.plan.leaves for f in known[name].formulas if lacks_default(f)}
        used |= {f for f in named_by_choices(estimate) if f.mark.kind == "parameter"}
    return {formula for formula in used if formula is not None}


def lacks_default(formula: Formula) -> bool:
    return formula.mark.kind == "parameter" and formula.function() is None


def named_by_choices(estimate: Estimation) -> Iterator[Formula]:
    """Leaves that a plan does not read but whose being given chose one of its formulas."""
    given = estimate.scenario.sources.given
    formulas = [*estimate.plan.by_name.values()]
    formulas += [f for n in estimate.scenario.catalogue.selectors for f in estimate.scenario.catalogue[n].formulas]
    for formula in formulas:
        for name in (*formula.mark.when_given, *formula.mark.when_any_given):
            if name in given:
                yield from estimate.scenario.catalogue[name].formulas


NAMES: dict[type[Record], tuple[str, ...]] = {}


def names_of(kind: type[Record]) -> tuple[str, ...]:
    """The fields of a kind of record, looked up once."""
    if kind not in NAMES:
        NAMES[kind] = tuple(f.name for f in fields(kind))
    return NAMES[kind]


def leaves(value: object) -> Iterator[object]:
    """A value; of records, the fields of each and of the records in it."""
    if isinstance(value, Record):
        value = tuple(getattr(value, name) for name in names_of(type(value)))
    if isinstance(value, tuple):
        for each in value:
            yield from leaves(each)
    else:
        yield value
