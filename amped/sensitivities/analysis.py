"""Varies every parameter of a configuration alone, and says how one result changes.

All variations are rows of one broadcast run. A parameter that selects other formulas when it is
given has a run of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from amped.base.aliases import aliases
from amped.base.errors import ConfigError, EvaluationError, Problem, ResolveError, did_you_mean, quoted
from amped.configuring.scenario import Scenario
from amped.configuring.sources import Sources
from amped.engine.resolve import Plan, plan
from amped.estimation.comparison import KINDS
from amped.estimation.estimation import estimated
from amped.sensitivities.effects import Effect, Sensitivity, Trial
from amped.sensitivities.side_by_side import Rows, side_by_side, with_neighbors
from amped.sensitivities.variations import Variation, first_of_lists, on_the_same_machine, variations
from amped.theory.language.catalogue import Catalogue
from amped.theory.language.doors import inside

EVERY_KIND = (*KINDS.values(), "experiment")
HARDWARE_AND_MAPPING = ("mapping", "system", "accelerator")
STEP = 0.001
LARGEST_STEP = 0.5
FITS = "fits_in_memory"
# The units of values that are no numbers to be compared.
NO_NUMBERS = ("boolean", "choice", "layout", "pattern", "blocks", "kernel_table")


@dataclass(frozen=True)
class Group:
    """Variations that are evaluated by the same formulas.

    Attributes:
        sources: the given values and choices.
        chosen: the formulas of the result and of the rules.
        replaced: given values that the varied parameter replaces, as `--set` would.
    """

    sources: Sources
    chosen: Plan
    replaced: tuple[str, ...]
    variations: list[Variation] = field(default_factory=list)


def analyzed(
    scenario: Scenario, of: str = "step_time", kinds: Sequence[str] = HARDWARE_AND_MAPPING, step: float = STEP
) -> Sensitivity:
    """How a result changes with each parameter of some kinds.

    Args:
        scenario: the config. Of a list of values, the first one is the value of the configuration; the others are tried.
        of: the name of the result: any quantity that is a number.
        kinds: kinds of parameters: mapping, system, accelerator, model, experiment.
        step: the share by which a continuous parameter is varied, down and up.

    Raises:
        ConfigError, ResolveError: for impossible names, kinds or steps, all at once; or as an estimate raises them.
    """
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    if problems := [*_problems(scenario.catalogue, of, kinds, step)]:
        raise ConfigError(problems)
    wanted = aliases().asked(of)
    first_values, lists = first_of_lists(scenario)
    estimation = estimated(first_values)
    sources, catalogue = on_the_same_machine(estimation, lists), estimation.scenario.catalogue
    formulas = {**estimation.plan.by_name, **plan(catalogue, (wanted,), sources).by_name}
    all_variations = variations(estimation, formulas, sources, lists, kinds, step)
    groups = _grouped(catalogue, (wanted, FITS, *catalogue.constraints), sources, all_variations)
    runs = [_run(catalogue, group) for group in groups]
    value, fits = (float(runs[0].results.whole(name)[0]) for name in (wanted, FITS))
    if not np.isfinite(value):
        raise EvaluationError(
            f"'{wanted}' came out as {value}", f"`amped explain {wanted}` shows where that comes from"
        )
    return Sensitivity(
        title=first_values.description or first_values.label,
        of=wanted,
        unit=catalogue[wanted].mark.unit,
        value=value,
        fits_in_memory=fits > 0,
        step=step,
        effects=tuple(chain(*(_effects(group, rows, wanted, value) for group, rows in zip(groups, runs, strict=True)))),
        choices=dict(groups[0].chosen.choices),
    )


def _problems(catalogue: Catalogue, of: str, kinds: Sequence[str], step: float) -> Iterator[Problem]:
    """The problems with the name of the result, the kinds of parameters and the step."""
    numbers = [name for name in catalogue.numbers if catalogue[name].mark.unit not in NO_NUMBERS]
    name = aliases().asked(str(of))
    if name not in catalogue:
        yield Problem(f"there is no quantity {quoted(of)}", "--of", did_you_mean(name, numbers))
    elif name in catalogue.inside:
        yield inside(name, catalogue, "--of")
    elif name not in numbers:
        yield Problem(
            f"'{name}' is no number", "--of", "name a number, such as step_time or memory_per_accelerator_bytes"
        )
    for kind in kinds:
        if kind not in EVERY_KIND:
            advice = f"{did_you_mean(str(kind), EVERY_KIND)} it is one of {', '.join(EVERY_KIND)}".strip()
            yield Problem(f"there is no kind {quoted(kind)}", "--kind", advice)
    if isinstance(step, bool) or not isinstance(step, int | float) or not 0 < step <= LARGEST_STEP:
        yield Problem(f"{quoted(step)} is no step", "--step", f"it is a share, above 0 and at most {LARGEST_STEP:g}")


def _grouped(
    catalogue: Catalogue, targets: tuple[str, ...], sources: Sources, all_variations: Iterable[Variation]
) -> list[Group]:
    """The variations in groups with the same formulas. The first group has the formulas of the unchanged configuration.

    Args:
        catalogue: all formulas.
        targets: the names of the quantities that are computed.
        sources: the given values and choices of the unchanged configuration.
        all_variations: the variations of all parameters.
    """
    main = Group(sources=sources, chosen=plan(catalogue, targets, sources), replaced=())
    groups = {frozenset(sources.given): main}
    selecting = {name for q in catalogue.values() for f in q.formulas for clause in f.mark.clauses for name in clause}
    for variation in all_variations:
        group, name, replaces = main, variation.name, catalogue[variation.name].replaces
        replaced = replaces & {*main.chosen.leaves}
        if replaced or (name in selecting and name not in sources.given):
            unreplaced = {n: v for n, v in sources.given.items() if n not in replaces}
            changed = replace(sources, given=unreplaced | {name: variation.value})  # as `--set` would make them
            key = frozenset(changed.given)
            if key not in groups:
                try:
                    changed_plan = plan(catalogue, targets, changed)
                    groups[key] = Group(sources=changed, chosen=changed_plan, replaced=tuple(sorted(replaced)))
                except ResolveError:  # the replaced value cannot be calculated, so it stays
                    groups[key] = main
            group = groups[key]
        calculated = variation.calculated and name not in group.sources.given
        group.variations.append(replace(variation, calculated=calculated))
    return [main, *(group for group in groups.values() if group is not main)]


def _run(catalogue: Catalogue, group: Group) -> Rows:
    """The results of all variations of a group. Counts are varied to the neighbors that keep every rule."""
    rules, given = plan(catalogue, catalogue.constraints, group.sources), group.sources.given
    return side_by_side(group.chosen, given, with_neighbors(rules, given, group.variations))


def _effects(group: Group, rows: Rows, wanted: str, value: float) -> Iterator[Effect]:
    """The effect of each parameter of a group.

    A parameter that replaces others is compared with the result at its own value.

    Args:
        group: the variations, and whether they replace given values.
        rows: the results of the group.
        wanted: the name of the result.
        value: the result of the unchanged configuration.
    """
    for variation in rows.varied:
        yield Effect(
            name=variation.name,
            kind=variation.kind,
            unit=variation.mark.unit,
            value=variation.value,
            varied=variation.varied,
            base=float(rows.results.whole(wanted)[0]) if group.replaced else value,
            trials=tuple(_trials(rows, variation, wanted)),
            replaces=group.replaced,
        )


def _trials(rows: Rows, variation: Variation, wanted: str) -> Iterator[Trial]:
    """The trial of each value of a parameter. A trial that breaks a rule, or is no finite number, has no result.

    Args:
        rows: the results of a group.
        variation: the parameter and its values.
        wanted: the name of the result.
    """
    results = {name: rows.of(variation.name, name) for name in rows.results.plan.targets}
    rule_values = {name: values for name, values in results.items() if name not in (wanted, FITS)}
    for place, value in enumerate(variation.values):
        result = float(results[wanted][place])
        reason = "" if np.isfinite(result) else f"{wanted} is {result}"
        broken = next((name for name, values in rule_values.items() if not values[place] > 0), reason)
        yield Trial(
            value=value,
            result=None if broken else result,
            broken=broken,
            fits_in_memory=bool(results[FITS][place] > 0),
        )
