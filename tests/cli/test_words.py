"""Words of the field lead to what amped has, whichever verb reads them; letters are compared only where it has no answer."""

import json
from pathlib import Path

import pytest

from amped.base.errors import did_you_mean
from amped.base.words import answers
from amped.tables.tables import LISTED, Tables
from amped.theory.language.catalogue import catalogue
from tests.helpers.cli import amped, printed, refused

MODEL = ("--model", "Llama 3 8B", "--gpus", 16)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("estimate", "--fsdp"), "type --zero 3:"),
        (("estimate", "--lora", 8), "type --set adapters=lora --set adapter_rank=16"),
        (("validate", "--fsdp"), "type --zero 3:"),
        (("estimate", "--measured-mfu", "35%"), "type amped validate --table runs.csv"),
        (("estimate", "--set", "hsdp=1"), "sharding_degree=8"),
        (("estimate", "--precision", "mxfp4"), "not modeled: of formats"),
        (("estimate", "--set", "optimizer=sophia"), "not modeled: of optimizers with products"),
        (("explore", "--vary", "dualpipe=1,2"), "pipeline_schedule=dualpipe_v"),
        (("explore", "--objective", "grpo"), "not modeled: amped has one network"),
        (("explore", "--space", "ulysses"), "context_parallel_kind=all_to_all"),
        (("explain", "inference"), "not modeled: amped predicts training"),
        (("estimate", *MODEL, "--software", "PyTorch FSDP"), "type --software torchtitan --zero 3"),
        (("estimate", "--contxt", 8), "did you mean '--context'"),
        (("validate", "--framework", "torchtitan"), "type --software torchtitan"),
        (("estimate", "--network", "Llama 3 8B"), "--model names a neural network"),
        (("estimate", "--network", "InfiniBand NDR"), "bandwidth_per_network_card='800 Gbit/s'"),
        (("whatif", "--nic", 400), 'bandwidth_per_network_card="400 GB/s"'),
        (("estimate", "--price", "cheap"), "accelerator_price='2.5 USD/hour'"),
        (("estimate", "--fsdpp", 3), "did you mean 'fsdp'? type --zero 3:"),
        (("estimate", "--loraa", 8), "did you mean 'lora'? type --set adapters=lora"),
        (("estimate", "--q-lora-rnk", 8), "did you mean '--q-lora-rank'"),
        (("validate", "--fsdpp"), "did you mean 'fsdp'? type --zero 3:"),
    ],
    ids=lambda words: " ".join(map(str, words)) if isinstance(words, tuple) else "",
)
def test_a_word_that_amped_has_not_is_answered(words: tuple[object, ...], told: str) -> None:
    code, error = refused(*words)
    assert (code, told in error) == (2, True), error


def test_a_config_with_such_a_key_is_answered(tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    file.write_text(json.dumps({"mapping_parameters": {"parameters": {"megatron-fsdp": {"value": 1}}}}))
    assert "type --software Megatron-Core --zero 3" in refused("estimate", "--config", file)[1]


def test_an_answer_is_for_words_that_amped_has_not() -> None:
    names = {name.replace("_", "") for name, quantity in catalogue().items() if quantity.category}
    assert not names & answers().keys()
    assert did_you_mean("sft", ["sft "]) == "did you mean 'sft '?"


@pytest.mark.thorough
def test_words_with_one_meaning_are_read() -> None:
    plain = json.loads(printed("estimate", *MODEL, "--set", "number_of_microbatches_per_minibatch=4", "--json"))
    assert json.loads(printed("estimate", *MODEL, "--grad-accum", 4, "--json")) == plain
    by_cost = json.loads(printed("explore", *MODEL, "--objective", "cost", "--top", 1, "--json"))
    assert (
        json.loads(printed("explore", *MODEL, "--objective", "money", "--top", 1, "--json"))["best"] == by_cost["best"]
    )
    folder = Path(__file__).parent
    assert amped("list", "gpus", folder=folder).stdout == amped("list", "accelerators", folder=folder).stdout
    assert (
        amped("gpus", "-f", "H100", folder=folder).stdout
        == amped("list", "accelerators", "-f", "H100", folder=folder).stdout
    )


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("word", "written", "option"),
    [
        ("--framework", "torchtitan", ("--software", "torchtitan")),
        ("--price", "2.50 USD/h", ("--set", "accelerator_price=2.5 USD/hour")),
        ("--price", "$2.50/h", ("--set", "accelerator_price=2.5 USD/hour")),
        ("--price", 2.5, ("--set", "accelerator_price=2.5")),
        ("--nic", "200 Gb/s", ("--set", "bandwidth_per_network_card=200 Gbit/s")),
        ("--network", "200G", ("--set", "bandwidth_per_network_card=200 Gbit/s")),
    ],
    ids=str,
)
def test_a_word_that_names_one_thing_in_a_question_takes_its_value(
    word: str, written: object, option: tuple[str, str]
) -> None:
    own = ("estimate", "minimal", "--json")
    found = printed(*own, word, written)
    assert found == printed(*own, f"{word}={written}") == printed(*own, *option) != printed(*own)


@pytest.mark.thorough
def test_such_a_word_is_taken_by_every_verb_that_has_the_option(tmp_path: Path) -> None:
    run = (*MODEL, "--framework", "torchtitan", "--price", "2.50 USD/h", "--network", "800G")
    same = (
        *MODEL,
        "--software",
        "torchtitan",
        "--set",
        "accelerator_price=2.5",
        "--set",
        "bandwidth_per_network_card=800 Gbit/s",
    )
    for verb in (("estimate",), ("why",), ("explore", "--space", "quick", "--top", 1)):
        found = [json.loads(printed(*verb, *words, "--json")) for words in (run, same)]
        assert [each.get("best", each) for each in found[:1]] == [each.get("best", each) for each in found[1:]], verb
    assert printed("export", "--for", "torchtitan", *MODEL, "--framework", "torchtitan")
    assert "100 GB/s" in printed("whatif", *MODEL, "--network", "800G")
    assert "2 values" not in printed(
        "explore", *MODEL, "--space", "quick", "--vary", "framework=torchtitan,Megatron-Core"
    )
    assert amped("compare", "DGX H100", "DGX B200", *MODEL, "--price", 3, folder=tmp_path).returncode == 0


def test_the_same_words_are_no_columns_of_a_row(tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    row = {"table": "accelerator_specifications", "rows": {"Own": {"extends": "H100 SXM", "price": "3 USD/hour"}}}
    file.write_text(json.dumps(row))
    told = refused("estimate", "--accelerator", "Own", "--gpus", 8, "--lookup-tables", file)[1]
    assert "'accelerator_price' or 'list_price'" in told


@pytest.mark.thorough
def test_rows_are_found_by_every_name_in_every_verb() -> None:
    by_accelerator = ("--vary", "system=DGX H100,MI355X", "--space", "quick")
    told = json.loads(printed("explore", *MODEL, *by_accelerator, "--top", 3, "--json"))
    assert {row["system"] for row in told["best"]} == {"MI355X"}
    assert "MI355X platform (8x)" in printed(
        "recommend", "--model", "Llama 3 8B", "--system", "MI355X", "--deadline", "90 days"
    )
    both = json.loads(printed("compare", "--system", "DGX H100,MI355X", *MODEL, "--json"))
    assert [row["system"] for row in both["best"]] == ["DGX H100", "MI355X"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("written", "row"),
    [
        ("meta-llama/Meta-Llama-3-8B", "Llama 3 8B"),
        ("meta-llama/Llama-3.1-8B-Instruct", "Llama 3.1 8B"),
        ("meta-llama/Llama-2-7b-chat-hf", "Llama 2 7B"),
        ("Qwen/Qwen3-30B-A3B", "Qwen3 30B-A3B"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "Mixtral 8x7B"),
        ("deepseek-ai/DeepSeek-V3-Base", "DeepSeek V3"),
        ("openai/gpt-oss-20b", "gpt-oss-20b"),
        ("google/gemma-2-9b-it", "Gemma 2 9B"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "Mistral 7B v0.3"),
        ("deepseek-ai/DeepSeek-V3-0324", "DeepSeek V3"),
    ],
)
def test_the_id_of_a_hub_is_the_name_of_a_row(written: str, row: str) -> None:
    assert Tables().row("transformer_network_parameters", written).name == row
    assert f"{written!r} is read as the row '{row}'" in printed("estimate", "--model", written, "--gpus", 16, "--full")


@pytest.mark.parametrize(
    ("written", "row"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "Llama 3.1 8B"),
        ("mistralai/Mistral-7B-Instruct-v0.1", "Mistral 7B"),
        ("mistralai/Mistral-7B-Instruct-v0.2", "Mistral 7B v0.2"),
        ("mistralai/Mistral-7B-v0.3", "Mistral 7B v0.3"),
        ("mistralai/Mixtral-8x22B-Instruct-v0.1", "Mixtral 8x22B"),
        ("mistralai/Mistral-Nemo-Instruct-2407", "Mistral NeMo 12B"),
        ("mistralai/Mistral-Large-Instruct-2411", "Mistral Large 2"),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507", "Qwen3 235B-A22B"),
        ("Qwen/Qwen3-30B-A3B-Thinking-2507", "Qwen3 30B-A3B"),
        ("deepseek-ai/DeepSeek-R1-0528", "DeepSeek R1"),
        ("deepseek-ai/DeepSeek-V3.1", "DeepSeek V3"),
        ("moonshotai/Kimi-K2-Instruct-0905", "Kimi K2"),
    ],
)
def test_a_later_release_is_the_row_that_has_its_sizes(written: str, row: str) -> None:
    assert Tables().row("transformer_network_parameters", written).name == row
    assert printed("show", written).startswith(row)


def test_a_release_of_other_sizes_is_a_row_of_its_own() -> None:
    first, second, third = (
        Tables().row("transformer_network_parameters", f"Mistral-7B-Instruct-{release}").columns
        for release in ("v0.1", "v0.2", "v0.3")
    )
    assert [each.get("attention_window") for each in (first, second, third)] == [4096, None, None]
    assert [each["vocabulary_size"] for each in (first, second, third)] == [32000, 32000, 32768]


@pytest.mark.parametrize(
    ("written", "row"),
    [
        ("deepseek-ai/DeepSeek-V4-Flash", "DeepSeek V4 Flash"),
        ("DeepSeek V4", "DeepSeek V4 Pro"),
        ("MiniMax-M3", "MiniMax M3"),
        ("Llama 4", "Llama 4 Maverick"),
        ("Gemma 3", "Gemma 3 27B"),
        ("gpt-oss", "gpt-oss-120b"),
        ("OLMo 3", "OLMo 3 32B"),
        ("Hunyuan", "Hunyuan 3"),
        ("Ling", "Ling 1T"),
    ],
)
def test_the_name_of_a_family_is_its_largest_network(written: str, row: str) -> None:
    assert Tables().row("transformer_network_parameters", written).name == row


@pytest.mark.parametrize(
    ("written", "row"),
    [
        ("FSDP2", "torchtitan"),
        ("PyTorch FSDP2, compiled", "PyTorch FSDP2 compiled"),
        ("Megatron-Bridge 25.09", "Megatron-Bridge"),
        ("torchtitan 0.2.1", "torchtitan"),
        ("NeMo Framework v25.04", "NeMo"),
        ("Megatron-LM 2022", "Megatron-LM 2022"),
    ],
)
def test_software_is_found_by_word_and_release(written: str, row: str) -> None:
    assert Tables().row("software_specifications", written).name == row


@pytest.mark.thorough
def test_fsdp2_is_never_given_zero_1() -> None:
    for software in ("torchtitan", "PyTorch FSDP2", "torchtitan compiled", "Composer FSDP"):
        assert "ZeRO 1" not in printed("estimate", *MODEL, "--software", software)
        found = json.loads(printed("explore", *MODEL, "--software", software, "--top", 500, "--json"))
        assert {row["zero_stage"] for row in found["best"]} <= {0, 2, 3}, software


def test_no_name_of_a_row_has_a_comma_or_a_quote() -> None:
    tables = Tables()
    assert not [name for table in LISTED for name in tables.names(table) if set(name) & set(",\"'`$")]


@pytest.mark.thorough
@pytest.mark.parametrize("money", ["5M USD", "5 M USD", "$5M", "$5 million", "5 million dollars", "5000000 USD"])
def test_money_is_read_as_it_is_written(money: str) -> None:
    words = ("recommend", "--model", "Llama 3 8B", "--system", "DGX H100", "--json", "--budget")
    assert printed(*words, money) == printed(*words, "5e6 USD")
    found = printed("explore", *MODEL, "--space", "quick", "--where", f"cost < {money}", "--json")
    assert json.loads(found)["feasible"] > 0


def test_small_numbers_without_a_unit_are_refused() -> None:
    assert 'memory_capacity="80 GB"' in refused("estimate", "--set", "memory_capacity=80")[1]
    assert '"memory_per_accelerator_bytes < 70 GB"' in refused("explore", *MODEL, "--where", "memory < 70")[1]


def test_a_config_of_hugging_face_is_told_to_be_a_model(tmp_path: Path) -> None:
    file = tmp_path / "my net.json"
    file.write_text('{"model_type": "llama"}')
    assert f"amped estimate --model '{file}'" in refused("estimate", file)[1]
