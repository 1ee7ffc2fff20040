"""How to make the page again: the command, the version, and the whole config."""

from __future__ import annotations

from typing import Any

from amped.base.version import __version__
from amped.configuring.config_writing import as_json
from amped.configuring.sources import Given
from amped.estimation.estimation import Estimation
from amped.exploration.candidate_config import saved_config
from amped.exploration.sweep_axes import SEARCHED
from amped.report.page.content import Section, said


def again(e: Estimation) -> Section:
    """The section with the complete config, for which `amped estimate` gives the numbers of this page."""
    config = whole_config(e)
    sentence = (f"amped {__version__}. Save the text below as config.json; then `amped estimate config.json` gives "
            "these numbers, as long as the lookup tables are the same.")  # fmt: skip
    return Section("again", "The config", said(sentence), blocks={"config.json": as_json(config)})


def whole_config(e: Estimation) -> dict[str, Any]:
    """The config of an estimate with its whole mapping, whether given or chosen."""
    origins = e.scenario.sources.origins
    mapping = {
        name: origin.written for name, origin in origins.items() if isinstance(origin, Given) and name in SEARCHED
    }
    config = saved_config(e.scenario, mapping, tuple(mapping), e.scenario.title)
    del config["$schema"]  # the place of a file on this machine
    return config
