"""The default configs of the model classes of transformers 5.23.0, with the parameters of their models.

`tests/data/transformers_5_23_0.jsonl` has the values that most of them share in its first line, where a
null says that a class lacks one, and a line for each: the class's own `to_dict()` without nulls and names of labels
("given": what differs from the defaults), and the parameters of the model that it makes on torch's device `meta`: the causal
one; of an encoder, and of an encoder with a decoder, the network without a head. The towers of Qwen3.5
hand on tokens as wide as those of its text, as in published files and unlike the defaults. Made from
the wheel of transformers 5.23.0, which is under the Apache License 2.0 (Copyright The Hugging Face team).
"""

import json
from collections.abc import Sequence
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
from amped.estimation.estimation import Estimation, estimated_each
from amped.exploration.candidate_config import as_written
from amped.interop.as_config import as_config
from amped.interop.exporting import TARGETS
from amped.interop.fields import fields
from amped.interop.outgoing import Outgoing, outgoing
from amped.interop.recognition import read_file
from amped.interop.records import Imported, Report
from amped.interop.sections import nested
from amped.theory.language.quantity import ACCELERATOR, MAPPING, NETWORK, SYSTEM
from tests.helpers import drawn
from tests.helpers.cli import amped
from tests.helpers.formulas import sectioned
from tests.helpers.places import ROOT

# Weights that a class makes and its forward pass never reads. LongCat-Flash: up projections of its 256 experts without compute.
UNREAD_WEIGHTS = {"longcat_flash": 28 * 256 * 2 * 2048 * 6144}


class Real(NamedTuple):
    model_type: str
    parameters: int
    config: dict[str, Any]


@cache
def real_configs() -> tuple[Real, ...]:
    lines = (ROOT / "tests" / "data" / "transformers_5_23_0.jsonl").read_text("utf-8").splitlines()
    common, *classes = (json.loads(line) for line in lines)
    configs = [common["common"] | each["config"] for each in classes]
    return tuple(
        Real(
            each["model_type"],
            each["parameters"] - UNREAD_WEIGHTS.get(each["model_type"], 0),
            {key: value for key, value in config.items() if value is not None},
        )
        for each, config in zip(classes, configs, strict=True)
    )


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


# What every estimate needs of a network and a training, whatever a format says.
OF_EVERY_ESTIMATE = (
    "layers", "dimensionality", "attention_heads", "key_value_heads", "head_dimension", "feedforward_dimension", "gated_mlp",
    "vocabulary_size", "context", "batch_size", "number_of_accelerators", "number_of_accelerators_per_node",
)  # fmt: skip
MACHINE = ("number_of_accelerators", "number_of_accelerators_per_node")
# Formats whose files do not say how many accelerators there are, and those that say the network alone.
NO_MACHINE, NO_MAPPING = ("bridge", "huggingface"), ("huggingface",)


class RoundTrip(NamedTuple):
    """A configuration that was written in a format and read back: what the format said is lost, and what differs."""

    kept: set[str]
    differing: dict[str, tuple[Any, Any]]
    lost: set[str]


def round_trips(there: Sequence[Estimation], form: str) -> list[RoundTrip]:
    """Writes configurations in a format, reads each text as a user would, and compares every field that the format has."""
    with TemporaryDirectory() as folder:
        trips = [_there_and_back(each, form, Path(folder)) for each in there]
    again = estimated_each([scenario for _, scenario in trips])
    return [_compared(each, out, back, form) for each, (out, _), back in zip(there, trips, again, strict=True)]


def _there_and_back(there: Estimation, form: str, folder: Path) -> tuple[Outgoing, Scenario]:
    """What is written of a configuration, and the configuration that is read from it."""
    target = TARGETS[form]
    out = target.fields(there)
    saved = form.startswith("torchtitan")  # a recipe is Python, which is not read; a run saves its fields as JSON
    path = folder / f"written{'.json' if saved else target.suffix}"
    path.write_text(json.dumps(nested(out.fields)) if saved else target.write(there), "utf-8")
    found, carried, lost = read_file(path), set(fields(target.table)), {line.key for line in out.lost}
    machine = {**_surroundings(there.scenario, carried, form not in NO_MAPPING), **_needed(out, form)}
    machine["pipelined_weight_sharding"] = True  # FSDP inside a pipeline is the framework's business, not the file's
    # What is written in place of these may break a rule: the accelerator has no other format, heads do not divide.
    machine |= {name: there.choices[name] for name in ("matrix_precision", "context_parallel_kind") if name in lost}
    network = there.scenario.sources.rows.get(NETWORK)
    model = network.name if network is not None and "layers" not in carried else None
    return out, read_scenario(as_config(found, model), machine)


def _needed(out: Outgoing, form: str) -> dict[str, object]:
    """What a format leaves to its model and its launcher, by amped's names: quantities without a field in it."""
    carried = fields(TARGETS[form].table)
    missing = [name for name in OF_EVERY_ESTIMATE if name not in carried or (form in NO_MACHINE and name in MACHINE)]
    return {name: value for name in missing if (value := out.values.get(name)) is not None}


def _compared(there: Estimation, out: Outgoing, again: Estimation | AmpedError, form: str) -> RoundTrip:
    """What came back.

    Raises:
        AmpedError: if amped refuses what was read back.
    """
    if isinstance(again, AmpedError):
        raise again
    one, other = outgoing(there).values, outgoing(again).values
    carried = set(fields(TARGETS[form].table))
    names = [name for name in carried if name in one and (name != "attention_kind" or one[name] == "multi_latent")]
    differing = {name: (one.get(name), other.get(name)) for name in names if not same(one.get(name), other.get(name))}
    return RoundTrip(set(names) - set(differing), differing, {*out.idle, *(line.key for line in out.lost)})


def _surroundings(scenario: Scenario, carried: set[str], says_the_mapping: bool) -> dict[str, object]:
    """The machine of a configuration, and its network or its mapping if the format has none: rows, and what was given beside them."""
    sources, known = scenario.sources, scenario.catalogue
    wanted = {"system": SYSTEM, "accelerator": ACCELERATOR} | ({} if "layers" in carried else {"": NETWORK})
    wanted |= {} if says_the_mapping else {"software": MAPPING}
    rows = {name: sources.rows[category].name for name, category in wanted.items() if name and category in sources.rows}
    own = {
        name: as_written(known[name], origin.value, origin.written)
        for name, origin in sources.origins.items()
        if isinstance(origin, Given) and known[name].category in wanted.values() and name not in (*MACHINES, *carried)
    }
    return {**rows, **own}


# What the other format says itself.
MACHINES = ("number_of_accelerators", "number_of_nodes", "number_of_accelerators_per_node")


def same(one: Any, other: Any) -> bool:
    """Whether two values say the same; what is nothing in one may be left out in the other."""
    return one == other or (one in (None, 0, False) and other in (None, 0, False))


# Mappings of one structure (network, machine, schedule, recomputation), which are estimated together.
OF_A_STRUCTURE = 8


@cache
def drawn_estimates(number: int, seed: str) -> tuple[Estimation, ...]:
    """Mappings at random that keep all rules."""
    random, found = Random(seed), list[Estimation]()
    while len(found) < number:
        rows, values, mixture = drawn._structure(random)
        chunks = [1, 2, 4] if values["pipeline_schedule"] == "1f1b" else [1]
        configs = [values | drawn._mapping(random, chunks, mixture) for _ in range(OF_A_STRUCTURE)]
        each = estimated_each([read_scenario(sectioned(config, rows)) for config in configs])
        found += [one for one in each if isinstance(one, Estimation)]
    return tuple(found[:number])


def winners(folder: Path, number: int, form: str) -> list[str]:
    """The names of the files that an exploration saves of its best mappings, with their files in a format."""
    asked = ("minimal", "--space", "degrees", "--top", number, "--save-best", "best", "--for", form)
    found = amped("explore", *asked, folder=folder)
    assert found.returncode == 0, found.stderr
    return sorted(path.name for path in (folder / "best").iterdir())
