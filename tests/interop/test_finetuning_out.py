"""Fine-tuning on its way out: TRL and torchtune are read back as they were; other formats say that adapters are lost."""

from pathlib import Path

import pytest

from amped.drafting.asking import Asking
from amped.estimation.estimation import Estimation, estimated
from amped.interop.exporting import TARGETS
from amped.interop.recognition import read_file

ASKED = {"model": "Llama 3.1 8B", "system": "DGX H100", "number_of_accelerators": 8, "software": "PyTorch FSDP2"}
LORA = {"adapters": "lora", "adapter_rank": 8, "joint_adapters": False}
# Fine-tunings, and the formats that say all of them.
TRAININGS: dict[str, tuple[dict[str, object], tuple[str, ...]]] = {
    "full": ({"zero_stage": 3}, ("trl", "torchtune")),
    "kept gathered": ({"zero_stage": 2}, ("trl", "torchtune")),
    "lora": (LORA | {"zero_stage": 3, "up_adapters": True}, ("trl", "torchtune")),
    "attention alone": (
        LORA | {"zero_stage": 3, "gate_adapters": False, "up_adapters": False, "down_adapters": False}, ("trl", "torchtune"),
    ),
    "qlora": (LORA | {"zero_stage": 3, "frozen_weight_format": "nf4_double"}, ("trl", "torchtune")),
    "dora": (LORA | {"zero_stage": 3, "adapters": "dora", "adapter_dropout": 0.1}, ("trl", "torchtune")),
    "ends": (LORA | {"zero_stage": 3, "trained_ends": "both"}, ("trl",)),
    "tensor parallel": ({"zero_stage": 3, "tensor_parallel_degree": 2, "sequence_parallel": False}, ("trl", "torchtune")),
    "in backward": ({"zero_stage": 3, "optimizer_placement": "in_backward", "batch_size": 8}, ("torchtune",)),
    "recomputed": ({"zero_stage": 3, "activation_recomputation": "full"}, ("trl", "torchtune")),
}  # fmt: skip
CASES = [(name, form) for name, (_, forms) in TRAININGS.items() for form in forms]
SAME = (
    "microbatch_size", "number_of_microbatches_per_minibatch", "context", "zero_stage", "adapters", "adapter_rank", "adapter_dropout",
    "query_adapters", "up_adapters", "gate_adapters", "frozen_weight_format", "trained_ends", "activation_recomputation",
    "optimizer", "optimizer_placement", "gradient_clipping", "tensor_parallel_degree", "flash_attention",
)  # fmt: skip


def of(**changes: object) -> Estimation:
    given = {
        "batch_size": 16,
        "context": 2048,
        "microbatch_size": 1,
        "activation_recomputation": "none",
        "gradient_clipping": True,
    }
    if changes.get("optimizer_placement"):
        given.pop("gradient_clipping")
    return estimated(Asking(None, {**ASKED, **given, **changes}).completed({}))


def value(e: Estimation, name: str) -> object:
    return (
        e.choices[name] if name in e.choices else float(e[name] if name in e else e.scenario.sources.given.get(name, 0))
    )


@pytest.mark.parametrize(("name", "form"), CASES)
def test_what_is_written_is_read_back(name: str, form: str, tmp_path: Path) -> None:
    there = of(**TRAININGS[name][0])
    path = tmp_path / f"{form}.yaml"
    path.write_text(TARGETS[form].write(there), "utf-8")
    back = read_file(path)
    assert back.source == form
    assert back.network == "Llama 3.1 8B"
    defaults = {
        "adapters": "none",
        "trained_ends": "none",
        "frozen_weight_format": "given",
        "optimizer_placement": "after_backward",
    }
    without = (
        {n for n in SAME if n.endswith("_adapters") or n.startswith("adapter_")}
        if value(there, "adapters") == "none"
        else set()
    )
    for quantity in set(SAME) - without:
        known = {"gradient_clipping": 1.0} | defaults
        read = back.values.get(quantity, known.get(quantity))
        if read is None:
            continue
        assert (read if isinstance(read, str) else float(read)) == value(there, quantity), quantity


@pytest.mark.parametrize("form", ["torchtitan", "deepspeed", "megatron", "bridge", "slurm"])
def test_a_format_without_adapters_says_that_they_are_lost(form: str) -> None:
    lost = {line.key: line.what for line in TARGETS[form].fields(of(**LORA)).lost}
    assert "trains otherwise" in lost["adapters"]
    assert "adapters: lora" in TARGETS[form].write(of(**LORA)) or form == "deepspeed"
    assert "adapters" not in {line.key for line in TARGETS[form].fields(of()).lost}


def test_what_torchtune_and_trl_lack_is_told() -> None:
    lost = {
        form: {line.key for line in TARGETS[form].fields(of(**LORA | {"trained_ends": "both"})).lost}
        for form in ("trl", "torchtune")
    }
    assert ("trained_ends" in lost["trl"], "trained_ends" in lost["torchtune"]) == (False, True)
    assert "optimizer" in {line.key for line in TARGETS["torchtune"].fields(of(optimizer="muon")).lost}


def test_the_torchtune_file_names_its_recipe() -> None:
    assert "lora_finetune_distributed" in TARGETS["torchtune"].write(of(**LORA))
    assert "torchtune.models.llama3_1.lora_llama3_1_8b" in TARGETS["torchtune"].write(of(**LORA))
    assert "full_finetune_distributed" in TARGETS["torchtune"].write(of())


@pytest.mark.parametrize(
    "changes", [{}, {"adapters": "dora", "adapter_dropout": 0.1}, {"gate_adapters": False, "up_adapters": False}]
)
def test_automodel_has_a_section_of_adapters(changes: dict[str, object], tmp_path: Path) -> None:
    there = of(**LORA | {"zero_stage": 3} | changes)
    path = tmp_path / "automodel.yaml"
    path.write_text(TARGETS["automodel"].write(there), "utf-8")
    back = read_file(path).values
    for name in (
        "adapters",
        "adapter_rank",
        "adapter_dropout",
        "query_adapters",
        "gate_adapters",
        "up_adapters",
        "down_adapters",
    ):
        assert (back[name] if isinstance(back[name], str) else float(back[name])) == value(there, name), name
    assert "adapters" not in {line.key for line in TARGETS["automodel"].fields(there).lost}
    qlora = TARGETS["automodel"].fields(of(**LORA | {"frozen_weight_format": "nf4"}))
    assert "frozen_weight_format" in {line.key for line in qlora.lost}


def test_automodel_adapts_all_projections_where_a_pattern_or_a_switch_says_so(tmp_path: Path) -> None:
    for words in ("match_all_linear: true", 'target_modules: "*_proj"'):
        path = tmp_path / "automodel.yaml"
        path.write_text(
            "distributed: {strategy: fsdp2, dp_size: 8}\nstep_scheduler: {global_batch_size: 8, local_batch_size: 1}\n"
            f"peft: {{_target_: nemo_automodel.components._peft.lora.PeftConfig, dim: 16, {words}}}\n",
            "utf-8",
        )
        back = read_file(path).values
        assert (back["adapters"], back["adapter_rank"]) == ("lora", 16)
        assert all(
            back[f"{name}_adapters"] for name in ("query", "key", "value", "attention_output", "gate", "up", "down")
        )
