"""Formulas of a user: they add quantities and take the place of ours."""

from inspect import getsource
from pathlib import Path

import pytest

import amped
from amped.estimation.parts import STEP_PARTS
from amped.theory.language.quantity import NETWORK, SYSTEM, quantity
from amped.theory.step import parts
from tests.helpers.formulas import module_of, page, sectioned

TAX = """
@quantity("1", category=MAPPING)
def tax_fraction(number_of_nodes):
    "Share lost to the network's owner. Source: me."
    return 0.01 * number_of_nodes

@quantity("s")
def step_time(compute_forward_time, tax_fraction):
    "Mine: forward time and tax. Source: me."
    return compute_forward_time * (1 + tax_fraction)
"""


def test_formulas_of_a_module_add_a_quantity_and_take_the_place_of_ours() -> None:
    mine = page(TAX)
    estimate = amped.estimate("default", formulas=mine)
    assert estimate["tax_fraction"] == 0.01 * 128
    assert estimate["step_time"] == estimate["compute_forward_time"] * (1 + estimate["tax_fraction"])
    assert amped.estimate("default", formulas=mine, tax_fraction=0.5)["tax_fraction"] == 0.5
    assert amped.explain("tax_fraction", formulas=mine).source == "me."
    assert "tax_fraction" not in amped.estimate("default")


def test_formulas_of_a_file_do_the_same(tmp_path: Path) -> None:
    mine = tmp_path / "tax.py"
    mine.write_text(f"from amped.quantity import MAPPING, quantity\n{TAX}", "utf-8")
    assert amped.estimate("default", formulas=mine)["tax_fraction"] == 0.01 * 128
    assert amped.explore("default", formulas=mine, number_of_accelerators=64, batch_size=64, top=1).candidates > 0


def test_a_file_of_formulas_that_changed_is_read_again(tmp_path: Path) -> None:
    mine = tmp_path / "changing.py"
    for share in (0.01, 0.25):
        mine.write_text(f"from amped.quantity import MAPPING, quantity\n{TAX.replace('0.01', str(share))}", "utf-8")
        assert amped.estimate("default", formulas=mine)["tax_fraction"] == share * 128


def test_a_plain_name_takes_the_place_of_the_performance_models_formula() -> None:
    mine = page('@quantity("s")\ndef optimizer_time(weight_bytes):\n    "Source: me."\n    return 0 * weight_bytes')
    assert amped.estimate("default", formulas=mine)["optimizer_time"] == 0


def test_a_function_of_a_user_without_a_mark_is_no_formula() -> None:
    def optimizer_time__operators(weight_bytes: object) -> float:
        return 1.0

    unmarked = module_of(optimizer_time__operators)
    with pytest.raises(amped.AmpedError, match="has no marked function"):
        amped.estimate("default", formulas=unmarked)
    marked = module_of(quantity("s")(optimizer_time__operators))
    assert amped.estimate("default", formulas=marked)["optimizer_time"] == 1.0


def test_a_file_with_a_copy_of_our_formulas_gives_what_we_give(tmp_path: Path) -> None:
    """To the last digit, also where layers of two kinds stand on the bottleneck stage: the place of a formula is no input."""
    copied = [getsource(f) for f in (parts.recomputation_time__operators, parts.weight_update_time__operators)]
    imports = [line for line in getsource(parts).splitlines() if line.startswith(("import ", "from "))]
    mine = tmp_path / "own.py"
    mine.write_text("\n".join([*imports, *copied]), "utf-8")
    config = sectioned({
        "number_of_accelerators": 512, "pipeline_parallel_degree": 8, "tensor_parallel_degree": 2, "expert_parallel_degree": 8,
        "batch_size": 1024, "microbatch_size": 1, "tokens_to_train": "1 T", "activation_recomputation": "full",
    }, {NETWORK: "DeepSeek V3", SYSTEM: "DGX H100"})  # fmt: skip
    ours, theirs = amped.estimate(config), amped.estimate(config, formulas=mine)
    dense, mixture = ours.results.records("layer_computation")
    assert dense.recomputation != mixture.recomputation
    assert dense.weight_gradient != mixture.weight_gradient
    assert [theirs[name] for name in STEP_PARTS] == [ours[name] for name in STEP_PARTS]
    assert theirs["step_time"] == ours["step_time"]
