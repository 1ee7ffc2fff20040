"""The chooser gives the stages of a pipeline several chunks of layers where a step is shorter by a share that matters."""

import numpy as np
import pytest

import amped
from amped.configuring.scenario import read_scenario
from amped.drafting import chooser, fastest
from amped.drafting.chooser import completed
from amped.drafting.chunks import LEAST_GAIN, TRIED
from amped.estimation.estimation import estimated
from amped.exploration.request import Options, Request
from amped.exploration.search import Search
from tests.helpers.marks import further

ONE = {"virtual_pipeline_stages": 1}


def chosen(model, system, number, **more):
    given = {"model": model, "system": system, "number_of_accelerators": number, **more}
    return estimated(completed(given))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("model", "system", "number"),
    [
        ("Llama 3.1 405B", "DGX H100", 512),
        ("Nemotron-4 340B", "DGX H100", 1024),
        ("GPT-3 175B", "DGX H100", 256),
    ],
)
def test_chunks_are_chosen_where_they_gain(model, system, number):
    plain, chunked = chosen(model, system, number, **ONE), chosen(model, system, number)
    assert (plain["virtual_pipeline_stages"], plain["fits_in_memory"]) == (1, 1)
    assert chunked["virtual_pipeline_stages"] > 1
    assert chunked["fits_in_memory"] == 1
    assert chunked["step_time"] <= (1 - LEAST_GAIN) * plain["step_time"]


@pytest.mark.parametrize(
    ("model", "system", "number"), [
        ("Mixtral 8x7B", "DGX H100", 16), ("GPT-3 175B", "DGX H100", 64), ("BERT large", "DGX-1 V100", 8),
        # Without chunks, nothing is recomputed; in the best five of an exploration, too.
        pytest.param("DeepSeek V3", "DGX H100", 512, marks=pytest.mark.thorough),
    ]
)  # fmt: skip
def test_chunks_that_gain_little_are_not_chosen(model, system, number):
    assert chosen(model, system, number)["virtual_pipeline_stages"] == 1


@pytest.mark.thorough
def test_chunks_and_stages_that_are_given_are_kept():
    asked = ("Llama 3.1 405B", "DGX H100", 512)
    assert chosen(*asked, virtual_pipeline_stages=2)["virtual_pipeline_stages"] == 2
    assert chosen(*asked, pipeline_parallel_degree=8)["pipeline_parallel_degree"] == 8
    assert chosen(*asked, pipeline_schedule="zero_bubble_h1")["virtual_pipeline_stages"] == 1


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("model", "system", "number", "more"),
    [
        ("DeepSeek V3", "DGX B200", 1024, {}),
        ("Qwen3 235B-A22B", "DGX H100", 512, {}),
        further("Llama 3.1 405B", "DGX H100", 1024, {}),
        further("Llama 3 70B", "DGX H100", 256, {"context": 131_072, "batch_size": 32}),
        further("Mixtral 8x22B", "DGX H100", 128, {}),
    ],
)
def test_the_chosen_mapping_is_nearly_as_fast_as_the_best_of_an_exploration(model, system, number, more):
    """Without chunks, few stages look fastest: these were 2 to 43 % slower, and those of long sequences 18 and 21 %."""
    found = amped.explore(model=model, system=system, number_of_accelerators=number, top=1, **more)
    assert chosen(model, system, number, **more)["training_time"] < 1.03 * found.best[0]["training_time"]
    assert chooser.is_tried("pipeline_parallel_degree", 2)


@pytest.mark.thorough
@pytest.mark.parametrize(("model", "number"), [("Llama 3 70B", 64), ("Llama 3.1 405B", 256), ("GPT-3 175B", 96)])
def test_no_layout_in_chunks_is_faster_than_its_bound_or_needs_much_less_memory(model, number):
    """The bound of a mapping comes from its results with one chunk on each stage; all layouts are sought here."""
    asked = completed({"model": model, "system": "DGX H100", "number_of_accelerators": number, **ONE}).question
    held = {name: value for name, value in asked.overrides.items() if name not in chooser.MAPPED}
    scenario = read_scenario(asked.config, held)
    vary = {"virtual_pipeline_stages": (1.0, *TRIED), fastest.AGAIN: ("none",)}
    search = Search(Request(scenario.question, vary, Options(1, "quick")), scenario)
    names = ("tensor_parallel_degree", fastest.STAGES, "microbatch_size", "zero_stage")
    least, compared = {}, 0
    for group in (fastest._Group(search, *own, with_chunks=True) for own in fastest._by_structure(search)):
        rows = np.arange(len(group.open))
        found = group._results("none", rows, ("training_time", fastest.MEMORY), fastest.IN_CHUNKS)
        bounds = fastest.least_time_in_chunks(found, group.columns[fastest.STAGES])
        for row in rows.tolist():
            mapping = tuple(group.columns[name][row] for name in names)
            if group.kinds[row] == 0:
                least[mapping] = bounds[row], found[fastest.MEMORY][row] / fastest.NEARLY_FITS
            elif mapping in least:
                compared += 1
                assert found["training_time"][row] >= least[mapping][0]
                assert found[fastest.MEMORY][row] >= least[mapping][1]
    assert compared > 50
