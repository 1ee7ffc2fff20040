"""An anchor: one layer is measured in parts, becomes coefficients, and a real training loop is as long as predicted."""

import json
from functools import partial

import pytest

import amped
from amped.base.errors import ConfigError, FileError
from amped.calibration import anchor
from amped.calibration.anchor import anchored, as_file, read_anchor
from amped.estimation.estimation import STEP_PARTS
from amped.kernels.layer_shape import Shape
from amped.kernels.timing import Timing
from tests.helpers.bench import needs_torch
from tests.helpers.cli import verb

SMALL = ("--set", "dimensionality=64", "--set", "attention_heads=4", "--set", "key_value_heads=4", "--set", "head_dimension=16", "--set", "layers=4", "--set", "feedforward_dimension=256",
         "--set", "vocabulary_size=256", "--set", "dropout=0", "--seq", 32, "--mbs", 2)  # fmt: skip
NOTHING = {"neural_network_training_parameters": {"parameters": {}}}
OWN = """
import torch
def layer(hidden, ffn, heads, batch_first, **sizes):
    return torch.nn.TransformerEncoderLayer(hidden, heads, ffn, dropout=0.0, batch_first=batch_first)
def nothing(**sizes):
    return torch.relu
def pair(hidden, **sizes):
    class Pair(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x), x
    return Pair(hidden, hidden)
"""


def content(tmp_path, *more):
    verb("bench", "anchor", "--device", "cpu", *SMALL, "--seconds", 0.1, "-o", tmp_path / "a.json", *more)
    return read_anchor(tmp_path / "a.json")


def prediction(found, path, **changes):
    path.write_text(as_file(found), "utf-8")
    settings = {**found.content["settings"], **changes}
    return amped.estimate(NOTHING, lookup_tables=path, accelerator=found.content["accelerator"], **settings)


@needs_torch
class TestOnAProcessor:
    def test_a_layer_gives_the_coefficients_with_which_it_takes_what_was_measured(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        measured = content(tmp_path)
        # a layer 64 wide: 4 * 64 * 64 for attention, 2 * 64 * 256 behind it, and two norms
        assert measured["updated_parameters"] == 4 * 64 * 64 + 2 * 64 * 256 + 2 * 64
        assert all(
            sum(measured["parts"][each].values()) == pytest.approx(measured["seconds"][each])
            for each in measured["parts"]
        )
        found = anchored(measured)
        for name, (seconds, _, predicted) in found.parts.items():
            if name not in ("forward", "backward") and not found.held:
                assert predicted == pytest.approx(seconds, rel=1e-6), name
        e = prediction(found, tmp_path / "rows.json")
        assert "64 wide, 2 x 32 tokens, fp32 (plain PyTorch" in e.to_dict()["anchored_on"]

    def test_the_verbs_say_what_to_do_next_and_what_was_used(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        content(tmp_path)
        verb("calibrate", "--anchor", "a.json")
        told = capsys.readouterr()
        assert "anchored on a layer 64 wide" in told.out.replace("\n", " ")
        assert "amped calibrate --anchor" in told.err
        rows = json.loads((tmp_path / "lookup_tables" / "anchored.json").read_text())
        assert rows.keys() == {"accelerator_specifications", "kernel_efficiencies", "software_specifications"}
        accelerator = next(iter(rows["accelerator_specifications"]))
        verb("estimate", *SMALL, "--accelerator", accelerator, "--software", "PyTorch", "--gpus", 1, "--set", "tensor_parallel_degree=1",
             "--set", "pipeline_parallel_degree=1", "--set", "number_of_accelerators_per_node=1", "--set", "batch_size=2", "--precision", "fp32")  # fmt: skip
        assert "anchored on a layer 64 wide" in capsys.readouterr().out
        verb("check-tables", "lookup_tables")

    def test_a_shard_of_a_layer_is_smaller_and_is_estimated_as_a_shard(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        measured = content(tmp_path, "--tp", 2)
        assert measured["updated_parameters"] == (4 * 64 * 64 + 2 * 64 * 256) / 2 + 2 * 64
        assert measured["settings"]["tensor_parallel_degree"] == measured["settings"]["number_of_accelerators"] == 2
        assert "one of 2 tensor-parallel shards" in as_file(anchored(measured))

    def test_the_user_s_own_layer_is_run(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "mine.py").write_text(OWN)
        measured = content(tmp_path, "--module", "mine.py:layer")
        assert measured["updated_parameters"] == 4 * 64 * 64 + 2 * 64 * 256 + 4 * 64 + 256 + 64 + 4 * 64
        assert "mine.py:layer" in as_file(anchored(measured))

    @pytest.mark.parametrize(("module", "error", "told"), [
        ("mine.py", ConfigError, "names no function"), ("other.py:layer", FileError, "no such file of modules"),
        ("mine.py:layers", FileError, "did you mean 'layer'"), ("mine.py:nothing", ConfigError, "made no module with parameters"),
        ("mine.py:pair", ConfigError, "the layer makes tuple"),
    ])  # fmt: skip
    def test_what_is_no_layer_is_refused(self, tmp_path, monkeypatch, module, error, told):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "mine.py").write_text(OWN)
        with pytest.raises(error, match=told):
            content(tmp_path, "--module", module)
        assert not (tmp_path / "a.json").exists()

    def test_experts_are_not_plain_and_shards_must_divide(self, tmp_path):
        with pytest.raises(ConfigError, match="the plain layer has no experts"):
            content(tmp_path, "--set", "number_of_experts=4")
        with pytest.raises(ConfigError, match="--tp 3 does not divide 4 heads"):
            content(tmp_path, "--tp", 3)

    def test_the_profile_knows_products_and_attention_from_the_rest(self):
        from amped.kernels.anchoring import _parts, _shares, plain

        shape = Shape(64, 256, 4, 64, 4, "float32", 0.0, causal=True, biased=False, batch_first=True)
        for fused in (True, False):
            shares = _shares(_parts(plain(shape, "cpu", fused)), 0, "cpu")
            assert sum(shares.values()) == pytest.approx(1)
            assert min(shares["products"], shares["rest"]) > 0.05
            assert (shares["attention"] > 0) == fused


@needs_torch
@pytest.mark.parametrize(("name", "kind"), [
    ("aten::addmm", "products"), ("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NTT", "products"), ("sm90_xmma_gemm_bf16bf16", "products"),
    ("flash_fwd_kernel", "attention"), ("aten::_scaled_dot_product_flash_attention_for_cpu", "attention"),
    ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop", "attention"), ("aten::native_layer_norm", "rest"), ("triton_poi_fused_gelu_0", "rest"),
    ("aten::add_", "rest"),
])  # fmt: skip
def test_kernels_are_known_by_their_names(name, kind):
    from amped.kernels.anchoring import kind_of

    assert kind_of(name) == kind


def made(**changes):
    """An anchor's file on an H100, made up."""
    settings = {
        "dimensionality": 4096, "attention_heads": 32, "key_value_heads": 32, "head_dimension": 128, "feedforward_dimension": 16384,
        "context": 2048, "microbatch_size": 1, "vocabulary_size": 50304, "tensor_parallel_degree": 1, "gated_mlp": False, "causal": True,
        "flash_attention": True, "tied_embeddings": True, "dropout": 0.0, "matrix_precision": "bf16", "layers": 1, "number_of_accelerators": 1,
        "number_of_accelerators_per_node": 1, "batch_size": 1, "samples": 1, "software": "PyTorch", "activation_recomputation": "none",
    }  # fmt: skip
    parts = {"forward": {"products": 1.4e-3, "attention": 0.2e-3, "rest": 0.3e-3},
             "backward": {"products": 2.8e-3, "attention": 0.6e-3, "rest": 0.6e-3}}  # fmt: skip
    return {
        "schema": "layer-anchor/1", "date": "2026-11-23T06:00:00Z", "device": {"kind": "cuda", "name": "NVIDIA H100"},
        "software": {"torch": "2.13.0"}, "accelerator": "H100 SXM", "module": "", "settings": settings, "host_seconds": 4e-4,
        "seconds": {"forward": 1.9e-3, "backward": 4e-3, "optimizer": 3e-3}, "parts": parts, "updated_parameters": 201_326_592, "rows": {},
    } | changes  # fmt: skip


def test_products_that_take_twice_as_long_have_half_the_rate():
    once = anchored(made())
    parts = {name: {**kinds, "products": 2 * kinds["products"]} for name, kinds in made()["parts"].items()}
    twice = anchored(made(parts=parts))
    rate = "training_clock_fraction"
    own, slower = (found.values["kernel_efficiencies"][rate] for found in (once, twice))
    assert 0.3 < own < 1
    assert slower == pytest.approx(own / 2, rel=0.06)  # less what stores and launches take, which no rate changes
    rest = [found.values["software_specifications"] for found in (once, twice)]
    assert rest[0] == rest[1]
    assert once.values["software_specifications"]["host_time_per_layer"] == 4e-4
    assert "host_time_per_step" not in once.values["software_specifications"]  # of which a layer says nothing


def test_the_host_of_a_superchip_is_told_as_an_x86_server_would_be():
    """A table of software is of no accelerator; what Grace takes in Python is told by the accelerator's row."""
    grace = anchored(made(accelerator="GH200"))
    assert grace.values["software_specifications"]["host_time_per_layer"] == pytest.approx(4e-4 / 2.46)


def test_four_layers_take_four_times_the_layer(tmp_path):
    """Of a layer that no launch bounds, so that a pass takes the sum of its kernels."""
    found = anchored(made())
    one, four = (prediction(found, tmp_path / "rows.json", layers=n) for n in (1, 4))
    parts = [name for name in STEP_PARTS if name.startswith(("compute", "weight_update"))]
    layer = sum(four[name] - one[name] for name in parts) / 3
    assert layer == pytest.approx(5.9e-3, rel=1e-4)  # 1.9 ms forward and 4 ms backward, as measured


def test_a_rate_above_the_peak_is_held_and_told():
    parts = {name: {**kinds, "products": kinds["products"] / 4} for name, kinds in made()["parts"].items()}
    found = anchored(made(parts=parts))
    assert found.held == ("training_clock_fraction",)
    assert found.values["kernel_efficiencies"]["training_clock_fraction"] == pytest.approx(1)


@pytest.mark.parametrize(("changes", "told"), [
    ({"schema": "kernel-bench/1"}, "is not an anchor"), ({"settings": None}, "settings: is no dict"),
    ({"seconds": {"forward": 1.0, "backward": -1.0, "optimizer": 1.0}}, "seconds.backward: -1.0 is no time"),
    ({"parts": {"forward": {}}}, "parts.forward.products"),
])  # fmt: skip
def test_a_file_that_is_no_anchor_is_refused(tmp_path, changes, told):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(made(**changes)))
    with pytest.raises(FileError, match=told):
        read_anchor(path)


@needs_torch
def test_a_gpu_is_timed_by_its_kernels_and_its_host_by_itself(monkeypatch):
    """A timer that answers what a GPU would: the parts in their order, and the host's time of a launched pass."""
    from amped.kernels import anchoring

    class Timer:
        device = "cuda"

        def together(self, calls, cap):
            return [Timing.of([seconds] * 5) for seconds in (1e-3, 2e-3, 3e-3)][: len(calls)]

        def dispatched(self, call, in_a_row=1):
            return Timing.of([4e-4, 5e-4])

    monkeypatch.setattr(anchoring, "_parts", lambda layer: (None, None, None))
    monkeypatch.setattr(anchoring, "_shares", lambda *_: {"rest": 0.25, "attention": 0.25, "products": 0.5})
    layer = anchoring.Layer(partial(int), [], None, None)
    found = anchoring.anchored(layer, Timer(), 1.0)
    assert found["seconds"] == {"forward": 1e-3, "backward": 2e-3, "optimizer": 3e-3}
    assert found["parts"]["backward"] == {"rest": 0.5e-3, "attention": 0.5e-3, "products": 1e-3}
    assert found["host_seconds"] == 4e-4


def test_a_coefficient_that_starts_at_its_lowest_value_is_fitted(monkeypatch):
    """Traffic of unfused kernels starts at 1, the least there is; kernels that take three times as long need 3."""
    monkeypatch.setattr(anchor, "time_of", lambda factor, _: 2.0 * factor)
    told = anchor.MeasuredPart("streams", 6.0, "software_specifications", "streaming_traffic_factor", lambda _: True)
    value, held = anchor._solved(told, 1.0, lambda values: values["streaming_traffic_factor"])
    assert (value, held) == (pytest.approx(3.0), False)


def test_where_something_else_limits_at_first_the_coefficient_goes_on(monkeypatch):
    """Products that wait for memory at first take no longer with a smaller rate, until the rate limits them."""
    monkeypatch.setattr(anchor, "time_of", lambda rate, _: max(5.0, 1.0 / rate))
    told = anchor.MeasuredPart("products", 8.0, "kernel_efficiencies", "gemm_sustained_fraction", lambda _: True)
    value, held = anchor._solved(told, 0.9, lambda values: values["gemm_sustained_fraction"])
    assert (value, held) == (pytest.approx(1 / 8), False)


def test_a_time_that_no_rate_reaches_is_told(monkeypatch):
    monkeypatch.setattr(anchor, "time_of", lambda rate, _: max(5.0, 1.0 / rate))
    told = anchor.MeasuredPart("products", 4.0, "kernel_efficiencies", "gemm_sustained_fraction", lambda _: True)
    assert anchor._solved(told, 0.9, lambda values: values["gemm_sustained_fraction"])[1]
