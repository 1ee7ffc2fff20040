"""Documents in sequences of unequal lengths: padded to the longest of a micro-batch, or split over as many as they need."""

from pathlib import Path

import numpy as np
import pytest

import amped
from amped.base.errors import AmpedError
from amped.base.files import shipped_json
from amped.configuring.lengths import PACKED, Documents, filled
from amped.configuring.uneven_sequences import packed_by_degree, padded_to_longest
from tests.configuring.test_lengths import CONTEXT, DRAWN, RUN
from tests.helpers.cli import amped as run

BATCH, RANKS = 4, 4
LONG = tuple(int(n) for n in np.random.default_rng(3).lognormal(7.5, 1.1, 2000).clip(1, 32768))
ON_RINGS = {
    "model": "Llama 3.1 8B", "system": "DGX H100", "context": 32768, "number_of_accelerators": 8, "flash_attention": True,
    "data_parallel_degree": 2, "tensor_parallel_degree": 1, "pipeline_parallel_degree": 1, "microbatch_size": 1, "batch_size": 16,
    "context_parallel_degree": RANKS, "activation_recomputation": "none", "zero_stage": 1,
}  # fmt: skip


def drawn_microbatches(number: int) -> np.ndarray:
    """Micro-batches of documents, drawn one by one."""
    return np.random.default_rng(11).choice(DRAWN, (number, BATCH))


# --- padded to the longest --------------------------------------------------------------------------------------------


def test_the_mean_longest_is_that_of_drawn_microbatches() -> None:
    found, longest = (
        padded_to_longest(Documents(DRAWN), CONTEXT, BATCH).settings,
        drawn_microbatches(40_000).max(axis=1),
    )
    assert found["context"] == pytest.approx(longest.mean(), rel=0.01)
    assert found["sequence_tokens_deviation"] == pytest.approx(longest.std() / longest.mean(), rel=0.02)
    assert found["sequence_fill"] == pytest.approx(np.mean(DRAWN) / found["context"], rel=1e-9)
    assert found["longest_microbatch_factor"] * found["context"] == pytest.approx(max(DRAWN))


def test_a_microbatch_of_one_document_has_no_padding() -> None:
    found = padded_to_longest(Documents(DRAWN), CONTEXT, 1).settings
    assert found["context"] == np.ceil(np.mean(DRAWN))
    assert found["sequence_fill"] == pytest.approx(1, rel=2e-3)


@pytest.mark.thorough
def test_a_step_of_mean_microbatches_takes_the_mean_of_the_steps_of_all() -> None:
    """FLOPs within 1 % and time within 2 % of micro-batches that are each estimated with their own lengths."""
    asked, drawn = RUN | {"microbatch_size": BATCH, "batch_size": BATCH}, drawn_microbatches(25).astype(float)

    def moments(tokens: float, documents: np.ndarray) -> dict[str, float]:
        """What equations need of the documents of micro-batches with a number of tokens for each sequence."""
        mean = documents.sum() / documents.size
        longer = {"longest_microbatch_factor": CONTEXT / tokens}
        return {
            "context": tokens,
            "document_tokens": (documents**2).sum() / documents.sum(),
            "sequence_fill": mean / tokens,
        } | longer

    alone = [amped.estimate(**asked | moments(content.max(), content)) for content in drawn]
    law = amped.estimate(**asked | moments(float(np.ceil(drawn.max(axis=1).mean())), drawn))
    for name, error in (("step_time", 0.02), ("model_flops_per_accelerator", 0.01)):
        assert law[name] == pytest.approx(np.mean([e[name] for e in alone]), rel=error)


def test_memory_is_that_of_the_longest_microbatch() -> None:
    asked = RUN | {"microbatch_size": BATCH, "batch_size": BATCH}
    mean = amped.estimate(**asked | {"context": 1024, "longest_microbatch_factor": 4})
    longest = amped.estimate(**asked | {"context": 4096})
    assert mean["activation_bytes"] == pytest.approx(longest["activation_bytes"], rel=1e-9)
    assert mean["step_time"] < longest["step_time"]


def test_replicas_wait_for_the_one_with_most_tokens() -> None:
    many = RUN | {"system": "DGX H100", "number_of_accelerators": 64, "data_parallel_degree": 64, "batch_size": 512}
    even, uneven = (
        amped.estimate(**many, attention_work_deviation=0, sequence_tokens_deviation=deviation)
        for deviation in (0, 0.2)
    )
    parts = ("compute_forward_time", "compute_backward_time", "weight_update_time", "recomputation_time")
    drawn = np.random.default_rng(1).normal(1, 0.2, (4000, 64, 8)).mean(axis=2).max(axis=1).mean() - 1
    assert uneven["step_time"] - even["step_time"] == pytest.approx(drawn * sum(even[part] for part in parts), rel=0.05)


# --- split over as many as they need ----------------------------------------------------------------------------------


def groups_of(lengths: tuple[int, ...], room: int, ranks: int) -> list[tuple[int, list[int]]]:
    """The accelerators and the documents of each group, document by document, the longest first."""
    groups: list[tuple[int, list[int]]] = []
    for length in sorted(lengths, reverse=True):
        needed = 1
        while needed < ranks and needed * room < length:
            needed *= 2
        padded = -(-length // (2 * needed)) * 2 * needed if needed > 1 else length
        for degree, content in groups:
            if sum(content) + padded <= degree * room:
                content.append(padded)
                break
        else:
            groups.append((needed, [padded]))
    return groups


def test_documents_are_split_over_as_many_as_they_need() -> None:
    room = 32768 // RANKS
    groups, found = groups_of(LONG, room, RANKS), packed_by_degree(Documents(LONG), 32768, RANKS).settings
    slots, squares = sum(degree for degree, _ in groups), sum(n**2 for _, content in groups for n in content)
    assert found["sequence_fill"] == pytest.approx(sum(LONG) / (slots * room))
    assert found["document_tokens"] == pytest.approx(squares / sum(LONG))
    assert found["split_context_degree"] == 2  # the only one between 1 and 4
    for tokens, work, of in (
        ("whole_context_fraction", "whole_context_work_fraction", 4),
        ("split_token_fraction", "split_work_fraction", 2),
    ):
        assert found[tokens] == pytest.approx(sum(degree for degree, _ in groups if degree == of) / slots)
        assert found[work] == pytest.approx(
            sum(n**2 for degree, content in groups if degree == of for n in content) / squares
        )


def test_a_ring_carries_the_blocks_of_split_documents_only() -> None:
    settings = packed_by_degree(Documents(LONG), 32768, RANKS).settings
    dynamic, static = amped.estimate(**ON_RINGS, **settings), amped.estimate(**ON_RINGS)
    for name, alone in (("keys_and_values", 1), ("key_and_value_gradients", 0)):
        whole, smaller = (next(c for c in dynamic.results.records("context_collectives") if c.name == f"{name}{of}")
                          for of in ("", "_of_smaller_rings"))  # fmt: skip
        every = next(c for c in static.results.records("context_collectives") if c.name == name)
        assert whole.volume == smaller.volume == every.volume
        assert float(whole.count) == pytest.approx(float(every.count) * settings["whole_context_fraction"])
        blocks = settings["split_token_fraction"] * (2 - alone) / (RANKS - alone)
        assert float(smaller.count) == pytest.approx(float(every.count) * blocks)
    packed = filled(Documents(LONG), 32768, PACKED, RANKS).settings
    assert dynamic["step_time"] < amped.estimate(**ON_RINGS, **packed)["step_time"]


def test_documents_that_all_need_the_whole_group_are_as_with_a_group_of_one_size() -> None:
    found = packed_by_degree(Documents((32768,) * 10), 32768, RANKS).settings
    assert (found["whole_context_fraction"], found["split_token_fraction"], found["sequence_fill"]) == (1, 0, 1)
    assert amped.estimate(**ON_RINGS, **found)["step_time"] == pytest.approx(
        amped.estimate(**ON_RINGS)["step_time"], rel=1e-12
    )


@pytest.mark.thorough
@pytest.mark.parametrize("ranks", [4, 16])
def test_a_step_takes_the_mean_of_the_steps_of_all_groups(ranks: int) -> None:
    """FLOPs within 1 % and time within 2 % of groups that are each estimated with their own degree; 16 ranks are two nodes."""
    documents, context = tuple(n * ranks // RANKS or 1 for n in LONG[:240]), 8192 * ranks
    machine = {"number_of_accelerators": ranks, "optimizer": "none", "zero_stage": 0}
    asked, names = ON_RINGS | machine, ("step_time", "model_flops_per_accelerator")
    alike = {"context": context, "context_parallel_degree": ranks, "data_parallel_degree": 1, "batch_size": 1}
    law = amped.estimate(**asked | alike | packed_by_degree(Documents(documents), context, ranks).settings)
    groups, sums = groups_of(documents, 8192, ranks), dict.fromkeys(names, 0.0)
    for degree, content in groups:
        lengths, tokens = np.array(content, float), degree * 8192
        own = {"document_tokens": (lengths**2).sum() / lengths.sum(), "sequence_fill": lengths.sum() / tokens}
        shape = {
            "data_parallel_degree": ranks // degree,
            "batch_size": ranks // degree,
            "context_parallel_degree": degree,
        }
        e = amped.estimate(**asked | shape | own | {"context": tokens, "documents_per_sequence": len(content)})
        sums = {name: value + degree * e[name] for name, value in sums.items()}
    for name, error in zip(names, (0.02, 0.01), strict=True):
        assert law[name] == pytest.approx(sums[name] / sum(degree for degree, _ in groups), rel=error)


def test_packed_documents_are_padded_to_two_blocks_for_each_rank() -> None:
    alone, shared = (filled(Documents((100, 30)), 1024, PACKED, ranks).settings for ranks in (1, 8))
    assert alone["document_tokens"] == pytest.approx((100**2 + 30**2) / 130)
    assert shared["document_tokens"] == pytest.approx((112**2 + 32**2) / 130)


# --- what is typed ----------------------------------------------------------------------------------------------------

TYPED = (
    "estimate",
    "--model",
    "Llama 3.1 8B",
    "--system",
    "DGX H100",
    "--gpus",
    8,
    "--lengths",
    "mean 3000, p95 10000",
)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--seq", 8192, "--mbs", 2, "--packing", "longest"), "each padded to the longest of its micro-batch of 2"),
        (("--seq", 32768, "--cp", 4, "--packing", "dynamic"), "packed by degree, 8,192 on an accelerator"),
    ],
)
def test_the_screen_says_how(more: tuple[object, ...], told: str, tmp_path: Path) -> None:
    done = run(*TYPED, *more, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert told in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"packing": "longest"}, "depends on microbatch_size.*\n.*microbatch_size=4"),
        ({"packing": "dynamic"}, "depends on context_parallel_degree.*\n.*context_parallel_degree=8"),
        ({"packing": "dynamic", "context_parallel_degree": 4, "context_parallel_kind": "all_to_all"}, "over a ring"),
    ],
)
def test_what_a_way_depends_on_is_told(more: dict[str, object], told: str) -> None:
    with pytest.raises(AmpedError, match=told):
        amped.estimate(model="Llama 3.1 8B", system="DGX H100", lengths="mean 500, p95 1500", **more)


def test_a_config_has_lengths_as_the_command_line_has() -> None:
    plain, asked = shipped_json("configs", "minimal.json"), {"lengths": "mean 500, p95 1500", "packing": "longest"}
    read, typed = amped.estimate(plain | asked, microbatch_size=4), amped.estimate(plain, microbatch_size=4, **asked)
    assert read["context"] == typed["context"] < amped.estimate(plain)["context"]
    assert read["step_time"] == typed["step_time"]
    again = amped.estimate(plain | asked, packing="padded")  # what is typed takes the place of the config's
    assert again["context"] == amped.estimate(plain)["context"]


def test_lengths_of_a_config_that_are_wrong_are_told_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "lengths.csv").write_text("12\nabc\n", "utf-8")
    config = shipped_json("configs", "minimal.json") | {"lengths": str(tmp_path / "lengths.csv")}
    with pytest.raises(AmpedError, match=r" lengths: .*lengths.csv: line 2: 'abc' is no length"):
        amped.estimate(config)


def test_packing_without_lengths_is_told() -> None:
    with pytest.raises(AmpedError, match="packing: says how documents fill sequences"):
        amped.estimate(model="Llama 3.1 8B", system="DGX H100", packing="padded")
