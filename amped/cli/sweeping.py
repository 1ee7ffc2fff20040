"""What verbs share that sweep values: reading --vary, the scenario of each value, the lines of the table."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amped.base.aliases import aliases
from amped.base.errors import ConfigError, Problem
from amped.cli import options

if TYPE_CHECKING:
    from amped.drafting.each_value import Line
    from amped.exploration.request import Options
    from amped.exploration.running import Run

Sweeps = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Swept:
    """A sweep that is done: its lines, the quantity that ranked their mappings, and how long it took."""

    lines: Sequence[Line]
    objective: str
    seconds: float


def read(asking: options.Asking, texts: Sequence[str]) -> dict[str, list[object]]:
    """The swept names with their values.

    Raises:
        ConfigError: for a text that is no sweep, or a name that is given one value, too.
    """
    from amped.configuring.gathering import is_row
    from amped.exploration.sweep_syntax import parse_vary

    tables = options.user_tables(asking.lookup_tables)
    sweeps = parse_vary(texts, lambda name, text: is_row(tables, name, text))
    given = {aliases().canonical(name) for name in asking.values}
    problems = [
        Problem(f"'{name}' is swept and given one value", f"--vary {name}", "keep one of the two")
        for name in sweeps
        if aliases().canonical(name) in given
    ]
    if problems:
        raise ConfigError(problems)
    return sweeps


def is_short(sweeps: Sweeps) -> bool:
    """Whether the combinations of values are few enough for a search of each one, and a line in a table."""
    from math import prod

    from amped.drafting.each_value import MOST_LINES

    return prod(len(values) for values in sweeps.values()) <= MOST_LINES


def refuse_long(sweeps: Sweeps) -> None:
    """Refuses a sweep of more combinations of values than a table has lines.

    Raises:
        ConfigError: if there are more.
    """
    from amped.drafting.each_value import MOST_LINES

    if not is_short(sweeps):
        raise ConfigError(
            f"a sweep of more than {MOST_LINES} combinations has no table", "`amped explore --vary` ranks them"
        )


def canonical(sweeps: Sweeps) -> dict[str, Any]:
    """The sweeps by amped's names. Prints on stderr what the names of other tools are taken for.

    Raises:
        ConfigError: for a name that is swept twice.
    """
    by_name: dict[str, Any] = {}
    for written, texts in sweeps.items():
        name, values = aliases().listed(written, texts)
        if name in by_name:
            raise ConfigError(f"'{name}' is swept twice", f"--vary {written}: give all its values at once")
        by_name[name] = values
        if name != aliases().canonical(written):
            options.tell_name(written, name)
    return by_name


def _with(asking: options.Asking, values: Mapping[str, Any]) -> options.Asking:
    """The question with one combination of swept values."""
    return asking._replace(values={**asking.values, **aliases().all_given(values)[0]})


def swept(asking: options.Asking, sweeps: Sweeps, wanted: Options, run: Run | None = None) -> Swept:
    """The best mapping of each combination of values, by a search."""
    from amped.drafting.each_value import lines
    from amped.exploration.running import ALONE

    started = time.perf_counter()
    best = lines(lambda values: _with(asking, values).searched({})[0], sweeps, wanted, run or ALONE)
    return Swept(best, aliases().asked(wanted.objective), time.perf_counter() - started)


def chosen(asking: options.Asking, sweeps: Sweeps) -> Swept:
    """The mapping that `amped estimate` chooses for each combination of values."""
    from amped.drafting.each_value import chosen_lines

    started = time.perf_counter()
    best = chosen_lines(lambda values: _with(asking, values).completed(), sweeps)
    return Swept(best, "training_time", time.perf_counter() - started)


def refuse_other_lists(asking: options.Asking, sweeps: Sweeps) -> None:
    """Refuses a ranking by cost of machines whose prices are of several lists.

    Raises:
        ConfigError: if they are.
    """
    from amped.drafting.each_value import combinations
    from amped.estimation.one_list import prices_not_compared

    machines = {name: values for name, values in sweeps.items() if name in ("system", "accelerator")}
    if reason := prices_not_compared(_with(asking, values).searched({})[0] for values in combinations(machines)):
        problem, _, advice = reason.partition("; ")
        raise ConfigError(problem, advice)


def tell(done: Swept, form: str, hint: str = "", path: Path | None = None) -> None:
    """Prints a sweep in a form (table, csv or json), or writes the sweep to `path`."""
    from amped.estimation.one_list import costs_not_compared
    from amped.report.sweeping import as_csv, sweep

    def content(form: str) -> str:
        """The sweep as CSV or JSON."""
        if form == "csv":
            return as_csv(done.lines)
        rows = [line.to_dict() for line in done.lines]
        counts = {name: sum(row[name] for row in rows) for name in ("candidates", "feasible")}
        reason = costs_not_compared(line.estimation for line in done.lines if line.estimation)
        more = {"elapsed_time": done.seconds, "best": rows} | ({"costs_not_compared": reason} if reason else {})
        return options.as_json(counts | more, allow_nan=False) + "\n"

    options.put(form, lambda: sweep(done.lines, done.objective, done.seconds, hint), content, path)
