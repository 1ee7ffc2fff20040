"""The mapping that `amped estimate` chooses, beside the best one that `amped explore` finds, on 60 drawn questions.

Systems are drawn by the number of accelerators of a node, so that nodes of 1, 2, 4, 8 and 16 and racks come equally often.
Questions that a machine refuses (a format that it has not) are drawn again. It ends with 1 if a choice is slower than the best by
more than 3 %, or does not fit where something does.

    python benchmarks/chooser.py [QUESTIONS]
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from typing import Any

import amped
from amped.base.errors import AmpedError
from amped.tables.table_files import SYSTEMS
from amped.tables.tables import Tables

NETWORKS = ("Llama 3 8B", "Llama 3 70B", "Llama 3.1 405B", "Mistral 7B", "Qwen2.5 7B", "Qwen3 14B", "Qwen3 32B", "Qwen3 30B-A3B",
            "Qwen3 235B-A22B", "Mixtral 8x7B", "gpt-oss-20b", "gpt-oss-120b", "Gemma 3 27B", "DeepSeek V3", "Phi-4", "OLMo 3 32B",
            "GPT-3 175B", "Nemotron 3 Nano 30B-A3B")  # fmt: skip
NODES, NUMBERS, RACKS = (1, 2, 4, 8, 16, 72), (8, 16, 32, 64, 128, 256, 512), ("GB200 NVL72", "GB300 NVL72")
MOST_SLOWER, SHARE_IN_FP8 = 0.03, 0.3


def questions(seed: int = 48) -> Iterator[dict[str, Any]]:
    """Questions without end: a network on a number of accelerators of a system."""
    chance, tables = random.Random(seed), Tables()
    by_node: dict[int, list[str]] = {72: list(RACKS)}
    for name in tables.names(SYSTEMS):
        node = tables.row(SYSTEMS, name).columns.get("number_of_accelerators_per_node")
        by_node.setdefault(int(node or 0), []).append(name)
    while True:
        for node in NODES:
            question = {"model": chance.choice(NETWORKS), "system": chance.choice(by_node[node]),
                        "number_of_accelerators": chance.choice(NUMBERS)}  # fmt: skip
            yield question | ({"precision": "fp8"} if chance.random() < SHARE_IN_FP8 else {})


def slower(question: dict[str, Any]) -> float | None:
    """By which share the choice is slower than the best; infinite if only the best fits, None if nothing is answered or fits."""
    try:
        e, found = amped.estimate(**question), amped.explore(**question, top=1)
    except AmpedError:
        return None
    if not found.feasible:
        return None
    return e.step_time / found.best[0]["step_time"] - 1 if e["fits_in_memory"] else float("inf")


def main(number: int) -> int:
    """Prints a line for each question; 1 if a choice is too slow."""
    shares: list[float] = []
    for question in questions():
        share = slower(question)
        if share is None:
            continue
        shares.append(share)
        mark = "  <" if share > MOST_SLOWER else ""
        print(f"{100 * share:+6.1f} %  {', '.join(map(str, question.values()))}{mark}", flush=True)
        if len(shares) == number:
            break
    slow = sum(share > MOST_SLOWER for share in shares)
    print(f"{len(shares) - slow} of {len(shares)} within {100 * MOST_SLOWER:.0f} %")
    return int(slow > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 60))
