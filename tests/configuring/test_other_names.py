"""Short names, and spellings of Megatron-LM, Hugging Face and DeepSpeed: one table, read at every door, and told once."""

import itertools
import json

import pytest

import amped
from amped.base.aliases import aliases
from amped.base.errors import ConfigError, ResolveError
from amped.cli.options import SHORT
from amped.cli.recommend import SOUGHT_OPTIONS
from amped.theory.language.catalogue import catalogue
from tests.helpers.cli import printed, refused
from tests.helpers.culprits import for_each

KNOWN = catalogue()
GIVEN = [(name, value) for name, known in aliases().settings.items() for value in known]
OWN = [(name, value) for name, known in aliases().values.items() for value in known]


class TestTheTable:
    def test_every_name_leads_to_a_quantity_and_hides_none(self) -> None:
        known = aliases()
        assert {*known.common.values(), *known.results.values(), *known.values} <= set(KNOWN)
        assert not {*known.common, *known.results, *known.settings} & set(KNOWN)
        assert not {*known.common} & {*known.settings, *known.results}

    @for_each([*GIVEN, *OWN])
    def test_every_value_of_another_tool_is_one_that_amped_reads(self, name, value) -> None:
        meant = aliases().given(name, value)
        assert meant != {name: value}
        assert {*meant} <= {*KNOWN}
        for own, each in meant.items():
            mark = KNOWN[own].mark
            assert each in (mark.choices or (True, False, 0, 1, 2, 3))

    def test_a_word_for_a_result_gives_no_value(self) -> None:
        for word in aliases().results:
            assert aliases().canonical(word) == word
        for word in aliases().results.keys() - aliases().questions.keys():
            assert "unknown parameter" in refused("estimate", "minimal", "--set", f"{word}=1")[1]

    @for_each(SHORT)
    def test_every_short_option_is_a_short_name(self, name) -> None:
        assert aliases().common[name] in KNOWN

    @pytest.mark.parametrize("written", ["TP", "--tensor-model-parallel-size", "Tensor Model Parallel Size"])
    def test_capitals_hyphens_and_spaces_do_not_matter(self, written) -> None:
        assert aliases().given(written, 4) == {"tensor_parallel_degree": 4}


# Each line means the same, in amped's names and in others.
SAME = [
    {"tensor_parallel_degree": 4, "tp": 4, "tensor_model_parallel_size": 4, "tp_size": 4},
    {"microbatch_size": 2, "mbs": 2, "micro_batch_size": 2, "train_micro_batch_size_per_gpu": 2},
    {"zero_stage": 1, "zero": 1, "zero_optimization.stage": 1, "use_distributed_optimizer": True},
    {"activation_recomputation": "full", "recompute": "full", "recompute_granularity": "full",
     "gradient_checkpointing": True},
    {"context": 1024, "seq": 1024, "seq_length": 1024, "max_context_length": 1024},
    {"flash_attention": True, "attention_backend": "flash", "use_flash_attn": True},
]  # fmt: skip


@pytest.mark.parametrize("spellings", SAME, ids=lambda each: next(iter(each)))
def test_spellings_of_one_setting_give_one_answer(spellings) -> None:
    answers = [amped.estimate("default", **{name: value}) for name, value in spellings.items()]
    assert len({json.dumps(each.to_dict()) for each in answers}) == 1
    own = next(iter(spellings))
    for name, answer in zip(spellings, answers, strict=True):
        told = [notice for notice in answer.notices if notice.startswith(name) and own in notice]
        assert len(told) == (name != own)


def test_one_name_may_be_two_in_amped() -> None:
    one = amped.estimate("llama-3-70b", precision="mxfp8")
    assert (one.choices["matrix_precision"], one.choices["fp8_scaling"]) == ("fp8", "blocks")
    assert "precision=mxfp8 is matrix_precision=fp8, fp8_scaling=blocks" in one.notices


def test_a_name_and_its_short_name_are_one_name() -> None:
    with pytest.raises(ConfigError, match="'tensor_parallel_degree' is set twice"):
        amped.estimate("default", tp=4, tensor_parallel_degree=4)
    assert "given twice" in refused("estimate", "--tp", "4", "--set", "tp=8")[1]
    assert "a second time" in refused("estimate", "--set", "tp=4", "--set", "tp_size=8")[1]


def test_a_value_that_amped_does_not_have_is_told() -> None:
    with pytest.raises(ConfigError, match="use_distributed_optimizer is true or false here, not 'perhaps'"):
        amped.estimate("default", use_distributed_optimizer="perhaps")


def test_a_change_replaces_what_was_given_by_another_name() -> None:
    given = ("--tp", "4", "--set", "tensor_model_parallel_size=2", "--json")
    found = json.loads(printed("whatif", "default", *given))["inputs"]
    assert [(d["one"], d["other"]) for d in found if d["name"] == "tensor_parallel_degree"] == [(4.0, 2.0)]


class TestASearch:
    MACHINE = ("--model", "Llama 3 8B", "--system", "DGX H100", "--gpus", "8", "--space", "degrees", "--format", "json")

    def test_it_takes_short_names_everywhere(self) -> None:
        wishes = "memory < 80 GB and pp = 1"
        short = ("--vary", "tp=1,2", "--where", wishes, "--objective", "MFU", "--each", "tp")
        long = ("--vary", "tensor_parallel_degree=1,2", "--objective", "model_flops_utilization", "--each",
                "tensor_parallel_degree", "--where",
                "memory_per_accelerator_bytes < 80 GB and pipeline_parallel_degree = 1")  # fmt: skip
        one, other = (json.loads(printed("explore", *self.MACHINE, *words)) for words in (short, long))
        assert one["best"]
        assert one.keys() == other.keys()
        assert [name for name in one if one[name] != other[name] and name != "elapsed_time"] == []

    def test_values_of_another_tool_can_be_swept(self) -> None:
        found = amped.explore("llama-3-70b", space="degrees", vary={"use_distributed_optimizer": [True, False]}, top=3)
        assert {row["zero_stage"] for row in found.best} <= {0.0, 1.0}
        with pytest.raises(ConfigError, match="matrix_precision and fp8_scaling"):
            amped.explore("llama-3-70b", space="degrees", vary={"precision": ["mxfp8"]})


class TestAQuestion:
    @for_each(aliases().results.items())
    def test_a_word_is_taken_for_a_quantity(self, word, name) -> None:
        assert amped.explain(word.upper(), "llama-3-70b", system="DGX H100").name == name

    def test_the_command_says_which(self, capsys) -> None:
        assert "model_flops_utilization =" in printed("explain", "MFU", "llama-3-70b", "--depth", "0")
        with pytest.raises(ResolveError) as refusal:
            amped.explain("communication", "default")
        told = str(refusal.value).splitlines()
        assert "exposed_tensor_communication_time" in told[2]
        assert all(name.split(":")[0].strip() in KNOWN for name in told[2:-1])
        assert "amped list parameters --filter communication" in told[-1]

    def test_the_only_quantity_with_a_word_is_taken(self) -> None:
        only = "oversubscribed" if "oversubscribed" in KNOWN else "flushes"
        assert only in amped.explain(only, "default").name

    def test_it_explains_the_number_of_the_estimate(self) -> None:
        words = ("--model", "Llama 3 8B", "--system", "DGX H100", "--gpus", "8", "--json")
        estimate = json.loads(printed("estimate", *words))
        assert json.loads(printed("explain", "step", *words))["value"] == estimate["step_time"]


@pytest.mark.parametrize("verb", ["compare", "recommend", "whatif", "why", "sensitivity", "explore", "mat-dims"])
def test_verbs_that_take_a_config_take_short_names(verb) -> None:
    shown = printed(verb, "--help")
    missing = [name for name in itertools.chain(SHORT, ["software"]) if f"--{name} " not in shown]
    assert missing == (list(SOUGHT_OPTIONS) if verb == "recommend" else [])


@pytest.mark.thorough
def test_the_command_that_recommend_prints_is_a_command() -> None:
    told = printed("recommend", "--model", "Llama 3 8B", "--system", "DGX H100", "--deadline", "30 days", "--tp", "2")
    assert told.count("tensor_parallel_degree=2") == 1
    assert "--tp" not in told
    assert "is what recommend looks for" in refused("recommend", "--set", "gpus=64")[1]
