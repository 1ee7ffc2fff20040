"""Megatron-LM's scripts, argument lists and logs are read without running them, and launch lines are written."""

import json
import re
from pathlib import Path

import pytest

from amped.base.aliases import aliases
from amped.base.errors import AmpedError, FileError
from amped.configuring.scenario import read_scenario
from amped.estimation.estimation import estimated
from amped.interop import bridge, megatron
from amped.interop.fields import fields, table
from amped.interop.recognition import read_file
from tests.helpers.cli import amped, refused
from tests.helpers.interop import winners
from tests.helpers.places import DATA

SCRIPT = """#!/bin/bash
#SBATCH --nodes=4
#SBATCH --gpus-per-node 8
export NCCL_DEBUG=WARN
GPUS_PER_NODE=8   # of a server
TP=${TP:-4}
PP=2
mkdir -p /tmp/out
MODEL_ARGS=(
    --num-layers 32 --hidden-size 4096   # a comment --num-layers 99
    --num-attention-heads 32 --group-query-attention --num-query-groups 8
    --ffn-hidden-size 14336
    --swiglu --normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights
    --position-embedding-type rope
)
TRAINING="--micro-batch-size 1 --global-batch-size 128 --seq-length 8192 \\
 --bf16 --train-iters 1000"
torchrun --nproc-per-node $GPUS_PER_NODE --nnodes 4 pretrain_gpt.py \\
    "${MODEL_ARGS[@]}" ${TRAINING} --vocab-size 128256 \\
    --tensor-model-parallel-size $TP --pipeline-model-parallel-size ${PP} \\
    --sequence-parallel --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather \\
    --recompute-granularity selective --recompute-modules core_attn layernorm --data-path $DATA --lr 1e-4
"""


def values_of(text: str) -> dict[str, object]:
    return dict(megatron.read(text, "launch.sh").values)


def test_a_script_is_read_with_its_variables_and_arrays() -> None:
    values = values_of(SCRIPT)
    assert {name: values[name] for name in ("layers", "dimensionality", "key_value_heads", "context", "batch_size")} == {
        "layers": 32, "dimensionality": 4096, "key_value_heads": 8, "context": 8192, "batch_size": 128,
    }  # fmt: skip
    # 128,256 is a multiple of 128 * 4 (251 * 512 = 128,512 is the next): 250.5 units are padded to 251
    assert values["vocabulary_size"] == 128_512
    assert (values["tensor_parallel_degree"], values["pipeline_parallel_degree"]) == (4, 2)
    assert (values["number_of_accelerators"], values["number_of_accelerators_per_node"]) == (32, 8)
    assert (values["zero_stage"], values["overlap_data_communication"], values["sequence_parallel"]) == (1, True, True)
    assert (values["activation_recomputation"], values["norm_recomputation"]) == ("selective", True)
    assert (values["norm_vectors"], values["mlp_bias"], values["tied_embeddings"], values["gated_mlp"]) == (
        1,
        False,
        False,
        True,
    )


def test_sequences_of_a_training_are_steps() -> None:
    """122,070,312 sequences in batches of 512 are 238,419 steps, the last one not full."""
    start = "python pretrain_gpt.py --num-layers 2 --hidden-size 256 --num-attention-heads 4 --seq-length 1024"
    more = "--max-position-embeddings 1024 --micro-batch-size 1 --global-batch-size 512"
    assert values_of(f"{start} {more} --train-samples 122070312")["number_of_steps"] == 238_419
    assert values_of(f"{start} {more} --train-iters 100")["number_of_steps"] == 100


def test_other_commands_are_not_run_and_told() -> None:
    found = megatron.read(SCRIPT, "launch.sh")
    assert "a command, not run: mkdir -p /tmp/out" in [line.what for line in found.report.ignored]
    assert found.report.unsupported == []


LOG = "\n".join(
    f" 0: [2026-01-02 03:04:05]   {name} {'.' * 20} {value}"
    for name, value in {
        "num_layers": 61, "hidden_size": 7168, "num_attention_heads": 128, "ffn_hidden_size": 18432, "kv_channels": 56, "swiglu": True,
        "multi_latent_attention": True, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_head_dim": 128, "qk_pos_emb_head_dim": 64,
        "v_head_dim": 128, "num_experts": 256, "moe_router_topk": 8, "moe_ffn_hidden_size": 2048, "moe_layer_freq": "[0, 0, 0] + [1] * 58",
        "moe_shared_expert_intermediate_size": 2048, "padded_vocab_size": 129280, "seq_length": 4096, "micro_batch_size": 1,
        "global_batch_size": 8192, "world_size": 1024, "fp8": "e4m3", "fp8_recipe": "blockwise", "bf16": True, "mtp_num_layers": 1,
        "pipeline_model_parallel_size": 16, "expert_model_parallel_size": 64, "mamba_head_dim": 64, "some_new_argument": 17,
        "normalization": "RMSNorm", "add_bias_linear": False, "pipeline_model_parallel_layout": "Et*3|(tt|)*29m|L",
        "num_query_groups": None, "overlap_p2p_comm": True, "group_query_attention": False,
    }.items()
)  # fmt: skip


def test_the_arguments_of_a_log_are_read() -> None:
    found = megatron.read(LOG, "train.log")
    values = found.values
    assert (values["layers"], values["number_of_experts"], values["number_of_MoE_layers"]) == (61, 256, 58)
    assert (values["head_dimension"], values["query_latent_dimension"], values["attention_kind"]) == (
        192,
        1536,
        "multi_latent",
    )
    assert (values["matrix_precision"], values["fp8_scaling"]) == ("fp8", "blocks")
    assert (values["vocabulary_size"], values["number_of_accelerators"]) == (129_280, 1024)
    assert (values["pipeline_layout"], values["multi_token_prediction_layers"]) == ("Et*3|(tt|)*29m|L", 1)
    assert (values["mlp_bias"], values["norm_vectors"]) == (False, 1)
    assert found.report.unsupported == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("$GPUS_PER_NODE", "$(nvidia-smi -L | wc -l)"), "line 18: --nproc-per-node takes its value from a command"),
        (("--train-iters 1000", "--train-iters `cat steps`"), "line 18: --train-iters takes its value from a command"),
        (("PP=2", "PP=$WORLD"), "line 18: --pipeline-model-parallel-size takes '$WORLD', which the file does not give"),
        (
            ("--vocab-size 128256", "--vocab-size 128256 --num-layers 40"),
            "line 18: --num-layers is 40, and 32 in line 18",
        ),
        (('"${MODEL_ARGS[@]}"', '"${MODEL_ARGS[@]}'), "line 18: a quote or a bracket is opened and not closed"),
        (("--num-layers 32", "--num-layers many"), "line 18: --num-layers: 'many' is not a whole number"),
        (("TP=${TP:-4}", "TP=0"), "line 18: --tensor-model-parallel-size: 0 is below 1"),
        (("--hidden-size 4096", ""), "has no --hidden-size"),
        (
            ("--group-query-attention", "--num-experts 8 --moe-layer-freq __import__('os')"),
            "is neither a number nor a list",
        ),
    ],
)
def test_a_script_that_needs_a_command_or_contradicts_itself_is_refused(
    tmp_path: Path, change: tuple[str, str], told: str
) -> None:
    path = tmp_path / "launch.sh"
    assert change[0] in SCRIPT
    path.write_text(SCRIPT.replace(*change, 1), "utf-8")
    code, said = refused("import", path, "-o", tmp_path / "my.json")
    assert (code, told in said, "Traceback" in said) == (2, True, False), said
    assert [each.name for each in tmp_path.iterdir()] == ["launch.sh"]


def test_nothing_is_executed(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    script = f"touch {marker}\nX=$(touch {marker})\n{SCRIPT}; touch {marker}\n"
    path = tmp_path / "launch.sh"
    path.write_text(script, "utf-8")
    assert read_file(path).values["layers"] == 32
    assert not marker.exists()


def test_what_amped_has_not_is_told() -> None:
    found = megatron.read(
        SCRIPT.replace("--lr 1e-4", "--optimizer soap --rampup-batch-size 16 16 1000 --brand-new-flag 3"), "f"
    )
    told = {line.key: line.what for line in found.report.unsupported}
    assert told["--optimizer"] == "soap, read as adam"
    assert set(told) == {"--optimizer", "rampup_batch_size", "brand_new_flag"}


def test_a_script_without_a_launch_is_refused() -> None:
    with pytest.raises(FileError, match="no launch with --num-layers"):
        megatron.read("ls\n", "f.sh")


# --- out -------------------------------------------------------------------------------------------------------------


def written(name: str, **overrides: object) -> str:
    return megatron.write(estimated(read_scenario(name, overrides)))


def test_every_flag_that_is_written_is_megatrons() -> None:
    """Arguments of the dataclasses of megatron-core 0.16.1, or of megatron/training, which its wheel has not."""
    classes = json.loads((DATA / "megatron_core_0_16_1.json").read_text("utf-8"))["classes"]
    arguments = table("megatron")["arguments"]
    assert {
        name
        for name, row in arguments.items()
        if row["home"] != "training" and "since" not in row and row.get("field", name) not in classes[row["home"]]
    } == set()
    for name in ("llama-3-70b", "mixtral-8x7b", "megatron-145.6B", "default"):
        assert (
            set(megatron.fields_of(estimated(read_scenario(name))).fields)
            - set(arguments)
            - {"nnodes", "nproc_per_node"}
            == set()
        )


def test_every_argument_of_the_training_names_the_function_that_adds_it() -> None:
    """What has none is in logs alone: it is read, and never written."""
    rows = {name: row for name, row in table("megatron")["arguments"].items() if row["home"] == "training"}
    assert all(row["in"] is None or re.fullmatch(r"_add_\w+_args", row["in"]) for row in rows.values())
    only_in_logs = {name for name, row in rows.items() if row["in"] is None}
    assert only_in_logs == {"world_size", "data_parallel_size", "params_dtype"}
    for config in ("llama-3-70b", "mixtral-8x7b", "default"):
        assert not only_in_logs & set(megatron.fields_of(estimated(read_scenario(config))).fields)


def test_megatron_s_spellings_mean_the_same_on_the_command_line() -> None:
    """`common_aliases.json` is what a person types with --set, `fields.json` what a file says: where both have a name, they agree."""
    quantities = {key: name for name, field in fields("megatron").items() for key in field.keys}
    typed = aliases().common
    both = {key: (quantity, typed[key]) for key, quantity in quantities.items() if key in typed}
    assert len(both) > 10
    assert {key: pair for key, pair in both.items() if pair[0] != pair[1]} == {}
    # An argument that a rule reads, together with others, becomes a quantity that the table marks for Megatron-LM.
    ruled = {name: typed[name] for name in table("megatron")["arguments"] if name in typed and name not in quantities}
    elsewhere = {"data_parallel_size": "data_parallel_degree", "train_samples": "samples"}
    assert {name: quantity for name, quantity in ruled.items() if quantity not in fields("megatron")} == elsewhere


def test_a_launch_line_says_why() -> None:
    lines = written("llama-3-70b").splitlines()
    assert lines[1] == "# Everything that amped knows of this mapping is expressed."
    assert any(
        re.fullmatch(r"  --tensor-model-parallel-size 8 +# accelerators that share each weight matrix", line)
        for line in lines
    )
    meeting = '--rdzv-id amped --rdzv-backend c10d --rdzv-endpoint "$HEAD:29500"'
    assert lines[-1] == f'torchrun --nnodes 128 --nproc-per-node 8 {meeting} pretrain_gpt.py "${{ARGS[@]}}"'
    assert any(re.fullmatch(r"  --lr 1e-4 +# yours: .*", line) for line in lines)
    assert any(line.startswith("export CUDA_DEVICE_MAX_CONNECTIONS=1") for line in lines)
    assert "data-path" not in written("llama-3-70b")


def test_what_cannot_be_expressed_comes_first() -> None:
    text = written("llama-3-70b", pipeline_schedule="zero_bubble_h1", virtual_pipeline_stages=1, in_place_norm=True)
    head = text.partition("ARGS=(")[0]
    assert "pipeline_schedule: zero_bubble_h1: pretrain_gpt.py has 1f1b" in head
    assert "in_place_norm: True has no field here" in head


def test_zero_3_becomes_megatron_fsdp() -> None:
    text = written("minimal", zero_stage=3)
    assert "--use-megatron-fsdp" in text
    assert "--data-parallel-sharding-strategy optim_grads_params" in text


@pytest.mark.parametrize(("degree", "split", "overlapped"), [(1, True, False), (2, True, True), (2, False, False)])
def test_overlapped_products_need_tensor_and_sequence_parallelism(degree: int, split: bool, overlapped: bool) -> None:
    """Megatron-LM ends with an assertion where --tp-comm-overlap stands without --sequence-parallel."""
    asked = {
        "sequence_parallel": split,
        "overlap_tensor_communication": True,
        "overlap_forward_tensor_communication": True,
    }
    text = written("minimal", tensor_parallel_degree=degree, **asked)
    assert ("--tp-comm-overlap" in text) == overlapped
    assert ("overlaps them only with sequence parallelism" in text) == (degree > 1 and not split)


def test_layers_at_both_ends_stay_in_bf16() -> None:
    wide = {"end_layer_format": "activations", "number_of_first_wide_layers": 2, "number_of_last_wide_layers": 0}
    text = written("minimal", matrix_precision="fp8", fp8_scaling="current", **wide)
    assert "--first-last-layers-bf16" in text
    assert "--num-layers-at-start-in-bf16 2" in text
    assert "--num-layers-at-end-in-bf16 0" in text
    read = megatron.read(text, "run.sh")
    assert {name: read.values[name] for name in wide} == wide
    assert "bf16 2" not in written("minimal", matrix_precision="bf16", **wide)


def test_fp8_in_blocks_is_a_recipe() -> None:
    text = written("minimal", matrix_precision="fp8", fp8_scaling="blocks")
    assert "--fp8-format hybrid" in text
    assert "--fp8-recipe blockwise" in text


@pytest.mark.parametrize(
    ("recipe", "scaling"), [("delayed", "tensors"), ("tensorwise", "current"), ("blockwise", "blocks")]
)
def test_scales_of_tensors_are_those_of_earlier_steps_or_their_own(recipe: str, scaling: str) -> None:
    text = written("minimal", matrix_precision="fp8", fp8_scaling=scaling)
    assert f"--fp8-recipe {recipe}" in text
    assert megatron.read(text, "run.sh").values["fp8_scaling"] == scaling


def test_layers_in_bf16_need_scales_of_this_step() -> None:
    text = written("minimal", matrix_precision="fp8", end_layer_format="activations")
    assert "--fp8-recipe tensorwise" in text
    assert "fp8_scaling: delayed: Megatron-LM has no layers in bf16 beside it" in text


def test_estimate_prints_the_launch_line_under_the_screen(tmp_path: Path) -> None:
    done = amped(
        "estimate", "--model", "Llama 3 8B", "--system", "DGX H100", "--gpus", 64, "--for", "megatron", folder=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.index("TIME") < done.stdout.index("torchrun --nnodes 8 --nproc-per-node 8 ")


def test_export_writes_a_file_and_overwrites_none(tmp_path: Path) -> None:
    done = amped("export", "llama-3-70b", "--for", "megatron", "-o", "launch.sh", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert read_file(tmp_path / "launch.sh").values["layers"] == 80
    assert refused("export", "minimal", "--for", "megatron", "-o", tmp_path / "launch.sh")[0] == 2


def test_an_unknown_framework_is_refused() -> None:
    code, said = refused("export", "minimal", "--for", "megatrom")
    assert (code, "did you mean 'megatron'?" in said) == (2, True)
    assert refused("estimate", "minimal", "--for", "paddle")[0] == 2
    assert refused("explore", "minimal", "--for", "megatron")[0] == 2


def test_winners_have_launch_lines(tmp_path: Path) -> None:
    assert winners(tmp_path, 2, "megatron") == [
        "best-01.json",
        "best-01.sh",
        "best-02.json",
        "best-02.sh",
    ]
    best = estimated(read_scenario(tmp_path / "best" / "best-01.json"))
    assert (
        read_file(tmp_path / "best" / "best-01.sh").values["tensor_parallel_degree"] == best["tensor_parallel_degree"]
    )


def test_errors_are_ampeds() -> None:
    for text in (
        "--num-layers",
        "--num-layers 3 --hidden-size x",
        "--num-layers 3\n'",
    ):
        with pytest.raises(AmpedError):
            megatron.read(text, "f")


@pytest.mark.thorough
def test_recommend_has_a_launch_line_too(tmp_path: Path) -> None:
    done = amped(
        "recommend",
        "--model",
        "Llama 3 8B",
        "--system",
        "DGX H100",
        "--deadline",
        "60 days",
        "--for",
        "megatron",
        folder=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "pretrain_gpt.py" in done.stderr


@pytest.mark.parametrize(
    ("flags", "scope"),
    [
        ("--enable-cuda-graph", "layer"), ("--enable-cuda-graph --cuda-graph-scope full_iteration", "step"),
        ("--external-cuda-graph --cuda-graph-scope attn moe_router", "router"), ("--cuda-graph-impl local", "layer"),
        ("--cuda-graph-impl transformer_engine --cuda-graph-scope moe_router moe_preprocess", "router_alone"),
        ("--cuda-graph-impl none", "none"), ("--bf16", "none"),
    ],
)  # fmt: skip
def test_captured_graphs_are_read(flags: str, scope: str) -> None:
    found = megatron.read(SCRIPT.replace("--lr 1e-4", f"--lr 1e-4 {flags}"), "launch.sh")
    assert found.values["cuda_graph_scope"] == scope
    assert found.report.unsupported == []


def test_a_graph_of_modules_that_amped_has_not_is_told() -> None:
    flags = "--cuda-graph-impl local --cuda-graph-scope mlp"
    found = megatron.read(SCRIPT.replace("--lr 1e-4", f"--lr 1e-4 {flags}"), "launch.sh")
    assert "--cuda-graph-scope: mlp" in str(found.report.unsupported[0])


@pytest.mark.parametrize("scope", ["none", "router_alone", "router", "layer", "step"])
def test_captured_graphs_come_back_as_they_were_written(scope: str) -> None:
    e = estimated(read_scenario("mixtral-8x7b", {"cuda_graph_scope": scope}))
    assert megatron.read(megatron.write(e), "launch.sh").values["cuda_graph_scope"] == scope


def test_instances_of_the_sharded_optimizer_are_a_degree() -> None:
    """32 accelerators of which 4 * 2 share a network: 4 replicas, of which 2 instances have 2 each."""
    assert values_of(SCRIPT.replace("--lr 1e-4", "--num-distributed-optimizer-instances 2"))["sharding_degree"] == 2


@pytest.mark.parametrize(
    ("flags", "dispatcher"),
    [
        ("", "allgather"),
        ("--moe-token-dispatcher-type allgather", "allgather"),
        ("--moe-token-dispatcher-type alltoall", "alltoall"),
        ("--moe-token-dispatcher-type flex", "deepep"),
        ("--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend hybridep", "hybridep"),
    ],
)
def test_the_dispatcher_has_a_name(flags: str, dispatcher: str) -> None:
    read = values_of(SCRIPT.replace("--lr 1e-4", f"--num-experts 8 {flags}"))
    assert read["dispatcher"] == dispatcher
    written = megatron.write(estimated(read_scenario("mixtral-8x7b", {"dispatcher": dispatcher})))
    assert megatron.read(written, "launch.sh").values["dispatcher"] == dispatcher


INDEXER = (
    "--experimental-attention-variant dsa --dsa-indexer-n-heads 64 --dsa-indexer-head-dim 128 --dsa-indexer-topk 2048 "
    "--dsa-indexer-loss-coeff 0.001"
)


@pytest.mark.parametrize(
    ("flags", "loss"),
    [
        (INDEXER + " --dsa-indexer-use-sparse-loss", "chosen_keys"),
        (INDEXER, "all_keys"),
        (INDEXER.replace("0.001", "0"), "none"),
    ],
)
def test_an_indexer_that_chooses_keys_is_read_and_written(flags: str, loss: str) -> None:
    latent = "--multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128"
    found = megatron.read(SCRIPT.replace("--swiglu", f"--swiglu {latent} {flags}"), "launch.sh")
    assert [line.key for line in found.report.unsupported if "dsa" in line.key or "variant" in line.key] == []
    names = ("indexer_heads", "indexer_head_dimension", "indexed_keys", "indexer_loss")
    assert tuple(found.values[name] for name in names) == (64, 128, 2048, loss)
    changes = {"indexer_heads": 64, "indexer_loss": loss, "tensor_parallel_degree": 1, "pipeline_parallel_degree": 1}
    fields_of = megatron.fields_of(estimated(read_scenario("minimal", {"model": "DeepSeek V3"} | changes))).fields
    assert fields_of["experimental_attention_variant"] == "dsa"
    assert (fields_of["dsa_indexer_n_heads"], fields_of["dsa_indexer_topk"]) == (64, 2048)
    assert bool(fields_of.get("dsa_indexer_use_sparse_loss")) is (loss == "chosen_keys")
    assert bool(fields_of.get("dsa_indexer_loss_coeff")) is (loss != "none")


def test_another_variant_of_attention_is_told() -> None:
    found = megatron.read(SCRIPT.replace("--swiglu", "--swiglu --experimental-attention-variant another"), "launch.sh")
    assert any("experimental_attention_variant" in line.key for line in found.report.unsupported)


PATTERNED = (
    "--num-layers 13 --mamba-num-heads 64 --mamba-head-dim 64 --hybrid-override-pattern MEMEM*EMEMEM* --is-hybrid-model "
    "--num-experts 8 --moe-router-topk 2"
)


def test_a_pattern_of_single_blocks_is_read() -> None:
    """Six blocks of Mamba-2, two of attention and five mixtures; Megatron's defaults: a state of 128, 8 groups, chunks of 128."""
    values = megatron.read(SCRIPT.replace("--num-layers 32", PATTERNED), "launch.sh").values
    counts = (
        "number_of_linear_attention_layers",
        "number_of_attention_layers",
        "number_of_MoE_layers",
        "number_of_dense_layers",
    )
    assert [values[name] for name in counts] == [6, 2, 5, 0]
    assert (values["linear_attention_kind"], values["norms_per_layer"]) == ("mamba2", 1)
    sizes = (
        "linear_value_heads",
        "linear_value_head_dimension",
        "linear_key_heads",
        "linear_key_head_dimension",
        "linear_chunk_tokens",
    )
    assert [values[name] for name in sizes] == [64, 64, 8, 128, 128]


def test_a_pattern_of_other_layers_is_refused() -> None:
    with pytest.raises(AmpedError, match="lists 13 layers, and --num-layers says 12"):
        megatron.read(SCRIPT.replace("--num-layers 32", PATTERNED.replace("13", "12")), "launch.sh")


@pytest.mark.parametrize("model", ["Qwen3-Next 80B-A3B", "Nemotron 3 Nano 30B-A3B"])
def test_layers_of_linear_attention_come_back(model: str) -> None:
    """The chunk of a gated delta net, and the convolution of Mamba-2, have no argument: both are Megatron's own."""
    e = estimated(read_scenario("minimal", {"model": model}))
    given = e.scenario.sources.given
    for form, file in ((megatron, "launch.sh"), (bridge, "recipe.yaml")):
        found = form.read(form.write(e), file).values
        names = [name for name in given if name.startswith(("linear_", "number_of_linear")) and name in found]
        assert len(names) >= 5, file
        assert {name: found[name] for name in names} == {name: given[name] for name in names}
        assert found["linear_attention_kind"] == e.choices["linear_attention_kind"]
