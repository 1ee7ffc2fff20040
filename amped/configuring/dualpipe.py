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


def folded(values: Mapping[str, object]) -> dict[str, object]:
    """The settings with DualPipe folded to DualPipeV; others unchanged.

    Args:
        values: values by name, as a user gives them; short names are understood.

    Raises:
        ConfigError: for an odd number of stages.
    """
    names = {aliases().canonical(name): name for name in values}
    if plain(str(values.get(names.get(SCHEDULE, ""), ""))) != DUALPIPE:
        return dict(values)
    changed: dict[str, object] = {names[SCHEDULE]: DUALPIPE_V, FOLDED: True}
    for degree, factor in DEGREES.items():
        written = values.get(names.get(degree, ""))
        if isinstance(written, int | float) and written is not True:
            number = Fraction(written) * factor
            if number.denominator != 1:
                what = f"DualPipe runs in two directions, and {written:g} stages have no middle"
                raise ConfigError(what, f"give an even {degree.replace('_', '-')}: --pp {2 * int(number) + 2}")
            changed[names[degree]] = int(number)
    return {**values, **changed}
