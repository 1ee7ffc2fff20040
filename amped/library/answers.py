"""The questions that Python and the command line share: from what is asked to the answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from amped.base.errors import AmpedError, ConfigError
from amped.base.files import exists
from amped.configuring.config import shipped_configs
from amped.configuring.gathering import is_row
from amped.configuring.not_modeled import ANYWAY, NotModeled
from amped.configuring.scenario import Scenario, asked_again, read_scenario
from amped.drafting.asking import DEFAULT_CONFIG, ROWS, Asking
from amped.drafting.chooser import completed
from amped.drafting.each_value import chosen_lines
from amped.drafting.improvements import improvements
from amped.drafting.recommendation import Limits, Tell, recommended
from amped.drafting.rented import machines_of
from amped.estimation.estimation import Estimation, estimated
from amped.estimation.manners import road
from amped.estimation.not_modeled import Bound
from amped.estimation.waterfall import waterfall
from amped.interop.models import as_row, with_model
from amped.interop.recognition import read_file
from amped.interop.records import Imported
from amped.library.results import Comparison, Estimate, Recommended, Supported, Why
from amped.sensitivities.suspects import suspects
from amped.tables.recipes import MANNER, TUNED
from amped.tables.tables import user_tables
from amped.theory.language.quantity import CATEGORIES, NETWORK

# The kinds of rows that are compared.
KINDS = ("system", "accelerator", "model", "software")
# How much of a file is read to see whether it is a config of amped.
HEAD = 100_000


def reasons(asking: Asking, measured: float | None = None) -> Why:
    """What a step waits for, and what would make it faster; with a measured step (s), what would explain it."""
    scenario = asking.completed()
    return reasons_of(scenario, estimated(scenario), measured)


def reasons_of(scenario: Scenario, e: Estimation, measured: float | None = None) -> Why:
    """The same for a scenario and its estimate."""
    bars = [bar.to_dict() for bar in waterfall(e)]
    if measured is None:
        return Why(Estimate.made_of(e), bars, improvements(scenario, e), road(e))
    return Why(Estimate.made_of(e), bars, measured_step_time=measured, suspects=suspects(scenario, e, measured))


def changed(asking: Asking, change: Mapping[str, object], shows_all: bool = False) -> Comparison:
    """A configuration beside itself with a change; what was chosen for the first stays in the second.

    Raises:
        ConfigError: if there is no change.
    """
    if not change:
        raise ConfigError(
            "there is no change", "say one with --set NAME=VALUE; options such as --tp are of the configuration itself"
        )
    base = asking.completed()
    both = (base, asked_again(base.question, change))
    return Comparison([Estimate.made_of(estimated(scenario)) for scenario in both], shows_all=shows_all)


def compared(names: Sequence[str], asking: Asking) -> Comparison:
    """Two configs, or a config and itself with other values, beside one another.

    Raises:
        ConfigError: if there are no two configurations to compare, or more than two.
    """
    if not names or (len(names) == 1 and not asking.values):
        raise ConfigError("there is nothing to compare with",
                          'name two configs, change one with --set, or: --vary system="DGX H100,DGX B200"')  # fmt: skip
    if len(names) > 2:
        raise ConfigError(f"{len(names)} configs are more than two", "amped scenario-summary draws several")
    tables = asking.lookup_tables
    both = (read_scenario(names[0], {}, tables), read_scenario(names[-1], asking.given(), tables))
    return Comparison([Estimate.made_of(estimated(scenario)) for scenario in both])


def swept(asking: Asking, sweeps: Mapping[str, Sequence[object]]) -> Comparison:
    """The mapping that an estimate chooses, for each combination of values."""

    def scenario_of(values: Mapping[str, object]) -> Scenario:
        """The scenario of some values."""
        return asking._replace(values={**asking.values, **values}).completed()

    lines = chosen_lines(scenario_of, sweeps)
    return Comparison([Estimate.made_of(line.estimation) for line in lines if line.estimation], lines)


def kind_of_rows(names: Sequence[str], lookup_tables: Any) -> str:
    """The kind of rows that most names are; empty if one is a config, or if none is a row."""
    if len(names) < 2 or any(name in shipped_configs() or exists(Path(name)) for name in names):
        return ""
    tables = user_tables(lookup_tables)
    numbers = {kind: sum(is_row(tables, kind, name) for name in names) for kind in KINDS}
    kind = max(KINDS, key=numbers.__getitem__)
    return kind if numbers[kind] else ""


def machines(
    config: str | None, given: Mapping[str, object], systems: Sequence[str], limits: Limits, lookup_tables: Any,
    words: Sequence[str] = (), tell: Tell = lambda *_: None,
) -> tuple[Recommended, list[Scenario]]:  # fmt: skip
    """The machines that keep the limits, and the question that was asked for each system; `tell` is told of each size."""
    values = with_model(given, lookup_tables)
    is_tuned = values.get(MANNER) == TUNED and config in (None, DEFAULT_CONFIG)
    values = {name: value for name, value in values.items() if name != MANNER or not is_tuned}
    asked = _of_systems(config or DEFAULT_CONFIG, values, systems, lookup_tables)
    found = recommended(asked, limits, is_tuned, tell)
    title = asked[0].sources.rows[NETWORK].name if "model" in values else asked[0].label
    return Recommended(title, limits, found, words), asked


def _of_systems(config: str, given: Mapping[str, object], names: Sequence[str], tables: Any) -> list[Scenario]:
    """The question for each system that is named; for none, as it is. Where rows are named and no config is, values stay open."""
    names_no_machine = not names and config == DEFAULT_CONFIG and not {"system", "accelerator"} & given.keys()
    if names_no_machine and "cloud" in given:
        names = machines_of(user_tables(tables), str(given["cloud"]), given.get("term"))
    systems: list[dict[str, object]] = [{"system": row} for row in dict.fromkeys(names)] or [{}]
    open_config: Any = {} if config == DEFAULT_CONFIG and ROWS & {*given, *systems[0]} else config
    return [read_scenario(open_config, {**given, **row}, tables) for row in systems]


def imported_file(config: object) -> Imported | None:
    """The imported file of another tool; None for a shipped config, another config of amped, or no file."""
    if not isinstance(config, str | Path):
        return None
    path = Path(config).expanduser()
    if str(config) in shipped_configs() or not exists(path):
        return None
    if path.is_file() and any(category in path.read_text("utf-8", "replace")[:HEAD] for category in CATEGORIES):
        return None
    return read_file(path)


def evidence(asking: Asking) -> Supported:
    """What of a configuration is modeled, and what of it is validated; the config may be a file of another tool."""
    asking = asking._replace(values={**asking.values, ANYWAY: True})
    imported = imported_file(asking.config)
    scenario = asking.completed() if imported is None else _around(imported, asking)
    try:
        result = estimated(scenario)
    except AmpedError as error:
        raise type(error)(error.problems, file=scenario.label) from None
    return _evidence(result, scenario, imported)


def _evidence(result: Estimation, scenario: Scenario, imported: Imported | None) -> Supported:
    """What is modeled and validated of an estimate, and of the file that it comes from."""
    report = imported.report if imported else None
    of_file = [NotModeled(str(line)) for line in report.unsupported] if report else []
    further = (Bound(part.what, {}) for part in of_file if part not in scenario.sources.not_modeled)
    missing: Iterable[Bound] = (*result.not_modeled, *further)
    ignored = [str(line) for line in report.ignored] if report else []
    from amped.validation.support import support

    found = support(result, [str(part) for part in missing], ignored)
    return Supported(imported.name if imported else scenario.title, found)


def _around(imported: Imported, asking: Asking) -> Scenario:
    """The scenario of an imported file with further values; amped chooses all other values."""
    of_file: dict[str, Any] = dict(imported.values)
    if imported.source == "huggingface":
        of_file = {"model": {**as_row(imported), "notices": []}}
    if {"number_of_steps", "batch_size", "context"} <= of_file.keys():  # the chooser counts a training in tokens
        of_file["tokens_to_train"] = of_file.pop("number_of_steps") * of_file["batch_size"] * of_file["context"]
    software = {"software": imported.software} if imported.software else {}
    question = {**software, **of_file, **with_model(asking.values, asking.lookup_tables)}
    return completed(question, asking.lookup_tables, asking.formulas)
