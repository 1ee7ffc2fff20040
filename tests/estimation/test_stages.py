"""Stages as they are: layouts read and written, layers that do not divide, and every stage by itself."""

import pytest

from amped.base.errors import AmpedError, MappingError
from amped.configuring.layout_text import read_layout, read_pattern
from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import Estimation, estimated
from amped.estimation.execution import executed_step
from amped.estimation.stages import stage_lines
from tests.helpers.cli import amped as command
from tests.helpers.schedules import most_held

MIXTURE = {"model": "DeepSeek V3", "system": "DGX H100", "number_of_accelerators": 512, "tensor_parallel_degree": 1,
           "expert_parallel_degree": 32, "batch_size": 4096, "tokens_to_train": 1e12}  # fmt: skip
DENSE = {"model": "Llama 3.1 405B", "system": "DGX H100", "number_of_accelerators": 1024, "tensor_parallel_degree": 8,
         "batch_size": 1024, "tokens_to_train": 1e12}  # fmt: skip


def of(base, **more) -> Estimation:
    return estimated(read_scenario("default", base | more))


def has(e: Estimation) -> list[tuple[float, ...]]:
    """Layers of each kind on each stage."""
    return [tuple(line.layers.values()) for line in stage_lines(e)]


# --- layouts in letters ----------------------------------------------------------------------------------------------


def test_megatron_s_letters_give_the_stages_counted_by_hand_and_are_written_back():
    """61 layers: 4 behind the embedding, 14 chunks of 4, and 1 with a module and the head."""
    layout = "Et*4|(t*4|)*14tmL"
    e = of(MIXTURE, pipeline_parallel_degree=16, multi_token_prediction_layers=1, pipeline_layout=layout)
    assert has(e) == [(3, 1, 0), *[(0, 4, 0)] * 14, (0, 1, 1)]
    assert e.to_dict()["pipeline_layout"] == layout


def test_chunks_may_be_empty_and_go_round_the_stages():
    """61 layers in 32 chunks: 3, then 29 of 2, one with the module alone, and one with the head alone."""
    layout = "Et*3|(tt|)*29m|L"
    e = of(MIXTURE, pipeline_parallel_degree=16, multi_token_prediction_layers=1, pipeline_layout=layout)
    assert e["virtual_pipeline_stages"] == 2
    assert has(e) == [(3, 2, 0), *[(0, 4, 0)] * 13, (0, 2, 1), (0, 2, 0)]
    assert e.to_dict()["pipeline_layout"] == layout


@pytest.mark.parametrize(("layout", "told"), [
    ("Et*4|(t*4|)*14tL", "it lists 0 m, and multi_token_prediction_layers = 1"),
    ("Et*4|(t*4|)*14t*2mL", "it lists 62 t, and layers = 61"),
    ("Et*4|(t*4|)*13t*5mL", "it lists 15 chunks, and pipeline_parallel_degree = 16"),
])  # fmt: skip
def test_letters_that_do_not_add_up_are_refused_with_what_they_list(layout, told):
    with pytest.raises(MappingError, match="leave it out: amped balances the layers") as refused:
        of(MIXTURE, pipeline_parallel_degree=16, multi_token_prediction_layers=1, pipeline_layout=layout)
    assert told in str(refused.value)


@pytest.mark.parametrize(("layout", "told"), [
    ("t*4|tL", "begins with the embedding"), ("Et*4|t", "ends with the output head"), ("Etx|L", "has 'x'"),
    ("E(t|L", "opens a bracket"), ("Et)|L", "closes a bracket"), ("Em|tL", "modules, m, before layers"),
    ("Et*0|L", "too often or not at all"), ("E(((t*9999)*9999)*9999)|L", "too many layers"),
    pytest.param("E" + "t|" * 9000 + "L", "longer than 10,000 letters", id="long"),
])  # fmt: skip
def test_text_that_is_no_layout_says_why(layout, told):
    with pytest.raises(AmpedError, match="in Megatron-LM's letters") as refused:
        read_layout("pipeline_layout", layout)
    assert told in str(refused.value)


# --- layers that do not divide ---------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize(("base", "stages", "chunks"), [
    (DENSE, 16, 8), (DENSE, 16, 1), (DENSE, 4, 1), (MIXTURE, 8, 1), (MIXTURE, 16, 1), (MIXTURE, 16, 2),
])  # fmt: skip
def test_networks_whose_layers_do_not_divide_run_without_a_layout(base, stages, chunks):
    e = of(base, pipeline_parallel_degree=stages, virtual_pipeline_stages=chunks)
    assert len(stage_lines(e)) == stages
    assert sum(sum(layers) for layers in has(e)) == e["layers"]
    again = of(base, pipeline_parallel_degree=stages, virtual_pipeline_stages=chunks,
               pipeline_layout=e.to_dict()["pipeline_layout"])  # fmt: skip
    assert again["step_time"] == e["step_time"]


@pytest.mark.thorough
def test_no_layout_of_one_chunk_a_stage_has_a_shorter_step():
    """7 layers in 3 stages: all ways to cut them, none with a shorter step than the one that amped finds."""
    toy = {
        "model": "GPT-2 small",
        "layers": 7,
        "number_of_accelerators": 3,
        "pipeline_parallel_degree": 3,
        "batch_size": 12,
    }
    toy |= {"tensor_parallel_degree": 1, "zero_stage": 0}
    ways = [f"{a},{b},{7 - a - b}" for a in range(8) for b in range(1, 8 - a)]
    assert of(toy)["step_time"] == min(of(toy, pipeline_layout=way)["step_time"] for way in ways)


def test_where_stages_are_more_than_layers_none_is_left_without_work():
    """6 layers in 8 stages: the first one has the embedding, the last one the output head, each other one a layer."""
    few = {"model": "GPT-2 small", "layers": 6, "number_of_accelerators": 8, "pipeline_parallel_degree": 8}
    e = of(few, tensor_parallel_degree=1, batch_size=16)
    assert all(sum(layers) == 1 for layers in has(e)[1:-1])


SPLIT = {"model": "DeepSeek V3", "system": "DGX H100", "number_of_accelerators": 64, "tensor_parallel_degree": 1,
         "data_parallel_degree": 16, "pipeline_parallel_degree": 4, "expert_parallel_degree": 8, "microbatch_size": 1, "batch_size": 256}  # fmt: skip
SLOW_HOST = {"optimizer_offload": 1, "host_memory_bandwidth": 4e10}


def test_what_is_done_once_a_step_has_a_part_in_the_layout():
    """The host updates the states of the largest stage for minutes: no stage has more of the 58 mixtures than it must."""
    assert max(mixtures for _, mixtures in has(of(SPLIT, **SLOW_HOST))) == 15


@pytest.mark.thorough
@pytest.mark.parametrize("more", [{}, SLOW_HOST])
def test_no_layout_near_the_one_that_is_found_has_a_shorter_step(more):
    found = of(SPLIT, **more)
    layers = [sum(stage) for stage in has(found)]
    near = [[n + (s == one) - (s == other) for s, n in enumerate(layers)] for one in range(4) for other in range(4)]
    for each in near:
        layout = ",".join(f"{n:g}" for n in each)
        assert found["step_time"] <= of(SPLIT, **more, pipeline_layout=layout)["step_time"] * (1 + 1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "switch", ["overlap_expert_communication", "overlap_data_communication", "overlap_pipeline_communication"]
)
@pytest.mark.parametrize("more", [{}, SLOW_HOST, {"virtual_pipeline_stages": 2}])
def test_a_switch_that_hides_messages_never_costs_time_though_the_layout_is_found_anew(switch, more):
    clear = more | {"overlap_slowdown_fraction": 0, "expert_exchange_processor_fraction": 0}
    off, on = (of(SPLIT, **clear, **{switch: value})["step_time"] for value in (False, True))
    assert on <= off * (1 + 1e-9)


# --- kinds of layers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pattern", "first"), [("0*3,1*58", (3, 5)), ("[0]*3+[1]*58", (3, 5)), ("2", (4, 4))])
def test_a_pattern_says_which_layers_are_mixtures(pattern, first):
    e = of(MIXTURE, pipeline_parallel_degree=8, mixture_layer_pattern=pattern, pipeline_layout="8*7,5")
    assert has(e)[0] == first
    assert e["number_of_MoE_layers"] == sum(layers[1] for layers in has(e))


@pytest.mark.parametrize("pattern", ["", "2,1", "0*3,x", "0**3", "[0]*3[1]", "-1", True])
def test_text_that_is_no_pattern_is_refused(pattern):
    with pytest.raises(AmpedError, match="a whole number n for every n-th layer"):
        read_pattern("mixture_layer_pattern", pattern)


@pytest.mark.parametrize("layout", ["3:1:0,0:4:0|0:4:0", "1.5:0", "1:2,3", ":"])
def test_counts_are_amped_s_own_notation_and_refused_at_the_door(layout):
    with pytest.raises(AmpedError, match="is no layout of layers"):
        read_layout("pipeline_layout", layout)


@pytest.mark.parametrize("kinds", ["one", "dense_and_mixture"])
def test_kinds_of_layers_are_found_and_not_given(kinds):
    with pytest.raises(MappingError, match="--set kinds_of_layers: 'kinds_of_layers' cannot be given"):
        of(MIXTURE, kinds_of_layers=kinds)


def test_a_pattern_of_other_layers_is_refused():
    with pytest.raises(MappingError, match="lists other layers than the 61 that there are"):
        of(MIXTURE, mixture_layer_pattern="0*3,1*57")


@pytest.mark.parametrize("stages", [1, 4, 16])
def test_parameters_and_bytes_of_the_stages_are_those_of_the_network(stages):
    e = of(MIXTURE, pipeline_parallel_degree=stages, multi_token_prediction_layers=1)
    lines = stage_lines(e)
    assert sum(line.parameters for line in lines) == pytest.approx(e["number_of_parameters"], rel=1e-12)
    assert max(line.bytes for line in lines) == pytest.approx(e["memory_per_accelerator_bytes"], rel=1e-12)
    busiest = max(line.busy_time for line in lines)
    idle = e["pipeline_bubble_time"]
    assert [line.busy_time + line.idle_time for line in lines] == pytest.approx([busiest + idle] * stages)


def test_a_stage_of_dense_layers_takes_as_long_as_in_a_network_of_dense_layers():
    """X of one kind is X of a network of that kind alone: with the counts of a layer the same."""
    mixed = of(MIXTURE, pipeline_parallel_degree=1).results
    (alone,) = of(MIXTURE, pipeline_parallel_degree=1, number_of_MoE_layers=0).results.records("layer_times")
    dense, mixture, _ = mixed.records("kind_times")
    both = pytest.approx((alone.forward, alone.weight_gradient), rel=1e-15)  # but for the rounding of a count
    assert (dense.forward, dense.weight_gradient) == both
    assert mixture.forward > dense.forward


def test_the_command_prints_a_line_for_each_run_of_stages(tmp_path):
    told = command("estimate", "default", "--stages", folder=tmp_path)
    assert told.returncode == 0
    assert max(map(len, told.stdout.splitlines())) <= 100
    assert "1 to 6  12 " in told.stdout


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "zero_bubble_h1"])
@pytest.mark.parametrize("chunks", [1, 2])
def test_a_listed_stage_holds_what_the_executed_order_holds(schedule, chunks):
    """Of many micro-batches too: 16 a stage."""
    if chunks > 1 and schedule != "1f1b":
        return
    e = of(DENSE, pipeline_parallel_degree=4, virtual_pipeline_stages=chunks, pipeline_schedule=schedule)
    step = executed_step(e)
    held = [most_held(step.timeline, stage, step.sizes[stage]) for stage in range(4)]
    told = [float(each.bytes) for each in e.results.records("stage_activations")]
    assert e["number_of_microbatches_per_minibatch"] == 32
    assert told == pytest.approx(held, rel=1e-12)
