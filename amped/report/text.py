"""The plain-text files of a run: the resolved config, the breakdown of the time, and the GEMM breakdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from amped.configuring.sources import LookedUp
from amped.estimation.breakdown import OperatorLine
from amped.estimation.estimation import Estimation
from amped.report import human
from amped.theory.language.quantity import CATEGORIES
from amped.theory.nouns.parallelisms import OF_TOKENS, PARALLELISMS

# The parts of communication that the closed form distinguishes.
CLOSED_COMMUNICATION = {
    "tensor parallelism, intra-node": "intra_node_tensor_communication_time",
    "tensor parallelism, inter-node": "inter_node_tensor_communication_time",
    "pipeline parallelism": "exposed_pipeline_communication_time",
    **{f"{kind} parallelism": f"exposed_{kind}_communication_time" for kind in OF_TOKENS},
    "mixture of experts": "exposed_expert_communication_time",
    "gradient all-reduce, intra-node": "intra_node_gradient_communication_time",
    "gradient all-reduce, inter-node": "inter_node_gradient_communication_time",
    "ZeRO (weights gathered)": "weight_gathering_time",
}


def config_summary(e: Estimation) -> str:
    """Every input by category, with its value, its unit and its origin."""
    lines = [f"config: {e.scenario.label}", f"description: {e.scenario.description}", ""]
    for category in CATEGORIES:
        row = e.scenario.sources.rows.get(category)
        lines += [category, "-" * len(category)] + ([f"row: {row.name} ({row.table})"] if row else [])
        lines += _aligned(_inputs(e, category))
        lines.append("")
    lines += [f"note: {notice}" for notice in e.notices]
    return "\n".join(lines).rstrip() + "\n"


def _inputs(e: Estimation, category: str) -> Iterator[tuple[str, ...]]:
    """The lines of a category: name, readable value, exact value and origin of each input."""
    for name, quantity in e.scenario.catalogue.items():
        if quantity.category != category:
            continue
        if name in e.choices:
            yield name, e.choices[name], "", _origin(e, name)
        elif name in e and quantity.mark.kind != "records":
            yield name, human.value(e[name], quantity.mark.unit), f"{e[name]!r} {quantity.mark.unit}", _origin(e, name)


def _origin(e: Estimation, name: str) -> str:
    """The origin of an input, in words: a row, given, calculated or default."""
    origin = e.scenario.sources.origins.get(name)
    if isinstance(origin, LookedUp):
        doubt = " (unverified)" if origin.column in origin.row.unverified else ""
        return f"row '{origin.row.name}'{doubt}"
    if origin is not None:
        return f"given, {origin.where}"
    formula = e.plan.by_name.get(name)
    return "calculated" if formula and formula.arguments else "default"


def training_time_breakdown(e: Estimation) -> str:
    """The parts of the training time as text, as in AMPeD's breakdown: for the whole training, and for one step."""
    steps, training = e["number_of_steps"], e["training_time"]
    rows = [
        (title, f"{human.digits(e[name] * steps, 6)} s", f"{human.digits(e[name], 6)} s", human.percent(e[name] / e["step_time"]))
        for title, name in _parts(e).items()
    ]  # fmt: skip
    head = [
        f"Total training time: {human.digits(training, 6)} s = {human.digits(training / human.DAY, 6)} days = "
        f"{human.digits(training / human.YEAR, 6)} years",
        f"Number of steps: {steps:,.0f}, time of a step: {human.digits(e['step_time'], 6)} s",
        "",
    ]
    return (
        "\n".join(
            [*head, *_aligned([("", "training", "step", "share"), *rows]), "", *_aligned([*_hidden(e), *_work(e)])]
        )
        + "\n"
    )


def _parts(e: Estimation) -> dict[str, str]:
    """The names of the parts of a step by their titles."""
    exposed = {f"{kind} parallelism": f"exposed_{kind}_communication_time" for kind in PARALLELISMS}
    if e["exposed_offload_communication_time"]:
        exposed["offload to the host"] = "exposed_offload_communication_time"
    communication = CLOSED_COMMUNICATION if e.choices["performance_model"] == "amped" else exposed
    return {
        "Computation time, forward pass": "compute_forward_time",
        "Computation time, backward pass": "compute_backward_time",
        "Computation time, weight update": "weight_update_time",
        "Recomputation time": "recomputation_time",
        "Optimizer time": "optimizer_time",
        **{f"Communication time, {title}": name for title, name in communication.items()},
        "Pipeline bubbles": "pipeline_bubble_time",
    }


def _hidden(e: Estimation) -> Iterator[tuple[str, str]]:
    """Lines on times that are no parts of a step: waiting for the host, and communication beside computation."""
    if time := e["host_wait_time"]:
        yield "Waiting for the host in the computation of a step", f"{human.digits(time, 6)} s"
    for kind in (*PARALLELISMS, "offload"):
        if time := e[f"hidden_{kind}_communication_time"]:
            yield f"Hidden beside computation, {kind} communication in a step", f"{human.digits(time, 6)} s"


def _work(e: Estimation) -> Iterator[tuple[str, str]]:
    """The lines on the work of a step, the rates, the utilization and the memory."""
    flops = e["hardware_flops_per_accelerator"] * e["number_of_accelerators"]
    multiply_accumulates = flops / e["flops_per_multiply_accumulate"]
    yield "MACs of a step with recomputation, all accelerators", human.digits(multiply_accumulates, 6)
    yield "TFLOP of a step with recomputation, all accelerators", human.digits(flops / 1e12, 6)
    yield "Hardware TFLOP/s per accelerator", human.digits(e["hardware_flop_rate_per_accelerator"] / 1e12, 6)
    yield "Model TFLOP/s per accelerator", human.digits(e["model_flop_rate_per_accelerator"] / 1e12, 6)
    yield "Model FLOPs utilization", human.percent(e["model_flops_utilization"])
    yield "Memory per accelerator", f"{human.digits(e['memory_per_accelerator_bytes'] / 1e9, 6)} GB"
    if e["host_memory_bytes"]:
        yield "Host memory per accelerator", f"{human.digits(e['host_memory_bytes'] / 1e9, 6)} GB"


def gemm_breakdown(lines: Iterable[OperatorLine]) -> str:
    """A text with one line for each matrix product of a step."""
    head = ("name", "pass", "m", "n", "k", "batch", "calls", "TFLOP", "GB", "FLOP/B", "bound", "time ms", "share")
    rows = [
        (line.name, line.phase, *(f"{number:.0f}" for number in (line.m, line.n, line.k, line.batch, line.count)),
         *map(human.ratio, (line.flops / 1e12, line.bytes / 1e9, line.intensity)), line.bound,
         human.ratio(line.time * 1e3), human.percent(line.share))
        for line in lines
    ]  # fmt: skip
    return "\n".join(_aligned([head, *rows])) + "\n"


def mat_dims(e: Estimation) -> str:
    """DeepFlow's matrix dimensions of one layer: three integers on each line, with two spaces between them."""
    products = e.results.records("deepflow_gemms")
    return "".join(f"{int(product.m)}  {int(product.n)}  {int(product.k)}\n" for product in products)


def _aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    """Rows of text with aligned columns; numbers are aligned to the right."""
    columns = list(zip_longest(*rows, fillvalue=""))
    return ["  ".join(cells).rstrip() for cells in zip(*map(_padded, columns), strict=True)]


def _padded(column: Sequence[str]) -> list[str]:
    """The cells of a column, padded to one width: numbers are aligned to the right, text to the left.

    A column holds numbers if each cell below the head begins with a digit or a minus, or is empty.
    """
    width, is_number = max(map(len, column)), all(text[:1].isdigit() or text[:1] in ("-", "") for text in column[1:])
    return [f"{cell:>{width}}" if is_number else f"{cell:{width}}" for cell in column]
