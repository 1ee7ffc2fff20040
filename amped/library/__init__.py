"""The Python interface: what `import amped` offers. Every verb is a function that returns an answer.

Numbers are in SI units (s, bytes, FLOP, W, J, USD); where a parameter has a unit, a text such as "96 GB" or "30 days" is read, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from amped.base.errors import ConfigError
from amped.base.files import write_atomically
from amped.base.units import parse
from amped.configuring.config import Config, read_config
from amped.configuring.scenario import ConfigSource, Scenario, formula_module, standing_formulas
from amped.drafting.asking import Asking
from amped.drafting.recommendation import Limits
from amped.drafting.tuning import USUAL, tuned
from amped.estimation.estimation import estimated
from amped.estimation.explanation import Explanation, explained
from amped.exploration.answer import explored
from amped.exploration.executors import Spread, opened
from amped.exploration.request import Options
from amped.exploration.running import ALONE, Run, load
from amped.library import answers
from amped.library.results import (
    Calibrated,
    Comparison,
    Effects,
    Explored,
    ImportedConfig,
    Recommended,
    Supported,
    Tuned,
    Validation,
    Why,
)
from amped.library.results import Estimate as Estimate
from amped.library.words import speaks_python
from amped.sensitivities.analysis import HARDWARE_AND_MAPPING, STEP, analyzed
from amped.tables.table_files import LookupTables
from amped.theory.language.catalogue import catalogue

Formulas = ModuleType | str | Path | None
# An amount: a number in SI units, or a text with its unit.
Amount = float | str


@speaks_python
def load_config(config: str | Path | Mapping[str, Any], formulas: Formulas = None) -> Config:
    """Reads and checks a config.

    Args:
        config: a file, the name of a shipped config, or a mapping.
        formulas: a module (or file) of marked functions to use in addition to amped's.

    Returns:
        The config, which every function takes.

    Raises:
        AmpedError: with all problems, each with its JSON path.

    Examples:
        >>> amped.load_config("default").label
        'default'
    """
    extra = (*standing_formulas(), *((formula_module(formulas),) if formulas is not None else ()))
    return read_config(config, catalogue(extra))


@speaks_python
def estimate(
    config: ConfigSource | None = None,
    *,
    lookup_tables: LookupTables = None,
    anchor: str | Path | None = None,
    formulas: Formulas = None,
    **overrides: object,
) -> Estimate:
    """Estimates the training time of one configuration, where it goes, and whether it fits.

    Args:
        config: a file, the name of a shipped config, a mapping, or what `load_config` or `import_config` returned. If there is
            none, and a model, a system or an accelerator is named, the rest is chosen as `amped estimate` does: the mapping,
            the batch, the software. If none of these is named either, it is the config "default".
        lookup_tables: a folder (or file) of lookup tables that overrule the shipped ones; or several, the later over the
            earlier.
        anchor: a file with a measured step of yours (a table or a log), or with a layer of `amped bench anchor`: it moves what it tells
            of your accelerator and software, and narrows the band.
        formulas: a module (or file) of marked functions to use in addition to amped's.
        overrides: values by name, as numbers in SI units or texts with a unit (`tensor_parallel_degree=4`,
            `memory_capacity="96 GB"`), and rows under `model`, `system`, `accelerator` and `software`.

    Returns:
        The results by name, in SI units: `e.step_time` (s), `e.mfu`, `e["memory_per_accelerator_bytes"]` (bytes).

    Raises:
        AmpedError: with all problems, and what to do about them.

    Examples:
        >>> e = amped.estimate(model="Llama 3 8B", system="DGX H100", number_of_accelerators=64)
        >>> e.fits_in_memory, e.number_of_accelerators, 0.4 < e.mfu < 0.7
        (True, 64, True)
    """
    if anchor is not None:
        from amped.calibration.anchors import over_tables

        lookup_tables = over_tables(Path(anchor), overrides, lookup_tables).tables
    return Estimate.made_of(estimated(_scenario(config, overrides, lookup_tables, formulas)))


def _scenario(
    config: ConfigSource | None, overrides: Mapping[str, object], tables: LookupTables, formulas: Formulas
) -> Scenario:
    """The scenario that a call describes. Without a config, the chooser fills in all that is not given, as on the command line."""
    return Asking(config, overrides, tables, formulas).completed()


@speaks_python
def explain(
    name: str,
    config: ConfigSource | None = None,
    *,
    inside: bool = False,
    lookup_tables: LookupTables = None,
    formulas: Formulas = None,
    **overrides: object,
) -> Explanation:
    """The tree of formulas that leads to one value.

    Args:
        name: the name of the quantity, or a word for it.
        config: as in `estimate`.
        inside: whether the tree also has the quantities that only their own chapter uses.
        lookup_tables: as in `estimate`.
        formulas: as in `estimate`.
        overrides: as in `estimate`.

    Returns:
        The tree, with the value, the unit and the source of each quantity.

    Raises:
        AmpedError: for a name that does not exist, and as `estimate`.

    Examples:
        >>> amped.explain("step_time", "default").name
        'step_time'
    """
    return explained(_scenario(config, overrides, lookup_tables, formulas), name, inside)


@speaks_python
def explore(
    config: ConfigSource | None = None,
    *,
    top: int = 10,
    vary: Mapping[str, Any] | None = None,
    space: str = "default",
    where: str | Sequence[str] = (),
    objective: str = "training_time",
    largest: bool | None = None,
    pareto: tuple[str, str] | None = None,
    each: Sequence[str] = (),
    workers: int = 1,
    resume: str | Path | None = None,
    yes: bool = False,
    lookup_tables: LookupTables = None,
    formulas: Formulas = None,
    **overrides: object,
) -> Explored:
    """Evaluates all valid mappings and ranks them.

    Args:
        config: as in `estimate`; all but the mapping is chosen. A list as a value is a sweep.
        top: how many of the best mappings to return.
        vary: further sweeps, name to list of values; rows under `model`, `system`, `accelerator` and `software`.
        space: what is searched by itself: "default", "quick", "full", "memory", or "degrees" (with the micro-batch only).
        where: limits that results must keep, such as "memory_per_accelerator_bytes < 70 GB".
        objective: the quantity to rank by.
        largest: whether more of the objective is better, if its name does not say so.
        pareto: two quantities whose Pareto front is returned, too.
        each: swept names; `groups` then has the best mappings of each combination of their values.
        workers: processes to evaluate with (a script then needs `if __name__ == "__main__":` around the call).
        resume: a file that keeps the finished parts; a run with this file goes on from them.
        yes: explore also a space of so many candidates that it takes hours.
        lookup_tables: as in `estimate`.
        formulas: as in `estimate`.
        overrides: as in `estimate`; `number_of_accelerators` is the size of the machine.

    Returns:
        The exploration: `best` has the best mappings with every result by name, in SI units.

    Raises:
        AmpedError: for an impossible sweep, or if the degrees of no mapping multiply and divide as they must.

    Examples:
        >>> found = amped.explore(model="Llama 3 8B", system="DGX H100", number_of_accelerators=8, space="quick", top=2)
        >>> len(found.best), found.best[0]["step_time"] <= found.best[1]["step_time"]
        (2, True)
    """
    limits = (where,) if isinstance(where, str) else tuple(where)
    options = Options(top, space, limits, objective, largest, pareto, tuple(each), yes=yes)
    asked, sweeps = Asking(config, overrides, lookup_tables, formulas).searched(vary or {})
    with opened(Spread(workers=workers, warm_up=load)) as engine:
        run = Run(engine or ALONE.engine, Path(resume) if resume else None)
        return Explored.made_of(explored(asked, options, sweeps, run))


@speaks_python
def why(
    config: ConfigSource | None = None,
    *,
    measured: Amount | None = None,
    measured_mfu: float | None = None,
    lookup_tables: LookupTables = None,
    formulas: Formulas = None,
    **overrides: object,
) -> Why:
    """What a step waits for, and which single changes make it faster; or what would explain a measured step.

    Args:
        config: as in `estimate`.
        measured: the measured time of a step (s).
        measured_mfu: the measured utilization instead, between 0 and 1.
        lookup_tables: as in `estimate`.
        formulas: as in `estimate`.
        overrides: as in `estimate`.

    Returns:
        The waterfall from the peak rate to the step, and changes or suspects, the best first.

    Raises:
        AmpedError: if two measures are given, or one that is no step; and as `estimate`.

    Examples:
        >>> found = amped.why(model="Llama 3 8B", system="DGX A100", number_of_accelerators=8)
        >>> round(sum(bar["time"] for bar in found.waterfall) / found.estimate.step_time, 6)
        1.0
    """
    if measured is not None and measured_mfu is not None:
        raise ConfigError("measured and measured_mfu are measures of one step", "keep one")
    asking, step = Asking(config, overrides, lookup_tables, formulas), _amount(measured, "s", "measured")
    if measured_mfu is not None:
        if not 0 < measured_mfu <= 1:
            raise ConfigError(f"measured_mfu={measured_mfu} is no measure of a step", "it is above 0 and at most 1")
        e = estimated(asking.completed())
        step = e["model_flops_utilization"] * e["step_time"] / measured_mfu
    return answers.reasons(asking, step)


def _amount(amount: Amount | None, unit: str, name: str) -> float | None:
    """A number in a unit, from a number or a text; None stays None.

    Raises:
        ConfigError, UnitError: for a text that is no amount, or a number that is not above zero.
    """
    if amount is None:
        return None
    number = parse(amount, unit)
    if not number > 0:
        raise ConfigError(f"{name}={amount!r} leaves nothing", "give more than zero")
    return number


@speaks_python
def whatif(
    config: ConfigSource | None = None,
    *,
    change: Mapping[str, object],
    lookup_tables: LookupTables = None,
    formulas: Formulas = None,
    **overrides: object,
) -> Comparison:
    """What a change does: one configuration beside itself, changed. All else stays as it is, also what amped chose.

    Args:
        config: as in `estimate`.
        change: the changed values by name, as numbers in SI units or texts with a unit.
        lookup_tables: as in `estimate`.
        formulas: as in `estimate`.
        overrides: as in `estimate`; of the configuration itself.

    Returns:
        Both estimates, without and with the change.

    Raises:
        AmpedError: if there is no change, and as `estimate`.

    Examples:
        >>> both = amped.whatif("default", change={"memory_bandwidth": "4 TB/s"})
        >>> both.estimates[1].step_time < both.estimates[0].step_time
        True
    """
    return answers.changed(Asking(config, overrides, lookup_tables, formulas), change)


@speaks_python
def compare(
    *names: str,
    vary: Mapping[str, Sequence[object]] | None = None,
    lookup_tables: LookupTables = None,
    formulas: Formulas = None,
    **overrides: object,
) -> Comparison:
    """Two configs side by side, or the mapping that amped chooses for each of several systems, models or values.

    Args:
        names: two configs; or rows of one kind: systems, accelerators, models or software.
        vary: the compared values instead, name to list of values in SI units.
        lookup_tables: as in `estimate`.
        formulas: as in `estimate`.
        overrides: as in `estimate`; of two configs, they change the second.

    Returns:
        The estimates. Costs of several lists of prices are not compared, and `to_dict()` says so.

    Raises:
        AmpedError: if there is nothing to compare, and as `estimate`.

    Examples:
        >>> found = amped.compare("DGX A100", "DGX H100", model="Llama 3 8B", number_of_accelerators=8)
        >>> found.estimates[1].training_time < found.estimates[0].training_time
        True
    """
    asking = Asking(None, overrides, lookup_tables, formulas)
    kind = answers.kind_of_rows(names, lookup_tables)
    sweeps = {**(vary or {}), **({kind: names} if kind else {})}
    return answers.swept(asking, sweeps) if sweeps else answers.compared(names, asking)


@speaks_python
def recommend(
    *systems: str,
    deadline: Amount | None = None,
    budget: Amount | None = None,
    config: str | None = None,
    lookup_tables: LookupTables = None,
    **overrides: object,
) -> Recommended:
    """The fewest accelerators that train a network by a deadline, or the fastest machine within a budget.

    Args:
        systems: rows to choose from; without any, what `overrides` name, or the machines of a `cloud`.
        deadline: when it must be trained (s, or "30 days").
        budget: what it may cost (USD, or "2 million USD").
        config: the name or the file of a config, if one is meant.
        lookup_tables: as in `estimate`.
        overrides: as in `estimate`, without the size of the machine.

    Returns:
        A recommendation for each system, the best first.

    Raises:
        AmpedError: if neither a deadline nor a budget is given, and as `estimate`.

    Examples:
        >>> best = amped.recommend("DGX H100", model="Llama 3 8B", tokens_to_train=1e11, deadline="30 days")[0]
        >>> best.estimate["training_time"] < 30 * 86400
        True
    """
    limits = Limits(_amount(deadline, "s", "deadline"), _amount(budget, "dollar", "budget"))
    found, _ = answers.machines(config, overrides, systems, limits, lookup_tables)
    return found


@speaks_python
def sensitivity(
    config: ConfigSource | None = None,
    *,
    of: str = "step_time",
    kinds: Sequence[str] = HARDWARE_AND_MAPPING,
    step: float = STEP,
    lookup_tables: LookupTables = None,
    formulas: Formulas = None,
    **overrides: object,
) -> Effects:
    """How a result changes with each parameter alone: elasticities, and the effect of the next whole values.

    Args:
        config: as in `estimate`; the first value of a list is the configuration's own, and the others are tried.
        of: the name of the result; any quantity that is a number.
        kinds: kinds of parameters: mapping, system, accelerator, model, experiment.
        step: the share by which continuous parameters are varied, down and up.
        lookup_tables: as in `estimate`.
        formulas: as in `estimate`.
        overrides: as in `estimate`; the values of a list are tried.

    Returns:
        The effect of each parameter, the largest first; `found["frequency"].elasticity` has no unit.

    Raises:
        AmpedError: for a result or a kind that does not exist, and as `estimate`.

    Examples:
        >>> amped.sensitivity("default", kinds=["accelerator"])["frequency"].elasticity < 0
        True
    """
    return Effects.made_of(analyzed(_scenario(config, overrides, lookup_tables, formulas), of, kinds, step))


@speaks_python
def validate(table: str | Path | None = None, *, lookup_tables: LookupTables = None) -> Validation:
    """Compares predictions with measurements: every row of a table is estimated.

    Args:
        table: a CSV file of runs (`amped validate --template` prints its columns, with units); without it, amped's own table.
        lookup_tables: as in `estimate`.

    Returns:
        Each compared quantity, and a summary of the errors (predicted / measured - 1).

    Raises:
        AmpedError: for a table that cannot be read.

    Examples:
        >>> amped.validate("runs.csv").errors["rows"]
        2
    """
    from amped.validation.residuals import residuals

    return Validation(residuals(table, lookup_tables))


@speaks_python
def calibrate(
    table: str | Path | None = None, *, accelerator: str | None = None, lookup_tables: LookupTables = None
) -> Calibrated:
    """Fits an accelerator's coefficients to measured training steps. It needs scipy (the extra `fit`).

    Args:
        table: a CSV file of runs, as in `validate`; without it, amped's own table.
        accelerator: the accelerator to fit; without it, each in the table.
        lookup_tables: as in `estimate`.

    Returns:
        The calibrations; `write(path)` writes rows that `lookup_tables=path` then takes.

    Raises:
        AmpedError: for an unknown accelerator, a table that cannot be read, or without scipy.

    Examples:
        >>> found = amped.calibrate("runs.csv", accelerator="H100 SXM")
        >>> found[0].error_after <= found[0].error_before
        True
    """
    from amped.calibration.calibrate import calibrated, calibrated_all

    path = None if table is None else Path(table)
    if accelerator is None:
        return Calibrated(calibrated_all(path, lookup_tables), path)
    return Calibrated([calibrated(path, accelerator, lookup_tables)], path)


@speaks_python
def tune(
    methods: Sequence[str] = USUAL,
    *,
    epochs: float = 1.0,
    lookup_tables: LookupTables = None,
    **overrides: object,
) -> Tuned:
    """Compares ways to fine-tune a network on a machine: does each fit, how long, what it costs.

    Args:
        methods: "full", "lora", "dora" or "qlora".
        epochs: how often the documents of `lengths` are trained on.
        lookup_tables: as in `estimate`.
        overrides: as in `estimate`, with a `model`; `lengths` is a file of lengths of documents (tokens), one on each line.

    Returns:
        The ways, the fastest that fits first; of what does not fit, `remedy` says what would make it fit.

    Raises:
        AmpedError: for an unknown method, or without a network; and as `estimate`.

    Examples:
        >>> ways = amped.tune(["qlora"], model="Llama 3.2 1B", accelerator="RTX 4090", number_of_accelerators=1)
        >>> ways[0].fits
        True
    """
    asking = Asking(None, overrides, lookup_tables)
    if not asking.leaves_open():
        raise ConfigError("there is no network to fine-tune", "name one: model=NAME; `amped list models` shows names")
    return Tuned(tuned(asking, methods, epochs))


@speaks_python
def support(
    config: ConfigSource | None = None,
    *,
    lookup_tables: LookupTables = None,
    formulas: Formulas = None,
    **overrides: object,
) -> Supported:
    """What of a configuration amped models, and how many measured runs speak for each part of it.

    Args:
        config: as in `estimate`, or a file of another tool, such as a config.json or a launch script.
        lookup_tables: as in `estimate`.
        formulas: as in `estimate`.
        overrides: as in `estimate`.

    Returns:
        What is not modeled, and the evidence for each aspect, as numbers of runs.

    Raises:
        AmpedError: as `estimate`.

    Examples:
        >>> amped.support("default").not_modeled
        ()
    """
    return answers.evidence(Asking(config, overrides, lookup_tables, formulas))


@speaks_python
def import_config(file: str | Path, *, form: str | None = None, model: str | None = None) -> ImportedConfig:
    """Reads a config of another tool. Nothing in the file is executed, and nothing is fetched.

    Args:
        file: the file, or a folder with a config.json.
        form: its format; without it, the content says it.
        model: the network (a row, or a config.json), where the file does not say it.

    Returns:
        The config, which every function takes; `imported.report` says what was used, ignored and assumed.

    Raises:
        AmpedError: for a file that is missing, too large or of no known format, or for wrong values.

    Examples:
        >>> config = amped.import_config("config.json")
        >>> amped.estimate(model="config.json", system="DGX H100", number_of_accelerators=8)["layers"]
        32
    """
    from amped.interop.as_config import as_config
    from amped.interop.models import named_model
    from amped.interop.recognition import read_file

    imported = read_file(Path(file), form)
    return ImportedConfig(imported, as_config(imported, named_model(model)))


@speaks_python
def export(
    config: ConfigSource | None = None,
    *,
    form: str,
    lookup_tables: LookupTables = None,
    formulas: Formulas = None,
    **overrides: object,
) -> str:
    """The launch line or the file of a framework that runs a configuration, each line with its reason.

    Args:
        config: as in `estimate`.
        form: the framework, such as "megatron", "torchtitan", "deepspeed" or "slurm".
        lookup_tables: as in `estimate`.
        formulas: as in `estimate`.
        overrides: as in `estimate`.

    Returns:
        The text of the file. There are no paths of data in it.

    Raises:
        AmpedError: for a framework that amped does not write, and as `estimate`.

    Examples:
        >>> "--num-layers 32" in amped.export(model="Llama 3 8B", system="DGX H100", number_of_accelerators=8, form="megatron")
        True
    """
    from amped.interop.exporting import target

    return target(form).write(estimated(_scenario(config, overrides, lookup_tables, formulas)))


@speaks_python
def write_report(
    path: str | Path, *configs: ConfigSource, lookup_tables: LookupTables = None, **overrides: object
) -> Path:
    """Writes the answer as one HTML file with charts. It needs jinja2 (the extra `report`).

    Args:
        path: the new file.
        configs: configs that stand side by side, as in `estimate`; without any, what `overrides` name.
        lookup_tables: as in `estimate`.
        overrides: as in `estimate`; of each config.

    Returns:
        The path of the page, which has at most 2 MB.

    Raises:
        AmpedError: for a file that exists, or without jinja2; and as `estimate`.

    Examples:
        >>> amped.write_report("page.html", "minimal").name
        'page.html'
    """
    from amped.report.page.topics import asked_of, headings, topics
    from amped.report.page.writing import as_html

    asked = [asked_of(Asking(config, overrides, lookup_tables)) for config in configs or (None,)]
    page = as_html(headings(asked), topics(asked), "amped.write_report(…)")
    if Path(path).exists():
        raise ConfigError(f"{path} exists and is not overwritten", "choose another path, or remove it")
    return write_atomically(Path(path), page)


@speaks_python
def plot(answer: Estimate | Explored | Effects | Validation, **how: Any) -> Any:
    """Draws an answer.

    Args:
        answer: what `estimate` (the parts of a step, s), `explore` (time in days, bytes, USD), `sensitivity` or `validate` returned.
        how: options of the answer's own `plot`: of an exploration `kind` and `along`, of a sensitivity `top`.

    Returns:
        A figure of matplotlib, which a notebook shows and `savefig` writes.

    Raises:
        AmpedError: for a plot that the answer does not have.

    Examples:
        >>> type(amped.plot(amped.estimate("default"))).__name__
        'Figure'
    """
    return answer.plot(**how)


@speaks_python
def estimateTrainingTime(accelerator: str, transformer: str | None = None) -> float:  # noqa: N802 (AMPeD's name)
    """The time to train the default config on another accelerator and, if it is named, with another transformer.

    Args:
        accelerator: a row of `accelerator_specifications`, such as "H100 PCIe".
        transformer: a row of `transformer_network_parameters`.

    Returns:
        The training time (s).

    Raises:
        AmpedError: as `estimate`.

    Examples:
        >>> amped.estimateTrainingTime("H100 PCIe") > 0
        True
    """
    return estimate("default", accelerator=accelerator, model=transformer)["training_time"]
