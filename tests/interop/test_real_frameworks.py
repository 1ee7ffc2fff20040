"""The frameworks themselves read what amped writes, and amped reads their defaults; each is skipped where it is not installed.

`.ci/run` installs them: transformers 5.23.0, megatron-core 0.16.1, DeepSpeed 0.19.8 and torchtitan 0.3.0, as wheels for processors.
"""

import json
import sys
from collections import Counter
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from amped.base.errors import AmpedError
from amped.configuring.scenario import read_scenario
from amped.configuring.values import read_value
from amped.estimation.estimation import Estimation, estimated
from amped.interop import huggingface, megatron
from amped.interop.exporting import TARGETS
from amped.interop.fields import fields, table
from amped.interop.recognition import read_file
from amped.interop.records import Imported, Reading
from amped.theory.language.catalogue import catalogue
from tests.helpers.interop import UNREAD_WEIGHTS, default_of, drawn_estimates, same
from tests.interop.test_huggingface import without_modules
from tests.interop.test_not_modeled import verdict, verdict_of_config, verdict_of_refused

# What torchtitan's networks that also see images import: kernels of linear attention, and readers of images.
OF_IMAGES = {"qwen3_5": ("fla", "requests"), "kimi_k2_7": ("requests",)}
# They warn of what is missing on a processor.
pytestmark = pytest.mark.filterwarnings("ignore")


def need(package: str, version: str) -> None:
    """Skips a test, by name, where a framework is missing or another version is installed."""
    try:
        found = metadata.version(package)
    except metadata.PackageNotFoundError:
        found = "none"
    if found != version:
        pytest.skip(f"needs {package} {version}; {found} is installed")
    pytest.importorskip("torch", reason=f"{package} needs torch")


def estimate(name: str = "llama-3-70b", **overrides: Any) -> Estimation:
    return estimated(read_scenario(name, overrides))


def of_model(name: str) -> Estimation:
    return estimate("minimal", model=name)


def fields_differing(one: Imported, other: Imported) -> dict[str, tuple[Any, Any]]:
    names = {*one.values, *other.values} - {"context", "positions"}
    pairs = {name: (one.values.get(name), other.values.get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if not same(*pair)}


def canonical(name: str, found: Imported) -> Any:
    """An imported value in the unit of results: bits of a format are bytes."""
    return read_value(catalogue()[name], found.values[name])


class TestTransformers:
    """AutoConfig reads a folder; what it says then, amped reads as what it wrote."""

    MODELS = (
        "Llama 3 8B", "Qwen2.5 7B", "Qwen3 8B", "Mistral 7B", "Gemma 2 9B", "Gemma 3 12B", "Nemotron-4 15B", "Mixtral 8x7B",
        "Qwen3 30B-A3B", "gpt-oss-20b", "Llama 4 Scout", "DeepSeek V3", "DeepSeek V3.2", "OLMo 2 7B", "OLMo 3 32B", "EXAONE 4.0 32B", "MiniMax M2", "GLM-4.6", "GPT-3 175B", "GPT-NeoX 20B", "BLOOM 176B",
    )  # fmt: skip

    @pytest.mark.parametrize("name", MODELS)
    def test_auto_config_reads_what_amped_wrote(self, tmp_path: Path, name: str) -> None:
        need("transformers", "5.23.0")
        from transformers import AutoConfig

        (tmp_path / "config.json").write_text(TARGETS["huggingface"].write(of_model(name)), "utf-8")
        mine = read_file(tmp_path)
        made = AutoConfig.from_pretrained(tmp_path)
        assert made.model_type == json.loads((tmp_path / "config.json").read_text("utf-8"))["model_type"]
        theirs = huggingface.read(json.loads(json.dumps(made.to_dict(), default=str)), "theirs")
        assert fields_differing(mine, theirs) == {}
        assert [line for line in theirs.report.unsupported if line not in mine.report.unsupported] == []

    def test_every_class_that_is_written_has_a_model(self) -> None:
        need("transformers", "5.23.0")
        from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CLASSES

        written = {kind: row["architecture"] for kind, row in table("huggingface")["classes"].items()}
        assert {kind: CLASSES.get(kind) for kind in written} == written

    @pytest.mark.parametrize("kind", sorted(table("huggingface")["classes"]))
    def test_amped_reads_the_defaults(self, kind: str) -> None:
        need("transformers", "5.23.0")
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING

        found = huggingface.read(json.loads(json.dumps(CONFIG_MAPPING[kind]().to_dict(), default=str)), kind)
        assert found.report.unsupported == []
        if kind != "nemotron":  # the fixture has another network of this class
            assert fields_differing(found, huggingface.read(default_of(kind), kind)) == {}

    def test_kinds_of_sparse_attention_beside_one_another_have_the_parameters_of_the_class(self) -> None:
        """DeepSeek V4 with layers of all three kinds; MiniMax M3 with blocks of keys in some layers."""
        need("transformers", "5.23.0")
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING

        kinds = {
            "deepseek_v4": {
                "num_hidden_layers": 4,
                "layer_types": [
                    "sliding_attention",
                    "compressed_sparse_attention",
                    *["heavily_compressed_attention"] * 2,
                ],
                "mlp_layer_types": ["hash_moe", *["moe"] * 3],
            },
            "minimax_m3_vl_text": {
                "num_hidden_layers": 3,
                "layer_types": ["full_attention", *["minimax_m3_sparse"] * 2],
                "mlp_layer_types": ["dense", *["sparse"] * 2],
            },
        }
        for kind, changes in kinds.items():
            config = CONFIG_MAPPING[kind](**changes)
            found = without_modules(huggingface.read(json.loads(json.dumps(config.to_dict(), default=str)), kind))
            assert verdict(found, self.parameters(config, causal=True) or 0) == "exact"

    def test_no_class_is_read_wrong_in_silence(self) -> None:
        """Each class that makes a causal model, on torch's device meta: its parameters, or what is missing with its bound, or a refusal."""
        need("transformers", "5.23.0")
        from huggingface_hub.errors import StrictDataclassError
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING
        from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CLASSES

        verdicts = Counter[str]()
        for kind in CLASSES:
            try:
                config = CONFIG_MAPPING[kind]()
            except StrictDataclassError:  # the class refuses its own defaults
                verdicts["not made by transformers"] += 1
                continue
            try:
                given = json.loads(json.dumps(config.to_dict(), default=str))
                found = without_modules(huggingface.read(given, kind), kind)
                whole = found.values.get("causal", True) and found.values.get("number_of_stacks", 1) == 1
                parameters = self.parameters(config, causal=whole)
                parameters = parameters and parameters - UNREAD_WEIGHTS.get(kind, 0)
                verdicts[verdict(found, parameters) if parameters else "not made by transformers"] += 1
            except AmpedError as error:
                parameters = self.parameters(config, causal=True)
                verdicts[
                    verdict_of_refused(error, given, parameters) if parameters else "not made by transformers"
                ] += 1
        assert verdicts.total() == len(CLASSES)
        assert verdicts["refused"] == 0
        assert verdicts["refused, with its size"] <= 5
        assert verdicts["exact"] >= 143
        assert verdicts["not made by transformers"] <= 19

    def test_no_network_of_several_kinds_is_read_wrong_in_silence(self) -> None:
        """Each class that reads images or has two stacks, on torch's device meta: what is read is within the bounds of its towers."""
        need("transformers", "5.23.0")
        import torch
        import transformers
        from transformers.models.auto import modeling_auto
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING

        classes = {**modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES, **modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES}  # fmt: skip
        verdicts = Counter[str]()
        for kind, name in classes.items():
            try:
                config = CONFIG_MAPPING[kind]()
                with torch.device("meta"):
                    parameters = sum(each.numel() for each in getattr(transformers, name)(config).parameters())
            except Exception:  # some need another package, or do not take their own defaults
                verdicts["not made by transformers"] += 1
                continue
            given = json.loads(json.dumps(config.to_dict(), default=str))
            verdicts[verdict_of_config(given, kind, parameters)] += 1
        assert verdicts["bounded"] + verdicts["exact"] >= 90, verdicts
        assert verdicts["refused"] <= 20

    @staticmethod
    def parameters(config: Any, causal: bool) -> int | None:
        """The parameters of the model of a config: the causal one, or for an encoder, and one with a decoder, the one without a head; None if it is not made."""
        import torch
        from transformers import AutoModel, AutoModelForCausalLM

        try:
            with torch.device("meta"):
                model = (AutoModelForCausalLM if causal else AutoModel).from_config(config)
        except (AssertionError, AttributeError, ImportError, LookupError, TypeError, ValueError):
            return None  # some classes do not take their own defaults
        return sum(each.numel() for each in model.parameters())


class TestMegatronCore:
    """The dataclasses of megatron-core 0.16.1 take the values, and their checks pass."""

    @staticmethod
    def made(own: dict[str, Any]) -> dict[str, Any]:
        """The dataclasses of arguments, by home; those of megatron/training are in none."""
        from megatron.core.distributed import DistributedDataParallelConfig
        from megatron.core.optimizer import OptimizerConfig
        from megatron.core.transformer import MLATransformerConfig, TransformerConfig
        from megatron.core.transformer.enums import AttnBackend

        homes = dict[str, dict[str, Any]]()
        for name, row in table("megatron")["arguments"].items():
            if name in own:
                homes.setdefault(row["home"], {})[row.get("field", name)] = own[name]
        layers = (
            homes.get("TransformerConfig", {})
            | homes.get("ModelParallelConfig", {})
            | homes.get("MLATransformerConfig", {})
        )
        if backend := layers.get("attention_backend"):
            layers["attention_backend"] = AttnBackend[backend]
        layers |= {"pipeline_dtype": 1} if layers.get("pipeline_model_parallel_size", 1) > 1 else {}
        chunks = own.get("num_virtual_stages_per_pipeline_rank")
        chosen = MLATransformerConfig if "MLATransformerConfig" in homes else TransformerConfig
        return {
            "TransformerConfig": chosen(**layers, virtual_pipeline_model_parallel_size=chunks),
            "DistributedDataParallelConfig": DistributedDataParallelConfig(**homes.get("DistributedDataParallelConfig", {})),
            "OptimizerConfig": OptimizerConfig(
                **homes.get("OptimizerConfig", {}), use_distributed_optimizer=own.get("use_distributed_optimizer", False)),
        }  # fmt: skip

    @pytest.mark.parametrize(
        "changed",
        [
            {"name": "llama-3-70b"}, {"name": "megatron-145.6B"}, {"name": "minimal"}, {"name": "mixtral-8x7b"},
            {"name": "minimal", "model": "DeepSeek V3"}, {"name": "minimal", "matrix_precision": "fp8"},
            {"name": "minimal", "zero_stage": 3}, {"name": "minimal", "optimizer_offload": 0.5}, {"name": "minimal", "optimizer_offload": 0.5, "zero_stage": 1},
        ],
        ids=str,
    )  # fmt: skip
    def test_they_take_what_amped_wrote(self, changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
        need("megatron-core", "0.16.1")
        # Transformer Engine needs a GPU: it is taken to be there, and new enough.
        monkeypatch.setattr("megatron.core.optimizer.optimizer_config.is_te_min_version", lambda _: True)
        written = megatron.fields_of(estimate(**changed)).fields
        made = self.made(written)
        assert made["TransformerConfig"].num_layers == written["num_layers"]
        own = {name: row for name, row in table("megatron")["arguments"].items() if row["home"] == "OptimizerConfig"}
        assert {name: getattr(made["OptimizerConfig"], name) for name in own if name in written} == {
            name: written[name] for name in own if name in written
        }

    def test_amped_reads_the_defaults(self) -> None:
        need("megatron-core", "0.16.1")
        made, given = self.made({"num_layers": 2, "hidden_size": 64, "num_attention_heads": 4}), dict[str, Any]()
        made |= dict.fromkeys(("ModelParallelConfig",), made["TransformerConfig"])
        for name, row in table("megatron")["arguments"].items():
            value = getattr(made.get(row["home"]), row.get("field", name), None)
            if value is not None:
                given[name] = (
                    value if isinstance(value, int | float | str | list) else getattr(value, "name", str(value))
                )
        found = megatron.imported(Reading(given | {"vocab_size": 1000}), "defaults", "a default")
        assert found.report.unsupported == []
        expected = {
            "feedforward_dimension": 256, "head_dimension": 16, "mlp_bias": True, "norm_vectors": 2, "dropout": 0.1, "zero_stage": 0,
            "activation_recomputation": "none", "matrix_precision": "fp32", "optimizer_state_precision": 32, "optimizer": "adam",
            "tensor_parallel_degree": 1, "sequence_parallel": False, "overlap_data_communication": False,
        }  # fmt: skip
        assert {name: found.values[name] for name in expected} == expected


class TestDeepSpeed:
    """DeepSpeedConfig 0.19.8 reads the file, and its checks of the batch pass."""

    @pytest.fixture(autouse=True)
    def on_a_processor(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DS_ACCELERATOR", "cpu")

    @staticmethod
    def config(written: str, replicas: int, monkeypatch: pytest.MonkeyPatch) -> Any:
        """The configuration of one of some replicas, which no process group tells."""
        deepspeed = pytest.importorskip("deepspeed.runtime.config", exc_type=ImportError)
        monkeypatch.setattr(deepspeed.dist, "get_rank", lambda: 0)
        return deepspeed.DeepSpeedConfig(
            json.loads(written), SimpleNamespace(get_data_parallel_world_size=lambda: replicas)
        )

    @pytest.mark.parametrize("stage", [0, 1, 2, 3])
    def test_it_reads_what_amped_wrote(self, stage: int, monkeypatch: pytest.MonkeyPatch) -> None:
        need("deepspeed", "0.19.8")
        own = estimate("minimal", zero_stage=stage, optimizer_offload=1.0 if stage == 3 else 0.0)
        found = self.config(TARGETS["deepspeed"].write(own), int(own["data_parallel_degree"]), monkeypatch)
        assert found.zero_config.stage == stage
        assert (found.train_batch_size, found.train_micro_batch_size_per_gpu) == (
            own["batch_size"],
            own["microbatch_size"],
        )
        assert found.bfloat16_config.enabled == (own.choices["matrix_precision"] == "bf16")
        assert (found.zero_config.offload_optimizer is not None) == (stage == 3)

    @pytest.mark.parametrize(
        ("place", "value"),
        [
            (("train_batch_size",), 7), (("train_micro_batch_size_per_gpu",), 0), (("gradient_accumulation_steps",), 1), (("zero_optimization", "stage"), 4),
            (("zero_optimization", "offload_optimizer", "device"), "attic"), (("zero_optimization", "overlap_com"), True), (("bf16", "enabled"), "perhaps"),
        ],
        ids=str,
    )  # fmt: skip
    def test_it_refuses_a_broken_line(
        self, place: tuple[str, ...], value: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        need("deepspeed", "0.19.8")
        own = estimate("minimal", zero_stage=3, optimizer_offload=1.0, batch_size=4096)
        written = json.loads(TARGETS["deepspeed"].write(own))
        self.config(json.dumps(written), int(own["data_parallel_degree"]), monkeypatch)
        *sections, name = place
        inner = written
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[name] = value
        with pytest.raises((AssertionError, ValueError, TypeError)):
            self.config(json.dumps(written), int(own["data_parallel_degree"]), monkeypatch)

    def test_amped_reads_the_defaults(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        need("deepspeed", "0.19.8")
        found = self.config('{"train_batch_size": 8}', 8, monkeypatch)
        own = {
            "train_batch_size": found.train_batch_size, "train_micro_batch_size_per_gpu": found.train_micro_batch_size_per_gpu,
            "zero_optimization": found.zero_config.model_dump(mode="json", by_alias=True), "bf16": found.bfloat16_config.model_dump(mode="json"),
            "fp16": found.float16_config.model_dump(mode="json", by_alias=True),
            "activation_checkpointing": vars(found.activation_checkpointing_config),
        }  # fmt: skip
        (tmp_path / "ds.json").write_text(json.dumps(own, default=str), "utf-8")
        read = read_file(tmp_path / "ds.json")
        assert [str(line) for line in read.report.unsupported] == []
        assert (read.values["zero_stage"], read.values["matrix_precision"]) == (0, "fp32")
        assert (read.values["batch_size"], read.values["microbatch_size"]) == (8, 1)


class TestTorchtitan:
    """The recipe runs, and gives the Trainer.Config of torchtitan 0.3.0; what that one saves, amped reads."""

    @staticmethod
    def recipe(own: Estimation) -> Any:
        pytest.importorskip("torchtitan.trainer", exc_type=ImportError, reason="torchtitan's own packages are missing")
        space = dict[str, Any]()
        exec(compile(TARGETS["torchtitan"].write(own), "recipe", "exec"), space)
        return space["amped_recipe"]()

    @pytest.mark.parametrize("recomputation", ["none", "full", "alternate_products"])
    def test_a_recipe_is_its_configuration(self, recomputation: str, tmp_path: Path) -> None:
        need("torchtitan", "0.3.0")
        own = estimate(activation_recomputation=recomputation)
        made = self.recipe(own)
        assert made.training.global_batch_size == own["batch_size"]
        (tmp_path / "saved.json").write_text(json.dumps(made.to_dict(), default=str), "utf-8")
        found, out = read_file(tmp_path / "saved.json"), TARGETS["torchtitan"].fields(own)
        lost = {line.key for line in out.lost} | out.idle
        named = {name: out.values[name] for name in fields("torchtitan") if name in found.values and name not in lost}
        assert {name: value for name, value in named.items() if not same(canonical(name, found), value)} == {}
        assert found.values["activation_recomputation"] == recomputation

    @staticmethod
    def started(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
        """What torchtitan's own config manager makes of a recipe and of the line in it that says how to run it.

        Its checks of the batch and of the degrees, which otherwise come with process groups, are made too.
        """
        manager = pytest.importorskip(
            "torchtitan.config.manager", exc_type=ImportError, reason="torchtitan's own packages are missing"
        )
        from torchtitan.distributed.parallel_dims import ParallelDims

        # Compiled files are told apart by second and size, and a broken recipe may have both of the one before it.
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        (folder / "amped_recipe.py").write_text(text, "utf-8")
        monkeypatch.syspath_prepend(folder)
        monkeypatch.delitem(sys.modules, "amped_recipe", raising=False)
        run = next(line for line in text.splitlines() if line.startswith("# run"))
        launch, words = (part.split() for part in run.split(" -m torchtitan.train "))
        nodes, each = (int(launch[launch.index(flag) + 1]) for flag in ("--nnodes", "--nproc-per-node"))
        made = manager.ConfigManager().parse_args(words)
        degrees, training = ParallelDims.from_config(made.parallelism, nodes * each), made.training
        assert training.global_batch_size % (training.local_batch_size * degrees.dp_replicate * degrees.dp_shard) == 0
        return made

    @pytest.mark.parametrize("name", ["Llama 3 8B", "Qwen3 30B-A3B", "DeepSeek V3", "gpt-oss-20b", "Mixtral 8x7B"])
    def test_its_config_manager_takes_the_recipe(
        self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        need("torchtitan", "0.3.0")
        own = of_model(name)
        made = self.started(TARGETS["torchtitan"].write(own), tmp_path, monkeypatch)
        assert made.training.global_batch_size == own["batch_size"]
        mixture = any(
            "moe" in type(layer).__qualname__.lower() or getattr(layer, "moe", None)
            for layer in made.model_spec.model.layers
        )
        assert mixture == (own["number_of_experts"] > 1)

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("config.parallelism.tensor_parallel_degree", "config.parallelism.tensor_degree"), ("config.parallelism.tensor_parallel_degree = 8", "config.parallelism.tensor_parallel_degree = 7"),
            ("config.training.global_batch_size = 2048", "config.training.global_batch_size = 2047"), ("import llama3_70b", "import llama3_71b"),
            ("--module amped_recipe", "--module amped_recip"), ("--config amped_recipe", "--config another"), ("FullAC.Config()", "FullAC.Confi()"),
        ],
        ids=str,
    )  # fmt: skip
    def test_its_config_manager_refuses_a_broken_line(
        self, old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        need("torchtitan", "0.3.0")
        text = TARGETS["torchtitan"].write(estimate(activation_recomputation="full"))
        assert old in text
        self.started(text, tmp_path, monkeypatch)
        with pytest.raises((AttributeError, AssertionError, ImportError, ValueError)):
            self.started(text.replace(old, new), tmp_path, monkeypatch)

    def test_its_networks_are_those_of_the_table(self) -> None:
        need("torchtitan", "0.3.0")
        pytest.importorskip("torchtitan.trainer", exc_type=ImportError, reason="torchtitan's own packages are missing")
        for row in table("torchtitan")["networks"]:
            module, start = row["recipe"]
            if start == "llama3_405b":  # its recipe asks for torchao, which has no wheel for processors alone
                continue
            if not all(map(find_spec, OF_IMAGES.get(module, ()))):
                continue
            model = getattr(import_module(f"torchtitan.models.{module}.config_registry"), start)().model_spec.model
            assert (len(model.layers), model.dim) == (row["layers"], row["dimensionality"])

    def test_drawn_mappings_are_fields_of_its_dataclasses(self) -> None:
        need("torchtitan", "0.3.0")
        config = pytest.importorskip("torchtitan.config", exc_type=ImportError)
        classes = {
            "parallelism": config.ParallelismConfig,
            "training": config.TrainingConfig,
            "compile": config.CompileConfig,
        }
        for own in drawn_estimates(24, "real"):
            for section, made in classes.items():
                found = {
                    place.partition(".")[2]: value
                    for place, value in TARGETS["torchtitan"].fields(own).fields.items()
                    if place.startswith(f"{section}.")
                }
                assert {name: getattr(made(**found), name) for name in found} == found

    def test_amped_reads_the_defaults(self, tmp_path: Path) -> None:
        need("torchtitan", "0.3.0")
        pytest.importorskip("torchtitan.trainer", exc_type=ImportError, reason="torchtitan's own packages are missing")
        from torchtitan.models.llama3.config_registry import llama3_8b

        (tmp_path / "saved.json").write_text(json.dumps(llama3_8b().to_dict(), default=str), "utf-8")
        found = read_file(tmp_path / "saved.json")
        assert [str(line) for line in found.report.unsupported] == []
        assert {name: found.values[name] for name in ("tensor_parallel_degree", "microbatch_size", "context")} == {
            "tensor_parallel_degree": 1, "microbatch_size": 1, "context": 8192,
        }  # fmt: skip
