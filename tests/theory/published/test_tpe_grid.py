"""Tensor parallelism on a grid against the tool of arXiv 2410.00273 (TPE): SUMMA, and rows of weights by columns of tokens.

Set up alike in `tests/helpers/tpe.py`. Where the tool is wrong by its own paper, the test says so and takes that out: a norm
whose width it takes for a length, one panel too many that is waited for, and what follows from both.
"""

import pytest

from tests.helpers.layers import exposure, whole_bytes
from tests.helpers.tpe import (
    CLOSE,
    GRIDS,
    KINDS,
    LINEAR,
    PRODUCTS,
    SYSTEMS,
    by_operator,
    estimate,
    inputs,
    operators,
    records,
    rooflines,
    summed,
    time_of,
    totals,
)

SUMMA = [name for name in GRIDS if inputs(name)["strategy"] == "2d_summa"]
CONTEXT = [name for name in GRIDS if inputs(name)["strategy"] == "2d_context"]
every_grid = pytest.mark.parametrize("configuration", GRIDS)
every_summa = pytest.mark.parametrize("configuration", SUMMA)
every_context = pytest.mark.parametrize("configuration", CONTEXT)
# The tool's width of a norm on a SUMMA grid is its length; what a stage hands over has that width too.
LENGTH_FOR_WIDTH = ("ln1", "ln2")
STEP_TOLERANCE = 0.01


def grid_of(configuration):
    degrees = inputs(configuration)["parallel"]
    return degrees["tp1"], degrees["tp2"]


# --- flops, weights and products --------------------------------------------------------------------------------------


@every_grid
def test_products_have_the_flops_of_the_tool(configuration):
    tool = by_operator(configuration, PRODUCTS, lambda row, a_pass: row[f"flops_{a_pass}"])
    # It counts one addition less for each panel: 79 flops for 80 of a head of 160 in four panels.
    close = 1 / 79 + 1e-4 if estimate(configuration).choices["grid_attention"] == "summa" else CLOSE
    assert summed(configuration, PRODUCTS, "layer_operators", lambda o: o.flops) == pytest.approx(tool, rel=close)


@every_grid
def test_weights_are_cut_as_in_the_tool(configuration):
    rows, e = operators(configuration), estimate(configuration)
    shares, (m1, _) = e["weight_split_degree"], grid_of(configuration)
    weights = {
        o.name: o.k * o.n * e["weight_precision"] / (shares / m1)
        for o in records(configuration, "layer_operators")
        if o.phase == "forward" and o.kind == "contraction"
    }
    assert weights == {name: pytest.approx(rows[tool]["weights_bytes"], rel=1e-9) for tool, name in LINEAR.items()}
    assert e["weight_bytes"] == pytest.approx(totals(configuration)["wts_mem_bytes"], rel=CLOSE)


@every_grid
def test_products_take_as_long_as_in_the_tool(configuration):
    e = estimate(configuration)
    ours = summed(configuration, PRODUCTS, "layer_durations", lambda d: d.time - e["kernel_overhead_time"])
    tool = rooflines(configuration, PRODUCTS)
    if not e["flash_attention"] and e.choices["grid_attention"] == "keys_gathered":
        # The tool writes the gradients of the columns' own keys and values, which there are only when they are scattered.
        written = e["key_bytes"] * (grid_of(configuration)[1] - 1)
        traffic = {n: operators(configuration)[n]["mem_access_bwd_bytes"] + written for n in ("logits", "attend")}
        tool |= {(n, "bwd"): max(tool[n, "bwd"], t / e["memory_bandwidth"]) for n, t in traffic.items()}
    assert ours == pytest.approx(tool, rel=CLOSE)


# --- SUMMA ------------------------------------------------------------------------------------------------------------


def panels_sent(configuration, name):
    """The tool's messages of a product forward, each cut into panels, as amped names them."""
    nb = inputs(configuration)["parallel"]["nb"]
    return [
        [KINDS[kind], size / nb, gpus, inside]
        for kind, size, gpus, inside in operators(configuration)[name]["comm_fwd"]
    ]


@every_summa
def test_panels_are_those_of_the_tool(configuration):
    ours = {c.name: c for c in records(configuration, "tensor_collectives")}
    scored = [n for n in ("logits", "attend") if estimate(configuration).choices["grid_attention"] == "summa"]
    for name in (*LINEAR, *scored):
        found = [ours[f"{PRODUCTS[name]}_{operand}"] for operand in ("inputs", "weights")]
        sent = sorted([c.kind, c.volume, c.intra * c.inter, c.intra] for c in found if c.intra * c.inter > 1)
        tool = sorted(panels_sent(configuration, name))
        assert [message[0] for message in sent] == [message[0] for message in tool]
        assert [message[1:] for message in sent] == [pytest.approx(message[1:], rel=CLOSE) for message in tool]
        assert {c.count for c in found} == {inputs(configuration)["parallel"]["nb"]}


@every_summa
def test_panels_are_waited_for_as_in_the_tool_but_for_one(configuration):
    """The first panel, and of the others what the panel before does not hide: p − 1 of them, where the tool has p."""
    e, p = estimate(configuration), inputs(configuration)["parallel"]["nb"]
    times = {d.name: d.time for d in records(configuration, "tensor_durations")}
    scored = [n for n in ("logits", "attend") if e.choices["grid_attention"] == "summa"]
    waited, too_many = 0.0, 0.0
    for name in (*LINEAR, *scored):
        panel = sum(times.get(f"{PRODUCTS[name]}_{operand}", 0.0) for operand in ("inputs", "weights"))
        row = operators(configuration)[name]
        for a_pass, products in (("fwd", 1), ("bwd", 2)):
            work = (row[f"t_{a_pass}_comp_s"] + memory_time(configuration, name, a_pass)) / p / products
            left = max(panel - work, 0.0)
            assert products * (panel + p * left) == pytest.approx(row[f"t_{a_pass}_comm_s"], rel=0.03)
            waited, too_many = waited + products * (panel + (p - 1) * left), too_many + products * left
    sums = 2 * sum(d.time * d.count for d in records(configuration, "tensor_durations") if d.kind == "all_reduce")
    gathered = e["grid_column_gather_time_per_layer"]
    assert exposure(e, "tensor").exposed == pytest.approx(waited + sums + gathered, rel=0.03)


def memory_time(configuration, name, a_pass):
    """What the tool adds to a product's work where its traffic lasts longer: not beside communication."""
    row, system = operators(configuration)[name], SYSTEMS[inputs(configuration)["system"]]
    traffic = row[f"mem_access_{a_pass}_bytes"] / (system["hbm_bandwidth"] * 1e9)
    return max(traffic - row[f"t_{a_pass}_comp_s"], 0.0)


@every_summa
def test_a_step_takes_as_long_as_in_the_tool_without_what_it_has_too_many_of(configuration):
    e, tool = estimate(configuration), corrected(configuration)
    assert e["step_time"] == pytest.approx(tool, rel=STEP_TOLERANCE)


def corrected(configuration):
    """The tool's step with norms of the right width, a panel less to wait for, and what a stage really hands over."""
    t, e = totals(configuration), estimate(configuration)
    p, parallel = inputs(configuration)["parallel"]["nb"], inputs(configuration)["parallel"]
    times = {d.name: d.time for d in records(configuration, "tensor_durations")}
    norms = {d.name: d for d in records(configuration, "layer_durations") if d.name.endswith("_norm")}
    layer = 0.0
    for name, row in operators(configuration).items():
        if name in ("dp_comms", "pp_comms"):
            continue
        for a_pass, products in (("fwd", 1), ("bwd", 2)):
            spent = row[f"t_{a_pass}_comp_s"] + memory_time(configuration, name, a_pass) + row[f"t_{a_pass}_comm_s"]
            if name in LENGTH_FOR_WIDTH:
                phase = "forward" if a_pass == "fwd" else "input_gradient"
                named = {"ln1": "attention_norm", "ln2": "feedforward_norm"}[name]
                spent = next(d.time for d in records(configuration, "layer_durations")
                             if (d.name, d.phase) == (named, phase)) + row[f"t_{a_pass}_comm_s"]  # fmt: skip
            if name in PRODUCTS and row["comm_fwd"] and f"{PRODUCTS[name]}_inputs" in times:
                panel = sum(times.get(f"{PRODUCTS[name]}_{operand}", 0.0) for operand in ("inputs", "weights"))
                work = (row[f"t_{a_pass}_comp_s"] + memory_time(configuration, name, a_pass)) / p / products
                spent -= products * max(panel - work, 0.0)
            layer += spent
    assert norms
    stage = layer * inputs(configuration)["model"]["depth"] / parallel["pp"]
    m = t["number_micro_batches"]
    handed = e["exposed_pipeline_communication_time"]
    return stage * (m + parallel["pp"] - 1) + handed * (1 + (parallel["pp"] - 1) / m) + t["t_dp_comm_s"]


# --- rows of weights, columns of tokens -------------------------------------------------------------------------------


@every_context
def test_keys_and_values_are_gathered_as_in_the_tool(configuration):
    rows = operators(configuration)
    sent = [m for name in ("fusedla", "logits", "attend") if name in rows for m in rows[name]["comm_fwd"]]
    ours = {c.name: c for c in records(configuration, "grid_column_collectives")}
    gathered = ours["grid_column_keys_and_values"]
    # Without a fused kernel the tool gathers keys and values one after the other.
    assert gathered.volume == pytest.approx(sum(size for _, size, *_ in sent), rel=CLOSE)
    assert {(KINDS[kind], gpus, inside) for kind, _, gpus, inside in sent} == {
        (gathered.kind, gathered.intra * gathered.inter, gathered.intra)
    }
    assert ours["grid_column_key_and_value_gradients"].volume == gathered.volume


@every_context
def test_a_step_takes_as_long_as_in_the_tool(configuration):
    e, tool = estimate(configuration), totals(configuration)
    assert e["number_of_microbatches_per_minibatch"] == tool["number_micro_batches"]
    # One gather of keys and values has fewer latencies than one of each.
    assert e["exposed_tensor_communication_time"] == pytest.approx(tool["t_tp_comm_s"], rel=0.011)
    assert e["step_time"] == pytest.approx(tool["t_s"], rel=STEP_TOLERANCE)
    assert e["pipeline_bubble_time"] == pytest.approx(tool["t_bubble_s"], rel=STEP_TOLERANCE)


@every_context
def test_optimizer_states_are_shared_by_the_columns_too(configuration):
    e = estimate(configuration, optimizer="adam")
    assert e["optimizer_state_bytes"] == pytest.approx(
        totals(configuration)["wts_optimizer_states_mem_bytes"], rel=CLOSE
    )
    assert e["gradient_bytes"] == pytest.approx(totals(configuration)["wts_grad_mem_bytes"], rel=CLOSE)


@every_context
def test_gradients_are_reduced_over_replicas_and_columns(configuration):
    kind, size, gpus, inside = operators(configuration)["dp_comms"]["comm_bwd"][0]
    tool = inputs(configuration)
    layers = tool["model"]["depth"] / tool["parallel"]["pp"]
    gradients = {c.kind: c for c in records(configuration, "sharding_collectives") if c.name == "gradients"}[
        KINDS[kind]
    ]
    assert (gradients.intra * gradients.inter, gradients.intra) == (gpus, inside)
    assert gradients.volume * gradients.count == pytest.approx(layers * size, rel=CLOSE)


# --- memory -----------------------------------------------------------------------------------------------------------


@every_grid
def test_activations_take_the_memory_of_the_tool(configuration):
    """But for what amped does not keep: inputs gathered again, a mask of no dropout, an output kept twice.

    And for the tool's norms on a SUMMA grid.
    """
    rows, e = operators(configuration), estimate(configuration)
    kept = {name: row["activation_buffer_bytes"] for name, row in rows.items()}
    if configuration in SUMMA:
        kept |= dict.fromkeys(LENGTH_FOR_WIDTH, e["residual_bytes"])
    else:
        regathered = 1 - 1 / grid_of(configuration)[0]
        kept |= {name: kept[name] * (1 - regathered) for name in ("fc1", "qkv")}
    layer = sum(kept.values()) - kept["dpr1"] - (kept["vproj"] if "fusedla" in kept else 0)
    assert whole_bytes(e) == pytest.approx(layer, rel=CLOSE)


def test_time_of_a_panel_is_that_of_a_chain():
    """The tool's own broadcast, for one panel of tpe-10."""
    name = next(n for n in SUMMA if n.startswith("tpe-10"))
    times = {d.name: d.time for d in records(name, "tensor_durations")}
    kind, size, gpus, inside = operators(name)["fc1"]["comm_fwd"][0]
    golden = {
        "system": inputs(name)["system"],
        "type": kind,
        "bytes": size / 16,
        "gpus": gpus,
        "gpus_in_fast_domain": inside,
    }
    assert times["feedforward_up_inputs"] == pytest.approx(time_of(golden), rel=1e-9)
