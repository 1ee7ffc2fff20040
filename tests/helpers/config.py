"""Small configs for the tests of configs, and what is read from them or refused."""

import copy
import json
from typing import Any

import pytest

from amped.base.errors import ConfigError, Problem
from amped.configuring.scenario import ConfigSource, read_scenario
from amped.configuring.sources import Sources
from amped.theory.language.catalogue import catalogue
from amped.theory.language.quantity import MAPPING, NETWORK, SYSTEM
from tests.helpers.places import DATA

Config = dict[str, Any]
KNOWN = catalogue()
# A network in the form of Hugging Face: what a config.json says of Llama 3 8B.
LLAMA_CONFIG = {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
                "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "tie_word_embeddings": False,
                "max_position_embeddings": 8192, "hidden_act": "silu", "rms_norm_eps": 1e-5}  # fmt: skip
OLD_STYLE = json.loads((DATA / "amped_old_style.json").read_text("utf-8"))


def config(category: str = NETWORK, /, base: Config | None = None, **parameters: object) -> Config:
    """A small config of 64 H100 with these parameters in a category; a value that is no object is its "value"."""
    built: Config = copy.deepcopy(base) if base else {
        NETWORK: {"lookup_config": {"lookup_table_row": "Llama 3 8B"}, "parameters": {"batch_size": {"value": 256}}},
        MAPPING: {"parameters": {"tensor_parallel_degree": {"value": 4}, "microbatch_size": {"value": 1}}},
        SYSTEM: {"lookup_config": {"lookup_table_row": "DGX H100"}, "parameters": {"number_of_nodes": {"value": 8}}},
    }  # fmt: skip
    section = built.setdefault(category, {}).setdefault("parameters", {})
    section.update({name: v if isinstance(v, dict) else {"value": v} for name, v in parameters.items()})
    return built


def old_style(category: str = NETWORK, /, **parameters: object) -> Config:
    """AMPeD's own config with these parameters."""
    return config(category, OLD_STYLE, **parameters)


def sources(written: ConfigSource, **overrides: object) -> Sources:
    return read_scenario(written, overrides).sources


def refused(written: ConfigSource, **overrides: object) -> tuple[Problem, ...]:
    """The problems of a config that is refused: what, where and advice."""
    with pytest.raises(ConfigError) as caught:
        read_scenario(written, overrides)
    return caught.value.problems


def the_problem(written: ConfigSource, **overrides: object) -> Problem:
    (problem,) = refused(written, **overrides)
    return problem
