"""How to make the page again: the command, the version, and the whole config."""

from __future__ import annotations

from amped.base.version import __version__
from amped.configuring.config_writing import as_json
from amped.estimation.estimation import Estimation
from amped.exploration.candidate_config import saved_config
from amped.report.page.content import Section, said


def again(e: Estimation) -> Section:
    """The complete config: `amped estimate` gives the numbers of this page for it."""
    config = saved_config(e.scenario, {}, (), e.scenario.title)
    del config["$schema"]  # the place of a file on this machine
    told = (f"amped {__version__}. Save the text below as config.json; then `amped estimate config.json` gives "
            "these numbers, as long as the lookup tables are the same.")  # fmt: skip
    return Section("again", "The config", said(told), blocks={"config.json": as_json(config)})
