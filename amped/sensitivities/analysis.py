"""Varies every parameter of a configuration by itself and tells what that does to one result.

All variations are rows of one broadcast run; a parameter whose being given selects other formulas has a run of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from amped.aliases import aliases
from amped.catalogue import Catalogue
from amped.comparison import KINDS
from amped.errors import ConfigError, Problem, did_you_mean, quoted
from amped.estimation import Estimation, estimated
from amped.evaluate import Results
from amped.resolve import plan
from amped.scenario import Scenario
from amped.sensitivities.effects import Effect, Sensitivity, Trial
from amped.sensitivities.neighbours import with_neighbours
from amped.sensitivities.side_by_side import Rows, side_by_side
from amped.sensitivities.variations import Variation, first_of_lists, on_the_same_machine, variations
from amped.sources import Sources

EVERY_KIND = (*KINDS.values(), "experiment")
HARDWARE_AND_MAPPING = ("mapping", "system", "accelerator")
STEP = 0.001
LARGEST_STEP = 0.5
FITS = "fits_in_memory"


def analysed(
    scenario: Scenario, of: str = "step_time", kinds: Sequence[str] = HARDWARE_AND_MAPPING, step: float = STEP
) -> Sensitivity:
    """How a result changes with each parameter of these kinds.

    Args:
        scenario: the config; of a list the first value is its own, and the others are tried.
        of: any quantity that is a number.
        kinds: of the parameters: mapping, system, accelerator, model, experiment.
        step: the share by which a continuous parameter is varied, down and up.

    Raises:
        ConfigError, ResolveError: for names, kinds or a step that cannot be, all at once; and as an estimate does.
    """
    wanted = _checked(scenario.catalogue, of, kinds, step)
    single, lists = first_of_lists(scenario)
    base = estimated(single, Estimation)
    sources = on_the_same_machine(base, lists)
    known = base.scenario.catalogue
    formulas = {**base.plan.by_name, **plan(known, (wanted,), sources).by_name}
    every = list(variations(base, formulas, sources, lists, kinds, step))
    selecting = _selecting(known)
    alone = {v.name: v for v in every if v.name not in sources.given and v.name in selecting}
    results, trials = _run(wanted, known, sources, [v for v in every if v.name not in alone])
    trials |= {name: _alone(wanted, known, sources, variation) for name, variation in alone.items()}
    value, fits = (float(results.whole(name)[0]) for name in (wanted, FITS))
    effects = tuple(Effect(v.name, v.kind, v.mark.unit, v.value, v.varied, value, trials[v.name]) for v in every)
    return Sensitivity(single.description or single.label, wanted, known[wanted].mark.unit, value, fits > 0, step,
                       effects, dict(results.plan.choices))  # fmt: skip


def _checked(known: Catalogue, of: str, kinds: Sequence[str], step: float) -> str:
    """The canonical name of the result.

    Raises:
        ConfigError: with everything that is wrong.
    """
    problems = list(_problems(known, of, kinds, step))
    if problems:
        raise ConfigError(problems)
    return aliases().canonical(of)


def _problems(known: Catalogue, of: str, kinds: Sequence[str], step: float) -> Iterator[Problem]:
    numbers = [
        name for name, q in known.items() if q.mark.kind != "records" and q.mark.unit not in ("boolean", "choice")
    ]
    name = aliases().canonical(of) if isinstance(of, str) else str(of)
    if name not in known:
        yield Problem(f"there is no quantity {quoted(of)}", "--of", did_you_mean(name, numbers))
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


def _selecting(known: Catalogue) -> set[str]:
    """The names whose being given selects formulas."""
    return {name for q in known.values() for f in q.formulas for clause in f.mark.clauses for name in clause}


def _alone(wanted: str, known: Catalogue, sources: Sources, variation: Variation) -> tuple[Trial, ...]:
    """The trials of a parameter with which, once given, other formulas take over."""
    own = replace(sources, given=sources.given | {variation.name: variation.value})
    return _run(wanted, known, own, [replace(variation, calculated=False)])[1][variation.name]


def _run(
    wanted: str, known: Catalogue, sources: Sources, every: Sequence[Variation]
) -> tuple[Results, dict[str, tuple[Trial, ...]]]:
    """One run of all variations: its results, of which row 0 is the configuration as it is, and each one's trials."""
    rules = plan(known, known.constraints, sources)
    full = with_neighbours(rules, sources.given, every)
    chosen = plan(known, (wanted, FITS, *known.constraints), sources)
    tried = [(v, np.array(v.values, dtype=np.float64)) for v in full]
    rows = side_by_side(chosen, sources.given, tried, frozenset(chosen.targets))
    return rows.results, {v.name: tuple(_told(rows, v, wanted, rules.targets)) for v in full}


def _told(rows: Rows, variation: Variation, wanted: str, rules: Sequence[str]) -> Iterator[Trial]:
    """What came out at each value of a parameter."""
    own = {name: rows.of(variation.name, name) for name in (wanted, FITS, *rules)}
    for place, value in enumerate(variation.values):
        result = float(own[wanted][place])
        broken = next((name for name in rules if not own[name][place] > 0), "")
        if not (broken or np.isfinite(result)):
            broken = f"{wanted} is {result}"
        yield Trial(value, None if broken else result, broken, bool(own[FITS][place] > 0))
