"""The tools: each takes plain data, bounds its work, and says how sure its answer is and what to ask next."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

from amped.base.aliases import aliases
from amped.base.errors import AmpedError, ConfigError, did_you_mean, quoted
from amped.configuring.gathering import ROW_NAMES, TABLE_OF, is_row
from amped.configuring.lengths import LENGTHS
from amped.drafting.asking import Asking
from amped.drafting.recommendation import Limits, Recommendation
from amped.estimation.estimation import estimated
from amped.estimation.remedies import smallest_change
from amped.exploration.answer import explored
from amped.exploration.answer import settings as settings_of
from amped.exploration.request import Options
from amped.interop.exporting import TARGETS, target
from amped.library import answers
from amped.library.results import Estimate, plain_row
from amped.tables.tables import LISTED, user_tables

Json = dict[str, Any]
# A value: a number in SI units, a switch, or a text such as "96 GB".
Values = dict[str, float | bool | str]
# What a call may ask for at most.
MOST_VALUES, LONGEST, MOST_ACCELERATORS, MOST_BEST, MOST_LINES, LARGEST_FILE = 64, 300, 1_000_000, 20, 500, 1_000_000
# The results that an answer has unless all are asked for.
HEADLINE = (
    "step_time", "training_time", "tokens_per_second_per_accelerator", "model_flops_utilization", "fits_in_memory",
    "memory_per_accelerator_bytes", "cost", "energy", "goodput_fraction", "number_of_parameters", "tokens_to_train",
    "number_of_accelerators", "batch_size", "context", "microbatch_size", "data_parallel_degree", "tensor_parallel_degree",
    "pipeline_parallel_degree", "context_parallel_degree", "expert_parallel_degree", "zero_stage", "activation_recomputation",
)  # fmt: skip
What = Literal["accelerators", "models", "systems", "links", "software", "kernel-efficiencies", "formats", "parameters"]
# What hides a file behind a name.
OF_FILES = ("measured_kernel_table", "formulas")


def _asking(
    model: str | Json | None, system: str | None, accelerator: str | None, number_of_accelerators: int | None,
    settings: Values | None, config: Json | None = None,
) -> Asking:  # fmt: skip
    """The question of a call; rows are those of the tables, and no name is a file.

    Raises:
        ConfigError: for more than a call may ask, or a name that is a file.
    """
    values: Json = {aliases().option(name): value for name, value in (settings or {}).items()}
    if len(values) > MOST_VALUES or any(len(str(value)) > LONGEST for value in values.values()):
        raise ConfigError(f"settings has more than {MOST_VALUES} values, or one of more than {LONGEST} characters")
    rows = {
        "model": model,
        "system": system,
        "accelerator": accelerator,
        "number_of_accelerators": number_of_accelerators,
    }
    values |= {name: value for name, value in rows.items() if value is not None}
    if not 0 < float(values.get("number_of_accelerators", 1)) <= MOST_ACCELERATORS:
        raise ConfigError(f"number_of_accelerators is 1 to {MOST_ACCELERATORS:,}")
    if isinstance(model, dict):
        values["model"] = _row_of(model)
    _refuse_files(values)
    return Asking(config or None, values)


def _refuse_files(values: Mapping[str, Any]) -> None:
    """Refuses names that are no rows, and values that name files.

    Raises:
        TableError, ConfigError: for these.
    """
    tables = user_tables()
    for name, value in values.items():
        if name in ROW_NAMES and isinstance(value, str) and not is_row(tables, name, value):
            tables.row(TABLE_OF.get(ROW_NAMES[name], ROW_NAMES[name]), value)
        is_file = name in OF_FILES or (name == LENGTHS and not str(value).startswith("mean"))
        if is_file:
            raise ConfigError(
                f"{name} names a file, and no file is read here", 'lengths are told as "mean 500, p95 1500"'
            )


def _row_of(config: Json) -> Json:
    """The row of a network from the content of a config.json."""
    from amped.interop.models import as_row

    return {**as_row(_imported(json.dumps(config), "config.json", None)), "notices": []}


def _imported(content: str, name: str, form: str | None) -> Any:
    """What the content of another tool's file says; it is read from a folder that is removed afterwards.

    Raises:
        ConfigError: for a name that is a path, or a content that is too large.
    """
    from amped.interop.recognition import read_file

    if len(content) > LARGEST_FILE or Path(name).name != name or not name or name.startswith("."):
        raise ConfigError(f"a file has a plain name and at most {LARGEST_FILE:,} characters", "for example config.json")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_text(content, "utf-8")
        try:
            return read_file(path, form)
        except AmpedError as error:
            raise type(error)(error.problems, file=name) from None


def _told(e: Estimate, everything: bool = False) -> Json:
    """An estimate for an agent: results in SI units, how sure they are, what is not modeled, and what was chosen."""
    results = e.to_dict()
    names = [*results] if everything else [name for name in HEADLINE if name in results]
    fix = {} if e["fits_in_memory"] else {"smallest_change_that_fits": smallest_change(e)}
    return {
        "question": e.scenario.title, "results": {name: results[name] for name in names},
        **_sure(results), "notices": e.notices[:10], **fix,
    }  # fmt: skip


def _sure(results: Mapping[str, Any]) -> Json:
    """The error band, the grade and what is not modeled."""
    return {
        "step_time_error_fraction": results["step_time_error_fraction"], "grade": results["grade"],
        "beyond_validated_runs": results.get("beyond_validated_runs", ""), "not_modeled": results["not_modeled"],
    }  # fmt: skip


def _next(*questions: tuple[str, str]) -> Json:
    """The questions worth asking next: the tool, and why."""
    return {"next_questions": [{"tool": tool, "because": because} for tool, because in questions]}


def estimate(
    model: str | Json | None = None, system: str | None = None, accelerator: str | None = None,
    number_of_accelerators: int | None = None, settings: Values | None = None, config: Json | None = None,
    everything: bool = False,
) -> Json:  # fmt: skip
    """How long a training takes, whether it fits in memory, what it costs, and how sure that is. What is not given is chosen.

    Args:
        model: a row (tool list, what=models), or the content of a Hugging Face config.json.
        system: a row of systems: node, network and accelerator.
        accelerator: a row of accelerators, where no system is meant.
        number_of_accelerators: how many, 1 to 1,000,000.
        settings: further parameters by name, in SI units or with units, as {"tensor_parallel_degree": 4, "context": 8192}.
        config: a whole config of amped, as the tool import returns it, instead of rows.
        everything: all results instead of the main ones.
    """
    e = Estimate.made_of(
        estimated(_asking(model, system, accelerator, number_of_accelerators, settings, config).completed())
    )
    fits = (
        ("why", "what slows it, and which change helps")
        if e["fits_in_memory"]
        else ("explore", "another mapping may fit")
    )
    unsure = [("support", "parts of it are not modeled")] if e.not_modeled else []
    return _told(e, everything) | _next(fits, ("explore", "whether another mapping is faster"), *unsure)


def why(
    model: str | Json | None = None, system: str | None = None, accelerator: str | None = None,
    number_of_accelerators: int | None = None, settings: Values | None = None, config: Json | None = None,
    measured_step_time: float | None = None,
) -> Json:  # fmt: skip
    """What a step waits for, and which single changes make it faster; with a measured step, what would explain it.

    Args:
        model: as in estimate.
        system: as in estimate.
        accelerator: as in estimate.
        number_of_accelerators: as in estimate.
        settings: as in estimate.
        config: as in estimate.
        measured_step_time: the seconds of a measured step.
    """
    if measured_step_time is not None and not 0 < measured_step_time < float("inf"):
        raise ConfigError("measured_step_time is a number of seconds above 0")
    asking = _asking(model, system, accelerator, number_of_accelerators, settings, config)
    found = answers.reasons(asking, measured_step_time).to_dict()
    e = estimated(asking.completed())
    found["changes"] = found.get("changes", [])[:10]
    return (
        found
        | _sure(e.to_dict())
        | _next(("estimate", "with a change among settings"), ("explore", "several changes at once"))
    )


def explore(
    model: str | Json | None = None, system: str | None = None, accelerator: str | None = None,
    number_of_accelerators: int | None = None, settings: Values | None = None,
    space: Literal["quick", "degrees", "default"] = "quick", objective: str = "training_time", top: int = 5,
) -> Json:  # fmt: skip
    """The best mappings of a training onto a machine: degrees, micro-batch, schedule, recomputation, sharding.

    Args:
        model: as in estimate.
        system: as in estimate.
        accelerator: as in estimate.
        number_of_accelerators: as in estimate.
        settings: as in estimate; what is set is held.
        space: quick has what usually wins; degrees only these and the micro-batch; default takes much longer.
        objective: the quantity to rank by, as step_time, cost or memory_per_accelerator_bytes.
        top: how many of the best, 1 to 20.
    """
    if not 1 <= top <= MOST_BEST:
        raise ConfigError(f"top is 1 to {MOST_BEST}")
    asked, _ = _asking(model, system, accelerator, number_of_accelerators, settings).searched({})
    found = explored(asked, Options(top, space, (), objective))
    best: Json = {}
    if found.best:
        from amped.configuring.scenario import asked_again

        row = settings_of(found.search, found.best[0])
        best = {"best": _told(Estimate.made_of(estimated(asked_again(found.search.scenario.question, row)))),
                "settings_of_the_best": plain_row(row)}  # fmt: skip
    names = (
        *found.swept,
        "step_time",
        "training_time",
        "cost",
        "memory_per_accelerator_bytes",
        "model_flops_utilization",
    )
    rows = [{name: row[name] for name in names if name in row} for row in map(plain_row, found.best)]
    counts = {"candidates": found.candidates, "feasible": found.feasible, "removed": found.removed, "held": found.held}
    asks = _next(("why", "what limits the best"), ("export", "the launch line of the best"))
    return {**counts, "ranking": rows, **best, **asks}


def recommend(
    model: str | Json, systems: list[str] | None = None, deadline: str | None = None, budget: str | None = None,
    cloud: str | None = None, settings: Values | None = None,
) -> Json:  # fmt: skip
    """The fewest accelerators that train a network by a deadline, or the fastest machine within a budget.

    Args:
        model: as in estimate.
        systems: rows of systems to choose from, at most 4; without them, the machines of the cloud.
        deadline: as "30 days".
        budget: as "2 million USD".
        cloud: whose prices: aws, gcp, oci, nebius, lambda …; costs of several lists are not compared.
        settings: as in estimate, without the size of the machine.
    """
    from amped.base.units import parse

    if len(systems or ()) > 4:
        raise ConfigError("recommend tries at most 4 systems", "ask again for the others")
    asking = _asking(model, None, None, None, {**(settings or {}), **({"cloud": cloud} if cloud else {})})
    _refuse_files({"system": name} if (name := next(iter(systems or ()), None)) else {})
    limits = Limits(parse(deadline, "s") if deadline else None, parse(budget, "dollar") if budget else None)
    found, _ = answers.machines(None, asking.values, systems or (), limits, None)
    machines = [{"system": m.system, "sizes_tried": [*m.sizes][-10:], **_best(m)} for m in found]
    reason = {"costs_not_compared": found.costs_not_compared} if found.costs_not_compared else {}
    return {
        "machines": machines,
        **reason,
        **_next(("estimate", "details of the first"), ("explore", "a better mapping of it")),
    }


def _best(machine: Recommendation) -> Json:
    """The estimate of a machine that keeps the limits; without one, of the machine that misses them least."""
    if machine.estimate is not None:
        return _told(Estimate.made_of(machine.estimate))
    nearest = {"nearest": _told(Estimate.made_of(machine.nearest))} if machine.nearest else {}
    return {"best": None, **nearest}


def support(
    model: str | Json | None = None, system: str | None = None, accelerator: str | None = None,
    number_of_accelerators: int | None = None, settings: Values | None = None, config: Json | None = None,
) -> Json:  # fmt: skip
    """What of a configuration is modeled, and how many measured runs speak for each part of it.

    Args:
        model: as in estimate.
        system: as in estimate.
        accelerator: as in estimate.
        number_of_accelerators: as in estimate.
        settings: as in estimate.
        config: as in estimate.
    """
    asking = _asking(model, system, accelerator, number_of_accelerators, settings, config)
    return answers.evidence(asking).to_dict() | _next(("estimate", "the numbers, with their error"))


def import_file(content: str, name: str = "config.json", form: str | None = None) -> Json:
    """Reads a config of another tool from its text: a config.json, a launch script of Megatron-LM, a recipe, a job file.

    Args:
        content: the text of the file; nothing in it is run, and no other file is read.
        name: the name of the file, whose ending may say its format.
        form: its format, where the content does not say it.
    """
    from amped.interop.as_config import as_config

    imported = _imported(content, name, form)
    values = {"from": imported.source, "values": dict(imported.values), **imported.report.to_dict()}
    config = json.loads(json.dumps(as_config(imported)))
    advice = _next(("support", "what of it is modeled"), ("estimate", "a network as `model`, a training as `config`"))
    return {**values, "config": config, **advice}


def export(
    form: str, model: str | Json | None = None, system: str | None = None, accelerator: str | None = None,
    number_of_accelerators: int | None = None, settings: Values | None = None, config: Json | None = None,
) -> Json:  # fmt: skip
    """The launch line or the file of a framework that runs a configuration, each line with its reason.

    Args:
        form: the framework: tool list, what=formats.
        model: as in estimate.
        system: as in estimate.
        accelerator: as in estimate.
        number_of_accelerators: as in estimate.
        settings: as in estimate.
        config: as in estimate.
    """
    chosen = target(form)
    e = estimated(_asking(model, system, accelerator, number_of_accelerators, settings, config).completed())
    more = {**_sure(e.to_dict()), **_next(("support", "what was never measured"))}
    return {"text": chosen.write(e), "title": chosen.title, **more}


def list_rows(what: What, containing: str = "") -> Json:
    """The names that there are: models, systems, accelerators, software, formats of export, parameters.

    Args:
        what: the kind.
        containing: only names (or meanings) with this text.
    """
    if what == "formats":
        names: Mapping[str, str] = {name: form.title for name, form in TARGETS.items()}
    elif what == "parameters":
        from amped.theory.language.catalogue import catalogue

        known = catalogue()
        names = {name: f"{known[name].mark.unit}: {known[name].summary}" for name in known.numbers}
    else:
        tables = user_tables()
        (table,) = (table for table, listed in LISTED.items() if listed == what)
        names = {name: str(tables.row(table, name).columns.get("description", "")) for name in tables.names(table)}
    text = containing.casefold()
    found = {name: told for name, told in names.items() if text in f"{name} {told}".casefold()}
    more = {"left_out": len(found) - MOST_LINES} if len(found) > MOST_LINES else {}
    return {"names": dict([*found.items()][:MOST_LINES]), **more, **_next(("estimate", "with one of these names"))}


TOOLS: Mapping[str, Callable[..., Json]] = {
    "estimate": estimate, "explore": explore, "why": why, "recommend": recommend, "support": support,
    "import": import_file, "export": export, "list": list_rows,
}  # fmt: skip


def answer(tool: str, arguments: Mapping[str, Any]) -> Json:
    """The answer of a tool as plain JSON, without numbers that JSON does not have.

    Raises:
        AmpedError: for a mistake in the question.
    """
    if tool not in TOOLS:
        raise ConfigError(f"there is no tool {quoted(tool)}", did_you_mean(tool, TOOLS))
    return cast(Json, _finite(json.loads(json.dumps(TOOLS[tool](**arguments), default=str))))


def _finite(value: Any) -> Any:
    """Plain data with texts in place of numbers that are not finite."""
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in cast(Sequence[Any], value)]
    return str(value) if (isinstance(value, float) and abs(value) in (float("inf"),)) or value != value else value
