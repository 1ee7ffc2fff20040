"""Breakdown, graph and numbers as people read them."""

import itertools
import json

import pytest

import amped
from amped.cli.options import plain
from amped.estimation.breakdown import gemm_lines, layer_lines
from amped.estimation.graph import as_json, compute_graph
from amped.report import human
from amped.report.graph_text import as_dot, as_text
from amped.report.layers import layer_table
from amped.report.summary import summary
from amped.report.text import config_summary, gemm_breakdown
from tests.helpers.layers import computed, whole_bytes


@pytest.fixture(scope="module", params=["default", "llama-3-70b", "mixtral-8x7b"])
def estimate(request):
    return amped.estimate(request.param)


@pytest.fixture(scope="module", params=["default", "llama-3-70b", "mixtral-8x7b"])
def closed(request):
    return amped.estimate(request.param, performance_model="amped")


def test_the_gemms_of_the_closed_form_are_all_of_the_models_flops(closed):
    assert sum(line.flops for line in gemm_lines(closed)) == pytest.approx(
        closed["model_flops_per_accelerator"], rel=1e-12
    )


def test_the_gemms_of_the_closed_form_take_the_compute_parts_without_the_nonlinear_operations(closed):
    products = sum(line.time for line in gemm_lines(closed))
    nonlinear = closed["softmax_operations"] + closed["activation_function_operations"]
    parts = closed["compute_forward_time"] + closed["compute_backward_time"] + closed["weight_update_time"]
    assert products + 2 * nonlinear * closed["nonlinear_operation_time"] == pytest.approx(parts, rel=1e-12)


def test_the_gemms_are_all_of_the_models_flops_with_the_head_on_its_own_stage():
    e = amped.estimate()
    head = [line.flops for line in gemm_lines(e) if line.name == "output_head"]
    rest = sum(line.flops for line in gemm_lines(e)) - sum(head)
    assert rest + sum(head) / e["pipeline_parallel_degree"] == pytest.approx(
        e["model_flops_per_accelerator"], rel=1e-12
    )


def test_the_layer_table_adds_up_to_the_passes_of_a_layer(estimate):
    lines = layer_lines(estimate)
    passes = ("forward", "input_gradient", "weight_gradient")
    for phase in passes:
        own = sum(line.time for line in lines if line.phase == phase)
        assert own == pytest.approx(getattr(computed(estimate), phase), rel=1e-12)
    assert sum(line.share for line in lines) == pytest.approx(1)
    assert all(0 <= line.memory_use_efficiency < 1 and 0 <= line.peak_fraction < 1 for line in lines)


def test_what_the_operators_keep_adds_up_to_the_layer(estimate):
    lines = layer_lines(estimate)
    assert sum(line.stash for line in lines) == pytest.approx(whole_bytes(estimate), rel=1e-12)


def test_what_the_operators_weigh_adds_up_to_the_layer():
    e = amped.estimate("default")
    lines = layer_lines(e)
    products = 12 * 12288**2 * e["weight_precision"] / 8  # queries, keys, values, output, up and down; in 8 shards
    assert sum(line.weights for line in lines) == pytest.approx(products, rel=1e-12)


def test_the_experts_of_a_mixture_are_weights_too():
    sizes = {"tensor_parallel_degree": 2, "expert_parallel_degree": 4, "sequence_parallel": True}
    e = amped.estimate(model="Mixtral 8x7B", system="DGX H100", gpus=64, **sizes)
    lines = {line.name: line for line in layer_lines(e) if line.phase == "forward"}
    assert (
        lines["experts_down"].weights
        == 8 / 4 * 14336 / e["expert_tensor_parallel_degree"] * 4096 * e["weight_precision"]
    )
    assert [m.kind for m in lines["experts_down"].messages] == ["all_to_all"]
    (gathered,) = lines["attention_norm"].messages
    assert (gathered.kind, gathered.intra, gathered.inter) == ("all_gather", 2, 1)
    assert gathered.bytes == e["microbatch_tokens"] * 4096 * e["activation_precision"]


def test_an_operator_has_the_messages_that_send_its_result():
    estimate = amped.estimate("default")
    sent = {line.name: line.messages for line in layer_lines(estimate) if line.messages}
    assert set(sent) == {"attention_output", "feedforward_down", "feedforward_residual"}
    (reduced,) = sent["attention_output"]
    whole = estimate["microbatch_tokens"] * estimate["dimensionality"] * estimate["activation_precision"]
    assert (reduced.kind, reduced.bytes, reduced.intra, reduced.inter) == ("all_reduce", whole, 8, 1)
    assert 0 < reduced.time < estimate["step_time"]


def test_the_closed_form_has_no_time_of_a_single_message(closed):
    messages = [message for line in layer_lines(closed) for message in line.messages]
    assert messages
    assert {message.time for message in messages} == {None}
    assert all(message.kind in plain(layer_table(closed)) for message in messages)


def test_the_table_of_what_is_kept_and_sent_fits_80_columns(estimate):
    lines = plain(layer_table(estimate)).splitlines()
    first = next(n for n, line in enumerate(lines) if "kept MB" in line)
    last = next(n for n, line in enumerate(lines) if line.startswith("one layer"))
    assert max(map(len, lines[first : last + 1])) <= 80
    sent = [message for line in layer_lines(estimate) for message in line.messages]
    assert sum(any(message.kind in line for message in sent) for line in lines[first:last]) == len(sent)


def test_the_layer_table_prints_every_operator_within_80_columns(estimate):
    printed = plain(layer_table(estimate)).splitlines()
    first = next(n for n, line in enumerate(printed) if line.startswith("operator"))
    last = next(n for n, line in enumerate(printed) if line.startswith("one micro-batch"))
    assert max(map(len, printed[first : last + 1])) <= 80
    assert "MUE" in printed[first]
    assert "…" not in "".join(printed[3:])
    assert {line.name for line in layer_lines(estimate)} <= {row.split()[0] for row in printed if row}


def test_a_gemm_line_reads_its_own_numbers(estimate):
    for line in gemm_lines(estimate):
        assert line.flops == pytest.approx(2 * line.m * line.n * line.k * line.batch * line.count)
        assert line.intensity == pytest.approx(line.flops / line.bytes)
        assert line.bound in ("compute", "memory", "launch")
    assert gemm_breakdown(gemm_lines(estimate)).count("\n") == len(gemm_lines(estimate)) + 1


def test_the_graph_runs_in_its_own_order(estimate):
    nodes = compute_graph(estimate)
    done = set()
    for node in nodes:
        assert set(node.waits_for) <= done
        done.add(node.name)
    assert nodes[0].waits_for == ()
    assert nodes[-1].name == "cross_entropy"


def test_the_critical_path_is_the_longest(estimate):
    """Against every path, one by one."""
    nodes = {node.name: node for node in compute_graph(estimate)}

    def longest(name):
        return nodes[name].time + max((longest(before) for before in nodes[name].waits_for), default=0.0)

    critical = [node for node in nodes.values() if node.critical]
    assert sum(node.time for node in critical) == pytest.approx(longest("cross_entropy"))
    for one, other in itertools.pairwise(critical):
        assert one.name in other.waits_for


def test_the_graph_has_the_same_edges_in_every_form(estimate):
    nodes = compute_graph(estimate)
    edges = [(before, node.name) for node in nodes for before in node.waits_for]
    assert as_dot(nodes).count(" -> ") == len(edges) == len(as_json(nodes)["edges"])
    assert json.dumps(as_json(nodes))
    assert as_text(nodes).count("\n") == len(nodes)


def test_the_mixture_dispatches_before_its_experts_and_combines_after():
    waits = {node.name: node.waits_for for node in compute_graph(amped.estimate("mixtral-8x7b"))}
    assert waits["expert_sorting"] == ("expert_dispatch all_to_all",)
    assert waits["experts_up"] == ("expert_sorting",)
    assert waits["expert_combine all_to_all"] == ("experts_down",)
    assert "feedforward_up" not in waits


@pytest.mark.thorough
def test_no_micro_batch_is_said_to_fit_where_the_hosts_memory_does_not_suffice():
    """Below "DOES NOT FIT" of the host stood the largest micro-batch that fits, without the word where."""
    offloaded = {"model": "Llama 3 70B", "system": "DGX H100", "gpus": 64, "optimizer_offload": 1}
    told = " ".join(plain(summary(amped.estimate(**offloaded, host_memory_capacity="100 MB"))).split())
    assert "of a server's 100 MB: DOES NOT FIT" in told
    assert "largest micro-batch that fits in an accelerator, without the host's memory: " in told
    assert "largest micro-batch that fits: " in plain(summary(amped.estimate(**offloaded)))


def test_the_config_summary_says_where_each_input_comes_from(estimate):
    text = config_summary(estimate)
    assert "given, neural_network_training_parameters.parameters.batch_size" in text
    assert "row '" in text
    assert "default" in text


@pytest.mark.parametrize(
    ("number", "unit", "text"),
    [
        (30.446, "s", "30.45 s"), (0.0439, "s", "43.90 ms"), (2.9e6, "s", "33.6 days"), (1e9, "s", "31.7 years"),
        (5400, "s", "90 minutes"), (0.0, "s", "0 s"), (80e9, "byte", "80 GB"), (5.578e10, "byte", "55.78 GB"),
        (312e12, "flop/s", "312 TFLOP/s"), (1.746e11, "count", "174.6 billion"), (1536, "count", "1,536"),
        (0.58, "1", "0.58"), (1.0, "boolean", "yes"), (2.3e6, "dollar", "2.300 million USD"), (3.6e9, "J", "1 MWh"),
        (1 / 1800, "dollar/s", "2 USD/hour"), (3e11, "byte/s", "300 GB/s"),
    ],
)  # fmt: skip
def test_numbers_read_as_people_write_them(number, unit, text):
    assert human.value(number, unit) == text
