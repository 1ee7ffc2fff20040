"""A configuration as the launch line or the file of another framework."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from amped.base.errors import ConfigError, did_you_mean, quoted
from amped.estimation.estimation import Estimation
from amped.interop import automodel, bridge, deepspeed, finetuning_out, huggingface_out, megatron, slurm, torchtitan
from amped.interop.outgoing import Outgoing


class Target(NamedTuple):
    """A format that amped writes.

    Attributes:
        title: the kind of file and the version of the framework, for people.
        suffix: the end of its files' names, such as ".yaml".
        table: the name of the format in the rows of fields.json.
        write: the text of the file for an estimated configuration.
        fields: the fields of the file, with what the format cannot express.
    """

    title: str
    suffix: str
    table: str
    write: Callable[[Estimation], str]
    fields: Callable[[Estimation], Outgoing]


TARGETS = {
    "megatron": Target(f"launch script of {megatron.VERSION}", ".sh", "megatron", megatron.write, megatron.fields_of),
    "slurm": Target(f"Slurm script of {megatron.VERSION}", ".sh", "megatron", slurm.write, megatron.fields_of),
    "bridge": Target(f"overrides of a recipe of {bridge.VERSION}", ".yaml", "megatron", bridge.write, bridge.fields_of),
    "torchtitan": Target(
        f"recipe of {torchtitan.VERSION}", ".py", "torchtitan", torchtitan.write, torchtitan.fields_of
    ),
    "torchtitan@main": Target(
        f"recipe of {torchtitan.MAIN}", ".py", "torchtitan", torchtitan.write_main, torchtitan.fields_of
    ),
    "deepspeed": Target(
        f"configuration of {deepspeed.VERSION}", ".json", "deepspeed", deepspeed.write, deepspeed.fields_of
    ),
    "automodel": Target(
        f"configuration of {automodel.VERSION}", ".yaml", "automodel", automodel.write, automodel.fields_of
    ),
    "trl": Target(f"file of {finetuning_out.TRL}", ".yaml", "trl", finetuning_out.write, finetuning_out.fields_of),
    "torchtune": Target(
        f"config of {finetuning_out.TORCHTUNE}",
        ".yaml",
        "trl",
        finetuning_out.torchtune_write,
        finetuning_out.torchtune_fields_of,
    ),
    "huggingface": Target(
        f"config.json of {huggingface_out.VERSION}",
        ".json",
        "huggingface",
        huggingface_out.write,
        huggingface_out.fields_of,
    ),
}


def target(name: str) -> Target:
    """The format of a name that `--for` takes.

    Raises:
        ConfigError: for an unknown name, with the nearest one.
    """
    if name not in TARGETS:
        what = f"--for {quoted(name)} is no format that amped writes"
        raise ConfigError(what, did_you_mean(name, TARGETS) or f"there are {', '.join(TARGETS)}")
    return TARGETS[name]
