"""Megatron-LM's launch lines and logs: in, and out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from amped.base.errors import FileError, Problem
from amped.configuring.settings import setting
from amped.estimation.estimation import Estimation
from amped.interop import megatron_compressed, megatron_hybrid, megatron_mapping, megatron_model
from amped.interop.fields import fields, table
from amped.interop.outgoing import HEAD_IS_YOURS, Outgoing, heading, torchrun, written
from amped.interop.records import Imported, Reading, ReportLine
from amped.interop.sections import read_keys
from amped.interop.shell import Flag, Script, arguments_of_log, refuse_command, script_of

FORM, LAUNCH, SOFTWARE = "megatron", "--num-layers", "Megatron-Core"
VERSION = "Megatron-LM core_v0.16.1"
RULES = megatron_model.RULES | megatron_hybrid.RULES | megatron_compressed.RULES | megatron_mapping.RULES
# A log has a line for each of some hundred arguments.
FEWEST_OF_A_LOG = 10
LEAST_SIZES = ("layers", "dimensionality", "attention_heads")


@lru_cache(maxsize=1)
def _by_flag() -> Mapping[str, tuple[str, bool]]:
    """For each flag whose name differs from its argument: the argument, and what the flag sets if the argument is a switch."""
    rows = table(FORM)["arguments"]
    return {row["flag"]: (argument, not row.get("off")) for argument, row in rows.items() if "flag" in row}


def flag_of(name: str) -> str:
    """The flag of an argument by the argument's name: --num-layers for num_layers."""
    return str(table(FORM)["arguments"].get(name, {}).get("flag", "--" + name.replace("_", "-")))


def is_log(text: str) -> bool:
    """Whether a text has the block of arguments that Megatron-LM prints (at least FEWEST_OF_A_LOG lines of it)."""
    return "num_layers" in text and sum(1 for flag in arguments_of_log(text[:400_000]) if flag.name) >= FEWEST_OF_A_LOG


def read(text: str, file: str) -> Imported:
    """The training that a launch script, an argument list, or the block of arguments in a log describes.

    Raises:
        FileError, ConfigError: with the line, for a missing launch or a wrong value.
    """
    if is_log(text):
        flags = {flag.name: flag for flag in arguments_of_log(text)}
        arguments_by_name = {name: value for name, flag in flags.items() if (value := _logged_value(flag)) is not None}
        places = {name: f"line {flag.line}: {name}" for name, flag in flags.items()}
        return imported(Reading(arguments_by_name, places), file, "an argument of its default in a log")
    script = script_of(text, LAUNCH)
    if not script.flags:
        raise FileError(
            Problem(f"no launch with {LAUNCH} is in it", "line 1", "amped reads the flags of pretrain_gpt.py")
        )
    reading = _arguments(script)
    reading.report.ignored += [
        ReportLine(f"line {number}", f"a command, not run: {line}") for number, line in script.others
    ]
    return imported(reading, file)


def _logged_value(flag: Flag) -> Any:
    """The value in a line of a log; None if the log prints None or nothing."""
    word = flag.words[0]
    return None if word in ("None", "") else setting(word)


def _arguments(script: Script) -> Reading:
    """The arguments of a script by name, each with its line.

    Raises:
        FileError: if a flag stands twice with different values.
    """
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for flag in (*script.launcher, *script.flags):
        name, switched_to = _by_flag().get(flag.name, (flag.name[2:].replace("-", "_"), True))
        value = _flag_value(flag, name, switched_to)
        if name in values and values[name] != value and flag in script.flags:
            what = f"{flag.name} is {value!r}, and {values[name]!r} in line {lines[name]}"
            raise FileError(Problem(what, f"line {flag.line}", "keep one"))
        values[name], lines[name] = value, flag.line
    return Reading(values, {name: f"line {line}: {flag_of(name)}" for name, line in lines.items()})


def _flag_value(flag: Flag, name: str, switched_to: bool) -> Any:
    """The value that a flag gives to an argument.

    `switched_to` if the flag has no value, else the one word as a value, else all words as text.

    Raises:
        FileError: if a known argument takes its value from a shell command or an unknown variable, as amped runs neither.
    """
    if name in table(FORM)["arguments"] or name in LAUNCHED:
        refuse_command(flag)
    if name in table(FORM)["switches"] or not flag.words:
        return switched_to
    return setting(flag.words[0]) if len(flag.words) == 1 else " ".join(flag.words)


def imported(
    reading: Reading, file: str, unknown: str | None = None, software: str = SOFTWARE, source: str = FORM
) -> Imported:
    """The training that Megatron-LM's arguments describe.

    Args:
        reading: the arguments by name.
        file: the file that they come from.
        unknown: why an unknown argument is ignored; None: an unknown argument is reported as something that may cost.
        software: the row of software.
        source: the format of the file.
    """
    origins = read_keys(
        FORM, reading, RULES, key_in_file=flag_of, about="arguments about", check=_refuse_without_sizes, unknown=unknown
    )
    return Imported(
        source=source, file=file, name=file, values=reading.values, origins=origins, report=reading.report, software=software
    )  # fmt: skip


def _refuse_without_sizes(values: Mapping[str, Any]) -> None:
    """Refuses arguments without the sizes of a network.

    Raises:
        FileError: with the flags that are missing.
    """
    missing = [flag_of(fields(FORM)[name].keys[0]) for name in LEAST_SIZES if name not in values]
    if missing:
        raise FileError(Problem(f"has no {', '.join(missing)}", "line 1"))


# --- out -------------------------------------------------------------------------------------------------------------

LAUNCHED = ("nnodes", "nproc_per_node")


def fields_of(e: Estimation) -> Outgoing:
    """An estimated configuration as Megatron-LM's arguments by name, without switches that are off."""
    out = every_field(e)
    out.fields = {name: value for name, value in out.fields.items() if not _is_off(name, value)}
    return out


def every_field(e: Estimation) -> Outgoing:
    """An estimated configuration as Megatron-LM's arguments by name, also with switches that are off."""
    out = written(e, FORM, RULES)
    _drop_refused_switches(out)
    out.fields = {name: value for name, value in out.fields.items() if not _is_degree_without_effect(name, out)}
    if out["number_of_experts"] <= 1:
        out.idle |= {"expert_parallel_degree", "expert_tensor_parallel_degree"}
    return out


# Degrees that are 1 without a flag, each with whether it is about experts.
DEGREES = {"context_parallel_size": False, "expert_model_parallel_size": True, "expert_tensor_parallel_size": True}


def _is_degree_without_effect(name: str, out: Outgoing) -> bool:
    """Whether an argument is a degree without effect: a degree of 1, or one of experts in a dense network."""
    if name not in DEGREES:
        return False
    is_dense = out["number_of_experts"] <= 1
    return (DEGREES[name] and is_dense) or (out.fields[name] == 1 and name != "expert_tensor_parallel_size")


def _is_off(name: str, value: Any) -> bool:
    """Whether a switch has the value that it has without its flag; false for an argument that is no switch."""
    if name not in table(FORM)["switches"]:
        return False
    return bool(value) if table(FORM)["arguments"][name].get("off") else not value


# Switches of tensor parallelism, with the quantity that each comes from.
OF_TENSORS = {"sequence_parallel": "sequence_parallel", "tp_comm_overlap": "overlap_forward_tensor_communication"}


def _drop_refused_switches(out: Outgoing) -> None:
    """Switches off what Megatron-LM refuses.

    Without tensor parallelism its two switches have no effect. The overlap of its messages needs sequence parallelism; without
    it, the overlap is reported as lost.
    """
    if out["tensor_parallel_degree"] == 1:
        for argument, name in OF_TENSORS.items():
            if out.fields.get(argument):
                out.fields[argument] = False
                out.idle.add(name)
    elif out.fields.get("tp_comm_overlap") and not out.fields.get("sequence_parallel"):
        out.fields["tp_comm_overlap"] = False
        out.lose(OF_TENSORS["tp_comm_overlap"], "Megatron-LM overlaps them only with sequence parallelism")


def write(e: Estimation) -> str:
    """The text of a launch script: first what cannot be expressed, then the flags with their reasons. It has no paths of data."""
    out = fields_of(e)
    head_line = [HEAD_IS_YOURS] if out.fields["nnodes"] > 1 else []
    return "\n".join([*heading(out, VERSION, e), *head_line, *arguments(out), f"{torchrun(out)} {PROGRAM}", ""])


# The start of the program with the arguments of a script.
PROGRAM = 'pretrain_gpt.py "${ARGS[@]}"'


def arguments(out: Outgoing) -> list[str]:
    """The lines of a script that set the environment and the array ARGS, each flag with its reason."""
    flags = [(_written_flag(name, value), out.why[name]) for name, value in out.fields.items() if name not in LAUNCHED]
    program_flags = table(FORM)["of_the_program"]
    flags += [(row["flag"], row["why"]) for row in program_flags if row.get("with", "nnodes") in out.fields]
    width = max(len(flag) for flag, _ in flags)
    return [*environment(out), "ARGS=(", *(f"  {flag:<{width}}  # {why}" for flag, why in flags), ")"]


def environment(out: Outgoing) -> list[str]:
    """The line that sets CUDA_DEVICE_MAX_CONNECTIONS for tensor or context parallelism; empty otherwise, and for Megatron-FSDP."""
    is_parallel = out["tensor_parallel_degree"] > 1 or out["context_parallel_degree"] > 1
    if "use_megatron_fsdp" in out.fields:
        return []
    why = "messages start in order, beside products (not needed from Blackwell on)"
    return [f"export CUDA_DEVICE_MAX_CONNECTIONS=1  # {why}"] if is_parallel else []


def _written_flag(name: str, value: Any) -> str:
    """A flag as it is typed: a switch alone, any other with its value, which is in quotes if the shell needs them."""
    if name in table(FORM)["switches"]:
        return flag_of(name)
    is_plain = all(letter.isalnum() or letter in "._-+, " for letter in str(value))
    return f"{flag_of(name)} {value}" if is_plain else f"{flag_of(name)} '{value}'"
