"""What each technique saves and costs on this device: in a layer alone, in its variants, and beside torch.compile."""

from __future__ import annotations

import math
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor
from torch._functorch import config
from torch.utils.checkpoint import checkpoint

from amped.base.errors import ConfigError
from amped.kernels.device import name_of
from amped.kernels.layer_shape import Dimensions
from amped.kernels.memory.activation_functions import bits_kept
from amped.kernels.memory.stash import forward_and_backward, stash_bytes
from amped.kernels.memory.variants import Variant, saved_bytes, stack
from amped.kernels.timers import timer_for
from amped.kernels.torch_import import chosen_device, chosen_format

PLAIN, FUSED = "explicit attention", "fused attention"
TECHNIQUES = {
    "in_place_activation": Variant(activation="in_place"),
    "activation_function_recomputation": Variant(activation="recomputed"),
    "in_place_norm": Variant(norm="in_place"),
    "dropout_recomputation": Variant(attention="dropout_recomputed"),
}
VARIANTS = {
    PLAIN: Variant(),
    f"{PLAIN}, all in place": Variant("dropout_recomputed", "in_place", "in_place"),
    FUSED: Variant("fused"),
    f"{FUSED}, norms and activation in place": Variant("fused", "in_place", "in_place"),
    f"{FUSED}, norms in place, activation recomputed": Variant("fused", "recomputed", "in_place"),
}
NO_COMPILER = "inductor needs a C++ compiler, and there is no g++"


@dataclass(frozen=True)
class Row:
    """A technique or a variant of the layer.

    Attributes:
        kept_bytes: the bytes that each further layer keeps for the backward pass.
        step_time: the seconds of one layer forward and backward.
        expected_bytes: for a technique, the bytes that it saves by the closed form.
        pays: whether no other row of its table keeps as little in as little time.
        note: the reason if there are no figures.
    """

    name: str
    kept_bytes: float
    step_time: float = math.nan
    saved_bytes: float = 0.0
    added_time: float = 0.0
    expected_bytes: float | None = None
    pays: bool = True
    note: str = ""


Run = tuple[Row, Callable[[], None] | None]


@dataclass(frozen=True)
class Bench:
    """All rows, and where they were measured."""

    device: str
    machine: str
    torch_version: str
    date: str
    dtype: str
    sizes: Dimensions
    techniques: list[Row]
    variants: list[Row]


def run_bench(sizes: Dimensions, device: str | None, dtype: str, budgets: Sequence[float], cap: float) -> Bench:
    """The measurements of every technique alone, and of every variant of the layer.

    `cap` is the seconds for timing one of them. `budgets` are the shares of activations that torch.compile may keep
    (its default is 1); without any, torch.compile is not measured.

    Raises:
        ConfigError: for a device or format that does not exist.
    """
    device = chosen_device(device)
    dtype = chosen_format(dtype, device)
    for budget in budgets:
        if not 0 <= budget <= 1:
            raise ConfigError(f"--budgets: {budget:g} is no share of the activations", "give numbers from 0 to 1")
    torch.manual_seed(0)
    x = torch.randn(
        sizes.batch, sizes.seq, sizes.hidden, device=device, dtype=getattr(torch, dtype), requires_grad=True
    )
    statistic_width = 4 if device == "cuda" else x.element_size()
    expected = saved_bytes(sizes, x.element_size(), statistic_width, bits_kept("gelu", x.dtype))
    runs = [_built(name, sizes, variant, x) for name, variant in (TECHNIQUES | VARIANTS).items()]
    runs.append(_checkpointed(sizes, x))
    runs += [_compiled(sizes, budget, x) for budget in budgets]
    rows = _timed(runs, device, cap)
    plain = next(row for row in rows if row.name == PLAIN)
    rows = [
        replace(
            row,
            saved_bytes=plain.kept_bytes - row.kept_bytes,
            added_time=row.step_time - plain.step_time,
            expected_bytes=expected.get(row.name),
        )
        for row in rows
    ]
    alone, variants = rows[: len(TECHNIQUES)], rows[len(TECHNIQUES) :]
    day = time.strftime("%Y-%m-%d")
    return Bench(device, _machine(device), torch.__version__, day, dtype, sizes, alone, front(variants))


def _timed(runs: list[Run], device: str, cap: float) -> list[Row]:
    """The rows with their times, measured in turns; rows without a function to call stay unchanged."""
    times = iter(timer_for(device).together([call for _, call in runs if call is not None], cap))
    return [row if call is None else replace(row, step_time=next(times).best(device)) for row, call in runs]


def front(rows: list[Row]) -> list[Row]:
    """The rows, with `pays` set: no other row has as few kept bytes and as little time, and less of one of them."""

    def beaten(row: Row) -> bool:
        """Whether another row is as good in both and better in one."""
        return any(
            o.kept_bytes <= row.kept_bytes
            and o.step_time <= row.step_time
            and (o.kept_bytes, o.step_time) != (row.kept_bytes, row.step_time)
            for o in rows
        )

    return [replace(row, pays=not row.note and not beaten(row)) for row in rows]


def _machine(device: str) -> str:
    """The name of the device, and the number of threads on a processor."""
    threads = "" if device == "cuda" else f", {torch.get_num_threads()} threads"
    return name_of(device) + threads


def _built(name: str, sizes: Dimensions, variant: Variant, x: Tensor) -> Run:
    """The row of a variant with its kept bytes, and a function that runs one layer forward and backward.

    The bytes are those of two layers minus those of one, as the layers share one tensor.
    """
    two = stack(sizes, variant, 2).to(x)
    kept = stash_bytes(two, x).bytes - stash_bytes(two[0], x).bytes
    return Row(name, kept), forward_and_backward(two[0], x, two[0].parameters())


def _checkpointed(sizes: Dimensions, x: Tensor) -> Run:
    """The row of a layer that keeps only its input and runs forward again in the backward pass; and a function that runs it."""
    layer = stack(sizes, Variant("fused"), 1).to(x)
    again = partial(checkpoint, layer, use_reentrant=False)
    # The kept input of a checkpoint is not visible to hooks.
    kept = x.nbytes + stash_bytes(again, x, exclude=[x, *layer.parameters()]).bytes
    return Row(f"{FUSED}, whole layer recomputed", kept), forward_and_backward(again, x, layer.parameters())


def _compiled(sizes: Dimensions, budget: float, x: Tensor, backend: str = "inductor") -> Run:
    """The row of a layer that is compiled with a memory budget, and a function that runs it; None if it does not compile.

    Its kept bytes are those of the whole graph, without its output.
    """
    name = f"{FUSED}, torch.compile" + ("" if budget == 1 else f", budget {budget:g}")
    if (
        backend == "inductor"
        and not x.is_cuda
        and not any(map(shutil.which, (os.environ.get("CXX", ""), "g++", "clang++")))
    ):
        return Row(name, math.nan, note=NO_COMPILER), None
    torch.compiler.reset()
    layer = stack(sizes, Variant("fused"), 1).to(x)
    with config.patch(activation_memory_budget=budget):  # a private setting of torch.compile; its default is 1
        try:
            compiled = torch.compile(layer, backend=backend, fullgraph=True)
            call = forward_and_backward(compiled, x, layer.parameters())
            call()
        except Exception as error:  # whatever a compiler fails with is reported, and the rest goes on
            return Row(name, math.nan, note=f"does not compile here: {type(error).__name__}"), None
        return Row(name, stash_bytes(compiled, x).bytes), call
