"""The strong-scaling study of TPE (arXiv 2410.00273), asked of amped: `run_configs.py --model gpt3_1T --parallel_strat 1d`.

Nine systems, a GPT-3 of 10^12 parameters, batch 4096, tensor parallelism in one dimension. The numbers of the systems and of
the network are those of the tool's own files (transformer-perf-estimates, commit 54278b0). Run as a program it is the whole
study from an empty interpreter, and prints its size and its seconds as JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# What the tool took on one core for its 141,109 candidates: from 4 accelerators on for its first system, from 512 on for the
# others. Here every system starts at 128, with the same candidates at each size (tests/exploration/test_published.py).
TOOL_SECONDS, TOOL_CANDIDATES = 329.0, 141_109
SIZES = [2**power for power in range(7, 15)]
DOMAINS = (4, 8, 64)
# TFLOP/s of matrices and of vectors, GB/s and GB of memory, GB/s of NVLink and of a network card, one a device.
GENERATIONS = {
    "A100": (312.0, 78.0, 1555.0, 80.0, 300.0, 25.0),
    "H200": (989.4, 133.8, 4800.0, 141.0, 450.0, 50.0),
    "B200": (2500.0, 339.0, 8000.0, 192.0, 900.0, 100.0),
}
# Layers only, as in the tool; optimizer states are shared out, data-parallel communication is hidden.
CONFIG = {
    "neural_network_training_parameters": {
        "layers": 128, "dimensionality": 25600, "attention_heads": 160, "feedforward_dimension": 102400, "context": 2048,
        "vocabulary_size": 0, "final_norm": False, "tied_embeddings": True, "causal": False, "dropout": 0.1,
        "query_key_value_bias": False, "attention_output_bias": True, "mlp_bias": True, "norms_per_layer": 2,
        "norm_vectors": 2, "weight_precision": 16, "activation_precision": 16, "gradient_precision": 16,
        "optimizer_state_precision": 32, "matrix_precision": "fp16", "optimizer": "none", "flash_attention": True,
        "number_of_steps": 1, "batch_size": 4096,
    },
    "mapping_parameters": {
        "sequence_parallel": True, "zero_stage": 1, "overlap_data_communication": True,
        "overlap_tensor_communication": False, "overlap_pipeline_communication": False,
    },
    "system_architecture_parameters": {"collective_algorithm": "ring"},
    "accelerator_architecture_parameters": {},
}  # fmt: skip


def rows() -> tuple[dict[str, Any], dict[str, Any]]:
    """The rows of the accelerators and of the nine systems."""
    source = {"sources": ["ShashankSubramanian/transformer-perf-estimates, systems/*.json"]}
    accelerators, systems = {}, {}
    for name, (matrices, vectors, bandwidth, capacity, fast, slow) in GENERATIONS.items():
        accelerators[f"{name} of TPE"] = source | {
            "fp16_peak_flop_rate": matrices * 1e12, "vector_flop_rate": vectors * 1e12,
            "memory_bandwidth": bandwidth * 1e9, "memory_capacity": capacity * 1e9,
        }  # fmt: skip
        for domain in DOMAINS:
            systems[f"{name}-NVS{domain}"] = source | {
                "accelerator": f"{name} of TPE", "number_of_accelerators_per_node": domain,
                "scale_up_domain_size": domain, "inter_accelerator_bandwidth": fast * 1e9,
                "inter_accelerator_efficiency": 0.7, "inter_accelerator_latency": 2.5e-6,
                "number_of_network_cards_per_node": domain, "bandwidth_per_network_card": slow * 1e9,
                "inter_node_efficiency": 0.7, "inter_node_latency": 5e-6,
            }  # fmt: skip
    return accelerators, systems


@contextmanager
def tables() -> Iterator[Path]:
    """A folder with the lookup tables of the study."""
    with tempfile.TemporaryDirectory() as folder:
        for name, own in zip(("accelerator_specifications", "system_specifications"), rows(), strict=True):
            Path(folder, f"{name}.json").write_text(json.dumps({"table": name, "rows": own}), "utf-8")
        yield Path(folder)


def study(folder: Path) -> Any:
    """The ten best of each system at each size, in one run."""
    import amped

    config = {section: {"parameters": {n: {"value": v} for n, v in own.items()}} for section, own in CONFIG.items()}
    vary = {"system": list(rows()[1]), "number_of_accelerators": SIZES}
    return amped.explore(config, vary=vary, each=tuple(vary), space="degrees", top=10, lookup_tables=folder,
                         kernel_efficiencies="TPE constants")  # fmt: skip


def main() -> None:
    with tables() as folder:
        for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1):
            started = time.process_time()
            found = study(folder)
            print(json.dumps({"candidates": found.candidates, "cpu": time.process_time() - started,
                              "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))  # fmt: skip


if __name__ == "__main__":
    main()
