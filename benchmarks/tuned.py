"""Real loops of full and LoRA fine-tuning with Adam and with Muon on a processor, beside predictions after one anchor.

One layer of the middle size, trained with AdamW, is measured: it fixes the machine's coefficients. All loops have four layers,
at three sizes, and are timed in turns with that layer, so that what else runs on the machine slows all of them; the minimum of
each part counts. Memory is that of all tensors that are alive at once in a step. It ends with 1 if a time is off by more than
8 %, or a memory by more than 2 %.

    python benchmarks/tuned.py [SECONDS for each part]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from anchored import LAYERS, NOTHING, SIZES, InTurns, settings_of  # a script's folder is on the path

import amped
from amped.base.version import __version__
from amped.calibration.anchor import anchored, as_file
from amped.kernels import anchoring, bench_run, dense_layer, stepping
from amped.kernels.process_memory import tensor_bytes
from amped.kernels.running import timer_of
from amped.kernels.torch_import import torch
from amped.tables.tables import Tables

ANCHOR, RANK = SIZES[1], 16
MOST_OF_TIME, MOST_OF_MEMORY = 0.08, 0.02
# What a loop trains, and with what: the parameters of its estimate.
METHODS: dict[str, dict[str, Any]] = {
    "full": {"adapters": "none"},
    "lora": {"adapters": "lora", "adapter_rank": RANK, "joint_adapters": True},
}
OPTIMIZERS = ("adam", "muon")
# The coefficients of a Newton-Schulz step, and of the momentum. Source: Keller Jordan, Muon.
A, B, C, MOMENTUM, STEPS = 3.4445, -4.7750, 2.0315, 0.95, 5
functional: Any = dense_layer.functional


class Muon:
    """Muon for the given matrices in fp32, and AdamW for all other weights."""

    def __init__(self, matrices: list[Any], others: list[Any]) -> None:
        """Takes the weights. Queries, keys and values are a matrix each."""
        self.matrices = matrices
        self.momenta = [torch.zeros_like(w) for w in matrices]
        self.adam = torch.optim.AdamW(others, lr=stepping.LEARNING_RATE, foreach=True) if others else None

    def step(self) -> None:
        """Updates all weights, and resets the gradients."""
        if self.adam:
            self.adam.step()
            self.adam.zero_grad(set_to_none=False)
        with torch.no_grad():
            gradients = [w.grad for w in self.matrices]
            torch._foreach_mul_(self.momenta, MOMENTUM)
            torch._foreach_add_(self.momenta, gradients)
            for weight, momentum in zip(self.matrices, self.momenta, strict=True):
                joined = 3 if weight.shape[0] == 3 * weight.shape[1] else 1
                for w, m in zip(weight.chunk(joined), momentum.chunk(joined), strict=True):
                    w.add_(orthogonal(m), alpha=-stepping.LEARNING_RATE)
            torch._foreach_zero_(gradients)


def orthogonal(m: Any) -> Any:
    """A matrix near the orthogonal one that is closest to the given one."""
    x = m / (m.norm() + 1e-7)
    is_tall = x.shape[0] > x.shape[1]
    x = x.mT if is_tall else x
    for _ in range(STEPS):
        gram = x @ x.mT
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=B, alpha=C), x, beta=A)
    return x.mT if is_tall else x


class Loop:
    """A network, its batch and its optimizer; a step has three parts."""

    def __init__(self, n: stepping.Network, method: str, optimizer: str) -> None:
        """Makes the weights; with adapters all other weights are frozen."""
        self.n, self.weights, self.left = n, stepping.weights(n, "cpu", "float32"), dict[str, Any]()
        if method == "lora":
            self.weights |= dict(self.adapters())
        self.trained = [w for w in self.weights.values() if w.requires_grad]
        matrices = [w for name, w in self.weights.items() if w.requires_grad and "." in name and w.dim() == 2]
        others = [w for w in self.trained if not any(w is m for m in matrices)]
        if optimizer == "muon":
            self.optimizer: Any = Muon(matrices, others)
        else:
            self.optimizer = torch.optim.AdamW(self.trained, lr=stepping.LEARNING_RATE, foreach=True)
        self.text = torch.randint(0, n.vocabulary_size, (n.batch_size, n.context + 1))

    def adapters(self) -> Iterator[tuple[str, Any]]:
        """The weights of adapters beside each product by name; it freezes all others."""
        for name, weight in self.weights.items():
            weight.requires_grad_(False)
            if "." in name and weight.dim() == 2:
                rows, columns = weight.shape
                yield f"{name}_in", (torch.randn(RANK, columns) / 16).requires_grad_()
                yield f"{name}_out", torch.zeros(rows, RANK).requires_grad_()

    def forward(self) -> None:
        """The logits and the loss of the batch."""
        n, words = self.n, self.text[:, :-1]
        x = functional.embedding(words, self.weights["words"]) + self.weights["positions"]
        for i in range(n.layers):
            own = {name.partition(".")[2]: w for name, w in self.weights.items() if name.startswith(f"{i}.")}
            x = dense_layer.layer(x, own, n.layer(), dense_layer.fused_attention, beside(own))
        x = functional.layer_norm(x, (n.dimensionality,), self.weights["norm"], None, dense_layer.EPSILON)
        self.left["logits"] = functional.linear(x, self.weights.get("head", self.weights["words"]))
        self.left["loss"] = stepping.loss_of(self.left["logits"], self.text[:, 1:])

    def backward(self) -> None:
        """The gradients of the loss."""
        self.left["loss"].backward()

    def update(self) -> None:
        """The optimizer's step; gradients are reset."""
        self.optimizer.step()
        if not isinstance(self.optimizer, Muon):
            self.optimizer.zero_grad(set_to_none=False)

    def memory(self) -> float:
        """The most bytes of all tensors that are alive at once in a step, after a step that makes all states."""
        own = self.optimizer
        states = own.momenta if isinstance(own, Muon) else []
        adam = own.adam if isinstance(own, Muon) else own
        kept = [state for one in (adam.state.values() if adam else ()) for state in one.values()]
        gradients = [w.grad for w in self.trained]
        step = lambda: [part() for part in (self.forward, self.backward, self.update)]  # noqa: E731
        self.left.clear()
        nothing = torch.optim.SGD([torch.zeros(1)])
        return tensor_bytes(step, nothing, (*self.weights.values(), *gradients, *states, *kept, self.text)) or 0.0


def beside(weights: dict[str, Any]) -> Callable[..., Any]:
    """The product with a weight, with the adapter beside it if the layer has adapters."""

    def product(name: str, x: Any, weight: Any, bias: Any) -> Any:
        y, first = functional.linear(x, weight, bias), weights.get(f"{name}_weight_in")
        if first is None:
            return y
        return y + functional.linear(functional.linear(x, first), weights[f"{name}_weight_out"]) * 2.0

    return product


def network(size: tuple[int, ...]) -> stepping.Network:
    """The network of a size."""
    width, heads, tokens, sequences, words = size
    return stepping.Network(
        LAYERS, width, heads, heads, 4 * width, words, tokens, sequences, gated_mlp=False, tied_embeddings=True
    )


def compared(size: tuple[int, ...], seconds: float, folder: Path) -> Iterator[tuple[str, float, float, float, float]]:
    """For each loop of a size: its name, measured and predicted seconds, measured and predicted bytes."""
    n, anchor = network(size), network(ANCHOR)
    loops = {(method, name): Loop(n, method, name) for method in METHODS for name in OPTIMIZERS}
    fresh = bench_run.prepared("cpu", 1, __version__)
    parts = [part for loop in loops.values() for part in (loop.forward, loop.backward, loop.update)]
    timer = InTurns(timer_of(fresh), parts)
    found = anchoring.anchored(anchoring.plain(anchor.layer(), "cpu", True), timer, seconds)  # type: ignore[arg-type]
    rate = 3 * anchor.layer().linear_flops / sum(kinds["products"] for kinds in found["parts"].values())
    device = anchoring.rows_of(fresh, Tables(), None, "float32", rate, ("benchmarks/tuned.py", __version__))
    path = folder / f"{size[0]}.json"
    path.write_text(as_file(anchored(anchoring.content_of(found, fresh, settings_of(anchor), device, ""))), "utf-8")
    times = [timing.min for timing in timer.found]
    for place, ((method, name), loop) in enumerate(loops.items()):
        settings = {**settings_of(n), "layers": LAYERS, **METHODS[method], "optimizer": name}
        e = amped.estimate(NOTHING, lookup_tables=path, accelerator=device[0], **settings)
        if "--parts" in sys.argv:
            told_parts(times[3 * place : 3 * place + 3], e)
        yield (f"{method} {name}", sum(times[3 * place : 3 * place + 3]), e["step_time"], loop.memory(),
               e["memory_per_accelerator_bytes"])  # fmt: skip


def told_parts(measured: list[float], e: amped.Estimate) -> None:
    """Prints the parts of a step: measured and predicted milliseconds."""
    backward = e["compute_backward_time"] + e["weight_update_time"]
    predicted = (e["compute_forward_time"], backward, e["optimizer_time"])
    print("   ", *(f"{1e3 * m:.1f}/{1e3 * p:.1f}" for m, p in zip(measured, predicted, strict=True)), flush=True)


def main() -> None:
    """Prints a line for each loop."""
    seconds, misses = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0, 0
    with TemporaryDirectory() as folder:
        for size in SIZES:
            for name, time, predicted, memory, predicted_memory in compared(size, seconds, Path(folder)):
                error, memory_error = predicted / time - 1, predicted_memory / memory - 1
                missed = abs(error) > MOST_OF_TIME or abs(memory_error) > MOST_OF_MEMORY
                misses += missed
                told = (
                    f"{size[0]} wide, {name:9}: {1e3 * time:7.1f} ms, predicted {1e3 * predicted:7.1f} ({error:+.1%}); "
                )
                told += f"{memory / 1e6:6.1f} MB, predicted {predicted_memory / 1e6:6.1f} ({memory_error:+.1%})"
                print(f"{told}{'  missed' if missed else ''}", flush=True)
    sys.exit(misses > 0)


if __name__ == "__main__":
    main()
