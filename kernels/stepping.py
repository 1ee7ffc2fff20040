"""A few real training steps of a small transformer, measured as a whole to be compared with an estimate."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from amped.base.errors import ConfigError
from amped.kernels import dense_layer
from amped.kernels.layer_shape import Shape
from amped.kernels.process_memory import Footprint, forget_peak, peak_bytes, resident_bytes, tensor_bytes
from amped.kernels.refusals import is_out_of_memory
from amped.kernels.timers import host_clock
from amped.kernels.torch_import import torch

SEED, LEARNING_RATE = 7, 1e-4
# The bytes of a parameter in full precision: itself, its gradient, two states. Source: definition of Adam.
BYTES_OF_A_PARAMETER = 16
LEAST_WIDTH, LEAST_CONTEXT, LEAST_VOCABULARY = 64, 32, 256


@dataclass(frozen=True)
class Network:
    """A dense decoder with norms before its blocks and learned positions, and the batch that it is trained with."""

    layers: int
    dimensionality: int
    attention_heads: int
    key_value_heads: int
    feedforward_dimension: int
    vocabulary_size: int
    context: int
    batch_size: int
    gated_mlp: bool
    tied_embeddings: bool

    def layer(self, dtype: str = "float32") -> Shape:
        """The shape of one layer of the network in this format."""
        return Shape(
            hidden=self.dimensionality, ffn=self.feedforward_dimension, heads=self.attention_heads, seq=self.context,
            batch=self.batch_size, dtype=dtype, dropout=0.0, causal=True, key_value_heads=self.key_value_heads,
            gated=self.gated_mlp, biased=False, batch_first=True,
        )  # fmt: skip

    @property
    def parameters(self) -> float:
        """The number of weights, without norms and biases."""
        ends = self.vocabulary_size * self.dimensionality * (1 if self.tied_embeddings else 2)
        return self.layers * self.layer().parameters + ends + self.context * self.dimensionality

    @property
    def flops(self) -> float:
        """The operations of a step: 6 for each weight and token, and attention.

        Source: arXiv 2001.08361, section 2.1.
        """
        tokens = self.batch_size * self.context
        return 6 * tokens * (self.parameters + 2 * self.layers * self.context * self.dimensionality)


def scaled(n: Network, most_bytes: float, most_flops: float) -> Network:
    """The network, made smaller until its states fit in `most_bytes` and its step in `most_flops`.

    First the batch is made smaller, then the number of layers, the vocabulary, the context and the width.

    Raises:
        ConfigError: if nothing remains that could be trained.
    """
    while n.parameters * BYTES_OF_A_PARAMETER > most_bytes or n.flops > most_flops:
        smaller = next(_smaller(n), None)
        if smaller is None:
            raise ConfigError("not even the smallest network of this shape fits", "allow more with --seconds")
        n = smaller
    return n


def _smaller(n: Network) -> Iterator[Network]:
    """The possible networks that are one step smaller, the preferred one first."""

    def halved(name: str, above: float, least: int = 1) -> Iterator[Network]:
        """The network with one size halved, but at least `least`; none if the size is not above `above`."""
        size = getattr(n, name)
        if size > above:
            yield replace(n, **{name: max(least, size // 2)})

    yield from halved("batch_size", 1)
    yield from halved("layers", 4, least=4)
    yield from halved("vocabulary_size", 32 * n.dimensionality**0.5 * 16)
    yield from halved("context", 1024)
    if n.attention_heads % 2 == 0 and n.dimensionality >= 2 * LEAST_WIDTH:
        heads, groups = n.attention_heads // 2, max(1, n.attention_heads // n.key_value_heads)
        inner = max(LEAST_WIDTH, n.feedforward_dimension // 2)
        yield replace(n, dimensionality=n.dimensionality // 2, feedforward_dimension=inner, attention_heads=heads,
                      key_value_heads=max(1, heads // groups))  # fmt: skip
    yield from halved("vocabulary_size", 2 * LEAST_VOCABULARY - 1)
    yield from halved("context", 2 * LEAST_CONTEXT - 1)
    yield from halved("layers", 1)


def weights(n: Network, device: str, dtype: str) -> dict[str, Any]:
    """All weights by name: words, positions, head (if it is separate), norm, and those of layer i with the prefix `i.`."""
    random = torch.Generator(device=device).manual_seed(SEED)
    width, options = n.dimensionality, {"device": device, "dtype": getattr(torch, dtype)}
    row_counts = {"words": n.vocabulary_size, "positions": n.context}
    row_counts |= {} if n.tied_embeddings else {"head": n.vocabulary_size}
    weights_by_name = {
        name: dense_layer.drawn((size, width), random, options["dtype"]).requires_grad_()
        for name, size in row_counts.items()
    }
    weights_by_name["norm"] = torch.ones(width, **options).requires_grad_()
    for i in range(n.layers):
        weights_by_name |= {
            f"{i}.{name}": weight for name, weight in dense_layer.parameters(n.layer(dtype), device).items()
        }
    return weights_by_name


def logits_of(n: Network, p: dense_layer.Parameters, words: Any) -> Any:
    """The logits of the network for token numbers `words`: embedding, layers, final norm, output head."""
    functional = dense_layer.functional
    x, shape = functional.embedding(words, p["words"]) + p["positions"], n.layer()
    for i in range(n.layers):
        layer_weights = {name.partition(".")[2]: weight for name, weight in p.items() if name.startswith(f"{i}.")}
        x = dense_layer.layer(x, layer_weights, shape, dense_layer.fused_attention)
    x = functional.layer_norm(x, p["norm"].shape, p["norm"], None, dense_layer.EPSILON)
    return functional.linear(x, p.get("head", p["words"]))


def loss_of(logits: Any, words: Any) -> Any:
    """The cross-entropy of logits, in fp32."""
    return dense_layer.functional.cross_entropy(logits.flatten(0, -2).float(), words.reshape(-1))


# A network that only serves to run every kernel once.
EMPTY = Network(
    layers=1, dimensionality=64, attention_heads=1, key_value_heads=1, feedforward_dimension=64, vocabulary_size=256,
    context=32, batch_size=1, gated_mlp=False, tied_embeddings=True,
)  # fmt: skip


@dataclass(frozen=True)
class Steps:
    """The measurements of a training.

    Attributes:
        times: the seconds of each step but the first.
        losses: the loss of each step.
        memory: the most bytes of memory.
    """

    times: tuple[float, ...]
    losses: tuple[float, ...]
    memory: Footprint

    @property
    def least(self) -> float:
        """The time of the fastest step."""
        return min(self.times)


def trained(n: Network, device: str, dtype: str, steps: int, tell: Callable[[int, float], None]) -> Steps:
    """The measurements of a training with AdamW on one random batch, so that the loss must fall.

    The first step allocates and does not count. On a processor, one more step follows in which the tensors are counted;
    and a tiny network is trained first, because torch loads its code in the first pass.

    Raises:
        ConfigError: if there is not enough memory.
    """
    bare = _in_use(device)
    if device == "cpu":
        _Training(EMPTY, device, dtype).step()
    forget_peak(device)
    loaded, times, losses = _in_use(device), [], []
    try:
        training = _Training(n, device, dtype)
        for i in range(steps + 1):
            seconds, loss = training.step()
            times.append(seconds)
            losses.append(loss)
            tell(i, seconds)
        memory = training.footprint(bare, loaded)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise ConfigError(f"out of memory with {asdict(n)}", "ask for fewer --seconds") from None
    return Steps(tuple(times[1:]), tuple(losses), memory)


class _Training:
    """A network with its one batch and its optimizer on a device."""

    def __init__(self, n: Network, device: str, dtype: str) -> None:
        self.n, self.device, self.weights = n, device, weights(n, device, dtype)
        random = torch.Generator(device=device).manual_seed(SEED)
        shape = (n.batch_size, n.context + 1)
        self.text = torch.randint(0, n.vocabulary_size, shape, device=device, generator=random)
        self.optimizer = torch.optim.AdamW(self.weights.values(), lr=LEARNING_RATE, foreach=True)

    def step(self) -> tuple[float, float]:
        """The seconds of a step, and its loss."""
        clock = host_clock() if self.device == "cpu" else time.perf_counter
        start = clock()
        logits = logits_of(self.n, self.weights, self.text[:, :-1])  # they stay until the step ends, as in most loops
        loss = loss_of(logits, self.text[:, 1:])
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)  # gradient buffers stay and are reset, as in estimates
        if self.device == "cuda":
            torch.cuda.synchronize()
        return clock() - start, float(loss.detach())

    def footprint(self, bare: float, loaded: float) -> Footprint:
        """The most memory of the step. The process had `bare` bytes at first, and `loaded` bytes with torch's code."""
        grown = max(0.0, peak_bytes(self.device) - bare)  # a process may meanwhile give back what others left
        if self.device == "cuda":
            return Footprint(grown, grown, 0.0)
        gradients = [w.grad for w in self.weights.values() if w.grad is not None]
        tensors = tensor_bytes(self.step, self.optimizer, (*self.weights.values(), *gradients, self.text))
        return Footprint(tensors, grown, loaded - bare)


def _in_use(device: str) -> float:
    """The bytes in use: those of tensors on a GPU, those of the process on a CPU."""
    return float(torch.cuda.memory_allocated()) if device == "cuda" else resident_bytes()
