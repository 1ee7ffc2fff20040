"""The operators of an encoder layer (post-norm, ReLU or GELU), forward and backward, and the tensors between them.

Letters: b batch, j query position, k key position (as many as j), h head, p place in a head, i embedding (h·p),
u feed-forward width, q the stack of keys, queries and values, in that order.
Source: Ivanov et al. 2021, table 1 and their code; names of operators are theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# The number of values of each letter; and the layouts of tensors by their names.
Sizes = Mapping[str, int]
Layouts = Mapping[str, str]
STACK = "q"
CONTRACTION, NORMALIZATION, ELEMENTWISE = "contraction", "normalization", "element-wise"
CLASSES = (CONTRACTION, NORMALIZATION, ELEMENTWISE)


# The tensors of the layer by their letters, in logical order.
_TENSORS = {
    "bji": "X ATT MASK1 LN1 LN1DIFF SB1 LIN2MM LIN2 MASK3 LN2 LN2DIFF Y DY DLN2 DRESID2 DLIN2 DSB1 DLN1 DRESID1 DATT "
    "DXATT DX",
    "qphi": "WKQV DWKQV",
    "qph": "BKQV DBKQV",
    "qphbj": "KQV KKQQVV DKKQQVV",
    "phbk": "KK VV DVV DKK",
    "phbj": "QQ GAMMA DGAMMA DQQ",
    "hbjk": "BETA ALPHA ATTN_MASK ATTN_DROP DATTN_DROP DBETA",
    "phi": "WO DWO",
    "i": "BO S1 B1 LINB2 S2 B2 DS2 DB2 DS1 DB1 DLINB2 DBO",
    "bj": "LN1STD LN2STD",
    "ui": "LINW1 DLINW1",
    "u": "LINB1 DLINB1",
    "bju": "LIN1MM LIN1 MASK2 DROP2 DDROP2 DLIN1",
    "iu": "LINW2 DLINW2",
    "hbj": "LSE",
}
LETTERS = {name: letters for letters, names in _TENSORS.items() for name in names.split()}
# The three parts of a stack, and of the stack of gradients: the stack, and their place in it.
SLICES = {
    f"{d}{name}": (f"{d}KKQQVV", place) for d in ("", "D") for place, name in enumerate(("KK", "QQ", "VV"))
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Operator:
    """One kernel of the layer.

    Attributes:
        kind: contraction, normalization (over a dimension) or element-wise.
        einsum: for a contraction, its einsum in the letters of its tensors.
        scaled: whether the contraction is multiplied by 1/√p.
        kernel: for another operator, the fused kernel that it calls.
        flop: for another operator, its flop for each value of tensors with these letters. Additions, products,
            divisions and exponentials count one each, comparisons and random numbers nothing.
        unfused: the words of the elementary kernels that a framework would call instead, for each value of these
            letters.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    einsum: str = ""
    scaled: bool = False
    kernel: str = ""
    flop: dict[str, int] = field(default_factory=dict)
    unfused: dict[str, int] = field(default_factory=dict)

    @property
    def tensors(self) -> tuple[str, ...]:
        """The tensors that it reads, and then those that it writes."""
        return (*self.inputs, *self.outputs)

    @property
    def forward(self) -> bool:
        """Whether the operator belongs to the forward pass."""
        return self in FORWARD or self.name == "sdpa"


def _gemm(name: str, tensors: str, scaled: bool = False) -> Operator:
    first, second, out = tensors.split()
    einsum = f"{LETTERS[first]},{LETTERS[second]}->{LETTERS[out]}"
    return Operator(name, CONTRACTION, (first, second), (out,), einsum, scaled)


def _fused(name: str, kind: str, tensors: str, flop: dict[str, int], unfused: dict[str, int] | None = None) -> Operator:
    """An operator with a fused kernel of its name, without the number of the block if both blocks have the kernel."""
    inputs, outputs = (tuple(part.split()) for part in tensors.split("->"))
    return Operator(name, kind, inputs, outputs, kernel=name.rstrip("12"), flop=flop, unfused=unfused or {})


# The words of elementary kernels, for each value:
# softmax 2 and dropout 3; backward 3 and 3;
# bias 2, dropout 3, residual 3 and a layer norm that keeps its input 2; its backward: dx 3, dγ and dβ 2; dropout's 3;
# bias 2, ReLU 2, dropout 3; backward dropout 3, ReLU 3, bias 1;
# sum of the residual gradient 3, gradient of the bias 1. Dropout keeps a mask as large as its input.
FORWARD = (
    _gemm("QKV", "WKQV X KQV"),
    _fused("aib", ELEMENTWISE, "KQV BKQV -> KKQQVV", {"qphbj": 1}),
    _gemm("QKT", "KK QQ BETA", scaled=True),
    _fused("softmax", NORMALIZATION, "BETA -> ALPHA ATTN_MASK ATTN_DROP", {"hbjk": 6}, {"hbjk": 5}),
    _gemm("gamma", "VV ATTN_DROP GAMMA"),
    _gemm("out", "WO GAMMA ATT"),
    _fused("bdrln1", NORMALIZATION, "ATT BO X S1 B1 -> MASK1 SB1 LN1 LN1DIFF LN1STD",
           {"bji": 10, "bj": 6}, {"bji": 10}),
    _gemm("lin1", "SB1 LINW1 LIN1MM"),
    _fused("bad", ELEMENTWISE, "LIN1MM LINB1 -> LIN1 MASK2 DROP2", {"bju": 2}, {"bju": 7}),
    _gemm("lin2", "DROP2 LINW2 LIN2MM"),
    _fused("bdrln2", NORMALIZATION, "LIN2MM LINB2 SB1 S2 B2 -> LIN2 MASK3 Y LN2 LN2DIFF LN2STD",
           {"bji": 10, "bj": 6}, {"bji": 10}),
)  # fmt: skip
BACKWARD = (
    _fused("bsb", NORMALIZATION, "DY LN2 S2 -> DLN2 DS2 DB2", {"bji": 4}, {"bji": 2}),
    _fused("blnrd1", NORMALIZATION, "DLN2 LN2DIFF MASK3 LN2STD -> DRESID2 DLIN2",
           {"bji": 9, "bj": 4}, {"bji": 6}),
    _gemm("dXlin2", "DLIN2 LINW2 DDROP2"),
    _gemm("dWlin2", "DLIN2 DROP2 DLINW2"),
    _fused("bdrlb", ELEMENTWISE, "DDROP2 MASK2 LIN1 -> DLIN1 DLINB1", {"bju": 3}, {"bju": 7}),
    _gemm("dXlin1", "DLIN1 LINW1 DSB1"),
    _gemm("dWlin1", "DLIN1 SB1 DLINW1"),
    _fused("ebsb", NORMALIZATION, "DRESID2 DSB1 LN1 DLIN2 S1 -> DLN1 DS1 DB1 DLINB2",
           {"bji": 6}, {"bji": 6}),
    _fused("blnrd2", NORMALIZATION, "DLN1 LN1DIFF MASK1 LN1STD -> DRESID1 DATT",
           {"bji": 9, "bj": 4}, {"bji": 6}),
    _fused("baob", ELEMENTWISE, "DATT -> DBO", {"bji": 1}),
    _gemm("dXout", "WO DATT DGAMMA"),
    _gemm("dWout", "GAMMA DATT DWO"),
    _gemm("dX1gamma", "VV DGAMMA DATTN_DROP"),
    _gemm("dX2gamma", "DGAMMA ATTN_DROP DVV"),
    _fused("bs", NORMALIZATION, "DATTN_DROP ATTN_MASK ALPHA -> DBETA", {"hbjk": 6}, {"hbjk": 6}),
    _gemm("dX1QKT", "KK DBETA DQQ", scaled=True),
    _gemm("dX2QKT", "QQ DBETA DKK", scaled=True),
    _fused("baib", ELEMENTWISE, "DKKQQVV -> DBKQV", {"qphbj": 1}),
    _gemm("dXQKV", "WKQV DKKQQVV DXATT"),
    _gemm("dWQKV", "X DKKQQVV DWKQV"),
    _fused("bei", ELEMENTWISE, "DXATT DRESID1 -> DX", {"bji": 1}),
)  # fmt: skip
ENCODER = (*FORWARD, *BACKWARD)
# What only the gradient of the layer's input needs.
INPUT_ONLY = ("dXQKV", "bei")

# The layer with fused attention (SDPA), which keeps the log-sum-exp of each row and computes the scores again.
_SDPA = Operator("sdpa", CONTRACTION, ("KK", "QQ", "VV"), ("GAMMA", "LSE"), kernel="sdpa",
                 flop={"hbjkp": 4, "hbjk": 6})  # fmt: skip
_SDPA_BACKWARD = Operator("sdpa_bwd", CONTRACTION, ("KK", "QQ", "VV", "GAMMA", "LSE", "DGAMMA"), ("DQQ", "DKK", "DVV"),
                          kernel="sdpa_bwd", flop={"hbjkp": 10, "hbjk": 12})  # fmt: skip
# What takes the place of explicit attention's operators; the others of them are left out.
_INSTEAD = {"QKT": _SDPA, "dX1gamma": _SDPA_BACKWARD}
_LEFT_OUT = {"softmax", "gamma", "dX2gamma", "bs", "dX1QKT", "dX2QKT"}
ENCODER_FLASH = tuple(_INSTEAD.get(o.name, o) for o in ENCODER if o.name not in _LEFT_OUT)
LAYERS = {"explicit": ENCODER, "sdpa": ENCODER_FLASH}
OPERATORS = {operator.name: operator for operator in (*ENCODER, *ENCODER_FLASH)}
