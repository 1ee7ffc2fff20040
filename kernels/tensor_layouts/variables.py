"""Which tensors share a layout, and which layouts a layer may have.

The lean policy: a tensor that no contraction reads has the layout of a tensor that is written with it (masks, x̂ and
statistics follow the output of their kernel, the gradient of scores follows the scores that were kept). A fused kernel
therefore has only the layouts of its main inputs and outputs to choose from. Three more groups share a layout: the
layer's input and output, so that layers can follow one another; a weight and its gradient; and the parts of one stack.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import permutations, product

from amped.base.errors import Problem, did_you_mean, quoted
from amped.kernels.tensor_layouts.gemms import gemm_layouts, is_one_gemm
from amped.kernels.tensor_layouts.spec import LAYER, LAYERS, LETTERS, SLICES, STACK, Layouts, Operator, keys_of

# The layouts of an operator's variables.
Choice = tuple[str, ...]

FOLLOWS = keys_of(LAYER["followers"])
# In these layouts, every kernel of torch's scaled_dot_product_attention takes keys, queries and values without a copy.
SDPA_STACKS = ("qbhjp", "qbjhp", "qjbhp")


def variable_of(tensor: str) -> str:
    """The name of the tensor whose layout decides the layout of this tensor."""
    return FOLLOWS.get(tensor, tensor)


def has_layout(tensor: str) -> bool:
    """Whether the layout of a tensor can be chosen. Vectors have one, and SDPA fixes that of a row's log-sum-exp."""
    return len(LETTERS[tensor]) > 1 and tensor not in ("BKQV", "DBKQV", "LSE")


def variables_of(operator: Operator) -> tuple[str, ...]:
    """The names of the tensors whose layouts decide an operator's time."""
    tensors = [name for name in operator.tensors if has_layout(name)]
    if operator.kernel == "sdpa_bwd":
        tensors.remove("GAMMA")  # torch keeps its own
    return tuple(dict.fromkeys(variable_of(name) for name in tensors))


def variables(attention: str) -> tuple[str, ...]:
    """The names of all tensors of a layer whose layouts are chosen."""
    return tuple(dict.fromkeys(name for operator in LAYERS[attention] for name in variables_of(operator)))


# The layouts of a layer without a plan: the natural order, except where contractions do not allow it.
ROW_MAJOR = {name: LETTERS[name] for name in variables("explicit")} | {"KKQQVV": "qhbjp"}


def layout_of(tensor: str, layouts: Layouts) -> str:
    """The layout of a tensor, if `layouts` are chosen.

    A part of a stack has one letter less than the stack, and keys have k in place of j.
    """
    return _laid(tensor, layouts[variable_of(tensor)]) if has_layout(tensor) else LETTERS[tensor]


@cache
def _laid(tensor: str, chosen: str) -> str:
    """The layout of a tensor, from the layout `chosen` of the tensor that decides it."""
    letters = LETTERS[tensor]
    if tensor in SLICES and "k" in letters:
        chosen = chosen.replace("j", "k")
    return "".join(letter for letter in chosen if letter in letters)


@cache
def domain(variable: str) -> tuple[str, ...]:
    """Every layout that a variable can have; in a stack, the elements of each part are adjacent."""
    orders = ("".join(letters) for letters in permutations(LETTERS[variable]))
    stacked = variable != "WKQV" and STACK in LETTERS[variable]
    return tuple(layout for layout in orders if layout[0] == STACK or not stacked)


@cache
def rows_of(operator: Operator) -> tuple[Choice, ...]:
    """All choices of layouts for an operator's variables in which it can run: as one GEMM, a fused kernel, or by SDPA."""
    names = variables_of(operator)
    if not operator.einsum:
        fused = operator.kernel in ("sdpa", "sdpa_bwd")
        domains = (SDPA_STACKS if fused and name == "KKQQVV" else domain(name) for name in names)
        return tuple(product(*domains))
    choices = (choice_of(operator, layouts) for layouts in gemm_layouts(operator))
    return tuple(sorted({row for row in choices if row is not None}))


def choice_of(operator: Operator, layouts: Layouts) -> Choice | None:
    """The layouts of an operator's variables that give its tensors these layouts.

    None if the parts of one stack have different layouts, or if they are interleaved.
    """
    names = variables_of(operator)
    if not operator.einsum:
        return tuple(layouts[name] for name in names)
    chosen: dict[str, str] = {}
    for tensor, layout in layouts.items():
        stack = STACK if tensor in SLICES else ""
        decided = stack + (layout.replace("k", "j") if stack else layout)
        name = variable_of(tensor)
        if chosen.setdefault(name, decided) != decided or decided not in domain(name):
            return None
    return tuple(chosen[name] for name in names)


def row_layouts(operator: Operator) -> tuple[dict[str, str], ...]:
    """All layouts, by name, in which an operator can be measured: of a contraction's tensors, else of the variables."""
    if operator.einsum:
        return gemm_layouts(operator)
    return tuple(dict(zip(variables_of(operator), choice, strict=True)) for choice in rows_of(operator))


def row_names(operator: Operator) -> tuple[str, ...]:
    """The names in a measured row's layouts: a contraction's tensors, or the variables of another operator."""
    return operator.tensors if operator.einsum else variables_of(operator)


def layout_problems(layouts: Mapping[str, object], attention: str) -> Iterator[Problem]:
    """The problems with a choice of layouts: missing or unknown tensors, wrong letters, operators that cannot run."""
    names = variables(attention)
    for name in layouts.keys() - set(names):
        yield Problem(f"no tensor {quoted(name)} has a layout of its own", advice=did_you_mean(str(name), names))
    wrong = [name for name in names if layouts.get(name) not in domain(name)]
    for name in wrong:
        is_none = f"{quoted(layouts.get(name))} is no layout of {name}"
        what = is_none if name in layouts else f"the layout of {name} is missing"
        yield Problem(what, advice=f"one of {_some(domain(name))}")
    if wrong:
        return
    chosen = {name: str(layouts[name]) for name in names}
    for operator in (o for o in LAYERS[attention] if o.einsum):
        a, b, c = laid = [layout_of(name, chosen) for name in operator.tensors]
        if not is_one_gemm(operator.einsum, laid):
            yield Problem(f"{operator.name} with layouts {a}, {b} → {c} is not one GEMM")


def _some(options: tuple[str, ...]) -> str:
    """The first six options in a text, and the number of further ones."""
    return ", ".join(options[:6]) + (f" and {len(options) - 6} more" if len(options) > 6 else "")
