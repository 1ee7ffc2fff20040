"""Which row of `software_specifications` a table's framework means, and what its networks look like.

A default of the row holds until a column or a note says otherwise, and the measurement tells which it took.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from amped.tables.table_files import SOFTWARE
from amped.tables.tables import Row, Tables

GPT_SHAPE = {
    "positions": "learned", "norm_vectors": 2, "query_key_value_bias": True, "attention_output_bias": True,
    "mlp_bias": True,
}  # fmt: skip
# Networks with gated feed-forward networks are of Llama's family. Source: arXiv 2302.13971, section 2.2.
LLAMA_SHAPE = {
    "positions": "rope", "norm_vectors": 1, "query_key_value_bias": False, "attention_output_bias": False,
    "mlp_bias": False, "dropout": 0,
}  # fmt: skip
SHAPES: Mapping[str, Mapping[str, Any]] = {"GPT": GPT_SHAPE, "Llama": LLAMA_SHAPE}
# What a framework is called (lower case), the last year of an era, and its row; the first that matches holds.
STACKS: tuple[tuple[str, int, str], ...] = (
    (r"composer|llm-?foundry|mosaic", 9999, "Composer FSDP"),
    (r"torchtitan", 2024, "torchtitan 2024"),
    (r"torchtitan", 9999, "torchtitan"),
    (r"automodel", 9999, "NeMo AutoModel"),
    (r"deepspeed", 9999, "Megatron-DeepSpeed"),
    (r"megatron-?bridge|nemo 2[5-9]", 9999, "Megatron-Bridge"),
    (r"nemo", 9999, "NeMo"),
    (r"megatron-lm$", 2021, "Megatron-LM 2021"),
    (r"megatron-lm$", 2022, "Megatron-LM 2022"),
    (r"megatron-core .*layer", 9999, "Megatron-Core layers"),
    (r"megatron", 9999, "Megatron-Core"),
    (r"torch|hugging ?face|transformers|lightning", 9999, "PyTorch"),
)
UNKNOWN = "default"
# A year in a source: alone, in a preprint's number, behind a month's name, or before its number.
YEAR = re.compile(r"\b20(\d\d)\b|arxiv[ :]?(\d\d)\d\d\.|(?<=[a-z])20(\d\d)\b|(?<=_)20(\d\d)[01]\d(?=_)")
COMPILED = "{}, compiled"


def stack_of(framework: str, source: str, tables: Tables, compiled: bool = False) -> Row:
    """The row of a framework; by the year of its source where there were several eras, and compiled where it can be."""
    found = YEAR.findall(source.casefold())
    year = min((2000 + int(next(filter(None, each))) for each in found), default=9999)
    name = framework.casefold().strip()
    row = next((row for pattern, until, row in STACKS if re.search(pattern, name) and year <= until), UNKNOWN)
    if compiled and tables.has(SOFTWARE, COMPILED.format(row)):
        row = COMPILED.format(row)
    elif row == UNKNOWN and tables.has(SOFTWARE, framework):
        row = framework
    return tables.row(SOFTWARE, row)


def shape_of(stack: Row, gated: bool, context: float) -> dict[str, Any]:
    """What the networks of a stack look like unless a row of measurements says otherwise."""
    family = stack.columns.get("network_family")
    taken = dict(SHAPES.get(str(family), {}))
    taken |= LLAMA_SHAPE if gated and stack.name != UNKNOWN else {}
    return taken | ({"position_table": int(context)} if taken.get("positions") == "learned" else {})
