"""A real step: the network made small enough, trained for real, and set beside an estimate of it."""

import io
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console

pytest.importorskip("torch", reason="torch is not installed: pip install 'amped[torch]'")
from amped.base.errors import ConfigError
from amped.kernels import process_memory, stepping
from amped.kernels.process_memory import STATUS, Footprint, tensor_bytes
from amped.kernels.stepping import BYTES_OF_A_PARAMETER, Network, scaled
from amped.report.benching import step
from tests.helpers.cli import verb

GPT2 = Network(12, 768, 12, 12, 3072, 50257, 1024, 8, gated_mlp=False, tied_embeddings=True)
LLAMA = Network(32, 4096, 32, 8, 14336, 128256, 8192, 1, gated_mlp=True, tied_embeddings=False)
TINY = Network(2, 64, 4, 2, 128, 256, 32, 2, gated_mlp=True, tied_embeddings=True)


@pytest.mark.parametrize(("network", "parameters"), [(GPT2, 124.3e6), (LLAMA, 8.06e9)])
def test_parameters_are_those_of_the_networks(network, parameters):
    assert network.parameters == pytest.approx(parameters, rel=0.02)


@pytest.mark.parametrize("network", [GPT2, LLAMA])
@pytest.mark.parametrize(("memory", "flops"), [(1e9, 1e12), (1e8, 1e10), (1e12, 1e9)])
def test_a_scaled_network_fits_and_keeps_its_heads_whole(network, memory, flops):
    small = scaled(network, memory, flops)
    assert small.parameters * BYTES_OF_A_PARAMETER <= memory
    assert small.flops <= flops
    assert small.dimensionality % small.attention_heads == 0
    assert small.attention_heads % small.key_value_heads == 0
    assert (small.gated_mlp, small.tied_embeddings) == (network.gated_mlp, network.tied_embeddings)


def test_what_fits_stays_as_it_is_and_nothing_is_refused():
    assert scaled(GPT2, 1e12, 1e18) == GPT2
    with pytest.raises(ConfigError, match="not even the smallest"):
        scaled(GPT2, 1.0, 1.0)


def test_steps_train_and_are_timed():
    from amped.kernels.stepping import trained

    found = trained(TINY, "cpu", "float32", steps=3, tell=lambda i, s: None)
    assert len(found.times) == 3
    assert len(found.losses) == 4
    assert found.losses[-1] < found.losses[0]
    assert found.least == min(found.times) > 0
    # Weights and both states are there throughout; a process that ran before may have had the room already.
    assert 12 * TINY.parameters < found.memory.tensors
    assert found.memory.process >= 0
    assert found.memory.measured == found.memory.tensors


def test_work_of_a_step_is_what_torch_counts():
    from torch.utils.flop_counter import FlopCounterMode

    from amped.kernels import stepping

    n = Network(2, 64, 4, 4, 256, 512, 32, 2, gated_mlp=False, tied_embeddings=True)
    import torch

    text = torch.zeros(n.batch_size, n.context + 1, dtype=torch.int64)
    p = stepping.weights(n, "cpu", "float32")
    with FlopCounterMode(display=False) as counter:
        stepping.loss_of(stepping.logits_of(n, p, text[:, :-1]), text[:, 1:]).backward()
    linear = 6 * n.batch_size * n.context * (n.parameters - n.context * n.dimensionality)
    assert counter.get_total_flops() == linear  # torch does not count its fused attention on processors


def test_tensors_are_counted_by_hand():
    import torch

    x = torch.ones(1000)
    optimizer = torch.optim.SGD([x.requires_grad_()], lr=0.1)
    # The operand, its gradient, and two temporaries of which one is the product.
    most = tensor_bytes(lambda: (x.detach() * 2 + torch.ones(1000)).sum(), optimizer, [x])
    assert most == pytest.approx(4 * 4000, abs=100)


def test_without_a_tracker_the_process_counts_less_what_it_loads(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.distributed._tools.mem_tracker", None)
    assert tensor_bytes(lambda: None, None, []) is None
    assert Footprint(None, 300e6, 90e6).measured == 210e6
    assert Footprint(180e6, 300e6, 90e6).measured == 180e6


@pytest.mark.skipif(not STATUS.exists(), reason="this system does not tell resident sets by process")
def test_the_largest_resident_set_counts_from_when_it_is_asked_to():
    """In a process of its own: what others of this one give back meanwhile would count against it."""
    code = """if True:
        from amped.kernels.process_memory import forget_peak, resident_bytes
        filled = bytearray(256 << 20)
        before, filled = resident_bytes(most=True), None
        forget_peak("cpu")
        after = resident_bytes(most=True)
        forgot = after < 1.1 * resident_bytes()
        filled = bytearray(64 << 20)
        print(forgot, before, after, resident_bytes(most=True), resident_bytes())
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    forgot, *sizes = done.stdout.split()
    before, after, grown, now = map(float, sizes)
    assert now <= grown
    if forgot == "False":  # some refuse to, and some take it for nothing
        assert after == pytest.approx(before, rel=0.05)
        pytest.skip("this system does not let a process forget its peak")
    assert before - after > 0.9 * (256 << 20)
    assert grown - after > 0.9 * (64 << 20)


def test_the_peak_of_a_gpu_counts_from_before_the_steps(monkeypatch):
    notes = []
    counted = SimpleNamespace(
        step=lambda: (notes.append("step"), 0.0), footprint=lambda *given: notes.append("counted")
    )
    gpu = SimpleNamespace(
        memory_allocated=lambda: 0, synchronize=lambda: None, reset_peak_memory_stats=lambda: notes.append("forgotten")
    )
    monkeypatch.setattr(stepping, "_Training", lambda *given: counted)
    monkeypatch.setattr(stepping, "torch", SimpleNamespace(cuda=gpu))
    monkeypatch.setattr(process_memory, "torch", stepping.torch)
    stepping.trained(TINY, "cuda", "float32", 1, lambda i, seconds: None)
    assert notes == ["forgotten", "step", "step", "counted"]


def test_the_report_tells_what_a_process_has_beside_its_tensors():
    def told(**memory):
        screen = Console(file=io.StringIO(), width=120)
        screen.print(step("it", {"layers": 1}, {"memory_bytes": (180e6, 183e6)}, [2.0, 1.0], memory))
        return screen.file.getvalue()

    assert "313 MB: 180 MB tensors, 89 MB code, 44 MB kept by its allocator" in told(
        tensors=180e6, process=313e6, loaded=89e6
    )
    assert "process" not in told(tensors=180e6, process=180e6, loaded=0.0)  # on a GPU


def test_the_verb_sets_them_side_by_side(tmp_path, monkeypatch, capsys):
    from amped.kernels.bench_run import prepared
    from amped.measured_kernels.bench_results import processor_name

    monkeypatch.chdir(tmp_path)
    (tmp_path / "t").mkdir()
    with pytest.raises(ConfigError, match="no row of accelerator_specifications is of this device"):
        verb("bench", "step", "--device", "cpu")
    name = processor_name(prepared("cpu", 1, "0"))
    row = {"architecture": "CPU", "fp32_peak_flop_rate": "100 GFLOP/s", "vector_flop_rate": "5 GFLOP/s",
           "memory_bandwidth": "10 GB/s", "memory_capacity": "8 GB", "sources": ["made up"]}  # fmt: skip
    (tmp_path / "t" / "a.json").write_text(json.dumps({"table": "accelerator_specifications", "rows": {name: row}}))
    options = ("--model", "GPT-2 small")  # which the default's mapping does not fit, and need not
    verb(
        "bench", "step", *options, "--device", "cpu", "--lookup-tables", "t", "--seconds", 0.05, "--steps", 2, "--json"
    )
    found = json.loads(capsys.readouterr().out)
    for part in ("step_time", "memory_bytes"):
        assert found[part]["error"] == pytest.approx(found[part]["predicted"] / found[part]["measured"] - 1)
    assert found["losses"][-1] < found["losses"][0]
    assert (found["network"]["gated_mlp"], found["software"]) == (False, "PyTorch")
    assert abs(found["memory_bytes"]["error"]) < 0.05  # of tensors: the same on every machine
    assert found["memory_bytes"]["measured"] == found["memory"]["tensors"] > 0
