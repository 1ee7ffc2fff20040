"""Lengths of documents: read from a file or a text, packed or padded, and what the equations make of them."""

from pathlib import Path

import numpy as np
import pytest

import amped
from amped.base.errors import AmpedError
from amped.configuring.lengths import PACKED, PADDED, Documents, filled, read_documents
from amped.theory.step.uneven_replicas import expected_maximum
from tests.helpers.cli import amped as run

CONTEXT = 4096
DRAWN = tuple(int(n) for n in np.random.default_rng(7).lognormal(6.2, 0.9, 2000).clip(1, CONTEXT))
RUN = {
    "model": "Llama 3.1 8B", "accelerator": "H100 SXM", "context": CONTEXT, "number_of_accelerators": 1, "flash_attention": True,
    "data_parallel_degree": 1, "tensor_parallel_degree": 1, "pipeline_parallel_degree": 1, "microbatch_size": 1, "batch_size": 1,
    "activation_recomputation": "none", "optimizer_offload": 0,
}  # fmt: skip


def bins_of(lengths: tuple[int, ...], room: int) -> list[list[int]]:
    """First fit, sequence by sequence."""
    bins: list[list[int]] = []
    for length in lengths:
        for content in bins:
            if sum(content) + length <= room:
                content.append(length)
                break
        else:
            bins.append([length])
    return bins


def test_documents_go_into_the_first_sequence_that_has_room() -> None:
    bins, found = bins_of(DRAWN[:300], CONTEXT), filled(Documents(DRAWN[:300]), CONTEXT, PACKED).settings
    squares = [sum(length**2 for length in content) for content in bins]
    assert found["documents_per_sequence"] == pytest.approx(300 / len(bins))
    assert found["sequence_fill"] == pytest.approx(sum(DRAWN[:300]) / (len(bins) * CONTEXT))
    assert found["document_tokens"] == pytest.approx(sum(squares) / sum(DRAWN[:300]))
    assert found["attention_work_deviation"] == pytest.approx(np.std(squares) / np.mean(squares))


def test_padded_documents_have_a_sequence_each() -> None:
    found = filled(Documents(DRAWN), CONTEXT, PADDED).settings
    assert found["documents_per_sequence"] == 1
    assert found["sequence_fill"] == pytest.approx(np.mean(DRAWN) / CONTEXT)


def test_attention_counts_the_pairs_of_each_document() -> None:
    """Each token attends to itself and to those before it in its document: l·(l + 1)/2 pairs of a document."""
    e = amped.estimate(**RUN, lengths="mean 500, p95 1500", attention_flop_convention="causal")
    lengths = np.minimum(read_documents("mean 500, p95 1500").lengths, CONTEXT)
    sequences = len(lengths) / e["documents_per_sequence"]
    pairs = sum(length * (length + 1) / 2 for length in lengths) / sequences
    assert e["causal_score_fraction"] * CONTEXT**2 == pytest.approx(pairs, rel=1e-9)
    products = e["layers"] * 2 * pairs * e["attention_heads"] * e["head_dimension"]
    alike = amped.estimate(**RUN, attention_flop_convention="causal")
    dense = alike["model_flops_per_accelerator"] - 6 * alike["layers"] * 2 * (CONTEXT + 1) / 2 * CONTEXT * 4096
    assert e["model_flops_per_accelerator"] == pytest.approx(dense * e["sequence_fill"] + 6 * products, rel=1e-9)


@pytest.mark.thorough
def test_a_step_of_mean_documents_takes_the_mean_of_the_steps_of_all_sequences() -> None:
    bins, asked = bins_of(DRAWN, CONTEXT), filled(Documents(DRAWN), CONTEXT, PACKED).settings
    law = amped.estimate(**RUN, **asked | {"attention_work_deviation": 0})["step_time"]
    times = []
    for content in bins[:: len(bins) // 25]:
        own = filled(Documents(tuple(content)), CONTEXT, PACKED).settings
        times.append(amped.estimate(**RUN, **own)["step_time"])
    assert law == pytest.approx(np.mean(times), rel=0.02)


def test_one_document_that_fills_its_sequence_changes_nothing() -> None:
    same = {
        "document_tokens": CONTEXT,
        "sequence_fill": 1,
        "documents_per_sequence": 1,
        "attention_work_deviation": 0,
    }
    assert amped.estimate(**RUN, **same)["step_time"] == amped.estimate(**RUN)["step_time"]
    assert amped.estimate(**RUN, lengths=str(CONTEXT))["step_time"] == amped.estimate(**RUN)["step_time"]


@pytest.mark.parametrize("numbers", [1, 2, 8, 64, 1024])
def test_the_expected_maximum_is_that_of_drawn_numbers(numbers: int) -> None:
    drawn = np.random.default_rng(1).normal(size=(4000, numbers)).max(axis=1).mean()
    assert expected_maximum(numbers) == pytest.approx(drawn, rel=0.06, abs=0.03)


def test_replicas_wait_for_the_one_with_most_work() -> None:
    many = {**RUN, "system": "DGX H100", "number_of_accelerators": 64, "data_parallel_degree": 64, "batch_size": 512}
    even, uneven = (
        amped.estimate(**many, document_tokens=2000, documents_per_sequence=3, attention_work_deviation=x)
        for x in (0, 0.5)
    )
    wait = uneven["exposed_data_communication_time"] - even["exposed_data_communication_time"]
    core = sum(float(d.time * d.count) for d in even.results.records("layer_durations") if d.part.core)
    assert wait == pytest.approx(core * 32 * 8 * 0.5 / 8**0.5 * expected_maximum(64), rel=1e-9)
    assert uneven["step_time"] == pytest.approx(even["step_time"] + wait, rel=1e-9)


FILES = {
    "empty": ("", "no length of a document"),
    "a word": ("12\nabc\n", "line 2: 'abc' is no length"),
    "a negative number": ("12\n-4\n", "line 2: '-4' is no length"),
    "no column": ("name,age\na,1\n", "line 1: no column has lengths: name, age"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_without_lengths_is_told_with_its_line(tmp_path: Path, name: str) -> None:
    content, message = FILES[name]
    (tmp_path / "lengths.csv").write_text(content, "utf-8")
    with pytest.raises(AmpedError, match="(?s)" + message):
        read_documents(str(tmp_path / "lengths.csv"))


def test_a_histogram_is_read_by_its_columns(tmp_path: Path) -> None:
    (tmp_path / "lengths.csv").write_text("count;length\n3;100\n1;300\n", "utf-8")
    found = read_documents(str(tmp_path / "lengths.csv"))
    assert sorted(found.lengths) == [100, 100, 100, 300]
    assert (found.number, found.tokens) == (4, 600)


def test_a_mean_and_a_percentile_are_a_distribution() -> None:
    lengths = read_documents("mean 500, p95 1500").lengths
    assert np.mean(lengths) == pytest.approx(500, rel=0.02)
    assert np.percentile(lengths, 95) == pytest.approx(1500, rel=0.02)
    for wrong in ("mean 500, p95 400", "mean 500, p95 5000", "no such file"):
        with pytest.raises(AmpedError):
            read_documents(wrong)


def test_the_screen_says_how_documents_fill_sequences(tmp_path: Path) -> None:
    (tmp_path / "lengths.csv").write_text("\n".join(map(str, DRAWN)), "utf-8")
    asked = ("estimate", "--model", "Llama 3.1 8B", "--system", "DGX H100", "--gpus", 8, "--seq", 2048)
    done = run(*asked, "--lengths", "lengths.csv", "--packing", "padded", folder=tmp_path)
    assert "% filled" in done.stdout
    assert "2,000 documents" in done.stdout
    assert "are longer and are cut" in " ".join(done.stdout.split())
    done = run(*asked, "--lengths", "lengths.csv", "--packing", "loose", folder=tmp_path)
    assert done.returncode == 2
    assert "write packed or padded" in done.stderr


def test_a_rotation_that_is_not_fused_costs_by_document() -> None:
    """Twelve kernels for each of 8 documents in 32 layers, and each kernel waits for its overhead."""
    packed = {**RUN, "documents_per_sequence": 8, "document_tokens": 600}
    fused, apart = (amped.estimate(**packed, rotary_by_document=x) for x in (False, True))
    calls = {e.choices["positions"]: [float(o.count) for o in e.results.records("layer_operators") if o.name == "rotary_positions"]
             for e in (fused,)}  # fmt: skip
    assert calls == {"rope": [1.0, 1.0]}
    assert {float(o.count) for o in apart.results.records("layer_operators") if o.name == "rotary_positions"} == {
        12.0 * 8
    }
    assert apart["step_time"] > fused["step_time"] + 2 * 32 * 12 * 8 * apart["kernel_overhead_time"] / 2
