"""Published times of one layer, and published largest micro-batches, each beside an estimate of the same layer.

Sources: Transformer Engine's quickstart (a layer from plain torch to fp8), Substation (README of
spcl/substation) and Tempo (README of UofT-EcoSystem/Tempo). No coefficient was fitted to the ladder or to Tempo.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from amped.layers.ladder import ALONE, LAYER, estimated_alone, layer_time
from amped.tables.table_files import LookupTables

# The published layers agree with the full clock: that of training is up to a fifth slower, and they are not (+7 to +21 % on H100).
FULL_CLOCK = {"training_clock_fraction": 1}
QUICKSTART = {
    **FULL_CLOCK,
    "dimensionality": 4096,
    "attention_heads": 32,
    "feedforward_dimension": 16384,
    "context": 2048,
    "dropout": 0.1,
}
# The board, the sequences, the format, whether later tokens are masked, the rung, and the milliseconds.
LADDER = (
    ("H100 PCIe", 4, "fp16", False, "eager", 43.07), ("H100 PCIe", 4, "fp16", False, "fused_softmax", 39.99),
    ("H100 PCIe", 4, "fp16", False, "fp8_explicit", 28.61), ("H100 SXM", 8, "bf16", False, "eager", 48.28),
    ("H100 SXM", 8, "bf16", True, "sdpa", 35.71), ("H100 SXM", 8, "bf16", True, "fp8_delayed", 21.67),
)  # fmt: skip
ENCODER = {**FULL_CLOCK, "dimensionality": 1024, "attention_heads": 16, "feedforward_dimension": 4096, "dropout": 0.1, "causal": False,
           "norm_position": "post", "flash_attention": False, "matrix_precision": "fp16"}  # fmt: skip
# By sequences and their tokens, the milliseconds on a V100 SXM2 in half precision. Source: Ivanov et al. 2021, section 6.
SUBSTATION: Mapping[tuple[int, int], Mapping[str, float | None]] = {
    (8, 512): {"PyTorch": 9.14, "TensorFlow + XLA": 8.4, "DeepSpeed": 7.6, "Substation": 6.71},
    (96, 128): {"PyTorch": 18.43, "TensorFlow + XLA": None, "DeepSpeed": 16.19, "Substation": 15.42},
}
# The rows of software for two of them; Substation's own kernels are fused and compiled for this layer.
SOFTWARE = {"PyTorch": ("PyTorch", "PyTorch"), "Substation": ("all fused", "Substation (all fused)")}
POLICIES = ("in_place_activation", "in_place_norm", "dropout_recomputation")
# BERT large on SQuAD: the largest batches without and with Tempo's modules, and the gain of throughput between them.
TEMPO = (("RTX 2080 Ti", "fp32", 4, 6, 0.32), ("RTX 2080 Ti", "fp16", 8, 11, 0.24), ("V100 SXM2 16GB", "fp32", 8, 13, 0.12),
         ("V100 SXM2 16GB", "fp16", 16, 22, -0.049))  # fmt: skip
# Tempo's run_squad.py: attention is not fused, masks are bytes, the head gives two numbers a token. fp16 is that of apex
# O2: weights and gradients of 16 bit, and a copy in full precision; fp32 has no copy.
SQUAD = {**ALONE, "model": "BERT large", "software": "PyTorch", "context": 384, "flash_attention": False, "causal": False, "norm_position": "post",
         "output_head_activation_bytes": 0, "logits_gradient_bytes": 0, "dropout": 0.1, "packed_mask_precision": "1 B"}  # fmt: skip
# Sequences of a batch that does not limit a micro-batch.
ROOM = 256
BITS_AND_COPIES = {"fp32": (32, 2), "fp16": (16, 3)}


@dataclass(frozen=True)
class Figure:
    """A published number and the estimate of it.

    Attributes:
        source: who published it.
        what: the layer or the run, in words.
        unit: ms, sequences, or "" for a share.
    """

    source: str
    what: str
    unit: str
    published: float
    predicted: float

    @property
    def error(self) -> float:
        """The relative error, predicted / published - 1; for a share, the difference."""
        return self.predicted - self.published if self.unit == "" else self.predicted / self.published - 1


def encoder_times(batch: int, seq: int, heads: int, hidden: int, ffn: int) -> Mapping[str, float | None]:
    """The published milliseconds of an encoder layer of these sizes, by software; empty unless Substation published the layer."""
    names = ("attention_heads", "dimensionality", "feedforward_dimension")
    is_published = (heads, hidden, ffn) == tuple(ENCODER[name] for name in names)
    return SUBSTATION.get((batch, seq), {}) if is_published else {}


def figures(lookup_tables: LookupTables = None) -> Iterator[Figure]:
    """All published figures with their estimates."""
    for board, batch, precision, causal, rung, ms in LADDER:
        sizes = {**QUICKSTART, "microbatch_size": batch, "matrix_precision": precision, "causal": causal}
        seconds = layer_time(board, rung, lookup_tables, **sizes)
        what = f"{board}, {batch} x 2048 tokens, {precision}{', causal' if causal else ''}: {rung}"
        yield Figure("Transformer Engine", what, "ms", published=ms, predicted=seconds * 1e3)
    for (batch, tokens), (column, (software, label)) in product(SUBSTATION, SOFTWARE.items()):
        settings = {**LAYER, **ENCODER, "microbatch_size": batch, "context": tokens, "software": software}
        seconds = estimated_alone("V100 SXM2 16GB", lookup_tables, settings)["step_time"]
        published = SUBSTATION[batch, tokens][column]
        if published is not None:
            what = f"V100 SXM2 16GB, {batch} x {tokens} tokens: {label}"
            yield Figure("Substation", what, "ms", published=published, predicted=seconds * 1e3)
    for row in TEMPO:
        yield from _tempo_figures(*row, lookup_tables)


def _tempo_figures(
    board: str, precision: str, plain_batch: float, tempo_batch: float, gain: float, lookup_tables: LookupTables
) -> Iterator[Figure]:
    """The largest batches without and with Tempo's modules, and the gain of throughput from the first to the second.

    Args:
        board: the row of the accelerator.
        precision: a key of BITS_AND_COPIES.
        plain_batch: the published largest batch without Tempo's modules.
        tempo_batch: that with Tempo's modules.
        gain: the published gain of throughput, as a fraction.
        lookup_tables: as in `estimate`.
    """
    bits, states = BITS_AND_COPIES[precision]
    sizes = dict.fromkeys(("weight_precision", "activation_precision", "gradient_precision"), bits)
    run = {**SQUAD, **sizes, "optimizer_states_per_parameter": states, "matrix_precision": precision}
    rates = []
    for policies, batch, label in (((), plain_batch, "plain"), (POLICIES, tempo_batch, "with Tempo")):
        run |= dict.fromkeys(policies, True)
        e = estimated_alone(board, lookup_tables, {**run, "microbatch_size": batch})
        rates.append(batch / e["step_time"])
        unlimited_run = {**run, "microbatch_size": 1, "batch_size": ROOM, "samples": ROOM}
        largest = estimated_alone(board, lookup_tables, unlimited_run)["largest_microbatch_size"]
        yield Figure("Tempo", f"{board}, {precision}, {label}", "sequences", published=batch, predicted=largest)
    what = f"{board}, {precision}, gain of throughput"
    yield Figure("Tempo", what, "", published=gain, predicted=rates[1] / rates[0] - 1)
