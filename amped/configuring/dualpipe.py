"""DualPipe, as the schedule that it is on the same accelerators: DualPipeV on half the stages with twice the replicas.

On 2p ranks, the ranks i and 2p − 1 − i hold the same two stages, and each of them gets half of the micro-batches. So both are
replicas of one stage of DualPipeV on p stages. Each keeps the weights of two stages, as DualPipe's two copies do.

Source: deepseek-ai/DualPipe, README (DualPipeV is cut from DualPipe in the middle; both have p − 1 idle units on 2p and p ranks).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from amped.base.aliases import aliases
from amped.base.errors import ConfigError, plain

# The setting that says that a schedule was folded, so that the user is told; and what he is told.
FOLDED = "folded_dualpipe"
TOLD = "DualPipe runs as dualpipe_v on half the stages with twice the replicas: the pipeline-parallel degree is that of dualpipe_v"
SCHEDULE, DUALPIPE, DUALPIPE_V = "pipeline_schedule", "dualpipe", "dualpipe_v"
# The degrees that change, and by which factor.
DEGREES = {"pipeline_parallel_degree": Fraction(1, 2), "data_parallel_degree": Fraction(2)}


def folded(values: Mapping[str, object], beside: Mapping[str, object] | None = None) -> dict[str, object]:
    """The settings with DualPipe folded to DualPipeV; others unchanged.

    Args:
        values: values by name, as a user gives them; short names are understood.
        beside: values of a config, which hold where `values` has none.

    Raises:
        ConfigError: for an odd number of stages.
    """
    names = {aliases().canonical(name): name for name in values}
    written = {**(beside or {}), **{name: values[names[name]] for name in names}}
    if plain(str(written.get(SCHEDULE, ""))) != DUALPIPE:
        return dict(values)
    changed: dict[str, object] = {names.get(SCHEDULE, SCHEDULE): DUALPIPE_V, FOLDED: True}
    for degree, factor in () if values.get(FOLDED) else DEGREES.items():
        number = _scaled(written.get(degree), factor)
        if number is not None:
            changed[names.get(degree, degree)] = number
    return {**values, **changed}


def _scaled(written: object, factor: Fraction) -> int | list[object] | None:
    """A degree, or each degree of a list, times a factor; None for what is no number.

    Raises:
        ConfigError: for an odd number of stages.
    """
    if isinstance(written, list | tuple):
        return [_scaled(each, factor) for each in written]
    if not isinstance(written, int | float) or written is True:
        return None
    number = Fraction(written) * factor
    if number.denominator != 1:
        what = f"DualPipe runs in two directions, and {written:g} stages have no middle"
        raise ConfigError(what, f"give an even pipeline-parallel degree: --pp {2 * int(number) + 2}")
    return int(number)
