"""A Slurm batch script around the launch of Megatron-LM."""

from __future__ import annotations

import math

from amped.estimation.estimation import Estimation
from amped.interop import megatron
from amped.interop.outgoing import HEAD, heading, servers, torchrun

# A job asks for this much more time than the training is estimated to take, and no job asks for more than a week: few clusters
# let one run longer.
SPARE, JOB = 1.1, '"$SLURM_JOB_ID"'
MINUTE, HOUR, DAY, LONGEST = 60, 3600, 86_400, 7 * 86_400


def write(e: Estimation) -> str:
    """The text of a Slurm batch script: nodes and time limit of the estimate, then the launch of Megatron-LM."""
    out = megatron.fields_of(e)
    nodes, accelerators = servers(out)
    title, *lost = heading(out, megatron.VERSION, e)
    return "\n".join([
        "#!/bin/bash", f"#SBATCH --nodes={nodes}", f"#SBATCH --gpus-per-node={accelerators}", "#SBATCH --ntasks-per-node=1",
        *time_limit(e["training_time"] * SPARE), title, *lost, *megatron.arguments(out),
        f'{HEAD}=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
        f"srun {torchrun(out, JOB)} {megatron.PROGRAM}", "",
    ])  # fmt: skip


def time_limit(seconds: float) -> list[str]:
    """The #SBATCH lines for the time limit.

    A training longer than LONGEST (a week) gets that limit and --requeue; the user saves checkpoints and submits the script until
    it is done.

    Args:
        seconds: the estimated training time with a spare tenth.
    """
    if seconds <= LONGEST:
        return [
            f"#SBATCH --time={days_and_hours(seconds)}  # the estimate and a tenth; your cluster may want shorter jobs"
        ]
    return [
        f"#SBATCH --time={days_and_hours(LONGEST)}  # few clusters allow more; the estimate and a tenth is {days_and_hours(seconds)}",
        "#SBATCH --requeue  # yours: add --save, --load and --save-interval, and submit it until it is done",
    ]


def days_and_hours(seconds: float) -> str:
    """A time as Slurm reads it, D-HH:MM:SS, rounded up to the next minute."""
    minutes = math.ceil(seconds / MINUTE)
    days, seconds_of_day = divmod(minutes * MINUTE, DAY)
    return f"{days}-{seconds_of_day // HOUR:02}:{seconds_of_day % HOUR // MINUTE:02}:00"
