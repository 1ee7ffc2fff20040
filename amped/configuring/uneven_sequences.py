"""Sequences of unequal lengths: padded to the longest of their micro-batch, or on as many accelerators as they need."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from amped.base.errors import ConfigError
from amped.configuring.lengths import (
    DYNAMIC,
    LONGEST,
    PACKING,
    Documents,
    Filled,
    cut,
    described,
    filled,
    first_fit,
    padded_to_blocks,
)

MICROBATCH, RANKS, KIND, RING = "microbatch_size", "context_parallel_degree", "context_parallel_kind", "ring"


def sequences_of(
    documents: Documents, context: int, way: str, given: Mapping[str, Any], choices: Mapping[str, str]
) -> Filled:
    """How documents fill sequences of `context` tokens in one of the ways.

    Raises:
        ConfigError: if a number that the way depends on is not given, or if the way does not go with another choice.
    """
    if way == LONGEST:
        return padded_to_longest(documents, context, _needed(given, MICROBATCH, way, "--mbs 4"))
    if way == DYNAMIC:
        kind = choices.get(KIND, RING)
        if kind != RING:
            problem = f"--{PACKING} {way} splits a document over a ring, and {KIND} is {kind}"
            raise ConfigError(problem, f"leave {KIND} out, or give --{PACKING} packed")
        return packed_by_degree(documents, context, _needed(given, RANKS, way, "--cp 8"))
    ranks = given.get(RANKS, 1.0)
    return filled(documents, context, way, int(ranks) if isinstance(ranks, float) else 1)


def _needed(given: Mapping[str, Any], name: str, way: str, example: str) -> int:
    """The one value of a parameter on which the way depends.

    Raises:
        ConfigError: if it has none.
    """
    value = given.get(name)
    if not isinstance(value, float):
        raise ConfigError(f"--{PACKING} {way} depends on {name}, which has no one value", f"give it: {example}")
    return int(value)


@lru_cache(maxsize=32)
def padded_to_longest(documents: Documents, context: int, microbatch: int) -> Filled:
    """How each document fills a sequence of its own, which is padded to the longest document of its micro-batch.

    The context is the mean of these lengths. Documents that are longer than the given context are cut. The longest of
    several drawn documents is at most one of n lengths in order with the probability (place / n) to their number.

    Source: definition; Hugging Face transformers, DataCollatorWithPadding (padding="longest").
    """
    lengths = np.sort(np.minimum(documents.lengths, context)).astype(float)
    shares = np.diff((np.arange(len(lengths) + 1) / len(lengths)) ** microbatch)
    mean = float(shares @ lengths)
    deviation = math.sqrt(max(float(shares @ lengths**2) - mean**2, 0.0)) / mean
    sequence, squares = math.ceil(mean), lengths**2
    settings = {
        "context": float(sequence),
        "document_tokens": float(squares.sum() / lengths.sum()),
        "sequence_fill": float(lengths.mean() / sequence),
        "documents_per_sequence": 1.0,
        "sequence_tokens_deviation": deviation,
        # what the work of attention varies more than tokens do, in whose time attention is counted already
        "attention_work_deviation": max(float(squares.std() / squares.mean()) - deviation, 0.0),
        "longest_microbatch_factor": float(lengths[-1] / sequence) if lengths[-1] > sequence else 1.0,
    }
    text = (f"{described(documents)}, each padded to the longest of its micro-batch of {microbatch}: {sequence:,} tokens on "
            f"average, {settings['sequence_fill'] * 100:.0f} % filled; memory is that of {lengths[-1]:,.0f} tokens")  # fmt: skip
    return Filled(settings, text + cut(np.array(documents.lengths), context))


@lru_cache(maxsize=32)
def packed_by_degree(documents: Documents, context: int, ranks: int) -> Filled:
    """How documents fill groups of as many accelerators as the longest document of the group needs.

    A group of g accelerators has g / ranks of the tokens of a sequence, and g is a power of 2, at most `ranks`. Long
    documents are placed first; each goes into the first group with room for it. Assumes that the scheduler gives all
    accelerators equally much attention work.

    Source: Megatron-Core, pipeline_parallel/hybrid_cp_schedule.py (gpus_needed, next_hdp_group); Megatron-Bridge,
    docs/training/dynamic-context-parallel.
    """
    lengths = np.sort(np.minimum(documents.lengths, context))[::-1]
    room = context / ranks
    needed = np.minimum(2 ** np.ceil(np.log2(np.maximum(lengths / room, 1))), ranks).astype(np.int64)
    split = padded_to_blocks(lengths, needed, context)
    places = first_fit(split.tolist(), np.floor(needed * room).astype(np.int64).tolist())
    degrees = needed[np.unique(places, return_index=True)[1]].astype(float)
    squares = np.bincount(places, weights=split.astype(float) ** 2)
    whole, smaller = (degrees == ranks) & (ranks > 1), (degrees > 1) & (degrees < ranks)
    slots, sequences = degrees.sum(), degrees.sum() / ranks
    settings = {
        "document_tokens": float(min(squares.sum() / lengths.sum(), context)),
        "sequence_fill": float(lengths.sum() / (sequences * context)),
        "documents_per_sequence": float(max(len(lengths) / sequences, 1.0)),
        "whole_context_fraction": float(degrees[whole].sum() / slots),
        "whole_context_work_fraction": float(squares[whole].sum() / squares.sum()),
        "split_token_fraction": float(degrees[smaller].sum() / slots),
        "split_work_fraction": float(squares[smaller].sum() / squares.sum()),
        "split_context_degree": float((degrees[smaller] ** 2).sum() / degrees[smaller].sum()) if smaller.any() else 1.0,
    }
    alone = 1 - settings["whole_context_fraction"] - settings["split_token_fraction"]
    text = (f"{described(documents)}, packed by degree, {math.floor(room):,} on an accelerator: "
            f"{alone * 100:.0f} % of the tokens are on one, {settings['whole_context_fraction'] * 100:.0f} % on all "
            f"{ranks} of a context group; {settings['sequence_fill'] * 100:.0f} % filled")  # fmt: skip
    return Filled(settings, text + cut(np.array(documents.lengths), context))
