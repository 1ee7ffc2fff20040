"""A Slurm batch script around the launch of Megatron-LM."""

from __future__ import annotations

import math

from amped.estimation.estimation import Estimation
from amped.interop import megatron
from amped.interop.outgoing import servers

# A job asks for this much more time than the training is estimated to take.
SPARE = 1.1
SECONDS_OF_AN_HOUR = 3600


def write(e: Estimation) -> str:
    """A batch script: nodes and time are the estimate's, the rest is the launch of Megatron-LM."""
    out = megatron.fields_of(e)
    nodes, each = servers(out)
    hours = math.ceil(e["training_time"] * SPARE / SECONDS_OF_AN_HOUR)
    title, *body = megatron.script(e, out).splitlines()
    start = body.pop().replace("torchrun", "srun torchrun", 1)
    join = '--rdzv-id "$SLURM_JOB_ID" --rdzv-backend c10d --rdzv-endpoint "$HEAD:29500" pretrain_gpt.py'
    return "\n".join([
        "#!/bin/bash", f"#SBATCH --nodes={nodes}", f"#SBATCH --gpus-per-node={each}", "#SBATCH --ntasks-per-node=1",
        f"#SBATCH --time={hours}:00:00  # the estimate and a tenth; your cluster may want shorter jobs", title, *body,
        'HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)', start.replace("pretrain_gpt.py", join, 1), "",
    ])  # fmt: skip
