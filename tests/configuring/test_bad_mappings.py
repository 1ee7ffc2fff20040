"""Bad mappings and absurd sizes: told with the nearest that would do, and never computed without end."""

import pytest

from amped.base.errors import AmpedError, ConfigError, MappingError, ResolveError
from amped.library import estimate, explain, explore
from amped.theory.language.quantity import MAPPING, NETWORK, SYSTEM
from tests.helpers.config import config

WRONG_DEGREES = [
    ({"tensor_parallel_degree": 3}, ["tensor_parallel_degree = 3", "nearest tensor_parallel_degree: 2 or 4"]),
    (
        {"data_parallel_degree": 8},
        ["data_parallel_degree = 8", "number_of_accelerators = 64", "nearest data_parallel_degree: 16"],
    ),
    ({"batch_size": 250}, ["batch_size = 250, data_parallel_degree = 16", "nearest batch_size: 240 or 256"]),
    ({"microbatch_size": 7}, ["minibatch_size = 16, microbatch_size = 7", "nearest microbatch_size: 4 or 8"]),
    (
        {"number_of_microbatches_per_minibatch": 6},
        [
            "minibatch_size = 16",
            "number_of_microbatches_per_minibatch = 6",
            "nearest number_of_microbatches_per_minibatch: 4 or 8",
        ],
    ),
    (
        {"context_parallel_degree": 3},
        ["context = 8192, context_parallel_degree = 3", "nearest context_parallel_degree: 2 or 4"],
    ),
    (
        {
            "tensor_parallel_degree": 8,
            "intra_node_tensor_parallel_degree": 3,
            "inter_node_tensor_parallel_degree": 2,
        },
        ["tensor_parallel_degree"],
    ),
    (
        {"expert_parallel_degree": 2},
        ["number_of_experts = 1, expert_parallel_degree = 2", "nearest expert_parallel_degree: 1"],
    ),
]


class TestAbsurdSizes:
    """A count without end is refused or computed; it never takes the machine's memory."""

    @pytest.mark.thorough
    @pytest.mark.parametrize("value", [1e15, 1e300])
    @pytest.mark.parametrize(
        "name",
        [
            "tensor_parallel_degree",
            "pipeline_parallel_degree",
            "data_parallel_degree",
            "context_parallel_degree",
            "expert_parallel_degree",
            "intra_node_tensor_parallel_degree",
            "inter_node_data_parallel_degree",
            "microbatch_size",
            "number_of_microbatches_per_minibatch",
            "experts_per_token",
            "number_of_MoE_layers",
            "virtual_pipeline_stages",
        ],
    )
    def test_a_degree_that_breaks_a_rule(self, name, value):
        with pytest.raises(AmpedError) as caught:
            estimate("default", **{name: value})
        assert name in str(caught.value)

    @pytest.mark.parametrize(
        "name",
        [
            "batch_size",
            "layers",
            "dimensionality",
            "attention_heads",
            "vocabulary_size",
            "context",
            "number_of_nodes",
            "number_of_accelerators",
        ],
    )
    def test_a_size_that_overflows(self, name):
        with pytest.raises(AmpedError):
            estimate("default", **{name: 1e300})

    def test_an_integer_of_thousands_of_digits(self):
        with pytest.raises(ConfigError, match="too large"):
            estimate("default", batch_size=10**5000)


class TestMappings:
    @pytest.mark.parametrize(
        ("changes", "words"),
        WRONG_DEGREES,
    )
    def test_degrees_that_do_not_divide_or_multiply(self, changes, words):
        written = config()
        for name, value in changes.items():
            place = NETWORK if name == "batch_size" else MAPPING
            written[place]["parameters"][name] = {"value": value}
        if "number_of_microbatches_per_minibatch" in changes:
            del written[MAPPING]["parameters"]["microbatch_size"]
        with pytest.raises(MappingError) as caught:
            estimate(written)
        for each in words:
            assert each in str(caught.value)

    def test_a_bad_degree_is_told_with_where_it_stands(self):
        with pytest.raises(MappingError) as caught:
            estimate(config(MAPPING, tensor_parallel_degree=3))
        assert caught.value.problems[0].where == f"{MAPPING}.parameters.tensor_parallel_degree"

    def test_more_accelerators_than_the_cluster_has(self):
        written = config()
        written[SYSTEM]["parameters"]["number_of_accelerators"] = {"value": 128}
        with pytest.raises(MappingError) as caught:
            estimate(written)
        told = str(caught.value)
        assert "number_of_accelerators = 128, number_of_nodes = 8, number_of_accelerators_per_node = 8" in told
        assert "nearest number_of_accelerators: 64" in told

    def test_an_input_that_nobody_gives_is_told_with_the_chain_of_who_needs_it(self):
        with pytest.raises(ResolveError) as caught:
            estimate({})
        told = str(caught.value)
        assert "'layers' is missing, needed by " in told
        assert "← training_time" in told
        assert f"give it in {NETWORK}, with layers=…" in told
        assert len(caught.value.problems) > 5

    def test_an_unknown_quantity_to_explain(self):
        with pytest.raises(ResolveError, match="did you mean 'step_time'"):
            explain("step_tme")

    def test_an_exploration_without_a_valid_mapping_says_what_drops_all(self):
        told = r"(?s)no mapping is possible: each breaks a rule.*only_1f1b_interleaves drops"
        with pytest.raises(ConfigError, match=told):
            explore(virtual_pipeline_stages=2, pipeline_parallel_degree=8, pipeline_schedule="gpipe")

    def test_an_exploration_where_no_batch_divides_says_so(self):
        with pytest.raises(ConfigError, match="7 replicas do not divide a batch of 1536: take batch_size=1533 or 1540"):
            explore(number_of_accelerators=7, pipeline_parallel_degree=1)

    @pytest.mark.parametrize("values", [[], [256, 256], ["x"], [0], [2.5], [True], [[256]]])
    def test_a_sweep_of_values_that_cannot_be(self, values):
        with pytest.raises(ConfigError, match=r"vary\['batch_size'\]"):
            explore("minimal", vary={"batch_size": values})
