"""The format of products on the screen: scales of blocks are mxfp8 only where the matrix unit reads them."""

import pytest

import amped
from amped.report.screen import what_is_trained


@pytest.mark.parametrize(("system", "words"), [("DGX H100", "blockwise fp8"), ("DGX B200", "mxfp8")])
def test_fp8_in_blocks_is_named_as_the_accelerator_has_it(system: str, words: str) -> None:
    e = amped.estimate(
        model="Llama 3 8B", system=system, number_of_accelerators=8, fp8_scaling="blocks", precision="fp8"
    )
    assert what_is_trained(e).endswith(f", {words}")
