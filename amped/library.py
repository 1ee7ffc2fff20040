"""The Python interface: what `import amped` offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from amped.base.numbers import digits
from amped.configuring.config import Config, read_config
from amped.configuring.scenario import ConfigSource, Scenario, formula_module
from amped.drafting.asking import Asking
from amped.estimation.estimation import Estimation, estimated
from amped.estimation.explanation import Explanation, explained
from amped.exploration.answer import Exploration, explored
from amped.exploration.executors import Spread, opened
from amped.exploration.request import Options
from amped.exploration.running import ALONE, Run, load
from amped.sensitivities.analysis import HARDWARE_AND_MAPPING, STEP, analyzed
from amped.sensitivities.effects import Sensitivity
from amped.tables.table_files import LookupTables
from amped.theory.language.catalogue import catalogue

Formulas = ModuleType | str | Path | None


class Estimate(Estimation):
    """The results of one configuration: `estimate["step_time"]`, `.breakdown`, `.to_dict()`.

    Rich and Jupyter show it.
    """

    def __rich__(self) -> Any:
        """The summary, for rich."""
        from amped.report.summary import summary

        return summary(self)

    def _repr_html_(self) -> str:
        from amped.report.html import as_html

        return as_html(self.__rich__())

    def __repr__(self) -> str:
        named = self.scenario.label if self.scenario.question.config.entries else self.scenario.title
        return f"<Estimate of {named}: step {digits(self['step_time'])} s, training {digits(self['training_time'])} s>"


def load_config(config: str | Path | Mapping[str, Any], formulas: Formulas = None) -> Config:
    """Reads and checks a config: a file, the name of a shipped one, or a mapping.

    Raises:
        AmpedError: with all problems, each with its JSON path.
    """
    extra = (formula_module(formulas),) if formulas is not None else ()
    return read_config(config, catalogue(extra))


def estimate(
    config: ConfigSource | None = None,
    *,
    lookup_tables: LookupTables = None,
    formulas: Formulas = None,
    **overrides: object,
) -> Estimate:
    """Estimates the training time of one configuration, where it goes, and whether it fits.

    Args:
        config: a file, the name of a shipped config, a mapping, or what `load_config` returned. If there is none, and a
            model, a system or an accelerator is named, the rest is chosen as `amped estimate` does: the mapping, the
            batch, the software. If none of these is named either, it is the config "default".
        lookup_tables: a folder (or file) of lookup tables that overrule the shipped ones; or several, the later over the
            earlier.
        formulas: a module (or file) of marked functions to use in addition to amped's.
        overrides: values by name (`tensor_parallel_degree=4`, `memory_capacity="96 GB"`), and rows under `model`,
            `system` and `accelerator`.

    Raises:
        AmpedError: with all problems, and what to do about them.
    """
    e = estimated(_scenario(config, overrides, lookup_tables, formulas))
    return Estimate(e.scenario, e.results)


def _scenario(
    config: ConfigSource | None, overrides: Mapping[str, object], tables: LookupTables, formulas: Formulas
) -> Scenario:
    """The scenario that a call describes. Without a config, the chooser fills in all that is not given, as on the command line."""
    return Asking(config, overrides, tables, formulas).completed()


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
    """
    return explained(_scenario(config, overrides, lookup_tables, formulas), name, inside)


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
    lookup_tables: LookupTables = None,
    formulas: Formulas = None,
    **overrides: object,
) -> Exploration:
    """Evaluates all valid mappings and ranks them.

    Args:
        config: as in `estimate`; all but the mapping is chosen. A list as a value is a sweep.
        top: how many of the best mappings to return.
        vary: further sweeps, name to list of values; rows under `model`, `system`, `accelerator` and `software`.
        space: what is searched by itself: "default", "full", "memory", or "degrees" (with the micro-batch only).
        where: limits that results must keep, such as "memory_per_accelerator_bytes < 70 GB".
        objective: the quantity to rank by.
        largest: whether more of the objective is better, if its name does not say so.
        pareto: two quantities whose Pareto front is returned, too.
        each: swept names; `groups` then has the best mappings of each combination of their values.
        workers: processes to evaluate with (a script then needs `if __name__ == "__main__":` around the call).
        resume: a file that keeps the finished parts; a run with this file goes on from them.
        lookup_tables: as in `estimate`.
        formulas: as in `estimate`.
        overrides: as in `estimate`; `number_of_accelerators` is the size of the machine.
    """
    limits = (where,) if isinstance(where, str) else tuple(where)
    options = Options(top, space, limits, objective, largest, pareto, tuple(each))
    asked, sweeps = Asking(config, overrides, lookup_tables, formulas).searched(vary or {})
    with opened(Spread(workers=workers, warm_up=load)) as engine:
        return explored(asked, options, sweeps, Run(engine or ALONE.engine, Path(resume) if resume else None))


def sensitivity(
    config: ConfigSource | None = None,
    *,
    of: str = "step_time",
    kinds: Sequence[str] = HARDWARE_AND_MAPPING,
    step: float = STEP,
    lookup_tables: LookupTables = None,
    formulas: Formulas = None,
    **overrides: object,
) -> Sensitivity:
    """How a result changes with each parameter alone: elasticities, and the effect of the next whole values.

    Args:
        config: as in `estimate`; the first value of a list is the configuration's own, and the others are tried.
        of: the name of the result; any quantity that is a number.
        kinds: kinds of parameters: mapping, system, accelerator, model, experiment.
        step: the share by which continuous parameters are varied, down and up.
        lookup_tables: as in `estimate`.
        formulas: as in `estimate`.
        overrides: as in `estimate`; the values of a list are tried.
    """
    return analyzed(_scenario(config, overrides, lookup_tables, formulas), of, kinds, step)


def estimateTrainingTime(accelerator: str, transformer: str | None = None) -> float:  # noqa: N802 (AMPeD's name)
    """Seconds to train the default config on another accelerator and, if it is named, with another transformer.

    Args:
        accelerator: a row of `accelerator_specifications`, such as "H100 PCIe".
        transformer: a row of `transformer_network_parameters`.
    """
    return estimate("default", accelerator=accelerator, model=transformer)["training_time"]
