"""The plain-text files of a run: the config as resolved, the breakdown of the time, and the GEMM breakdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from amped.configuring.sources import LookedUp
from amped.estimation.breakdown import OperatorLine
from amped.estimation.estimation import Estimation
from amped.report import human
from amped.theory.parallelisms import PARALLELISMS
from amped.theory.quantity import CATEGORIES


def config_summary(e: Estimation) -> str:
    """Every input by category, with its value, unit and where it comes from."""
    lines = [f"config: {e.scenario.label}", f"description: {e.scenario.description}", ""]
    for category in CATEGORIES:
        row = e.scenario.sources.rows.get(category)
        lines += [category, "-" * len(category)] + ([f"row: {row.name} ({row.table})"] if row else [])
        lines += _aligned(_inputs(e, category))
        lines.append("")
    lines += [f"note: {notice}" for notice in e.notices]
    return "\n".join(lines).rstrip() + "\n"


def _inputs(e: Estimation, category: str) -> Iterator[tuple[str, ...]]:
    for name, quantity in e.scenario.catalogue.items():
        if quantity.category != category:
            continue
        if name in e.choices:
            yield name, e.choices[name], "", _origin(e, name)
        elif name in e and quantity.mark.kind != "records":
            yield name, human.value(e[name], quantity.mark.unit), f"{e[name]!r} {quantity.mark.unit}", _origin(e, name)


def _origin(e: Estimation, name: str) -> str:
    origin = e.scenario.sources.origins.get(name)
    if isinstance(origin, LookedUp):
        doubt = " (unverified)" if origin.column in origin.row.unverified else ""
        return f"row '{origin.row.name}'{doubt}"
    if origin is not None:
        return f"given, {origin.where}"
    formula = e.plan.by_name.get(name)
    return "calculated" if formula and formula.arguments else "default"


def training_time_breakdown(e: Estimation) -> str:
    """The time of the training, part by part, for the whole training and for one step; the parts of AMPeD's breakdown."""
    steps = e["number_of_steps"]
    rows: list[tuple[str, ...]] = [("", "training", "step", "share")]
    for title, seconds in _times(e):
        share = human.percent(seconds / e["step_time"])
        rows.append((title, f"{seconds * steps:.6g} s", f"{seconds:.6g} s", share))
    days, years = e["training_time"] / human.DAY, e["training_time"] / human.YEAR
    head = [
        f"Total training time: {e['training_time']:.6g} s = {days:.6g} days = {years:.6g} years",
        f"Number of steps: {steps:.0f}, time of a step: {e['step_time']:.6g} s",
        "",
    ]
    return "\n".join([*head, *_aligned(rows), "", *_aligned([*_hidden(e), *_work(e)])]) + "\n"


def _times(e: Estimation) -> Iterator[tuple[str, float]]:
    yield "Computation time, forward pass", e["compute_forward_time"]
    yield "Computation time, backward pass", e["compute_backward_time"]
    yield "Computation time, weight update", e["weight_update_time"]
    yield "Recomputation time", e["recomputation_time"]
    yield "Optimizer time", e["optimizer_time"]
    yield from _closed_communication(e) if e.choices["performance_model"] == "amped" else _communication(e)
    yield "Pipeline bubbles", e["pipeline_bubble_time"]


def _communication(e: Estimation) -> Iterator[tuple[str, float]]:
    for kind in PARALLELISMS:
        yield f"Communication time, {kind} parallelism", e[f"exposed_{kind}_communication_time"]
    if e["exposed_offload_communication_time"]:
        yield "Communication time, offload to the host", e["exposed_offload_communication_time"]


def _closed_communication(e: Estimation) -> Iterator[tuple[str, float]]:
    yield "Communication time, tensor parallelism, intra-node", e["intra_node_tensor_communication_time"]
    yield "Communication time, tensor parallelism, inter-node", e["inter_node_tensor_communication_time"]
    yield "Communication time, pipeline parallelism", e["exposed_pipeline_communication_time"]
    yield "Communication time, context parallelism", e["exposed_context_communication_time"]
    yield "Communication time, mixture of experts", e["exposed_expert_communication_time"]
    yield "Communication time, gradient all-reduce, intra-node", e["intra_node_gradient_communication_time"]
    yield "Communication time, gradient all-reduce, inter-node", e["inter_node_gradient_communication_time"]
    yield "Communication time, ZeRO (weights gathered)", e["weight_gathering_time"]


def _hidden(e: Estimation) -> list[tuple[str, str]]:
    """Communication beside computation, which is in no part of a step."""
    hidden = {kind: e[f"hidden_{kind}_communication_time"] for kind in (*PARALLELISMS, "offload")}
    return [
        (f"Hidden beside computation, {kind} communication in a step", f"{t:.6g} s") for kind, t in hidden.items() if t
    ]


def _work(e: Estimation) -> list[tuple[str, str]]:
    flop = e["flops_per_multiply_accumulate"]
    accelerators = e["number_of_accelerators"]
    return [
        (
            "MACs of a step with recomputation, all accelerators",
            f"{e['hardware_flops_per_accelerator'] * accelerators / flop:.6g}",
        ),
        (
            "TFLOP of a step with recomputation, all accelerators",
            f"{e['hardware_flops_per_accelerator'] * accelerators / 1e12:.6g}",
        ),
        ("Hardware TFLOP/s per accelerator", f"{e['hardware_flop_rate_per_accelerator'] / 1e12:.6g}"),
        ("Model TFLOP/s per accelerator", f"{e['model_flop_rate_per_accelerator'] / 1e12:.6g}"),
        ("Model FLOPs utilization", human.percent(e["model_flops_utilization"])),
        ("Memory per accelerator", f"{e['memory_per_accelerator_bytes'] / 1e9:.6g} GB"),
        *(
            [("Host memory per accelerator", f"{e['host_memory_bytes'] / 1e9:.6g} GB")]
            if e["host_memory_bytes"]
            else []
        ),
    ]


def gemm_breakdown(lines: Iterable[OperatorLine]) -> str:
    """One line for each matrix product of a step."""
    head = ("name", "pass", "m", "n", "k", "batch", "calls", "TFLOP", "GB", "FLOP/B", "bound", "time ms", "share")
    rows = [
        (line.name, line.phase, *(f"{number:g}" for number in (line.m, line.n, line.k, line.batch, line.count)),
         f"{line.flops / 1e12:.4g}", f"{line.bytes / 1e9:.4g}", f"{line.intensity:.4g}", line.bound,
         f"{line.time * 1e3:.4g}", human.percent(line.share))
        for line in lines
    ]  # fmt: skip
    return "\n".join(_aligned([head, *rows])) + "\n"


def mat_dims(e: Estimation) -> str:
    """Three integers a line, two spaces between them: DeepFlow's matrix dimensions of one layer."""
    products = e.results.records("deepflow_gemms")
    return "".join(f"{int(g.m)}  {int(g.n)}  {int(g.k)}\n" for g in products)


def _aligned(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Rows of text with their columns one under the other, numbers to the right."""
    listed = [tuple(row) for row in rows]
    if not listed:
        return []
    widths = [max(len(row[i]) for row in listed if i < len(row)) for i in range(max(map(len, listed)))]
    right = [all(_is_number(row[i]) for row in listed[1:] if i < len(row)) for i in range(len(widths))]
    return [
        "  ".join(f"{c:>{widths[i]}}" if right[i] else f"{c:{widths[i]}}" for i, c in enumerate(row)).rstrip()
        for row in listed
    ]


def _is_number(text: str) -> bool:
    return text[:1].isdigit() or text[:1] == "-" or not text
