"""The answer of an estimate on one screen: whether it fits, how long it takes, what it costs, and where the time goes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from textwrap import shorten
from typing import Any

from amped.base.commands import set_option
from amped.base.errors import plain
from amped.configuring.sources import CHOSEN, Given
from amped.estimation.estimation import Estimation
from amped.estimation.manners import other_runs
from amped.estimation.remedies import smallest_change
from amped.estimation.stages import stage_lines
from amped.report import human
from amped.report.verdicts import CLOSE, COLORS, kind_of, memory_margin
from amped.report.width import columns, wrapped
from amped.tables.prices import today
from amped.tables.table_files import KERNELS
from amped.theory.language.quantity import ACCELERATOR, MAPPING, NETWORK, SYSTEM
from amped.theory.nouns.parallelisms import PARALLELISMS

# What electricity emits and water cools.
EMITTED = (("carbon_emissions", "gram", " CO2"), ("cooling_water", "liter", " of water"))
# The columns of the word that each line begins with, and of the bar of a whole step.
WORD, BAR = 11, 25
MOST_NOTES = 4
# The most lines of a note, and what stands at the end of one that is cut.
NOTE_LINES, CLAUSE, MORE = 2, "; ", "; more with --full"
# What is shown of the parts of a step: its name on the screen, in the order of the screen; the rest is computation.
# The wait for the host is a part of the computation time.
PARTS = {
    "host_wait_time": "host", "recomputation_time": "recomputed", "optimizer_time": "optimizer",
    **{f"exposed_{kind}_communication_time": kind for kind in (*PARALLELISMS, "offload")},
    "pipeline_bubble_time": "bubble",
}  # fmt: skip
LEAST_SHARE, WORTH_A_LINE, WORTH_A_SEARCH = 0.005, 0.05, 0.02
# What of a batch may be assumed.
ASSUMED_OF_BATCH = {"batch_size": "batch", "context": "length"}
# The places of a fast domain: all, those that an accelerator may take, and those that the run uses.
DOMAIN = ("scale_up_domain_size", "usable_domain_size", "number_of_used_fast_domain_places")
# The results that each line tells.
OF_MEMORY = ("memory_per_accelerator_bytes", "fits_in_memory")
OF_LINE = {
    "FITS": OF_MEMORY, "NO FIT": OF_MEMORY, "TRAINING": ("training_time", "goodput_fraction", "cost", "energy"),
    "TIME": ("step_time", "tokens_per_second_per_accelerator", "model_flops_utilization"),
}  # fmt: skip
# A line of the screen: its texts, each with its style.
Line = tuple[tuple[str, str], ...]


def screen(e: Estimation) -> Iterator[Line]:
    """The answers that users want first; `--full` and `--why` show the rest."""
    for line in not_modeled_first(e):
        yield from (((part, "bold red"),) for part in wrapped(line, columns()))
    yield from heading(e)
    for word, text, style in answers(e):
        yield from _lines(word, text, style)
    for word, text in other_runs_in_words(e):
        yield from _lines(word, text, "")
    yield from _where(e)
    if wait := longest_wait(e):
        yield from _lines("SLOW BY", f"{wait}; `amped why` says what helps", "")
    yield from _notes(e)


def _lines(word: str, text: str, style: str) -> Iterator[Line]:
    """The lines of a word and the text beside the word, which is wrapped to the width of the screen."""
    for place, line in enumerate(wrapped(text, columns() - WORD)):
        yield (f"{word if place == 0 else '':<{WORD}}", "bold"), (line, style)


# --- what is asked ----------------------------------------------------------------------------------------------------


def heading(e: Estimation) -> Iterator[Line]:
    """What is trained on what, and how the work is divided: one line if both have room, else several."""
    trained, division = what_is_trained(e), how_it_is_divided(e)
    if len(trained) + len(division) + 2 <= columns():
        yield (trained, "bold"), (" " * (columns() - len(trained) - len(division)), ""), (division, "dim")
    else:
        yield from (((line, "bold"),) for line in wrapped(trained, columns()))
        yield from (((line, "dim"),) for line in wrapped(division, columns()))


def what_is_trained(e: Estimation) -> str:
    """The network, the accelerators and the precision."""
    rows, number = e.scenario.sources.rows, e["number_of_accelerators"]
    if not is_chosen(e) or ACCELERATOR not in rows:
        named = e.scenario.title.endswith(f" = {e.precision}")
        return e.scenario.title if named else f"{e.scenario.title}, {e.computed_precision}"
    machine = f" ({e['number_of_nodes']:g} x {rows[SYSTEM].name})" if system_has_accelerator(e) else ""
    network = rows[NETWORK].name if NETWORK in rows else f"{human.count(e['number_of_parameters'])} parameters"
    return f"{network} on {human.digits(number)} {rows[ACCELERATOR].name}{machine}, {e.computed_precision}"


def system_has_accelerator(e: Estimation) -> bool:
    """Whether the system's row names the chosen accelerator, one of its aliases, or a row that the accelerator extends.

    If not, only the network of the system is used.
    """
    rows = e.scenario.sources.rows
    accelerator_of_system = plain(str(rows[SYSTEM].columns.get("accelerator"))) if SYSTEM in rows else ""
    return accelerator_of_system in {
        plain(name) for name in (rows[ACCELERATOR].name, *rows[ACCELERATOR].ancestors, *rows[ACCELERATOR].aliases)
    }


def how_it_is_divided(e: Estimation) -> str:
    """The mapping in words, with a remark if amped chose values of the scenario."""
    return f"{mapping_in_words(e)}{' (chosen)' if is_chosen(e) else ''}"


def batch_in_words(e: Estimation) -> str:
    """The sequences of a batch with their tokens, or its images, and whether amped assumed the batch or the length."""
    sequences, tokens = e["batch_size"], e["context"]
    kind = " images" if is_of_images(e) else ""
    total = human.scaled(sequences * tokens, "", 2)
    documents = f", {e['sequence_fill'] * 100:.3g} % filled" if e["sequence_fill"] < 1 else ""
    return f"{human.digits(sequences)}{kind} x {human.digits(tokens)} tokens ({total}){documents}{_assumed_of_batch(e)}"


def _assumed_of_batch(e: Estimation) -> str:
    """A remark if amped assumed the batch or the length of sequences. The network gives the length for images."""
    if not is_chosen(e):
        return ""
    given = {name for name, origin in e.scenario.sources.origins.items() if isinstance(origin, Given)} - {*chosen(e)}
    if is_of_images(e):
        given.add("context")
    words = [word for name, word in ASSUMED_OF_BATCH.items() if name not in given]
    return ", assumed" if len(words) > 1 else "".join(f", {word} assumed" for word in words)


def tower_in_words(e: Estimation) -> str:
    """What stands in front of the network: its parameters, what of them is trained, its images, and its time beside the step's."""
    parameters = human.scaled(e["tower_parameters"] + e["tower_projector_parameters"], "", 4)
    trained = {"trained": "trained", "projector": "projector trained", "frozen": "frozen"}[_trained_of_tower(e)]
    number = e["images_per_sequence"]
    images = f"{number:g} image{'s' if number != 1 else ''} of {e['tower_tokens_handed_on']:g} tokens in a sequence"
    words = f"{parameters} parameters, {trained}; {images}"
    if "tower_forward_time" not in e:
        return words
    time = (e["tower_forward_time"] + e["tower_backward_time"]) * e["number_of_microbatches_per_minibatch"]
    return f"{words}; {human.duration(time)} of each step on the first stage"


def _trained_of_tower(e: Estimation) -> str:
    """What of a tower is trained, as `tower_training` says it; beside adapters nothing is."""
    return e.choices["tower_training"] if e.choices["adapters"] == "none" else "frozen"


def adapters_in_words(e: Estimation) -> str:
    """The kind and rank of adapters, how many parameters they have, and how frozen weights are kept."""
    trained, every = (human.scaled(e[name], "", 4) for name in ("trained_parameters", "number_of_parameters"))
    bits = e["frozen_weight_precision"] * 8
    return f"{e.choices['adapters']}, rank {e['adapter_rank']:g}: {trained} trained beside {every}, frozen in {bits:.3g} bits"


def is_of_images(e: Estimation) -> bool:
    """Whether a sequence is the patches of an image."""
    return bool(e["patch_values"]) if "patch_values" in e else False


# What stands for the degrees of a mapping in which nothing is divided.
ALONE = "one accelerator"


def mapping_in_words(mapping: Estimation | Mapping[str, Any]) -> str:
    """How the work is divided: degrees, chunks, sharding, recomputation and micro-batch.

    `mapping` is an estimate, or a row of a search.
    """
    degrees = [f"{kind} {mapping[f'{kind}_parallel_degree']:g}" for kind in PARALLELISMS]
    degrees_in_words = " x ".join(degree for degree in degrees if not degree.endswith(" 1")) or ALONE
    number = (
        mapping["virtual_pipeline_stages"]
        if isinstance(mapping, Estimation)
        else mapping.get("virtual_pipeline_stages") or 1
    )
    chunks = f", {number:g} chunks a stage" if number > 1 and mapping["pipeline_parallel_degree"] > 1 else ""
    is_shared = mapping["zero_stage"] and degrees_in_words != ALONE
    zero = f", ZeRO {mapping['zero_stage']:g}" if is_shared else ""
    mode = (mapping.choices if isinstance(mapping, Estimation) else mapping).get("activation_recomputation", "none")
    recomputation = "" if mode == "none" else f", {mode.replace('_', ' ')} recomputation"
    on_host = "".join(
        f", {_share(mapping, name)}{what} on the host" for name, what in ON_HOST.items() if _share(mapping, name)
    )
    return f"{degrees_in_words}{chunks}{zero}{recomputation}{on_host}, micro-batch {mapping['microbatch_size']:g}"


# What may be kept on the host, by the share of it that is.
ON_HOST = {"optimizer_offload": "optimizer states", "activation_offload": "activations"}


def _share(mapping: Estimation | Mapping[str, Any], name: str) -> str:
    """The share of something that is kept on the host, before its name; "all " of a whole, and empty for none."""
    value = mapping[name] if isinstance(mapping, Estimation) else mapping.get(name) or 0
    return ("all " if value == 1 else f"{100 * value:.0f} % of ") if value else ""


def is_chosen(e: Estimation) -> bool:
    """Whether amped chose a value that the user did not give."""
    return bool(chosen(e))


def chosen(e: Estimation) -> list[str]:
    """The names of the values that amped chose."""
    origins = e.scenario.sources.origins.items()
    return [name for name, origin in origins if isinstance(origin, Given) and origin.where == CHOSEN]


# --- what is answered -------------------------------------------------------------------------------------------------


def answers(e: Estimation, change: str | None = None) -> Iterator[tuple[str, str, str]]:
    """The answers as triples of a word, a text and a style. Whether the mapping fits comes first.

    `change` makes the mapping fit, as in `fit`.
    """
    yield as_given(e, *fit(e, change))
    yield "BATCH", batch_in_words(e), ""
    if e.choices["tower"] != "none":
        yield "TOWER", tower_in_words(e), ""
    if e.choices["adapters"] != "none":
        yield "ADAPTERS", adapters_in_words(e), ""
    predicted = e.error_band and not {*OF_LINE["TIME"]} & {*e.given_results}
    band = f" {plus_minus(e.error_band.error_fraction)}" if predicted and e.error_band else ""
    utilization = f"MFU {human.percent(e['model_flops_utilization'])}"
    causal_utilization = e["model_flops_utilization_counting_causal_scores"]
    if e.choices["attention_flop_convention"] == "full":
        utilization += f" (causal {causal_utilization * 100:.1f})"
    unit, size = ("images", e["context"]) if is_of_images(e) else ("tokens", 1)
    rate = f"{human.digits(e['tokens_per_second_per_accelerator'] / size)} {unit}/s an accelerator"
    yield as_given(e, "TIME", f"{human.duration(e['step_time'])} a step{band}     {rate}     {utilization}", "")
    cost, energy = (optional(e, name) for name in ("cost", "energy"))
    results = [
        human.duration(e["training_time"]) + band,
        *([cost + band] if cost else []),
        *([energy] if energy else []),
    ]
    tokens = human.count(e["tokens_to_train"]).replace("trillion", "T").replace("billion", "G")
    yield as_given(e, "TRAINING", f"{tokens} tokens{_of_parameters(e)}: {', '.join(results)}", "")
    yield from calendar_in_words(e)
    if "cost" not in e.given_results:
        yield price_in_words(e)
    yield from owning_in_words(e)
    yield from grid_in_words(e)


def grid_in_words(e: Estimation) -> Iterator[tuple[str, str, str]]:
    """What the electricity emits and which water cools, with the region and the year of the figures; nothing without them."""
    known = [human.value(e[name], unit) + word for name, unit, word in EMITTED if name in e]
    if known:
        grid = e.scenario.sources.grid
        yield "GRID", ", ".join([*known, *([grid.in_words] if grid else [])]), ""


def owning_in_words(e: Estimation) -> Iterator[tuple[str, str, str]]:
    """What the training costs on a bought machine, and from which use on buying is cheaper; nothing without a purchase cost."""
    if "owning_cost" not in e:
        return
    owned = f"{human.value(e['owning_cost'], 'dollar')} on a machine of one's own, {human.value(e['owning_price'], 'dollar/s')}"
    if "break_even_use_fraction" not in e:
        yield "OWNED", owned, ""
        return
    use = e["break_even_use_fraction"]
    cheaper = f"buying is cheaper from {human.percent(use, 0)} use on" if use <= 1 else "renting is cheaper at any use"
    yield "OWNED", f"{owned}; {cheaper}", ""


def calendar_in_words(e: Estimation) -> Iterator[tuple[str, str, str]]:
    """How many of the days train, and how often a failure and a checkpoint come; nothing where the user gave it."""
    if "interruption_factor" in e and not {"training_time", "goodput_fraction"} & {*e.given_results}:
        failures, checkpoints = (
            human.duration(e[name]) for name in ("time_between_failures", "checkpoint_interval_time")
        )
        often = f"failure every {failures}, checkpoint every {checkpoints}"
        yield "DAYS", f"{human.percent(e['goodput_fraction'])} train; {often}", ""


def price_in_words(e: Estimation) -> tuple[str, str, str]:
    """The price of an accelerator with its list, date and source; or that there is none, and what to give."""
    price = e.scenario.sources.price
    if "cost" not in e or price is None:
        return "PRICE", 'no price is known, so no cost: --price "2.5 USD/h" or --cloud NAME', "yellow"
    old = price.is_old(today())
    number = f"{price.median:.4g} USD/h, {price.provider}"
    if not price.term:
        return (
            "PRICE",
            shorten(f"{number}, {price.source}" if price.source else number, columns() - WORD, placeholder=" …"),
            "",
        )
    doubt = " (old)" if old else " (unsure)" if "date" in price.unverified else ""
    head, tail = (
        f"{number} {price.term.replace('_', ' ')}, ",
        f" {price.date}{doubt}" if price.date else ", date unknown",
    )
    source = price.source.partition(" (")[0].partition(": ")[0].replace(f" {price.provider}", "")
    if len(head + source + tail) > columns() - WORD:  # no part of it: `amped prices` has it whole
        head, source = head.removesuffix(", "), "," * bool(price.date)
    return "PRICE", head + source + tail, "yellow" if old else ""


# More switches than this are the first of them, and how many others.
MOST_SWITCHES = 3


def other_runs_in_words(e: Estimation) -> Iterator[tuple[str, str]]:
    """The step as recipes run it (or without recipes), and as a first run: pairs of a word and a text."""
    words = {"recipe": "RECIPE", "plain": "PLAIN", "first_run": "FIRST RUN"}
    for run in other_runs(e):
        others = len(run.switches) - MOST_SWITCHES
        how = ", ".join(run.switches[:MOST_SWITCHES]) + (f" and {others} more" if others > 0 else "")
        option = "" if run.name == "first_run" else f" with --manner {run.name}"
        option += f" ({run.notice})" if run.notice else ""
        fits = "" if run.fits else ", which does not fit"
        fits += ", slower with this mapping" if run.name == "recipe" and run.step_time > e["step_time"] else ""
        yield words[run.name], f"{human.duration(run.step_time)} a step{option}{fits}{f': {how}' if how else ''}"


def as_given(e: Estimation, word: str, text: str, style: str) -> tuple[str, str, str]:
    """A triple of a word, a text and a style; the text names the results of the line that the user gave."""
    names = [human.label(name) for name in OF_LINE.get(word, ()) if name in e.given_results]
    return word, f"{text} ({', '.join(names)} given, not predicted)" if names else text, style


def _of_parameters(e: Estimation) -> str:
    """The tokens per parameter, if amped assumed the number of tokens; else empty."""
    row = e.scenario.sources.rows.get(NETWORK)
    if e.choices["adapters"] != "none" and "tokens_to_train" in chosen(e):
        return " (assumed)"
    if "tokens_to_train" not in chosen(e) or (row is not None and row.columns.get("training_tokens")):
        return ""
    return f" ({e['tokens_to_train'] / e['number_of_parameters']:g} a parameter, assumed)"


def fit(e: Estimation, change: str | None = None) -> tuple[str, str, str]:
    """Whether the memory suffices, as a word, a text and a style; if not, with the smallest change that makes it fit.

    The change is searched for, unless `change` gives it; if `change` is empty, no change is named.
    """
    needed, available = (e[name] / human.GIGA for name in ("memory_per_accelerator_bytes", "available_memory_bytes"))
    largest = max(("activation_bytes", "optimizer_state_bytes", "gradient_bytes", "weight_bytes"), key=e.__getitem__)
    margin, is_close = memory_margin(e)
    memory = f"{needed:.1f}{margin} of {available:.1f} GB ({human.label(largest)} {e[largest] / human.GIGA:.1f})"
    if e["fits_in_memory"]:
        return "FITS", f"{memory}{CLOSE if is_close else ''}", ""
    change = smallest_change(e) if change is None else change
    advice = (
        f"; smallest change that makes it fit: {_as_options(change)}" if " = " in change else change and f"; {change}"
    )
    return "NO FIT", f"DOES NOT FIT{CLOSE if is_close else ''}: {memory}{advice}", "bold red"


def _as_options(change: str) -> str:
    """A change in words (`name = value`), as the options that make the change; any other text stays as it is."""
    return re.sub(r"( and )?(\w+) = (\S+)", lambda m: f"{' ' if m[1] else ''}{set_option(m[2], m[3])}", change)


def optional(e: Estimation, name: str) -> str:
    """A result that not every machine has, as text; empty if the result is not known."""
    return "" if e.plan.lacking.get(name) else human.value(e[name], e.scenario.catalogue[name].mark.unit)


def shares(e: Estimation) -> dict[str, float]:
    """The share of each part in the time of a step, by the part's name in `PARTS`; `compute` is all the rest."""
    parts = {part: e[name] / e["step_time"] for name, part in PARTS.items()}
    return {"compute": 1 - sum(parts.values()), **parts}


def _where(e: Estimation) -> Iterator[Line]:
    """The parts of a step, each with its share and a bar; parts below half a percent are left out."""
    kinds = {part: kind_of(name) for name, part in PARTS.items()} | {"compute": "compute"}
    line, room = [(f"{'WHERE':<{WORD}}", "bold")], columns() - WORD
    for part, share in shares(e).items():
        if share < LEAST_SHARE:
            continue
        label, bar = f"{part} {human.percent(share, 0)} ", "#" * round(share * BAR)
        if len(label) + len(bar) + 2 > room:
            yield (*line,)
            line, room = [(" " * WORD, "")], columns() - WORD
        line += [("  " if len(line) > 1 else "", ""), (label, ""), (bar, COLORS[kinds[part]])]
        room -= len(label) + len(bar) + 2
    yield (*line,)


def longest_wait(e: Estimation) -> str:
    """The longest part of a step other than computation, in words; empty if that part is short."""
    longest = max(PARTS, key=e.__getitem__)
    if e[longest] <= WORTH_A_LINE * e["step_time"]:
        return ""
    return f"{human.duration(e[longest])} of {human.label(longest)} in a step"


# --- what it stands on ------------------------------------------------------------------------------------------------


def _notes(e: Estimation) -> Iterator[Line]:
    """The lines on what was assumed, on the evidence, and the notes and warnings."""
    yield from _lines("ASSUMED", f"{assumed(e)}: --why lists them", "")
    yield from _lines("EVIDENCE", e.grade, "")
    if e.anchored_on:
        yield from _lines("", f"anchored on {e.anchored_on}", "")
    notices = notes(e)
    for notice in notices[:MOST_NOTES]:
        style = "bold" if notice.startswith("warning") else "dim"
        yield from (((line, style),) for line in wrapped(in_short(notice, NOTE_LINES * columns()), columns()))
    if len(notices) > MOST_NOTES:
        yield ((f"{len(notices) - MOST_NOTES} further notes: --full", "dim"),)


def in_short(notice: str, room: int) -> str:
    """A note that fits `room` characters: as many whole clauses as have room, then a pointer to the rest.

    The first clause is always there.
    """
    if len(notice) <= room:
        return notice
    shortened, *others = notice.split(CLAUSE)
    for clause in others:
        if len(shortened) + len(CLAUSE) + len(clause) + len(MORE) > room:
            return shortened + MORE
        shortened += CLAUSE + clause
    return shortened


def assumed(e: Estimation) -> str:
    """The numbers of assumed coefficients and defaults behind an estimate, in words."""
    grounds = [f"{len(e.defaults)} defaults"]
    if e.uses_kernels:
        row = e.scenario.sources.rows[KERNELS]
        doubtful = sum(column in e.scenario.catalogue for column in row.unverified)
        grounds.insert(0, f"{doubtful} coefficients of {row.name}")
    if MAPPING in e.scenario.sources.rows:
        grounds.append(f"software {e.scenario.sources.rows[MAPPING].name}")
    return ", ".join(grounds)


def not_modeled_first(e: Estimation) -> list[str]:
    """The line above all others, if parts that are not modeled may change an estimate by more than a quarter."""
    if not e.lacks_much or e.unmodeled is None:
        return []
    time, memory = (plus_minus(error) for error in (e.unmodeled.on_time, e.unmodeled.on_memory))
    worst = max(e.not_modeled, key=lambda bound: max(bound.on_time, bound.on_memory))
    more = f", and {len(e.not_modeled) - 1} more (--full)" if len(e.not_modeled) > 1 else ""
    return [f"NOT MODELED: time {time}, memory {memory}, for {worst.what}{more}"]


def plus_minus(error: float, places: int = 0) -> str:
    """An error band as text behind a number: ± 7 %."""
    return f"± {human.percent(error, places)}" if error != math.inf else "± unknown"


def notes(e: Estimation) -> list[str]:
    """The notes and warnings on an estimate, the warnings first; each begins with "note" or "warning"."""
    beyond = e.error_band.beyond if e.error_band else ()
    beyond_validation = [f"the error may be larger: {'; '.join(beyond)}"] if beyond else []
    notices = [*e.notices, *beyond_validation, *_idle(e), *_unsearched(e), *_uneven(e), *_rematerialized(e)]
    warnings_first = sorted(notices, key=lambda notice: not notice.startswith("warning"))
    return [notice if notice.startswith("warning") else f"note: {notice}" for notice in warnings_first]


def _idle(e: Estimation) -> Iterator[str]:
    """Notes on accelerators of a fast domain that have nothing to do, or that work for another part of the mapping."""
    places, usable, used = (e[name] for name in DOMAIN)
    if used >= min(places, e["number_of_accelerators"]):
        return
    if usable < places:
        yield f"a run gets {usable:g} of the {places:g} accelerators of each fast domain (launched_domain_size)"
    if used < min(usable, e["number_of_accelerators"]):
        yield f"degrees fill only {used:g} of the {usable:g} places of a fast domain; other groups are on other places"


def _uneven(e: Estimation) -> Iterator[str]:
    """A note on the fewest and the most layers of a stage, if they differ."""
    if "pipeline_layout" in e.choices and e["pipeline_parallel_degree"] > 1:
        layers = [sum(line.layers.values()) for line in stage_lines(e)]
        if min(layers) < max(layers):
            yield f"stages have {min(layers):g} to {max(layers):g} layers; --stages lists them"


def _rematerialized(e: Estimation) -> Iterator[str]:
    """A note on what the compiler computes once more because a layer's working memory does not fit otherwise."""
    if share := e["rematerialized_layer_fraction"]:
        yield f"to fit in memory, the compiler computes {human.percent(share, 0)} of each layer once more (in recomputed)"


def _unsearched(e: Estimation) -> Iterator[str]:
    """A note on mappings that the chooser does not try and that may be faster here; `amped explore` tries them."""
    if not is_chosen(e):
        return
    from amped.drafting.splits import may_be_split  # an estimate of a whole config needs no chooser

    is_untried = not may_be_split(e["context"])
    untried = [
        *(["more virtual stages"] if e["pipeline_bubble_time"] > WORTH_A_SEARCH * e["step_time"] else []),
        *(["context parallelism"] if is_untried and (not e["fits_in_memory"] or e["recomputation_time"]) else []),
    ]
    if untried:
        yield f"chosen without {' and '.join(untried)}; `amped explore` tries {'them' if len(untried) > 1 else 'that'}, too"
