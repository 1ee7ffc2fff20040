"""Which layouts there are: every one in which a contraction is one GEMM, and what shares a layout with what."""

from itertools import pairwise, permutations, product

import pytest

from amped.kernels.layer_shape import Dimensions
from amped.kernels.tensor_layouts.gemms import gemm_call, gemm_layouts, is_one_gemm
from amped.kernels.tensor_layouts.graph import usable_rows
from amped.kernels.tensor_layouts.spec import ENCODER, LETTERS, OPERATORS
from amped.kernels.tensor_layouts.variables import (
    ROW_MAJOR,
    choice_of,
    has_layout,
    layout_of,
    layout_problems,
    rows_of,
    variables,
    variables_of,
)
from tests.helpers.tensor_layouts import CONTRACTIONS, random_plan

LONG = Dimensions(8, 512, 16, 1024)
VALID = {"QKV": 96, "QKT": 128, "gamma": 128, "out": 32, "lin1": 16, "lin2": 16, "dXlin2": 16, "dWlin2": 16,
         "dXlin1": 16, "dWlin1": 16, "dXout": 32, "dWout": 32, "dX1gamma": 128, "dX2gamma": 128, "dX1QKT": 128,
         "dX2QKT": 128, "dXQKV": 96, "dWQKV": 96}  # fmt: skip


def test_the_published_numbers_of_layouts_are_found():
    assert {o.name: len(gemm_layouts(o)) for o in CONTRACTIONS} == VALID
    assert sum(VALID.values()) == 1248


def distinct_calls(operator):
    """The GEMMs that an operator's layouts come to: each need be timed once."""
    return {gemm_call(operator.einsum, tuple(layouts.values()), LONG.sizes) for layouts in gemm_layouts(operator)}


def test_layouts_come_to_404_distinct_calls():
    distinct = {o.name: len(distinct_calls(o)) for o in CONTRACTIONS}
    assert sum(distinct.values()) == 404
    assert (distinct["QKV"], distinct["QKT"], distinct["gamma"], distinct["dX1QKT"]) == (8, 32, 64, 64)
    assert len({call for o in CONTRACTIONS for call in distinct_calls(o)}) == 144  # some are other operators' too


@pytest.mark.parametrize(
    ("einsum", "layouts", "why"),
    [
        ("phbk,phbj->hbjk", ("phbk", "phbj", "jkhb"), "a batch letter is innermost"),
        ("phbk,phbj->hbjk", ("phbk", "phbj", "bhjk"), "batch letters are in another order"),
        ("phbk,phbj->hbjk", ("hpbk", "phbj", "hbjk"), "batch letters do not lie together"),
        ("bji,ui->bju", ("bij", "ui", "bju"), "the rows' letters do not lie together"),
        ("bji,ui->bju", ("jbi", "ui", "bju"), "the rows' letters are in another order"),
        ("phi,bji->phbj", ("phi", "bji", "bhpj"), "both matrix classes are torn apart"),
    ],
)
def test_layouts_that_are_not_one_gemm_are_refused(einsum, layouts, why):
    assert not is_one_gemm(einsum, layouts), why


@pytest.mark.parametrize("name", ["lin1", "dWlin2", "out", "QKT"])
def test_the_rules_find_what_strides_allow(name):
    """A slow twin: a layout is one GEMM if offsets of every class are multiples of one stride, found by listing them."""
    operator = OPERATORS[name]
    sizes = {"q": 3, "b": 2, "j": 3, "k": 5, "h": 7, "p": 11, "i": 13, "u": 17}
    terms = operator.einsum.replace("->", ",").split(",")
    found = set()
    for layouts in product(*(["".join(p) for p in permutations(term)] for term in terms)):
        if _one_gemm_by_offsets(terms, layouts, sizes):
            found.add(layouts)
    assert found == {tuple(layouts.values()) for layouts in gemm_layouts(operator)}


def _one_gemm_by_offsets(terms, layouts, sizes):
    letters = {letter for term in terms for letter in term}
    classes = {}
    for letter in sorted(letters):
        classes.setdefault(tuple(letter in term for term in terms), []).append(letter)
    batch = classes.get((True, True, True), [])
    strides = [{x: _product(sizes[y] for y in lay[lay.index(x) + 1 :]) for x in lay} for lay in layouts]
    if any(stride[x] == 1 for stride in strides for x in batch):
        return False
    return all(_one_order(group, strides, sizes) for group in classes.values())


def _one_order(group, strides, sizes):
    """Whether some order of a class's letters has every stride the product of those further in, in each tensor."""
    return any(
        all(s[x] == s[y] * sizes[y] for x, y in pairwise(order) for s in strides if x in s)
        for order in permutations(group)
    )


def _product(numbers):
    result = 1
    for number in numbers:
        result *= number
    return result


def test_a_gemm_is_told_in_column_major_terms():
    """lin1 row-major: y[bj,u] = x[bj,i]·W[u,i]ᵀ, which BLAS sees as yᵀ = W·xᵀ."""
    call = gemm_call("bji,ui->bju", ("bji", "ui", "bju"), LONG.sizes)
    assert (call.m, call.n, call.k, call.batch) == (4096, 4096, 1024, 1)
    assert (call.transpose_a, call.transpose_b, call.lda, call.ldb, call.ldc) == (True, False, 1024, 1024, 4096)
    call = gemm_call("phbk,phbj->hbjk", ("hbkp", "hbjp", "hbjk"), LONG.sizes)
    assert (call.m, call.n, call.k, call.batch, call.ldc, call.stride_c) == (512, 512, 64, 128, 512, 512 * 512)


def test_fused_kernels_have_the_lean_layouts():
    counts = {o.kernel: len(rows_of(o)) for o in ENCODER if o.kernel}
    assert counts == {"aib": 576, "softmax": 576, "bdrln": 216, "bad": 36, "bsb": 6, "blnrd": 36, "bdrlb": 36,
                      "ebsb": 216, "baob": 6, "bs": 576, "baib": 24, "bei": 216}  # fmt: skip


def test_rows_that_no_layer_can_use_are_left_out():
    usable = usable_rows("explicit")
    assert sum(map(len, usable.values())) == 413
    for seed in range(3):
        plan = random_plan(seed)
        for operator in ENCODER:
            assert tuple(plan.layouts[name] for name in variables_of(operator)) in usable[operator.name]


@pytest.mark.parametrize("seed", range(5))
def test_what_is_the_same_lies_the_same_in_every_plan(seed):
    plan = random_plan(seed)
    same = [("X", "Y"), ("X", "DY"), ("X", "DX"), *((name, f"D{name}") for name in ("WKQV", "WO", "LINW1", "LINW2"))]
    assert all(plan.layout(one) == plan.layout(other) for one, other in same)
    assert plan.layout("KK").replace("k", "j") == plan.layout("QQ") == plan.layout("VV").replace("k", "j")
    assert plan.layout("KKQQVV")[0] == plan.layout("DKKQQVV")[0] == "q"
    for operator in ENCODER:
        for tensor in (*operator.inputs, *operator.outputs):
            if has_layout(tensor):
                assert sorted(plan.layout(tensor)) == sorted(LETTERS[tensor])


def test_the_natural_order_can_be_run():
    assert list(layout_problems(ROW_MAJOR, "explicit")) == []
    assert set(ROW_MAJOR) == set(variables("explicit"))


def test_parts_of_a_stack_that_lie_differently_are_no_choice():
    layouts = {"KK": "phbk", "QQ": "hbjp", "BETA": "hbjk"}
    assert choice_of(OPERATORS["QKT"], layouts) is None
    assert choice_of(OPERATORS["QKT"], layouts | {"QQ": "phbj"}) == ("qphbj", "hbjk")
    assert layout_of("KK", {"KKQQVV": "qphbj"}) == "phbk"
