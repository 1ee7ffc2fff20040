"""A real training loop of four layers beside its prediction from one measured layer, at three sizes, on a processor.

The layer and the loop are timed in turns, so that what else runs on the machine slows both; the minimum of each part counts.
It ends with 1 if a prediction is off by more than 8 %.

    python benchmarks/anchored.py [SECONDS for each part]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import amped
from amped.base.version import __version__
from amped.calibration.anchor import anchored, as_file
from amped.kernels import anchoring, bench_run, stepping
from amped.kernels.running import timer_of
from amped.kernels.timers import Timer
from amped.kernels.timing import Timing
from amped.tables.tables import Tables

# Width, heads, tokens of a sequence, sequences, words.
SIZES = ((256, 4, 256, 4, 2048), (512, 8, 256, 2, 4096), (768, 12, 512, 1, 8192))
LAYERS, ALLOWED = 4, 0.08
NOTHING: dict[str, Any] = {"neural_network_training_parameters": {"parameters": {}}}


class InTurns:
    """A timer that times further calls in turns with those that it is given, and keeps their times."""

    device = "cpu"

    def __init__(self, timer: Timer, more: Sequence[Callable[[], Any]]) -> None:
        """Takes the timer, and the further calls."""
        self.timer, self.more, self.found = timer, more, list[Timing]()

    def together(self, calls: Sequence[Callable[[], Any]], cap: float) -> list[Timing]:
        """The times of the given calls."""
        every = self.timer.together([*calls, *self.more], cap)
        self.found = every[len(calls) :]
        return every[: len(calls)]


def loop_of(n: stepping.Network) -> list[Callable[[], Any]]:
    """The three parts of a training step."""
    training, left = stepping._Training(n, "cpu", "float32"), dict[str, Any]()

    def forward() -> None:
        left["logits"] = stepping.logits_of(n, training.weights, training.text[:, :-1])
        left["loss"] = stepping.loss_of(left["logits"], training.text[:, 1:])

    def step() -> None:
        training.optimizer.step()
        training.optimizer.zero_grad(set_to_none=False)

    return [forward, lambda: left["loss"].backward(), step]


def settings_of(n: stepping.Network) -> dict[str, Any]:
    """The parameters of an estimate of one of its layers."""
    formats = [f"{what}_precision" for what in ("weight", "activation", "gradient", "optimizer_state")]
    degrees = [f"{kind}_parallel_degree" for kind in ("data", "tensor", "pipeline", "context", "expert")]
    ones = dict.fromkeys((*degrees, "layers", "number_of_accelerators", "number_of_accelerators_per_node"), 1)
    names = ("dimensionality", "attention_heads", "key_value_heads", "feedforward_dimension", "vocabulary_size", "context", "gated_mlp",
             "tied_embeddings", "batch_size")  # fmt: skip
    return {
        **{name: getattr(n, name) for name in names}, **dict.fromkeys(formats, 32), **ones, "microbatch_size": n.batch_size,
        "samples": n.batch_size, "causal": True, "flash_attention": True, "dropout": 0, "matrix_precision": "fp32", "zero_stage": 0,
        "activation_recomputation": "none", "gradient_clipping": False, "software": "PyTorch",
    }  # fmt: skip


def compared(size: tuple[int, ...], seconds: float, folder: Path) -> tuple[float, float]:
    """The measured and the predicted seconds of a step of a loop."""
    width, heads, tokens, sequences, words = size
    n = stepping.Network(
        LAYERS, width, heads, heads, 4 * width, words, tokens, sequences, gated_mlp=False, tied_embeddings=True
    )
    fresh = bench_run.prepared("cpu", 1, __version__)
    timer = InTurns(timer_of(fresh), loop_of(n))
    found = anchoring.anchored(anchoring.plain(n.layer(), "cpu", True), timer, seconds)  # type: ignore[arg-type]
    rate = 3 * n.layer().linear_flops / sum(kinds["products"] for kinds in found["parts"].values())
    device = anchoring.rows_of(fresh, Tables(), None, "float32", rate, ("benchmarks/anchored.py", __version__))
    own = anchored(anchoring.content_of(found, fresh, settings_of(n), device, ""))
    path = folder / f"{width}.json"
    path.write_text(as_file(own), "utf-8")
    e = amped.estimate(NOTHING, lookup_tables=path, accelerator=device[0], **{**settings_of(n), "layers": LAYERS})
    return sum(timing.min for timing in timer.found), e["step_time"]


def main() -> None:
    """Prints a line for each size."""
    seconds, far = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0, False
    with TemporaryDirectory() as name:
        for size in SIZES:
            measured, predicted = compared(size, seconds, Path(name))
            error = predicted / measured - 1
            far |= abs(error) > ALLOWED
            told = f"{size[0]} wide, {size[3]} x {size[2]} tokens, {LAYERS} layers"
            print(
                f"{told}: measured {1e3 * measured:.1f} ms, predicted {1e3 * predicted:.1f} ms, {error:+.1%}",
                flush=True,
            )
    sys.exit(far)


if __name__ == "__main__":
    main()
