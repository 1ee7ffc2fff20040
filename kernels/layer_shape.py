"""The sizes of a dense decoder layer, or of one device's share of it, and its work; and the sizes of an encoder layer."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from amped.base.errors import ConfigError, Problem


def refuse_impossible(of: Shape | Dimensions, heads_share_the_width: bool = True) -> None:
    """Refuses sizes that are not whole numbers above 0, and heads that cannot share the width of the layer.

    Raises:
        ConfigError: with every wrong size; or with the numbers of heads that are nearest and possible.
    """
    sizes = {name: getattr(of, name) for name in ("batch", "seq", "heads", "hidden", "ffn")}
    wrong = [
        Problem(f"{name} is {size!r}", advice=f"give --{name} a whole number above 0")
        for name, size in sizes.items()
        if not isinstance(size, int) or isinstance(size, bool) or size < 1
    ]
    if wrong:
        raise ConfigError(wrong)
    if heads_share_the_width and of.hidden % of.heads:
        divisors = (n for n in range(1, of.hidden + 1) if of.hidden % n == 0)
        best = sorted(divisors, key=lambda n: abs(n - of.heads))[:2]
        what = f"hidden {of.hidden} is not divisible by {of.heads} heads"
        raise ConfigError(what, f"--heads {' or '.join(map(str, sorted(best)))} would do")


@dataclass(frozen=True)
class Shape:
    """The sizes of the layer and of its input.

    Attributes:
        seq, batch: the sizes of the input, which has the shape (sequence, batch, hidden) unless `batch_first`.
        dtype: the format of all tensors.
        dropout: the probability after attention's softmax and projection.
        causal: whether later tokens are masked.
        key_value_heads: the heads of keys and values; 0 means as many as of queries.
        width_of_a_head: 0 means that the heads share the width of the layer.
        gated: whether the activation function has a gate (SwiGLU); else it is GELU.
        biased: whether products and norms have biases.
    """

    hidden: int = 4096
    ffn: int = 16384
    heads: int = 32
    seq: int = 2048
    batch: int = 4
    dtype: str = "bfloat16"
    dropout: float = 0.1
    causal: bool = False
    key_value_heads: int = 0
    width_of_a_head: int = 0
    gated: bool = False
    biased: bool = True
    batch_first: bool = False

    def __post_init__(self) -> None:
        """Refuses impossible sizes."""
        refuse_impossible(self, heads_share_the_width=not self.width_of_a_head)
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"--dropout {self.dropout} is no share", "give 0 to 1")

    @property
    def tokens(self) -> int:
        """The number of tokens of the input."""
        return self.seq * self.batch

    @property
    def head_dimension(self) -> int:
        """The width of a head."""
        return self.width_of_a_head or self.hidden // self.heads

    @property
    def kept_heads(self) -> int:
        """The number of heads of keys and values."""
        return self.key_value_heads or self.heads

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """The shapes of the four weights by name: rows are outputs, columns are inputs."""
        attended, kept = self.heads * self.head_dimension, self.kept_heads * self.head_dimension
        return {"qkv": (attended + 2 * kept, self.hidden), "projection": (self.hidden, attended),
                "up": ((2 if self.gated else 1) * self.ffn, self.hidden), "down": (self.hidden, self.ffn)}  # fmt: skip

    @property
    def parameters(self) -> float:
        """The number of weights of the four products. Source: definition."""
        return float(sum(rows * columns for rows, columns in self.shapes.values()))

    @property
    def linear_flops(self) -> float:
        """Operations of the four products with weights in the forward pass. Source: definition."""
        return 2.0 * self.tokens * self.parameters

    @property
    def attention_flops(self) -> float:
        """Operations of scores and weighted values over all pairs, forward pass. Source: arXiv 1706.03762, eq. 1."""
        return 4.0 * self.batch * self.heads * self.head_dimension * self.seq**2

    @property
    def step_flops(self) -> float:
        """Operations of forward and backward pass: each product has two gradients. Source: definition."""
        return 3 * (self.linear_flops + self.attention_flops)


@dataclass(frozen=True)
class Dimensions:
    """Sizes of an encoder layer; the feed-forward width is four times the embedding unless given."""

    batch: int
    seq: int
    heads: int
    hidden: int
    ffn: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "ffn", self.ffn or 4 * self.hidden)
        refuse_impossible(self)

    @property
    def sizes(self) -> dict[str, int]:
        """The length of each axis by its letter (see `tensor_layouts/spec.py`)."""
        return {"q": 3, "b": self.batch, "j": self.seq, "k": self.seq, "h": self.heads,
                "p": self.hidden // self.heads, "i": self.hidden, "u": self.ffn}  # fmt: skip

    def size(self, letters: str) -> int:
        """The number of elements of a tensor whose axes have these letters."""
        return prod(self.sizes[letter] for letter in letters)

    def __str__(self) -> str:
        return f"batch {self.batch}, seq {self.seq}, heads {self.heads}, hidden {self.hidden}, ffn {self.ffn}"
