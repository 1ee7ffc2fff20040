"""Trainings in phases: the sum of times, the memory of the largest, frozen networks beside the trained one."""

import json
from pathlib import Path
from typing import Any

import pytest

import amped
from amped.base.errors import AmpedError
from amped.drafting.phases import Phase, forward_time, phased
from tests.helpers.cli import amped as run

SHARED: dict[str, object] = {"model": "Llama 3.2 3B", "system": "DGX H100", "gpus": 8, "seq": 4096, "gbs": 64}


def phases(*written: dict[str, Any]) -> list[Phase]:
    """The phases of a plan for a network of 3 billion on one node."""
    return phased({**SHARED, "phases": list(written)})


def test_a_phase_of_training_is_an_estimate_and_a_given_time_stands() -> None:
    sft, rollouts = phases({"kind": "sft", "samples": 20_000}, {"name": "rollouts", "time": "12 hours"})
    assert sft.estimate is not None
    assert sft.time == sft.estimate["training_time"]
    assert sft.estimate["tokens_to_train"] == 20_000 * 4096
    assert (sft.name, rollouts.name, rollouts.time, rollouts.fits) == ("phase 1", "rollouts", 12 * 3600, True)


def test_a_preference_pair_is_two_sequences_and_the_reference_a_forward_pass() -> None:
    sft, dpo = phases({"kind": "sft", "samples": 20_000}, {"kind": "dpo", "samples": 10_000})
    assert sft.estimate is not None
    assert dpo.estimate is not None
    assert dpo.estimate["number_of_steps"] == sft.estimate["number_of_steps"]
    assert dpo.time == pytest.approx(sft.time * (1 + forward_time(sft.estimate) / sft.estimate["step_time"]))
    assert dpo.memory - dpo.estimate["memory_per_accelerator_bytes"] == pytest.approx(dpo.estimate["weight_bytes"])


def test_the_reference_of_adapters_is_the_network_without_them() -> None:
    (dpo,) = phases({"kind": "dpo", "samples": 10_000, "adapters": "lora"})
    assert dpo.estimate is not None
    assert dpo.memory == dpo.estimate["memory_per_accelerator_bytes"]
    assert dpo.beside > 0


def test_a_teacher_takes_its_own_forward_passes_and_weights() -> None:
    small, large = phases(
        *({"kind": "distillation", "teacher": f"Llama 3.1 {size}B", "samples": 10_000} for size in (8, 70))
    )
    assert large.beside > 5 * small.beside > 0
    assert large.notes == "teacher: Llama 3.1 70B, frozen"


WRONG = {
    "a kind": ({"kind": "grpo"}, "'grpo' is no kind of phase"),
    "no teacher": ({"kind": "distillation"}, "no teacher"),
    "a name": ({"kind": "sft", "contxt": 8}, "unknown parameter"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_phase_is_told_at_its_place(name: str) -> None:
    wrong, message = WRONG[name]
    with pytest.raises(AmpedError, match=message) as error:
        phases({"kind": "sft", "samples": 1000}, wrong)
    assert "phases[1]" in str(error.value)


def test_the_command_adds_up_and_fits_a_screen(tmp_path: Path) -> None:
    written = [{"name": "SFT", "kind": "sft", "samples": 20_000}, {"name": "rollouts", "time": "12 hours"}]
    (tmp_path / "plan.json").write_text(json.dumps({**SHARED, "phases": written}), "utf-8")
    done = run("phases", "plan.json", folder=tmp_path, columns=80)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    found = json.loads(run("phases", "plan.json", "--json", folder=tmp_path).stdout)
    assert [phase["name"] for phase in found] == ["SFT", "rollouts"]
    (tmp_path / "plan.json").write_text('{"phases": 3}', "utf-8")
    assert "a plan has a list 'phases'" in run("phases", "plan.json", folder=tmp_path).stderr


def test_a_batch_ramp_and_longer_sequences_are_phases_each_with_its_own_steps() -> None:
    shared = {"model": "Llama 3 8B", "system": "DGX H100", "gpus": 64}
    ramp = [{"gbs": 256, "seq": 4096}, {"gbs": 512, "seq": 4096}, {"gbs": 64, "seq": 32768}]
    found = phased({**shared, "phases": [{**phase, "tokens_to_train": 1e9} for phase in ramp]})
    for phase, asked in zip(found, ramp, strict=True):
        assert phase.estimate is not None
        assert phase.estimate["number_of_steps"] == -(-1e9 // (asked["gbs"] * asked["seq"]))
        alone = amped.estimate(**shared, **asked, tokens_to_train=1e9)
        assert phase.time == pytest.approx(alone["training_time"])
    small, large, long = (phase.time for phase in found)
    assert long > small > large  # a token costs more at 32,768; the small batch waits more for gradients
