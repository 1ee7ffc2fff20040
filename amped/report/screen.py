"""The answer of an estimate on one screen: whether it fits, how long it takes, what it costs, and where the time goes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from amped.base.commands import set_option
from amped.base.errors import plain
from amped.configuring.sources import CHOSEN, Given
from amped.estimation.estimation import Estimation
from amped.estimation.remedies import smallest_change
from amped.estimation.stages import stage_lines
from amped.report import human
from amped.report.verdicts import CLOSE, COLORS, kind_of, memory_margin
from amped.report.width import columns, wrapped
from amped.tables.table_files import KERNELS
from amped.theory.language.quantity import ACCELERATOR, MAPPING, NETWORK, SYSTEM
from amped.theory.nouns.parallelisms import PARALLELISMS

# The columns of the word that each line begins with, and of the bar of a whole step.
WORD, BAR = 11, 25
MOST_NOTES = 4
# The most lines of a note, and what stands at the end of one that is cut.
NOTE_LINES, CLAUSE, MORE = 2, "; ", "; more with --full"
# What is shown of the parts of a step: its name on the screen, in the order of the screen; the rest is computation.
PARTS = {
    "recomputation_time": "recomputed", "optimizer_time": "optimizer",
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
    "FITS": OF_MEMORY, "NO FIT": OF_MEMORY, "TRAINING": ("training_time", "cost", "energy"),
    "TIME": ("step_time", "tokens_per_second_per_accelerator", "model_flops_utilization"),
}  # fmt: skip
# A line of the screen: its texts, each with its style.
Line = tuple[tuple[str, str], ...]


def screen(e: Estimation) -> Iterator[Line]:
    """What a person wants to know first; `--full` and `--why` tell the rest."""
    for line in not_modeled_first(e):
        yield from (((part, "bold red"),) for part in wrapped(line, columns()))
    yield from heading(e)
    for word, text, style in answers(e):
        yield from _lines(word, text, style)
    yield from _where(e)
    if wait := longest_wait(e):
        yield from _lines("SLOW BY", f"{wait}; `amped why` says what helps", "")
    yield from _notes(e)


def _lines(word: str, text: str, style: str) -> Iterator[Line]:
    """A word, and what is said of it beside it, on as many lines as it takes."""
    for place, line in enumerate(wrapped(text, columns() - WORD)):
        yield (f"{word if place == 0 else '':<{WORD}}", "bold"), (line, style)


# --- what is asked ----------------------------------------------------------------------------------------------------


def heading(e: Estimation) -> Iterator[Line]:
    """What is trained on what, and how the work is divided; in one line where both have room."""
    what, how = what_is_trained(e), how_it_is_divided(e)
    if len(what) + len(how) + 2 <= columns():
        yield (what, "bold"), (" " * (columns() - len(what) - len(how)), ""), (how, "dim")
    else:
        yield from (((line, "bold"),) for line in wrapped(what, columns()))
        yield from (((line, "dim"),) for line in wrapped(how, columns()))


def what_is_trained(e: Estimation) -> str:
    """The network, the accelerators and the precision."""
    rows, number = e.scenario.sources.rows, e["number_of_accelerators"]
    if not is_chosen(e) or ACCELERATOR not in rows:
        named = e.scenario.title.endswith(f" = {e.precision}")
        return e.scenario.title if named else f"{e.scenario.title}, {e.precision}"
    machine = f" ({e['number_of_nodes']:g} x {rows[SYSTEM].name})" if is_built_with_it(e) else ""
    network = rows[NETWORK].name if NETWORK in rows else f"{human.count(e['number_of_parameters'])} parameters"
    return f"{network} on {human.digits(number)} {rows[ACCELERATOR].name}{machine}, {e.precision}"


def is_built_with_it(e: Estimation) -> bool:
    """Whether the system is built with the accelerator, or with a row that it extends; else it only lends its network."""
    rows = e.scenario.sources.rows
    built = plain(str(rows[SYSTEM].columns.get("accelerator"))) if SYSTEM in rows else ""
    return built in {
        plain(name) for name in (rows[ACCELERATOR].name, *rows[ACCELERATOR].ancestors, *rows[ACCELERATOR].aliases)
    }


def how_it_is_divided(e: Estimation) -> str:
    """The mapping, and whether amped chose it."""
    return f"{mapping_in_words(e)}{' (chosen)' if is_chosen(e) else ''}"


def batch_in_words(e: Estimation) -> str:
    """The sequences of a batch with their tokens, or its images, and whether amped assumed one of the two."""
    sequences, tokens = e["batch_size"], e["context"]
    kind = " images" if is_of_images(e) else ""
    total = human.scaled(sequences * tokens, "", 2)
    return f"{human.digits(sequences)}{kind} x {human.digits(tokens)} tokens ({total}){_assumed_of_batch(e)}"


def _assumed_of_batch(e: Estimation) -> str:
    """Whether amped assumed the batch or the length of sequences, in words; the length of images is the network's."""
    if not is_chosen(e):
        return ""
    given = {name for name, origin in e.scenario.sources.origins.items() if isinstance(origin, Given)} - {*chosen(e)}
    if is_of_images(e):
        given.add("context")
    words = [word for name, word in ASSUMED_OF_BATCH.items() if name not in given]
    return ", assumed" if len(words) > 1 else "".join(f", {word} assumed" for word in words)


def is_of_images(e: Estimation) -> bool:
    """Whether a sequence is the patches of an image."""
    return bool(e["patch_values"]) if "patch_values" in e else False


def mapping_in_words(of: Estimation | Mapping[str, Any]) -> str:
    """How the work of an estimate, or of a row of a search, is divided: degrees, chunks, sharding, recomputation and micro-batch."""
    degrees = [f"{kind} {of[f'{kind}_parallel_degree']:g}" for kind in PARALLELISMS]
    shown = " x ".join(degree for degree in degrees if not degree.endswith(" 1")) or "one accelerator"
    number = of["virtual_pipeline_stages"] if isinstance(of, Estimation) else of.get("virtual_pipeline_stages") or 1
    chunks = f", {number:g} chunks a stage" if number > 1 and of["pipeline_parallel_degree"] > 1 else ""
    zero = f", ZeRO {of['zero_stage']:g}" if of["zero_stage"] else ""
    mode = (of.choices if isinstance(of, Estimation) else of).get("activation_recomputation", "none")
    again = "" if mode == "none" else f", {mode.replace('_', ' ')} recomputation"
    return f"{shown}{chunks}{zero}{again}, micro-batch {of['microbatch_size']:g}"


def is_chosen(e: Estimation) -> bool:
    """Whether amped chose what nobody gave."""
    return bool(chosen(e))


def chosen(e: Estimation) -> list[str]:
    """The names whose values amped chose."""
    origins = e.scenario.sources.origins.items()
    return [name for name, origin in origins if isinstance(origin, Given) and origin.where == CHOSEN]


# --- what is answered -------------------------------------------------------------------------------------------------


def answers(e: Estimation, change: str | None = None) -> Iterator[tuple[str, str, str]]:
    """The word that a line begins with, what it says, and its style; whether it fits, with `change`, comes first."""
    yield as_given(e, *fit(e, change))
    yield "BATCH", batch_in_words(e), ""
    predicted = e.error_band and not {*OF_LINE["TIME"]} & {*e.given_results}
    band = f" {plus_minus(e.error_band.error_fraction)}" if predicted and e.error_band else ""
    used = f"MFU {human.percent(e['model_flops_utilization'])}"
    causal = e["model_flops_utilization_counting_causal_scores"]
    if e.choices["attention_flop_convention"] == "full":
        used += f" (causal {causal * 100:.1f})"
    unit, size = ("images", e["context"]) if is_of_images(e) else ("tokens", 1)
    rate = f"{human.digits(e['tokens_per_second_per_accelerator'] / size)} {unit}/s an accelerator"
    yield as_given(e, "TIME", f"{human.duration(e['step_time'])} a step{band}     {rate}     {used}", "")
    cost, energy = (optional(e, name) for name in ("cost", "energy"))
    results = [
        human.duration(e["training_time"]) + band,
        *([cost + band] if cost else []),
        *([energy] if energy else []),
    ]
    tokens = human.count(e["tokens_to_train"]).replace("trillion", "T").replace("billion", "G")
    yield as_given(e, "TRAINING", f"{tokens} tokens{_of_parameters(e)}: {', '.join(results)}", "")


def as_given(e: Estimation, word: str, text: str, style: str) -> tuple[str, str, str]:
    """A line; where the user gave a result in it, it says so."""
    names = [human.label(name) for name in OF_LINE.get(word, ()) if name in e.given_results]
    return word, f"{text} ({', '.join(names)} given, not predicted)" if names else text, style


def _of_parameters(e: Estimation) -> str:
    """How the tokens were chosen, if nobody gave them and the row of the model does not say how many it saw."""
    row = e.scenario.sources.rows.get(NETWORK)
    if "tokens_to_train" not in chosen(e) or (row is not None and row.columns.get("training_tokens")):
        return ""
    return f" ({e['tokens_to_train'] / e['number_of_parameters']:g} a parameter, assumed)"


def fit(e: Estimation, change: str | None = None) -> tuple[str, str, str]:
    """Whether it fits, in how much of how much, and if not the smallest change with which it does.

    The change is searched for, unless `change` gives it; if `change` is empty, no change is named.
    """
    needed, there = (e[name] / human.GIGA for name in ("memory_per_accelerator_bytes", "available_memory_bytes"))
    largest = max(("activation_bytes", "optimizer_state_bytes", "gradient_bytes", "weight_bytes"), key=e.__getitem__)
    margin, is_close = memory_margin(e)
    memory = f"{needed:.1f}{margin} of {there:.1f} GB ({human.label(largest)} {e[largest] / human.GIGA:.1f})"
    if e["fits_in_memory"]:
        return "FITS", f"{memory}{CLOSE if is_close else ''}", ""
    change = smallest_change(e) if change is None else change
    advice = (
        f"; smallest change that makes it fit: {_as_options(change)}" if " = " in change else change and f"; {change}"
    )
    return "NO FIT", f"DOES NOT FIT{CLOSE if is_close else ''}: {memory}{advice}", "bold red"


def _as_options(change: str) -> str:
    """A change in words, as the options that make it; that there is none stays as it is."""
    return re.sub(r"( and )?(\w+) = (\S+)", lambda m: f"{' ' if m[1] else ''}{set_option(m[2], m[3])}", change)


def optional(e: Estimation, name: str) -> str:
    """A result that not every machine has; empty where it is not known."""
    return "" if e.plan.lacking.get(name) else human.value(e[name], e.scenario.catalogue[name].mark.unit)


def shares(e: Estimation) -> dict[str, float]:
    """The share of each part of a step; "compute" is what is in no other part."""
    parts = {said: e[name] / e["step_time"] for name, said in PARTS.items()}
    return {"compute": 1 - sum(parts.values()), **parts}


def _where(e: Estimation) -> Iterator[Line]:
    """The parts of a step, each with its share and a bar; parts below half a percent are left out."""
    kinds = {said: kind_of(name) for name, said in PARTS.items()} | {"compute": "compute"}
    line, room = [(f"{'WHERE':<{WORD}}", "bold")], columns() - WORD
    for said, share in shares(e).items():
        if share < LEAST_SHARE:
            continue
        label, bar = f"{said} {human.percent(share, 0)} ", "#" * round(share * BAR)
        if len(label) + len(bar) + 2 > room:
            yield (*line,)
            line, room = [(" " * WORD, "")], columns() - WORD
        line += [("  " if len(line) > 1 else "", ""), (label, ""), (bar, COLORS[kinds[said]])]
        room -= len(label) + len(bar) + 2
    yield (*line,)


def longest_wait(e: Estimation) -> str:
    """In words: the longest part of a step beside computation; empty if it is short."""
    longest = max(PARTS, key=e.__getitem__)
    if e[longest] <= WORTH_A_LINE * e["step_time"]:
        return ""
    return f"{human.duration(e[longest])} of {human.label(longest)} in a step"


# --- what it stands on ------------------------------------------------------------------------------------------------


def _notes(e: Estimation) -> Iterator[Line]:
    """What the numbers stand on, and what the user should be told, a line each."""
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
    """A note, or as many of its whole clauses as have room and where the rest is; its first clause is always there."""
    if len(notice) <= room:
        return notice
    first, *others = notice.split(CLAUSE)
    for clause in others:
        if len(first) + len(CLAUSE) + len(clause) + len(MORE) > room:
            return first + MORE
        first += CLAUSE + clause
    return first


def assumed(e: Estimation) -> str:
    """In words: how much of an estimate stands on what nobody gave."""
    grounds = [f"{len(e.defaults)} defaults"]
    if e.uses_kernels:
        row = e.scenario.sources.rows[KERNELS]
        doubtful = sum(column in e.scenario.catalogue for column in row.unverified)
        grounds.insert(0, f"{doubtful} coefficients of {row.name}")
    if MAPPING in e.scenario.sources.rows:
        grounds.append(f"software {e.scenario.sources.rows[MAPPING].name}")
    return ", ".join(grounds)


def not_modeled_first(e: Estimation) -> list[str]:
    """The line that stands before all others where what is not modeled may move an estimate by more than a quarter."""
    if not e.lacks_much or e.unmodeled is None:
        return []
    time, memory = (plus_minus(error) for error in (e.unmodeled.on_time, e.unmodeled.on_memory))
    worst = max(e.not_modeled, key=lambda bound: max(bound.on_time, bound.on_memory))
    more = f", and {len(e.not_modeled) - 1} more (--full)" if len(e.not_modeled) > 1 else ""
    return [f"NOT MODELED: time {time}, memory {memory}, for {worst.what}{more}"]


def plus_minus(error: float, places: int = 0) -> str:
    """An error band as it stands behind a number."""
    return f"± {human.percent(error, places)}" if error != math.inf else "± unknown"


def notes(e: Estimation) -> list[str]:
    """What the user should be told of an estimate, in sentences that begin with "note" or "warning"."""
    beyond = e.error_band.beyond if e.error_band else ()
    unknown = [f"the error may be larger: {'; '.join(beyond)}"] if beyond else []
    notices = [*e.notices, *unknown, *_idle(e), *_unsearched(e), *_uneven(e)]
    warnings_first = sorted(notices, key=lambda notice: not notice.startswith("warning"))
    return [notice if notice.startswith("warning") else f"note: {notice}" for notice in warnings_first]


def _idle(e: Estimation) -> Iterator[str]:
    """Which accelerators of a fast domain have nothing to do, or work for another part of the mapping."""
    places, usable, used = (e[name] for name in DOMAIN)
    if used >= min(places, e["number_of_accelerators"]):
        return
    if usable < places:
        yield f"a run gets {usable:g} of the {places:g} accelerators of each fast domain (launched_domain_size)"
    if used < min(usable, e["number_of_accelerators"]):
        yield f"degrees fill only {used:g} of the {usable:g} places of a fast domain; other groups are on other places"


def _uneven(e: Estimation) -> Iterator[str]:
    """How many layers the stages have, where they do not have equally many."""
    if "pipeline_layout" in e.choices and e["pipeline_parallel_degree"] > 1:
        layers = [sum(line.layers.values()) for line in stage_lines(e)]
        if min(layers) < max(layers):
            yield f"stages have {min(layers):g} to {max(layers):g} layers; --stages lists them"


def _unsearched(e: Estimation) -> Iterator[str]:
    """What the chooser leaves out and might gain here; `amped explore` tries it."""
    if not is_chosen(e):
        return
    from amped.drafting.chooser import LONG_CONTEXT  # an estimate of a whole config needs no chooser

    is_untried = e["context"] < LONG_CONTEXT
    named = [
        *(["more virtual stages"] if e["pipeline_bubble_time"] > WORTH_A_SEARCH * e["step_time"] else []),
        *(["context parallelism"] if is_untried and (not e["fits_in_memory"] or e["recomputation_time"]) else []),
        *(["offload"] if not e["fits_in_memory"] else []),
    ]
    if named:
        yield f"chosen without {' and '.join(named)}; `amped explore` tries {'them' if len(named) > 1 else 'that'}, too"
