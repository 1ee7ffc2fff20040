"""`amped recommend`: the fewest accelerators, or the cheapest system, for a deadline or a budget."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from amped.base.errors import ConfigError, UnitError
from amped.cli import options
from amped.cli.progress import progress
from amped.configuring.not_modeled import ANYWAY
from amped.tables.prices import MARKET
from amped.tables.recipes import MANNER, TUNED
from amped.theory.language.quantity import SYSTEM

if TYPE_CHECKING:
    from amped.configuring.scenario import Scenario
    from amped.drafting.recommendation import Recommendation, Tell
    from amped.estimation.estimation import Estimation

# What it looks for, so that nobody gives it; and the options that would.
SOUGHT, SOUGHT_OPTIONS = {"number_of_accelerators", "number_of_nodes"}, ("gpus", "nodes")


@options.bundled(SOUGHT_OPTIONS)
def recommend(
    named_config: str | None = None,
    config: str = "default",
    deadline: str | None = None,
    budget: str | None = None,
    system: list[str] | None = None,
    settings: list[str] | None = None,
    lookup_tables: options.Folders = None,
    anyway: bool = False,
    ideal: bool = False,
    as_json: bool = False,
    form: str | None = None,
    **short: float | str | None,
) -> None:
    """Recommend the fewest accelerators, or the cheapest system, that train a network by a deadline or within a budget.

    It tries sizes of the machine, from the smallest that could do it at its peak rate. For each size the mapping counts
    that `amped estimate` chooses; with --manner tuned also the switches, which takes several times as long.

    Example: amped recommend --model "Llama 3 8B" --deadline "30 days"

    Options:
        --deadline TIME: When it must be trained: "30 days".
        --budget MONEY: What it may cost: "2 million USD".
        --system ROW: Systems to choose from; repeatable.
    """
    from amped.drafting.recommendation import Limits
    from amped.library.answers import machines

    options.check_format(form)
    limits = Limits(_read(deadline, "s", "--deadline"), _read(budget, "dollar", "--budget"))
    given, config = options.changes(settings, **short) | options.flags(anyway, ideal), named_config or config
    words = [*_words(config, given), *options.table_words(lookup_tables)]
    with _shown() as tell:
        found, asked = machines(config, given, system or (), limits, lookup_tables, words, tell)
    options.tell_notices(dict.fromkeys(notice for scenario in asked for notice in scenario.sources.notices))
    _show_launch(asked, found.machines, form, given.get(MANNER) == TUNED and config == options.DEFAULT_CONFIG)
    if as_json:
        options.tell_notices(filter(None, [found.costs_not_compared]))
        options.show_json(found.to_dict())
    else:
        options.show(found)


@contextmanager
def _shown() -> Iterator[Tell]:
    """A progress bar that names each size that was tried; Ctrl-C tells the fastest one so far that keeps the limits."""
    import typer

    kept: list[tuple[float, str]] = []
    try:
        with progress("recommending", "{task.completed} sizes tried") as (bar, task):

            def tell(system: str, e: Estimation | None, keeps: bool) -> None:
                size = "no mapping is possible"
                if e is not None:
                    days = e["training_time"] / 86400
                    size = f"{e['number_of_accelerators']:,.0f} accelerators, {days:,.1f} days"
                kept.extend([(float(e["training_time"]), f"{system}, {size}")] if e is not None and keeps else [])
                bar.update(task, advance=1, told=f"{system}: {size}")

            yield tell
    except KeyboardInterrupt:
        best = f"the fastest so far that keeps the limits: {min(kept)[1]}" if kept else "none so far keeps the limits"
        options.tell(f"amped: interrupted; {best}")
        raise typer.Exit(130) from None


def _words(config: str, given: dict[str, object]) -> list[str]:
    """The words of a command line that repeat the question.

    Raises:
        ConfigError: for a value that recommend itself searches.
    """
    if searched := SOUGHT & given.keys():
        raise ConfigError(
            f"{', '.join(sorted(searched))} is what recommend looks for", "leave it out, or ask `amped explore`"
        )
    words = [] if config == options.DEFAULT_CONFIG else [config]
    rows = {name: given[name] for name in ("model", "accelerator", "software", *MARKET) if name in given}
    words += [word for name, row in rows.items() for word in (f"--{name}", str(row))]
    anyway = ["--anyway"] if given.get(ANYWAY) else []
    rest = {name: value for name, value in given.items() if name not in (*rows, ANYWAY)}
    return words + [word for name, value in rest.items() for word in ("--set", f"{name}={value}")] + anyway


def _show_launch(asked: list[Scenario], machines: Sequence[Recommendation], form: str | None, is_tuned: bool) -> None:
    """Prints on stderr the launch line of the first machine that has a mapping; nothing if none has one or no `form` is asked."""
    from amped.configuring.scenario import asked_again
    from amped.drafting.chooser import completed
    from amped.drafting.switches import tuned
    from amped.estimation.estimation import estimated
    from amped.interop.exporting import target

    best = next((machine for machine in machines if machine.row is not None), None)
    if best is None or form is None:
        return
    by_system = {row.name: scenario for scenario in reversed(asked) if (row := scenario.sources.rows.get(SYSTEM))}
    question = by_system.get(best.system, asked[0]).question
    given = {**question.overrides, **best.settings}
    choose = tuned if is_tuned else completed
    chosen = asked_again(question, best.settings) if question.config.entries else choose(given, question.lookup_tables)
    options.tell(target(form).write(estimated(chosen)))


def _read(text: str | None, unit: str, option: str) -> float | None:
    """An amount in `unit` (s or dollar) from a text: "30 days", "2 million USD" or "$2 million"; None without a text.

    Raises:
        ConfigError: for other text, or if the number is not above zero.
    """
    from amped.base.units import parse

    if text is None:
        return None
    if unit == "s" and re.fullmatch(r"\s*[\d.]+\s*", text):
        raise ConfigError(
            f"{option} {text.strip()}: this number has no unit", f'write it, as in {option} "{text.strip()} days"'
        )
    try:
        amount = parse(text, unit)
    except UnitError as error:
        raise ConfigError(
            f"{option} {text!r} is not read: {error}", 'for example "30 days" or "2 million USD"'
        ) from None
    if amount <= 0:
        raise ConfigError(f"{option} {text!r} leaves nothing", "give more than zero")
    return amount
