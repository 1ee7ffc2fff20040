"""Attention to compressed keys and residual streams in Megatron-LM's arguments: in and out, as DeepSeek V4 has them."""

import pytest

from amped.base.errors import AmpedError
from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import estimated
from amped.interop import megatron
from amped.interop.megatron_compressed import SIZES
from amped.tables.table_files import MODELS
from amped.tables.tables import Tables

# What the row of a network says and a launch line has, too.
SAID = ("layers", "number_of_windowed_layers", "number_of_sparsely_compressed_layers", "number_of_heavily_compressed_layers",
        "attention_window", "indexer_heads", "indexer_head_dimension", "indexed_keys", "residual_streams", "sinkhorn_iterations",
        "attention_kind", "key_value_heads", "attention_sinks", *SIZES)  # fmt: skip


def launch(network: str) -> str:
    """The script that starts a network on 512 accelerators."""
    asked = {"model": network, "system": "DGX H100", "number_of_accelerators": 512, "expert_parallel_degree": 64,
             "data_parallel_degree": 512, "tensor_parallel_degree": 1, "pipeline_parallel_degree": 1,
             "batch_size": 512, "microbatch_size": 1}  # fmt: skip
    return megatron.write(estimated(read_scenario("minimal", asked)))


@pytest.mark.parametrize("network", ["DeepSeek V4 Flash", "DeepSeek V4 Pro"])
def test_a_network_comes_back(network: str) -> None:
    row = Tables().row(MODELS, network).columns
    found = megatron.read(launch(network), "launch.sh").values
    assert {name: found.get(name) for name in SAID} == {name: row[name] for name in SAID}
    assert not {"key_value_latent_dimension", "value_head_dimension"} & found.keys()


def test_layers_stand_in_the_order_of_the_class() -> None:
    assert "--csa-compress-ratios '([0,0]+[4,128]*20+[4])'" in launch("DeepSeek V4 Flash")
    assert "--csa-compress-ratios '([128,128]+[4,128]*29+[4])'" in launch("DeepSeek V4 Pro")
    assert "softmax-type" not in launch("DeepSeek V4 Pro")  # this attention always has sinks


@pytest.mark.parametrize(
    ("ratios", "told"),
    [
        ("[4,128]*3", "fewer than the 43 layers"),
        ("[4,64]*43", "neither a number nor a list of 0, 4 and 128"),
        ("4", "fewer than"),
    ],
)
def test_other_ratios_are_refused_with_an_example(ratios: str, told: str) -> None:
    text = launch("DeepSeek V4 Flash").replace("([0,0]+[4,128]*20+[4])", ratios)
    with pytest.raises(AmpedError) as refused:
        megatron.read(text, "launch.sh")
    assert told in str(refused.value)
    assert "([0,0]+[4,128]*20+[4])" in str(refused.value)
