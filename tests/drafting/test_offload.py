"""Where nothing fits on the accelerators, the chooser keeps states and activations on the host, and says so."""

from amped.configuring.sources import CHOSEN
from amped.drafting.asking import Asking
from amped.estimation.estimation import estimated
from amped.report.screen import mapping_in_words

SMALL = {"model": "Llama 3 70B", "system": "DGX H100", "number_of_accelerators": 8}


def test_what_fits_on_no_accelerator_is_kept_on_the_host() -> None:
    e = estimated(Asking(None, SMALL).completed())
    assert e["fits_in_memory"]
    assert e["optimizer_offload"] == 1
    assert e.scenario.sources.origins["optimizer_offload"].where == CHOSEN
    assert "all optimizer states on the host" in mapping_in_words(e)
    assert any(
        "fits with all states and activations on the accelerators" in notice for notice in e.scenario.sources.notices
    )


def test_who_gives_a_share_or_has_room_keeps_it() -> None:
    given = estimated(Asking(None, SMALL | {"optimizer_offload": 0}).completed())
    assert (given["fits_in_memory"], given["optimizer_offload"], given["activation_offload"]) == (0, 0, 0)
    roomy = estimated(Asking(None, SMALL | {"number_of_accelerators": 32}).completed())
    assert (roomy["fits_in_memory"], roomy["optimizer_offload"]) == (1, 0)
    assert "host" not in mapping_in_words(roomy)
