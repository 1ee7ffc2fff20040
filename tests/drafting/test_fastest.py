"""The quick search finds what an exploration of its whole space finds, and asks for far less."""

import numpy as np
import pytest

from amped.base.errors import ConfigError
from amped.configuring.scenario import read_scenario
from amped.drafting import fastest as module
from amped.drafting.fastest import AGAIN, fastest
from amped.exploration.answer import explored
from amped.exploration.asked_space import searched
from amped.exploration.request import Options
from amped.exploration.search_space import RECOMPUTATION

TODAY = {"flash_attention": True, "sequence_parallel": True, "dropout": 0, "batch_size": 480, "system": "DGX H100"}
# Dense and mixed networks that fit without recomputation, only with it, and never; alone and split; with values that
# bind the search; with layers that do not divide; and with offload, where more recomputation may be faster.
QUESTIONS = {
    "fits": {"model": "Llama 3 8B", "number_of_accelerators": 16},
    "one": {"model": "GPT-2 XL", "number_of_accelerators": 1},
    "tight": {"model": "Llama 3 70B", "number_of_accelerators": 32, "context": 32768},
    "full": {"model": "Llama 3 70B", "number_of_accelerators": 16, "memory_capacity": "120 GB"},
    "never": {"model": "Llama 3 70B", "number_of_accelerators": 8},
    "mixture": {"model": "Mixtral 8x7B", "number_of_accelerators": 16},
    "two kinds of layers": {"model": "DeepSeek V2-Lite", "number_of_accelerators": 8},
    "twelve": {"model": "Llama 3 8B", "number_of_accelerators": 12},
    "without fused attention": {"model": "Llama 2 13B", "number_of_accelerators": 8, "flash_attention": False},
    "bound": {"model": "Llama 3 8B", "number_of_accelerators": 16, "tensor_parallel_degree": 2, "zero_stage": 1},
    "recomputing": {"model": "Llama 3 8B", "number_of_accelerators": 8, AGAIN: "full"},
    "offload": {"model": "Llama 2 13B", "number_of_accelerators": 8, "activation_offload": 0.5},
    "closed form": {"model": "Llama 3 8B", "number_of_accelerators": 16, "performance_model": "amped"},
}  # fmt: skip


def asked(question):
    return read_scenario({}, TODAY | question)


@pytest.mark.thorough
@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_it_is_the_optimum_of_the_space(question):
    found, every = fastest(asked(question)), explored(asked(question), Options(1, "quick"))
    assert found.fits == (every.feasible > 0)
    assert found.candidates == every.candidates
    best = every.best[0]
    assert {name: best[name] for name in found.settings} == found.settings


def test_most_candidates_are_not_timed(monkeypatch):
    number, asking = [], module._Group._results

    def counted(group, mode, rest, names, more=()):
        number.append(len(rest) * (module.TIME in names))
        return asking(group, mode, rest, names, more)

    monkeypatch.setattr(module._Group, "_results", counted)
    found = fastest(asked(QUESTIONS["fits"]))
    assert 0 < sum(number) < 0.6 * found.candidates


@pytest.mark.parametrize("name", ["fits", "tight", "mixture", "two kinds of layers", "without fused attention"])
def test_the_bound_of_more_recomputation_is_never_above_its_time(name):
    search = searched(asked(QUESTIONS[name]), Options(1, "quick"), {AGAIN: RECOMPUTATION[:1]})
    for group in (module._Group(search, *own, with_chunks=False) for own in module._by_structure(search)):
        every = np.arange(len(group.open))
        group._bound(group._results("none", every, (module.TIME, *module.BOUNDING)))
        for mode in RECOMPUTATION[1:]:
            times = group._results(mode, every, (module.TIME,))[module.TIME]
            assert np.all(group.least[mode] <= times * (1 + 1e-12))
            assert np.all(group.least[""] <= times)


def test_a_space_without_mappings_is_told():
    with pytest.raises(ConfigError, match="no mapping is possible"):
        fastest(asked({"model": "Llama 3 8B", "number_of_accelerators": 8, "tensor_parallel_degree": 3}))
