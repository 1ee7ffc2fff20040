"""The summary of an estimate for a terminal: time, its parts as bars, memory against capacity, and defaults in use."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import shorten

from rich.table import Column, Table

from amped.base.commands import command
from amped.estimation.estimation import Estimation
from amped.estimation.parts import MEMORY_PARTS, STEP_PARTS
from amped.estimation.remedies import smallest_change
from amped.report import human
from amped.report.screen import batch_in_words, not_modeled_first, optional, plus_minus, price_in_words
from amped.report.tables import Part, drawn, grid
from amped.report.verdicts import CLOSE, COLORS, kind_of, memory_margin
from amped.tables.table_files import KERNELS
from amped.theory.nouns.parallelisms import WRITTEN

# The most letters of a notice, and the columns of the bar of a whole.
LONGEST_NOTICE, BAR = 240, 24


@drawn
def summary(e: Estimation) -> Iterator[Part]:
    """An estimate on one screen: answers, parts of a step, memory, advice and assumptions."""
    yield from ((line, "bold red") for line in not_modeled_first(e))
    yield from heading(e)
    yield _headline(e)
    yield ""
    yield _bars("time of a step", {name: e[name] for name in STEP_PARTS}, e["step_time"], e["step_time"], "s")
    yield ""
    yield from _memory(e)
    yield from _advice(e)


def _layout(e: Estimation) -> str:
    """A line on the layers of each stage; empty if the network has no choice of a layout."""
    layout = e.choices.get("pipeline_layout")
    if layout is None or e["pipeline_parallel_degree"] == 1:
        return ""
    chosen = "" if "pipeline_layout" in e.scenario.sources.origins else " (chosen by amped)"
    return f"layers by stage {layout}{chosen}\n"


def heading(e: Estimation) -> Iterator[Part]:
    """The title, the division of the machine and of the work, and the batch."""
    yield (e.scenario.title, "bold")
    degrees = [f"{kind} {e[f'{kind}_parallel_degree']:g}" for kind in WRITTEN]
    degrees_above_one = [degree for degree in degrees if not degree.endswith(" 1")] or ["one accelerator"]
    used, places = e["number_of_used_fast_domain_places"], e["scale_up_domain_size"]
    idle = f"{used:g} of {places:g} places of the fast domain used\n" if used < places else ""
    yield (
        f"{human.counted(e['number_of_accelerators'], 'accelerator')}: {' x '.join(degrees_above_one)}\n{idle}{_layout(e)}"
        f"batch {batch_in_words(e)}, micro-batch {e['microbatch_size']:g}, {e.computed_precision}, "
        f"recomputation {e.choices['activation_recomputation']}\n",
        "dim",
    )


def _headline(e: Estimation) -> Table:
    """The results of an estimate as rows of a name and a text."""
    convention = e.choices["attention_flop_convention"]
    other, counted = ("causal", "causal") if convention == "full" else ("full", "all")
    band = f" {plus_minus(e.error_band.error_fraction, places=1)}" if e.error_band else ""
    is_dense = e["active_parameters"] == e["number_of_parameters"]
    active = "" if is_dense else f", {human.count(e['active_parameters'])} active"
    rows = [
        ("training time", f"{human.duration(e['training_time'])}{band}  ({e['number_of_steps']:,.0f} steps)"),
        ("step time", human.duration(e["step_time"]) + band),
        *([("goodput", f"{human.percent(e['goodput_fraction'])} of the time, the rest for checkpoints and failures")]
          if e["goodput_fraction"] < 1 else []),
        ("throughput", f"{human.digits(e['tokens_per_second_per_accelerator'])} tokens/s per accelerator"),
        ("model FLOP/s", f"{human.value(e['model_flop_rate_per_accelerator'], 'flop/s')} per accelerator, "
                         f"MFU {human.percent(e['model_flops_utilization'])} ({convention} attention counted, "
                         f"{other}: {human.percent(e[f'model_flops_utilization_counting_{counted}_scores'])})"),
        ("hardware FLOP/s", f"{human.value(e['hardware_flop_rate_per_accelerator'], 'flop/s')} per accelerator, "
                            f"HFU {human.percent(e['hardware_flops_utilization'])}"),
        ("parameters", human.count(e["number_of_parameters"]) + active),
        ("energy", _optional(e, "energy")),
        ("cost", _optional(e, "cost", band)),
        ("price", price_in_words(e)[1]),
        ("electricity", _optional(e, "electricity_cost")),
        ("CO2", _optional(e, "carbon_emissions", _of_grid(e))),
        ("water", _optional(e, "cooling_water", _of_grid(e))),
    ]  # fmt: skip
    return grid([*rows, ("evidence", e.grade)], Column(), Column(style="bold"))


def validated(e: Estimation) -> Iterator[str]:
    """The runs that the error band comes from, and where the configuration is outside of what was validated."""
    band, memory = e.error_band, e.memory_band
    if band is not None and memory is not None:
        yield (f"±: 4 of 5 validated runs of this kind had a smaller error ({band.runs} runs: {band.alike}; "
               f"memory, {memory.runs} readings: {memory.alike})")  # fmt: skip
        if band.beyond:
            yield f"beyond what was validated, so the error may be larger: {'; '.join(band.beyond)}"


def _of_grid(e: Estimation) -> str:
    """Whose grid it is, in parentheses; empty if nobody named one."""
    return f" ({e.scenario.sources.grid.in_words})" if e.scenario.sources.grid else ""


def _optional(e: Estimation, name: str, band: str = "") -> str:
    """A result with its error band; if the result is unknown, which parameters lack."""
    if result := optional(e, name):
        return result + band
    return f"unknown: {', '.join(e.plan.lacking[name])} not given"


def _bar(part: float, whole: float, color: str) -> tuple[Part, Part]:
    """The two cells of a part: its share of a whole, and a bar of that length."""
    share = part / whole if whole else 0.0
    return human.percent(share), ("#" * round(min(max(share, 0.0), 1.0) * BAR), color)


def _bars(title: str, parts: dict[str, float], total: float, whole: float, unit: str) -> Table:
    """A table of the parts of a total, each as a share of a whole (the total itself, or the capacity)."""
    bar = ("", "") if total == whole else _bar(total, whole, "red" if total > whole else "white")
    rows: list[tuple[Part, ...]] = [((title, "bold"), human.value(total, unit), *bar)]
    for name, part in parts.items():
        if part > 0:
            color = COLORS["memory" if unit == "byte" else kind_of(name)]
            rows.append((f"  {human.label(name)}", human.value(part, unit), *_bar(part, whole, color)))
    numbers = (Column(justify="right", no_wrap=True) for _ in range(2))
    return grid(rows, Column(no_wrap=True), *numbers, Column(width=BAR), gap=1)


def _memory(e: Estimation) -> Iterator[Part]:
    """The memory of an accelerator by part, the verdicts on the memories, and the largest micro-batch."""
    need, capacity = e["memory_per_accelerator_bytes"], e["memory_capacity"]
    yield _bars("memory per accelerator", {name: e[name] for name in MEMORY_PARTS}, need, capacity, "byte")
    fits = need <= e["available_memory_bytes"]
    stage = f"; fullest is the {e.fullest_stage} stage" if e["pipeline_parallel_degree"] > 1 else ""
    yield (_verdict(e) + stage, "" if fits else "bold red")
    if e["host_memory_bytes"]:
        yield (_host(e), "" if e["fits_in_host_memory"] else "bold red")
    where = "" if e["fits_in_host_memory"] else " in an accelerator, without the host's memory"
    yield (f"largest micro-batch that fits{where}: {_largest(e)}", "" if fits else "bold red")


def _verdict(e: Estimation) -> str:
    """Whether the memory suffices, used and available memory, and whether the error band may change the verdict."""
    need, room = e["memory_per_accelerator_bytes"], e["available_memory_bytes"]
    verdict, (margin, is_close) = "fits" if need <= room else "DOES NOT FIT", memory_margin(e)
    used_of_available = f"{human.digits(need / human.GIGA)}{margin} of {human.digits(room / human.GIGA)} GB"
    return f"{verdict}{CLOSE if is_close else ''} ({used_of_available}; {human.value(e['memory_capacity'] - room, 'byte')} more is reserved)"


def _host(e: Estimation) -> str:
    """The offloaded memory of an accelerator and of a server, and whether the server's memory suffices."""
    bytes_per_host = e["host_memory_bytes"] * e["number_of_accelerators_of_a_host"]
    offloaded = f"host memory: {human.value(e['host_memory_bytes'], 'byte')} an accelerator, {human.value(bytes_per_host, 'byte')}"
    if "host_memory_capacity" not in e:
        return f"{offloaded} a server; its memory is not given (host_memory_capacity)"
    verdict = "fits" if e["fits_in_host_memory"] else "DOES NOT FIT"
    return f"{offloaded} of a server's {human.value(e['host_memory_capacity'], 'byte')}: {verdict}"


def _largest(e: Estimation) -> str:
    """The largest micro-batch that fits; and, if it differs, the largest one that divides the batch of a replica."""
    largest, batch_of_replica = int(e["largest_microbatch_size"]), int(e["minibatch_size"])
    largest_divisor = next(
        (size for size in range(min(largest, batch_of_replica), 0, -1) if batch_of_replica % size == 0), 0
    )
    return (
        f"{largest}"
        if largest_divisor == largest
        else f"{largest} ({largest_divisor} divides the {batch_of_replica} of a replica)"
    )


def _advice(e: Estimation) -> Iterator[Part]:
    """The smallest change that makes the mapping fit, then notes, warnings and assumptions."""
    if not e["fits_in_memory"]:
        yield f"smallest change that makes it fit: {smallest_change(e)}", "bold"
    anchored = [f"anchored on {e.anchored_on}"] if e.anchored_on else []
    for notice in (*anchored, *validated(e), *e.notices):
        note = notice if notice.startswith("warning") else f"note: {notice}"
        yield (shorten(note, LONGEST_NOTICE, placeholder=" … (all of it in config_summary.txt)"), "dim")
    if e.defaults:
        yield ""
        yield assumptions(e)


@drawn
def assumptions(e: Estimation) -> Iterator[Part]:
    """The assumed values: the row of kernels, and the defaults with their sources."""
    yield "values that nobody gave: amped's defaults (change one with --set NAME=VALUE)", "bold"
    rows = [
        (f"  {name}", human.value(e[name], f.mark.unit), (f.text["source"], "dim")) for name, f in e.defaults.items()
    ]
    yield grid([*([_kernels(e)] if e.uses_kernels else []), *rows])


def _kernels(e: Estimation) -> tuple[Part, ...]:
    """The cells of the row of kernel efficiencies, with the number of its assumed columns."""
    row = e.scenario.sources.rows[KERNELS]
    assumed = sum(column in e.scenario.catalogue for column in row.unverified)
    doubt = f"{assumed} of its columns are assumed" if assumed else "all of it from its sources"
    return f"  {KERNELS}", "a row", (f"{command('show', row.name)}: {doubt}.", "dim")
