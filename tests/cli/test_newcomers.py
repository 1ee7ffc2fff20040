"""What a newcomer types first is understood, or the answer says what to type instead."""

import json

import pytest

from tests.helpers.cli import amped as command
from tests.helpers.cli import printed, refused

MODEL = ("--model", "Llama 3 8B", "--gpus", "8")


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("Llama 3 8B", "one of `amped list models`\n    amped estimate --model 'Llama 3 8B'"),
        ("DGX H100", "one of `amped list systems`\n    amped estimate --system 'DGX H100'"),
        ("H100 SXM", "one of `amped list accelerators`\n    amped estimate --accelerator 'H100 SXM'"),
    ],
)
def test_a_row_that_stands_for_a_config_is_told(typed, told):
    code, error = refused("estimate", typed)[0], command("estimate", typed, folder=".").stderr
    assert code == 2
    assert told in error


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (("--batch", "256"), "batch_size", 256),
        (("--global-batch-size=256",), "batch_size", 256),
        (("--context", "4096"), "context", 4096),
        (("--tokens", "100B"), "tokens_to_train", 1e11),
        (("--set", "tokens_to_train=1.5 trillion"), "tokens_to_train", 1.5e12),
        (("--tensor-model-parallel-size", "2"), "tensor_parallel_degree", 2),
    ],
)
def test_a_parameter_by_any_name_is_an_option(words, name, value):
    assert json.loads(printed("estimate", *MODEL, *words, "--json"))[name] == value


def test_an_option_that_is_no_parameter_is_refused():
    assert refused("estimate", *MODEL, "--nonsense", "2")[0] == 2
    assert refused("list", "models", "--context", "2")[0] == 2


def test_a_model_whose_name_is_longer_than_that_of_a_file_is_unknown():
    code, told = refused("estimate", "--model", "x" * 5000)
    assert (code, "has no row" in told) == (2, True)


@pytest.mark.parametrize(
    ("verb", "typed", "told"),
    [
        ("estimate", "--contxt", "did you mean '--context'"),
        ("estimate", "--conifg", "did you mean '--config'?"),
        ("estimate", "--micro-batchsize", "did you mean '--micro-batch-size'"),
        ("estimate", "--tensor-paralel-degree", "did you mean '--tensor-parallel-degree'"),
        ("validate", "--tabel", "did you mean '--table'?"),
        ("list", "--xyz", "`--help` lists the options"),
    ],
)
def test_a_misspelt_option_is_told_with_the_nearest_options_and_parameters(verb, typed, told):
    code, text = refused(verb, typed, "8")
    assert code == 2
    assert f"there is no option '{typed}'" in text
    assert told in text


def test_help_and_lists_are_found_by_their_plain_words(tmp_path):
    assert command("help", folder=tmp_path).stdout == command("--help", folder=tmp_path).stdout
    assert command("help", "why", folder=tmp_path).stdout == command("why", "--help", folder=tmp_path).stdout
    assert command("models", "--filter", "qwen", folder=tmp_path).stdout.count("Qwen3 8B") == 1


def test_a_network_of_ones_own_has_its_mapping_chosen():
    sizes = ("layers=24", "hidden_size=2048", "num_heads=16", "vocab_size=50257", "seq_len=2048")
    told = printed("estimate", *(word for size in sizes for word in ("--set", size)), "--gpus", "8")
    assert "1.311 billion parameters on 8 H100 SXM (1 x DGX H100), bf16" in told
    assert "(chosen)" in told


def test_a_config_is_begun_for_some_accelerators_alone(tmp_path):
    made = command("init", "--model", "Llama 3 8B", "--gpus", "8", folder=tmp_path).stdout
    assert json.loads(made)["mapping_parameters"]["parameters"]["microbatch_size"]
    assert "Llama 3 8B on 1 x DGX H100" in made
    both = command("init", "--model", "Llama 3 8B", "--gpus", "8", "--nodes", "1", folder=tmp_path)
    assert (both.returncode, "keep one" in both.stderr) == (2, True)


def test_the_machine_that_was_taken_is_named():
    told = printed("recommend", "--model", "Llama 3 8B", "--budget", "1000 USD")
    assert "DGX H100: even at its peak it costs more than the budget" in told
    assert "mapping" not in told


@pytest.mark.thorough
def test_a_deadline_may_be_in_weeks():
    assert "in 14 days" in printed("recommend", "--model", "Llama 3 8B", "--deadline", "2 weeks")


def test_a_whole_number_may_have_groups_of_three_and_a_wrong_one_is_told():
    assert "1,024 H100 SXM" in printed("estimate", *MODEL[:2], "--gpus", "1,024")
    for wrong in ("1,02", "128k", "1,024,000,000"):
        code, told = refused("estimate", *MODEL[:2], "--gpus", wrong)
        assert (code, "it is no whole number, as 4096 or 4,096" in told) == (2, True)


def test_a_number_that_is_too_small_for_its_unit_is_refused():
    code, told = refused("estimate", *MODEL, "--set", "memory_capacity=96")
    assert (code, 'write the unit: memory_capacity="96 GB", or "96 byte" if so little is meant' in told) == (2, True)
    assert "FITS" in printed("estimate", *MODEL, "--set", "memory_capacity=96e9")


def test_a_deadline_needs_a_unit():
    code, told = refused("recommend", *MODEL[:2], "--deadline", "90")
    assert (code, 'write it, as in --deadline "90 days"' in told) == (2, True)


def test_tokens_that_nobody_gave_are_called_assumed():
    assert "tokens (20 a parameter, assumed): " in printed("estimate", "--model", "Mixtral 8x7B", "--gpus", "16")
    for asked in (MODEL, ("--model", "Mixtral 8x7B", "--gpus", "16", "--tokens", "1T")):
        (line,) = [line for line in printed("estimate", *asked).splitlines() if line.startswith("TRAINING")]
        assert "assumed" not in line


def test_who_names_no_machine_is_told_how_to():
    code, told = refused("estimate", "minimal", "--precision", "fp4", "--accelerator", "A100 SXM 80GB")
    assert code == 2
    assert "name a machine that has it: --system, and `amped list systems`, or choose another matrix_precision" in told


@pytest.mark.thorough
def test_racks_of_which_a_run_gets_a_part_are_counted_by_that_part():
    """A launcher gives 64 of the 72 accelerators of a rack to a run; a run that fits into one rack may use all."""
    asked = ("estimate", "--model", "Llama 3 8B", "--system", "GB200 NVL72", "--json")
    for size, number, nodes in (
        ("--gpus=2048", 2048, 32),
        ("--nodes=32", 2048, 32),
        ("--gpus=72", 72, 1),
        ("--nodes=1", 72, 1),
    ):
        found = json.loads(printed(*asked, size))
        assert (found["number_of_accelerators"], found["number_of_nodes"]) == (number, nodes)


def test_an_example_is_not_broken_inside_of_quotes():
    told = printed("explore", "--help")
    assert '--vary system="DGX H100,DGX B200"' in told


def test_a_machine_that_only_lends_its_network_is_not_in_the_head(tmp_path):
    rates = {f"{name}_peak_flop_rate": "3 TFLOP/s" for name in ("fp32", "fp16", "bf16")}
    row = {**rates, "memory_capacity": "64 GB", "memory_bandwidth": "200 GB/s", "sources": ["a test"]}
    table = {"table": "accelerator_specifications", "rows": {"AMD EPYC": row}}
    (tmp_path / "mine.json").write_text(json.dumps(table), "utf-8")
    asked = ("estimate", "--model", "GPT-2", "--gpus", 1)
    told = printed(*asked, "--accelerator", "AMD EPYC", "--lookup-tables", tmp_path)
    assert told.startswith("GPT-2 small on 1 AMD EPYC, ")
    assert "(1 x DGX H100)" in printed(*asked, "--system", "DGX H100")
