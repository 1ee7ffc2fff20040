"""The default configs of the model classes of transformers 5.23.0, with the parameters of their models.

`tests/data/transformers_5_23_0.jsonl` has a line for each: the class's own `to_dict()` without nulls and names of labels
("given": what differs from the defaults), and the parameters of the model that it makes on torch's device `meta`. Made from
the wheel of transformers 5.23.0, which is under the Apache License 2.0 (Copyright The Hugging Face team).
"""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from amped.base.errors import AmpedError
from amped.configuring.scenario import Scenario, read_scenario
from amped.configuring.sources import Given
from amped.engine.evaluate import run
from amped.engine.resolve import plan
from amped.estimation.estimation import Estimation, estimated
from amped.exploration.candidate_config import as_written
from amped.interop.as_config import as_config
from amped.interop.exporting import TARGETS
from amped.interop.fields import fields
from amped.interop.outgoing import outgoing
from amped.interop.recognition import read_file
from amped.interop.records import Imported, Report
from amped.theory.quantity import ACCELERATOR, SYSTEM
from tests.helpers import drawn
from tests.helpers.formulas import sectioned
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


class RoundTrip(NamedTuple):
    """A configuration that was written in a format and read back: what the format said is lost, and what differs."""

    kept: set[str]
    differing: dict[str, tuple[Any, Any]]
    lost: set[str]


def round_trip(there: Estimation, form: str) -> RoundTrip:
    """Writes a configuration in a format, reads the text as a user would, and compares every field that the format has."""
    scenario, target = there.scenario, TARGETS[form]
    out = target.fields(there)
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"written{target.suffix}"
        path.write_text(target.write(there), "utf-8")
        found = read_file(path)
    machine = {**_machine(scenario), **target.needed(there)}
    machine |= {name: True for name in ("pipelined_weight_sharding",) if name in scenario.sources.origins}
    again = estimated(read_scenario(as_config(found), machine), Estimation)
    one, other = outgoing(there).values, outgoing(again).values
    names = [name for name in fields(target.table) if name != "attention_kind" or one.get(name) == "multi_latent"]
    differing = {name: (one.get(name), other.get(name)) for name in names if not same(one.get(name), other.get(name))}
    return RoundTrip(set(names) - set(differing), differing, {*out.idle, *(line.key for line in out.lost)})


def _machine(scenario: Scenario) -> dict[str, object]:
    """The machine of a configuration: its rows, and what was given beside them."""
    sources, known = scenario.sources, scenario.catalogue
    rows = {
        name: sources.rows[category].name
        for name, category in (("system", SYSTEM), ("accelerator", ACCELERATOR))
        if category in sources.rows
    }
    own = {
        name: origin
        for name, origin in sources.origins.items()
        if isinstance(origin, Given) and known[name].category in (SYSTEM, ACCELERATOR)
    }
    return rows | {
        name: as_written(known[name], origin.value, origin.written)
        for name, origin in own.items()
        if name not in MACHINES
    }


# What the other format says itself.
MACHINES = ("number_of_accelerators", "number_of_nodes", "number_of_accelerators_per_node")


def same(one: Any, other: Any) -> bool:
    """Whether two values say the same; what is nothing in one may be left out in the other."""
    return one == other or (one in (None, 0, False) and other in (None, 0, False))


def drawn_estimates(number: int, seed: str) -> Iterator[Estimation]:
    """Mappings at random that keep all rules."""
    random, found = Random(seed), 0
    while found < number:
        rows, values, mixture = drawn._structure(random)
        config = values | drawn._mapping(random, [1, 2, 4] if values["pipeline_schedule"] == "1f1b" else [1], mixture)
        try:
            drawn_one = estimated(read_scenario(sectioned(config, rows)), Estimation)
        except AmpedError:
            continue
        found += 1
        yield drawn_one
