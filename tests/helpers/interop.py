"""The default configs of the model classes of transformers 5.23.0, with the parameters of their models.

`tests/data/transformers_5_23_0.jsonl` has a line for each: the class's own `to_dict()` without nulls and names of labels
("given": what differs from the defaults), and the parameters of the model that it makes on torch's device `meta`. Made from
the wheel of transformers 5.23.0, which is under the Apache License 2.0 (Copyright The Hugging Face team).
"""

import json
from functools import cache
from typing import Any, NamedTuple

from amped.configuring.scenario import read_scenario
from amped.engine.evaluate import run
from amped.engine.resolve import plan
from amped.interop.records import Imported, Report
from tests.helpers.places import ROOT


class Real(NamedTuple):
    model_type: str
    parameters: int
    config: dict[str, Any]


@cache
def real_configs() -> tuple[Real, ...]:
    lines = (ROOT / "tests" / "data" / "transformers_5_23_0.jsonl").read_text("utf-8").splitlines()
    read = [json.loads(line) for line in lines]
    return tuple(Real(each["model_type"], each["parameters"], each["config"]) for each in read)


def default_of(model_type: str) -> dict[str, Any]:
    return dict(next(each.config for each in real_configs() if each.model_type == model_type))


def counted_parameters(found: Imported) -> int:
    """The parameters of an imported network as amped counts them."""
    parameters = {name: {"value": value} for name, value in found.values.items()}
    asked = read_scenario({"neural_network_training_parameters": {"parameters": parameters}})
    chosen = plan(asked.catalogue, ("number_of_parameters",), asked.sources)
    return int(run(chosen, asked.sources.given).number("number_of_parameters"))


def keys_told(report: Report) -> set[str]:
    """Every key that a report names."""
    return {key for _, lines in report.groups() for line in lines for key in line.key.split(", ")}
