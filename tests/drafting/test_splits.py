"""The chooser splits sequences over accelerators where that saves more than it costs."""

from dataclasses import replace
from typing import Any

import pytest

from amped.drafting import splits
from amped.drafting.chooser import completed
from amped.drafting.chunks import LEAST_GAIN
from amped.drafting.fastest import Fastest
from amped.estimation.estimation import Estimation, estimated

ONE = {splits.CONTEXT: 1}


def chosen(model: str, number: int, **more: object) -> Estimation:
    return estimated(completed({"model": model, "system": "DGX H100", "number_of_accelerators": number, **more}))


@pytest.mark.parametrize(
    ("context", "degrees"),
    [(2048, (1,)), (4096, (1,)), (8191, (1,)), (8192, (1, 2)), (16_384, (1, 2, 4)), (32_768, splits.CONTEXT_DEGREES)],
)
def test_each_accelerator_keeps_enough_tokens(context: int, degrees: tuple[int, ...]) -> None:
    assert splits.degrees_for(context) == degrees
    assert splits.may_be_split(context) == (len(degrees) > 1)


@pytest.mark.thorough
def test_a_large_network_takes_a_split_for_tensor_parallelism_across_nodes() -> None:
    """The recipes of this network have these degrees, too: tensor 8, pipeline 8, context 2."""
    whole, split = chosen("Llama 3.1 405B", 1024, **ONE), chosen("Llama 3.1 405B", 1024)
    assert whole["tensor_parallel_degree"] > 8
    assert [split[f"{kind}_parallel_degree"] for kind in ("tensor", "pipeline", "context")] == [8, 8, 2]
    assert split["step_time"] <= (1 - LEAST_GAIN) * whole["step_time"]
    assert split["keeps_memory_headroom"]


@pytest.mark.parametrize(
    ("found", "is_taken"),
    [
        ({"time": 0.995}, False),
        ({"time": 0.985}, True),
        ({"time": 0.5, "keeps": False}, False),
        ({"time": 0.5, "keeps": False, "fits": False, "lacking": 1.0}, False),
    ],
)
def test_a_split_is_taken_for_a_share_that_matters_and_never_for_memory(found: dict[str, Any], is_taken: bool) -> None:
    whole = Fastest({splits.TENSOR: 2.0}, True, True, 10, 1.0, 0.0, 1.0)
    split = replace(whole, settings={splits.CONTEXT: 2.0}, **found)
    assert splits.is_better(split, whole) == is_taken
    assert splits.is_better(replace(whole, time=2.0), replace(whole, keeps=False, fits=False, lacking=1.0))


def test_what_no_split_can_shorten_is_not_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight billion parameters fit on each accelerator: no messages of tensors, no pipeline, nothing recomputed."""
    searches = []
    search = splits.fastest_in_chunks
    monkeypatch.setattr(splits, "fastest_in_chunks", lambda *asked: searches.append(asked) or search(*asked))
    e = chosen("Llama 3.1 8B", 16)
    assert (e["tensor_parallel_degree"], e["pipeline_parallel_degree"], len(searches)) == (1, 1, 1)
    chosen("Llama 3.1 70B", 64)
    assert len(searches) == 3


@pytest.mark.parametrize("given", [{"tp": 4}, {"pp": 2}, {"tensor_parallel_degree": 4, "ep": 1}])
def test_who_gives_another_degree_has_a_mapping_without_a_split_in_mind(given: dict[str, object]) -> None:
    assert chosen("Llama 3.1 70B", 64, **given)[splits.CONTEXT] == 1


@pytest.mark.thorough
def test_long_sequences_are_split_and_given_degrees_are_kept() -> None:
    long: dict[str, object] = {"context": splits.LONG_CONTEXT, "batch_size": 64}
    assert chosen("Llama 3 70B", 256, **long)[splits.CONTEXT] > 1
    assert chosen("Llama 3 70B", 256, **long, **ONE)[splits.CONTEXT] == 1
    assert chosen("Llama 3 70B", 256, context=splits.LEAST_TOKENS, batch_size=512)[splits.CONTEXT] == 1
