"""Pipelines: zero-bubble schedules and uneven layouts, their memory and place, and what cannot run."""

from functools import cache

import pytest

import amped
from amped.base.errors import AmpedError, ConfigError, MappingError
from amped.theory.language.quantity import ACCELERATOR, MAPPING, SYSTEM
from tests.helpers.cli import amped as command
from tests.helpers.formulas import sectioned
from tests.helpers.layers import computed
from tests.helpers.stages import bottleneck, of_stage, working_bytes

MACHINE = {SYSTEM: "Selene", ACCELERATOR: "A100 SXM 80GB"}
NETWORK = {"layers": 32, "dimensionality": 4096, "attention_heads": 32, "vocabulary_size": 51200, "context": 2048,
           "tokens_to_train": "1 G"}  # fmt: skip


@cache
def pipe(p=4, m=8, **more):
    mapping = {"number_of_accelerators": p, "pipeline_parallel_degree": p, "batch_size": m, "microbatch_size": 1}
    return amped.estimate(sectioned({**NETWORK, **mapping, **more}, MACHINE))


def zero_bubble(shape, **more):
    return pipe(pipeline_schedule=f"zero_bubble_{shape}", **more)


# --- zero bubble -----------------------------------------------------------------------------------------------------


def test_h1_waits_for_what_no_weight_gradient_fills():
    """(p−1)·(F + B − W) where the stages are alike: arXiv 2401.10241, table 2; here without ends and network."""
    alike = {"vocabulary_size": 1, "inter_node_latency": 0, "collective_overhead_time": 0, "position_table": 0,
             "stage_send_time": 0, "embedding_forward_time": 0, "embedding_backward_time": 0, "output_head_forward_time": 0,
             "output_head_input_gradient_time": 0, "output_head_weight_gradient_time": 0}  # fmt: skip
    e = zero_bubble("h1", **alike)
    f, b, w = (8 * getattr(computed(e), name) for name in ("forward", "input_gradient", "weight_gradient"))
    assert e["pipeline_bubble_time"] == pytest.approx(3 * (f + b - w), rel=1e-9)
    assert pipe(**alike)["pipeline_bubble_time"] == pytest.approx(3 * (f + b + w), rel=1e-9)


@pytest.mark.parametrize("model", ["operators", "amped"])
def test_each_schedule_waits_less_than_the_one_before(model):
    plain, h1, v = (
        pipe(performance_model=model, pipeline_schedule=s) for s in ("1f1b", "zero_bubble_h1", "zero_bubble_v")
    )
    waits = [e["pipeline_bubble_time"] for e in (plain, h1, v)]
    assert waits == sorted(waits, reverse=True)
    assert plain["step_time"] > h1["step_time"] > v["step_time"]


def test_the_closed_form_of_amped_knows_the_zero_bubbles_too():
    """(p−1)/m of F + B − W, and of half a B: table 2 of arXiv 2401.10241, and V-ZB with W close to F."""
    h1, v = (zero_bubble(s, performance_model="amped", activation_recomputation="none") for s in ("h1", "v"))
    f, b, w = (h1[name] for name in ("compute_forward_time", "compute_backward_time", "weight_update_time"))
    assert h1["pipeline_bubble_time"] == pytest.approx(3 / 8 * (f + b - min(w, f)), rel=1e-9)
    assert v["pipeline_bubble_time"] == pytest.approx(3 / 8 * max(b / 2, b - w), rel=1e-9)


def test_h1_keeps_on_every_stage_what_1f1b_keeps_on_the_first():
    e, plain = zero_bubble("h1"), pipe()
    kept = e["kept_activation_bytes_per_layer"]
    assert of_stage(e, "first", "activation_bytes") == of_stage(plain, "first", "activation_bytes")
    assert of_stage(e, "middle", "activation_bytes") == 4 * 8 * kept
    assert of_stage(e, "last", "activation_bytes") == 4 * (8 * kept + e["output_head_activation_bytes"])


def test_the_first_stage_of_a_v_has_both_ends():
    e, plain = zero_bubble("v"), pipe()
    kept, embedded, head = (e[f"{n}_activation_bytes{s}"] for n, s in
                            (("kept", "_per_layer"), ("embedding", ""), ("output_head", "")))  # fmt: skip
    assert of_stage(e, "first", "activation_bytes") == 4 * 8 * kept + max(8 * embedded, 7 * embedded + head)
    assert of_stage(e, "last", "activation_bytes") == 4 * 8 * kept
    ends = plain["embedding_parameters"] + plain["output_head_parameters"]
    assert of_stage(e, "first", "parameters") - of_stage(e, "middle", "parameters") == ends
    assert (
        of_stage(e, "last", "parameters") == of_stage(e, "middle", "parameters") < of_stage(plain, "last", "parameters")
    )
    assert e.fullest_stage == "first"
    assert (
        bottleneck(e),
        e["bottleneck_stage_embedding_passes"],
        e["bottleneck_stage_output_head_passes"],
    ) == ("both", 8, 8)
    whole = of_stage(e, "first", "state_bytes") + of_stage(e, "first", "activation_bytes") + working_bytes(e, True)
    assert e["memory_per_accelerator_bytes"] == pytest.approx(whole, rel=1e-12)


def test_the_stages_of_a_v_have_all_parameters_and_tied_embeddings_once():
    for tied in (False, True):
        e = zero_bubble("v", tied_embeddings=tied)
        whole = (
            of_stage(e, "first", "parameters")
            + 2 * of_stage(e, "middle", "parameters")
            + of_stage(e, "last", "parameters")
        )
        assert whole == e["number_of_parameters"]


def test_the_first_stage_of_a_v_hands_over_a_micro_batch_twice():
    """Forward down the first leg and back up the second; those between do so on both legs, and wait longer where held."""
    v, plain = zero_bubble("v"), pipe()
    assert v["pipeline_communication_time"] == plain["pipeline_communication_time"] == 2 * 8 * v["stage_send_time"]


def test_chunks_go_round_so_that_two_stages_hand_over_both_ways():
    one, two = (pipe(p=2, virtual_pipeline_stages=v) for v in (1, 2))
    assert one["pipeline_communication_time"] == 8 * one["stage_send_time"]
    assert two["pipeline_communication_time"] == 2 * 8 * 2 * two["stage_send_time"]


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "zero_bubble_h1", "zero_bubble_v"])
def test_the_largest_micro_batch_fits_and_the_next_does_not(schedule):
    """With as many in flight."""
    e = pipe(m=16, pipeline_schedule=schedule, memory_capacity="48 GB", activation_recomputation="full")
    largest = e["largest_microbatch_size"]
    assert 1 <= largest < 16
    for size, fits in ((largest, True), (largest + 1, False)):
        more = pipe(m=16, pipeline_schedule=schedule, memory_capacity="48 GB", activation_recomputation="full",
                    batch_size=16 * size, microbatch_size=size)  # fmt: skip
        assert more["fits_in_memory"] == fits


REFUSED = {
    "micro-batches of DualPipeV": ({"pipeline_schedule": "dualpipe_v", "microbatch_size": 2}, "nearest microbatch_size: 1"),
    "chunks of DualPipeV": ({"pipeline_schedule": "dualpipe_v", "virtual_pipeline_stages": 2},
                            "nearest virtual_pipeline_stages: 1"),
    "chunks of a V": ({"pipeline_schedule": "zero_bubble_v", "virtual_pipeline_stages": 2},
                      "nearest virtual_pipeline_stages: 1"),
    "chunks of H1": ({"pipeline_schedule": "zero_bubble_h1", "virtual_pipeline_stages": 2},
                     "nearest virtual_pipeline_stages: 1"),
    "chunks of GPipe": ({"pipeline_schedule": "gpipe", "virtual_pipeline_stages": 2},
                        "nearest virtual_pipeline_stages: 1"),
    "micro-batches of a V": ({"pipeline_schedule": "zero_bubble_v", "microbatch_size": 2}, "nearest microbatch_size: 1"),
    "micro-batches of H1": ({"pipeline_schedule": "zero_bubble_h1", "microbatch_size": 4}, "nearest microbatch_size: 2"),
    "one stage": ({"pipeline_schedule": "zero_bubble_h1", "pipeline_parallel_degree": 1, "number_of_accelerators": 1},
                  "nearest pipeline_parallel_degree: 2"),
}  # fmt: skip


@pytest.mark.parametrize(("given", "told"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("model", ["operators", "amped"])
def test_what_a_schedule_cannot_run_is_refused_with_what_can(given, told, model):
    base = {"number_of_accelerators": 4, "pipeline_parallel_degree": 4, "batch_size": 8, "microbatch_size": 1}
    with pytest.raises(MappingError, match=told):
        amped.estimate(sectioned({**NETWORK, **base, "performance_model": model, **given}, MACHINE))


@pytest.mark.parametrize("schedule", ["zero_bubble_v", "dualpipe_v"])
def test_a_v_whose_layers_do_not_divide_gets_a_layout(schedule):
    """36 layers in 8 chunks; 5 layers on the first stage; and a layout of the user."""
    for more in ({"layers": 36}, {"number_of_first_stage_layers": 5}, {"pipeline_layout": "8,9,7,8"}):
        e = pipe(pipeline_schedule=schedule, **more)
        chunks = [chunk[0] for share in e.results.records("pipeline_layout") for chunk in share.chunks]
        assert (len(chunks), sum(chunks)) == (8, more.get("layers", 32))
        assert e["pipeline_bubble_time"] >= 0


def test_dualpipe_v_holds_nine_chunks_on_each_of_four_stages():
    """2·p + 1 chunks of 4 layers; the first stage has 8 micro-batches in its first chunk, with the embedding, and one
    in its last chunk, with the output head.
    """
    e = pipe(pipeline_schedule="dualpipe_v", m=16)
    kept, embedded, head = (e[f"{n}_activation_bytes{s}"] for n, s in
                            (("kept", "_per_layer"), ("embedding", ""), ("output_head", "")))  # fmt: skip
    assert of_stage(e, "first", "activation_bytes") == 9 * 4 * kept + 8 * embedded + head
    assert of_stage(e, "middle", "activation_bytes") == of_stage(e, "last", "activation_bytes") == 9 * 4 * kept


def test_dualpipe_v_has_the_published_bubble():
    """(p − 1)·(F&B + B − 3W) of chunks, less what the last stage saves: arXiv 2412.19437, table 2; without ends."""
    alike = {"vocabulary_size": 1, "position_table": 0, "stage_send_time": 0, "embedding_forward_time": 0,
             "embedding_backward_time": 0, "output_head_forward_time": 0, "output_head_input_gradient_time": 0,
             "output_head_weight_gradient_time": 0}  # fmt: skip
    e = pipe(pipeline_schedule="dualpipe_v", m=16, **alike)
    f, b, w = (4 * getattr(computed(e), name) for name in ("forward", "input_gradient", "weight_gradient"))
    saved = min(3 * max(b - f, 0), f)
    assert e["pipeline_bubble_time"] == pytest.approx(3 * ((f + b + w) + (b + w) - 3 * w) - saved, rel=1e-9)


# --- layouts ---------------------------------------------------------------------------------------------------------


def numbers(e):
    return {name: value for name, value in e.to_dict().items() if not isinstance(value, str | list)}


def test_an_even_layout_changes_nothing_but_what_the_formula_of_even_stages_leaves_out():
    """Hand-overs that overlap may be waited for: the layout's passes know by how much."""
    even, listed = numbers(pipe()), numbers(pipe(pipeline_layout="8,8,8,8"))
    assert listed["step_time"] == pytest.approx(even["step_time"], rel=2e-3)
    assert listed["memory_per_accelerator_bytes"] == even["memory_per_accelerator_bytes"]
    without = {"stage_send_time": 0}
    assert numbers(pipe(pipeline_layout="8*4", **without)) == pytest.approx(numbers(pipe(**without)), rel=1e-12)
    assert numbers(pipe(pipeline_layout="8*4")) == numbers(pipe(pipeline_layout="8,8,8,8"))


def test_a_layout_says_the_same_as_its_first_and_last_stage():
    ends = pipe(number_of_first_stage_layers=7, number_of_last_stage_layers=5)
    assert numbers(pipe(pipeline_layout="7,10*2,5")) == pytest.approx(numbers(ends), rel=2e-3)


def test_the_slowest_stage_of_a_layout_paces():
    e = pipe(pipeline_layout="6,6,14,6")
    assert e["compute_forward_time"] == 8 * 14 * computed(e).forward
    assert bottleneck(e) == "middle"


def walked(e, layers):
    """Bytes of each stage: states, activations, the head's on the last, and what it works with."""
    ends = sum(state.bytes[0] for state in e.results.records("model_states"))
    kept = e["kept_activation_bytes_per_layer"]
    states = e["non_expert_layer_parameters"] / e["layers"] * ends
    each = [n * (states + kept * min(len(layers) - s, 8)) for s, n in enumerate(layers)]
    each[0] += e["embedding_parameters"] * ends + 4 * e["embedding_activation_bytes"]
    head = e["output_head_parameters"] + e["tied_embeddings"] * e["vocabulary_size"] * e["embedding_dimension"]
    each[-1] += head * ends + e["output_head_activation_bytes"]
    return [held + working_bytes(e, s == len(each) - 1) for s, held in enumerate(each)]


@pytest.mark.parametrize("layers", [
    (8, 8, 8, 8), (5, 10, 12, 5), (5, 11, 11, 5), (5, 12, 10, 5), (2, 2, 26, 2), (2, 26, 2, 2), (26, 2, 2, 2), (2, 2, 2, 26),
])  # fmt: skip
def test_the_fullest_stage_of_a_layout_is_found_by_walking_through_all(layers):
    """A later stage holds fewer micro-batches, so the one with most layers need not be the fullest."""
    e = pipe(pipeline_layout=",".join(map(str, layers)))
    assert e["memory_per_accelerator_bytes"] == pytest.approx(max(walked(e, layers)), rel=1e-12)
    fullest = int(e["fullest_stage_index"])
    assert walked(e, layers)[fullest] == max(walked(e, layers))
    assert e.fullest_stage == {0: "first", 3: "last"}.get(fullest, "middle")


def test_a_layout_is_one_text_in_a_config_and_on_the_command_line(tmp_path):
    config = sectioned(
        {**NETWORK, "number_of_accelerators": 4, "pipeline_parallel_degree": 4, "batch_size": 8}, MACHINE
    )
    config[MAPPING]["parameters"]["pipeline_layout"] = {"value": " 9, 8*2, 7 "}
    assert amped.estimate(config).to_dict()["pipeline_layout"] == "9,8*2,7"
    told = command("estimate", "--set", "pipeline_layout=11,12*6,13", "--json", folder=tmp_path)
    assert '"pipeline_layout": "11,12*6,13"' in told.stdout


def test_a_layout_set_beside_the_config_takes_the_place_of_its_ends():
    config = sectioned({**NETWORK, "number_of_accelerators": 4, "pipeline_parallel_degree": 4, "batch_size": 8,
                        "number_of_first_stage_layers": 5}, MACHINE)  # fmt: skip
    e = amped.estimate(config, pipeline_layout="9,8,8,7")
    assert e["first_stage_layers"] == 9
    assert any("takes the place of" in notice for notice in e.notices)


@pytest.mark.parametrize(("layout", "told"), [
    ("8,8,8", "pipeline_layout = 8\\*4"), ("8,8,8,7", "number_of_listed_layers = 31"),
    ("8,8,8,9", "of 4 stages with 32 layers: pipeline_layout = 8\\*4"),
])  # fmt: skip
def test_a_layout_of_other_stages_or_layers_is_refused_with_one_that_is_right(layout, told):
    with pytest.raises(MappingError, match=told):
        pipe(pipeline_layout=layout)


@pytest.mark.parametrize(
    "layout", ["8,8,,8", "8;8", "8,-8", "0,32", "8,8*0", "a", "", "8.5,7.5", [8, 8, 8, 8], True, "8*99999"]
)
def test_text_that_lists_no_layers_is_refused(layout):
    with pytest.raises(AmpedError):
        pipe.__wrapped__(pipeline_layout=layout)


def test_a_list_of_layouts_is_a_run_for_each():
    with pytest.raises(ConfigError, match="needs one run for each"):
        amped.explore("default", vary={"pipeline_layout": ["12*8", "11,12*6,13"]})


def test_the_layers_of_a_listed_stage_are_dealt_out_to_its_chunks():
    e = pipe(pipeline_layout="9,9,8,6", virtual_pipeline_stages=2)
    shares = e.results.records("pipeline_layout")
    assert [[chunk[0] for chunk in share.chunks] for share in shares] == [[4, 5], [5, 4], [4, 4], [3, 3]]


@pytest.mark.thorough
def test_explore_keeps_to_the_degree_that_a_layout_lists():
    found = amped.explore("default", top=3, pipeline_layout="11,12*6,13")
    assert {row["pipeline_parallel_degree"] for row in found.best} == {8}
