"""The machine and its software that nobody names: of the accelerator's own form, and with runs on it."""

import json

import pytest

import amped
from amped.theory.language.quantity import MAPPING, SYSTEM
from tests.helpers.cli import printed, refused

LLAMA = ("--model", "Llama 2 7B", "--gpus", 64)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("accelerator", "system"),
    [
        ("RTX 3090", "RTX 3090 box (PCIe Gen4)"),
        ("RTX 5090", "RTX 5090 box (PCIe Gen5)"),
        ("T4", "T4 box (PCIe Gen3)"),
        ("L40S", "L40S box (PCIe Gen4)"),
        ("H100 PCIe", "PCIe Gen5 box"),
        ("H20", "HGX H20 (8x)"),
        ("MI300A", "MI300A node (4x with Slingshot 11)"),
        ("MI325X", "MI325X platform (8x)"),
        ("H100 SXM", "DGX H100"),
    ],
)
def test_an_accelerator_gets_a_system_of_its_own_form(accelerator, system):
    asked = {"model": "Llama 2 7B", "gpus": 64, "accelerator": accelerator}
    assert amped.estimate(**asked).scenario.sources.rows[SYSTEM].name == system


def test_where_no_system_is_known_the_question_is_asked(tmp_path):
    row = {
        "vendor": "us",
        "fp16_peak_flop_rate": "21.2 TFLOP/s",
        "memory_capacity": "16 GB",
        "memory_bandwidth": "732 GB/s",
    }
    rows = {"accelerator_specifications": {"Ours": row}}
    (tmp_path / "ours.json").write_text(json.dumps(rows), "utf-8")
    asked = (*LLAMA, "--accelerator", "Ours", "--lookup-tables", tmp_path)
    code, told = refused("estimate", *asked)
    assert code == 2
    assert "no system is known that is built with 'Ours'" in told
    assert "--system ROW" in told
    given = ("--set", "number_of_accelerators_per_node=8", "--set", "inter_accelerator_bandwidth=80 GB/s")
    assert printed("estimate", *asked, *given).startswith("Llama 2 7B on 64 Ours")


@pytest.mark.parametrize(
    ("accelerator", "software"),
    [
        ("A100", "Megatron-Core"),  # no run of Megatron-Bridge was validated on it
        ("RTX 3090", "Megatron-Core"),  # of the same generation
        ("H100 SXM", "Megatron-Bridge"),
        ("RTX 4090", "Megatron-Bridge"),  # no run on its generation: what most people use
        ("TPU v5p", "MaxText"),
    ],
)
def test_software_has_runs_on_the_accelerator_or_its_generation(accelerator, software):
    assert f"software {software}:" in printed("estimate", *LLAMA, "--accelerator", accelerator)


@pytest.mark.parametrize(
    ("system", "software"),
    [
        ("Selene", "Megatron-LM 2021"),  # a cluster of 2020
        ("Perlmutter GPU node (4xA100 with Slingshot 11)", "Megatron-LM 2022"),
        ("DGX A100", "Megatron-Core"),  # a product, which people use today
    ],
)
def test_the_year_of_a_cluster_chooses_the_software(system, software):
    sources = amped.estimate(model="Llama 2 7B", gpus=64, system=system).scenario.sources
    assert sources.rows[MAPPING].name == software
    assert any("was of its time" in notice for notice in sources.notices) == (system != "DGX A100")
    assert sources.given["flash_attention"] == (software == "Megatron-Core")


def test_software_that_is_named_stays_on_an_old_cluster():
    sources = amped.estimate(model="Llama 2 7B", gpus=64, system="Selene", software="Megatron-Bridge").scenario.sources
    assert sources.rows[MAPPING].name == "Megatron-Bridge"
    assert not any("was of its time" in notice for notice in sources.notices)


def test_several_machines_are_compared_with_the_software_of_today():
    """Else the order of a list would decide."""
    orders = ("DGX A100,DGX H100", "DGX H100,DGX A100")
    found = [
        json.loads(printed("explore", *LLAMA, "--vary", f"system={order}", "--space", "quick", "--top", 1, "--json"))
        for order in orders
    ]
    assert found[0]["best"][0]["step_time"] == found[1]["best"][0]["step_time"]


def test_a_utilization_above_all_that_was_measured_is_told():
    told = " ".join(
        printed(
            "estimate",
            "--model",
            "Llama 3 8B",
            "--gpus",
            8,
            "--accelerator",
            "A100",
            "--set",
            "training_clock_fraction=1",
        ).split()
    )
    assert "measured up to" in told
    usual = " ".join(printed("estimate", "--model", "Llama 3 8B", "--gpus", 8).split())
    assert "measured up to" not in usual
