"""Kernels that a config asks for, and that its release of a library does not have."""

from __future__ import annotations

from amped.engine.evaluate import Results

NEEDED = ("flash_attention", "fused_attention_exists", "query_key_width", "value_width", "cudnn_version")


def missing_kernels(results: Results) -> list[str]:
    """A note if attention is asked to be fused and the library has no such kernel; else none."""
    if any(name not in results for name in NEEDED):
        return []
    asked, exists, keys, values, version = (results.number(name) for name in NEEDED)
    if not asked or exists:
        return []
    release = f"{version // 10000:.0f}.{version % 10000 // 100:.0f}"
    return [
        f"cuDNN {release} has no fused attention for keys of {keys:g} and values of {values:g} on this accelerator: "
        "the scores are written to memory (cudnn_version)"
    ]
