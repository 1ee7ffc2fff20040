"""Varies every parameter of a configuration alone, and says how one result changes.

All variations are rows of one broadcast run. A parameter that selects other formulas when it is
given has a run of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

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


@dataclass(frozen=True)
class Group:
    """Variations that are evaluated by the same formulas.

    Attributes:
        sources: the given values.
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
    """Says how a result changes with each parameter of these kinds.

    Args:
        scenario: the config; the first value of a list is the configuration's own, and the others are tried.
        of: any quantity that is a number.
        kinds: kinds of parameters: mapping, system, accelerator, model, experiment.
        step: the share by which a continuous parameter is varied, down and up.

    Raises:
        ConfigError, ResolveError: for impossible names, kinds or steps, all at once; or as an estimate raises them.
    """
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    wanted = _checked(scenario.catalogue, of, kinds, step)
    single, lists = first_of_lists(scenario)
    base = estimated(single)
    sources = on_the_same_machine(base, lists)
    known = base.scenario.catalogue
    targets = (wanted, FITS, *known.constraints)
    formulas = {**base.plan.by_name, **plan(known, (wanted,), sources).by_name}
    groups = _grouped(known, targets, sources, variations(base, formulas, sources, lists, kinds, step))
    runs = [(group, *_run(known, group)) for group in groups]
    value, fits = (float(runs[0][1].results.whole(name)[0]) for name in (wanted, FITS))
    if not np.isfinite(value):
        raise EvaluationError(
            f"'{wanted}' came out as {value}", f"`amped explain {wanted}` shows where that comes from"
        )
    effects = [effect for group, rows, full in runs for effect in _effects(group, rows, full, wanted, value)]
    return Sensitivity(single.description or single.label, wanted, known[wanted].mark.unit, value, fits > 0, step,
                       tuple(effects), dict(groups[0].chosen.choices))  # fmt: skip


def _checked(known: Catalogue, of: str, kinds: Sequence[str], step: float) -> str:
    """The canonical name of the result.

    Raises:
        ConfigError: with all problems.
    """
    problems = list(_problems(known, of, kinds, step))
    if problems:
        raise ConfigError(problems)
    return aliases().asked(of)


def _problems(known: Catalogue, of: str, kinds: Sequence[str], step: float) -> Iterator[Problem]:
    numbers = [
        name
        for name in known.numbers
        if known[name].mark.unit not in ("boolean", "choice", "layout", "pattern", "kernel_table")
    ]
    name = aliases().asked(of) if isinstance(of, str) else str(of)
    if name not in known:
        yield Problem(f"there is no quantity {quoted(of)}", "--of", did_you_mean(name, numbers))
    elif name in known.inside:
        yield inside(name, known, "--of")
    elif name not in numbers:
        yield Problem(
            f"'{name}' is no number", "--of", "name a number, such as step_time or memory_per_accelerator_bytes"
        )
    for kind in kinds:
        if kind not in EVERY_KIND:
            hint = did_you_mean(str(kind), EVERY_KIND)
            yield Problem(
                f"there is no kind {quoted(kind)}", "--kind", f"{hint} it is one of {', '.join(EVERY_KIND)}".strip()
            )
    if isinstance(step, bool) or not isinstance(step, int | float) or not 0 < step <= LARGEST_STEP:
        yield Problem(f"{quoted(step)} is no step", "--step", f"it is a share, above 0 and at most {LARGEST_STEP:g}")


def _grouped(known: Catalogue, targets: Iterable[str], sources: Sources, every: Iterable[Variation]) -> list[Group]:
    """The variations in groups of one structure each; the first group is that of the unchanged configuration."""
    wanted = tuple(targets)
    main = Group(sources, plan(known, wanted, sources), ())
    groups, selecting = {frozenset(sources.given): main}, _selecting(known)
    for variation in every:
        group = main
        replaced = known[variation.name].replaces & set(main.chosen.leaves)
        if replaced or (variation.name in selecting and variation.name not in sources.given):
            own = _given(known, sources, variation)
            key = frozenset(own.given)
            if key not in groups:
                try:
                    groups[key] = Group(own, plan(known, wanted, own), tuple(sorted(replaced)))
                except ResolveError:  # the replaced value cannot be calculated, so it stays
                    groups[key] = main
            group = groups[key]
        given = variation.name in group.sources.given
        group.variations.append(replace(variation, calculated=variation.calculated and not given))
    return [main, *(g for g in groups.values() if g is not main)]


def _given(known: Catalogue, sources: Sources, variation: Variation) -> Sources:
    """The sources as `--set` would make them, with the parameter's own value."""
    kept = {n: v for n, v in sources.given.items() if n not in known[variation.name].replaces}
    return replace(sources, given=kept | {variation.name: variation.value})


def _selecting(known: Catalogue) -> set[str]:
    """The names that select formulas when they are given."""
    return {name for q in known.values() for f in q.formulas for clause in f.mark.clauses for name in clause}


def _run(known: Catalogue, group: Group) -> tuple[Rows, list[Variation]]:
    """One run of all variations of a group, and the variations with the neighbors that were found for counts."""
    given = group.sources.given
    full = with_neighbors(plan(known, known.constraints, group.sources), given, group.variations)
    tried = [(v, np.array(v.values, dtype=np.float64)) for v in full]
    return side_by_side(group.chosen, given, tried, frozenset(group.chosen.targets)), full


def _effects(group: Group, rows: Rows, full: Sequence[Variation], wanted: str, value: float) -> Iterator[Effect]:
    """The effect of each parameter of a group; if it replaces others, compared with the result at its own value."""
    base = float(rows.results.whole(wanted)[0]) if group.replaced else value
    for v in full:
        trials = tuple(_trials(rows, v, wanted, group.chosen))
        yield Effect(v.name, v.kind, v.mark.unit, v.value, v.varied, base, trials, group.replaced)


def _trials(rows: Rows, variation: Variation, wanted: str, chosen: Plan) -> Iterator[Trial]:
    """The result at each value of a parameter."""
    own = {name: rows.of(variation.name, name) for name in chosen.targets}
    for place, value in enumerate(variation.values):
        result = float(own[wanted][place])
        broken = next((name for name in chosen.targets if name not in (wanted, FITS) and not own[name][place] > 0), "")
        if not (broken or np.isfinite(result)):
            broken = f"{wanted} is {result}"
        yield Trial(value, None if broken else result, broken, bool(own[FITS][place] > 0))
