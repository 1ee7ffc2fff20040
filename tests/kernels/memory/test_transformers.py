"""Models of transformers with random weights: `convert` saves what placing every module by hand saves, and says so.

Where it saves more, a product computes an activation function again, so that its output need not be kept at all.
"""

import copy
import sys
from functools import partial

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'amped[torch]'")
transformers = pytest.importorskip("transformers", reason="needs transformers, which .ci/run installs")
from amped.kernels import memory  # noqa: E402
from amped.kernels.memory import conversion  # noqa: E402
from amped.kernels.memory.conversion import KEPT_ANYWAY, NO_SAVING  # noqa: E402
from amped.kernels.memory.sites import NO_PRODUCT  # noqa: E402
from amped.kernels.memory.transformers_attention import CACHED, OTHERS  # noqa: E402

torch.set_num_threads(1)
WORDS = torch.randint(0, 128, (2, 16), generator=torch.Generator().manual_seed(0))
IMAGE = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
WORDED = SIZES | {"vocab_size": 128}
GROUPED = WORDED | {"num_key_value_heads": 1, "head_dim": 16}
EAGER = {"attn_implementation": "eager", "use_cache": False}
AGAIN = memory.Policy(("dropout_recomputation",))
BOTH = {"d_model": 32, "vocab_size": 128, **{f"{part}_{what}": n for part in ("encoder", "decoder") for what, n in
                                              (("layers", 2), ("attention_heads", 2), ("ffn_dim", 64))}}  # fmt: skip
T5 = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2, "vocab_size": 128}
# Of each network the sizes, and what its batch has beside words.
MODELS = {
    "Bert": (WORDED, {}), "Roberta": (WORDED | {"max_position_embeddings": 64}, {}), "Llama": (WORDED, {}),
    "GPT2": ({"n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 128, "bos_token_id": 0, "eos_token_id": 0}, {}),
    "ViT": (SIZES | {"image_size": 16, "patch_size": 4}, {"pixel_values": IMAGE}),
    "T5": (T5 | {"feed_forward_proj": "gated-gelu"}, {"decoder_input_ids": WORDS}),
}  # fmt: skip
MORE = {
    "DistilBert": ({"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64, "vocab_size": 128}, {}),
    "Electra": (WORDED | {"embedding_size": 32}, {}), "DebertaV2": (WORDED, {}), "Mistral": (GROUPED, {}),
    "Qwen2": (GROUPED, {}), "GPTNeoX": (WORDED, {}), "Phi": (WORDED, {}), "Bart": (BOTH, {}),
    "OPT": ({"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "ffn_dim": 64, "vocab_size": 128,
             "word_embed_proj_dim": 32}, {}),
}  # fmt: skip
BY_HAND = {
    "GELUActivation": (memory.InplaceGELU, {"approximate": "none"}), "LayerNorm": (memory.InplaceLayerNorm, {}),
    "NewGELUActivation": (memory.InplaceGELU, {"approximate": "tanh"}),
    "SiLUActivation": (memory.InplaceSiLU, {"inplace": False}), "SiLU": (memory.InplaceSiLU, {"inplace": False}),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _no_clock(monkeypatch):
    monkeypatch.setattr(conversion, "_seconds", lambda alone, x: 0.0)


def made(name, sizes):
    torch.manual_seed(0)
    return getattr(transformers, f"{name}Model")(getattr(transformers, f"{name}Config")(**sizes)).train()


def placed_by_hand(model):
    for module in model.modules():
        kind, own = BY_HAND.get(type(module).__name__, (None, {}))
        if hasattr(module, "variance_epsilon"):
            eps, shape = module.variance_epsilon, tuple(module.weight.shape)
            kind, own = memory.InplaceRMSNorm, {"eps": eps, "normalized_shape": shape, "elementwise_affine": True}
        if kind:
            module.__class__ = kind
            vars(module).update(own)
    return model


def kept(model, batch):
    return memory.stash_bytes(partial(model, **batch), exclude=[*model.parameters(), *model.buffers()]).bytes


def gradients(model, batch):
    torch.manual_seed(7)  # of dropouts
    found = model(**batch).last_hidden_state.float()
    weights = torch.randn(found.shape, generator=torch.Generator().manual_seed(1))
    leaves = [leaf for leaf in model.parameters() if leaf.requires_grad]
    return [g for g in torch.autograd.grad((found * weights).sum(), leaves, allow_unused=True) if g is not None]


def farthest(one, two):
    """The largest difference of a gradient by its own norm; those that are nearly zero are rounding."""
    largest = max(g.norm() for g in two)
    pairs = [(a, b) for a, b in zip(one, two, strict=True) if b.norm() > 1e-4 * largest]
    return max(float((a - b).norm() / b.norm()) for a, b in pairs)


@pytest.mark.parametrize("narrow", [False, True], ids=["fp32", "bf16 autocast"])
@pytest.mark.parametrize("name", [*MODELS, *(pytest.param(name, marks=pytest.mark.thorough) for name in MORE)])
def test_it_saves_what_placing_every_module_by_hand_saves_and_gradients_are_the_same(name, narrow):
    sizes, more = (MODELS | MORE)[name]
    batch = more if "pixel_values" in more else {"input_ids": WORDS, **more}
    plain, converted = (made(name, sizes) for _ in range(2))
    by_hand = placed_by_hand(made(name, sizes))
    with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
        report = memory.convert(converted, memory.Policy(), batch)
        before, after, hand = (kept(model, batch) for model in (plain, converted, by_hand))
        exact, found = (gradients(model, batch) for model in (plain, converted))
    assert (report.before_bytes, report.after_bytes) == (before, after)
    negligible = 0.01 * before  # means of norms whose output nobody keeps
    assert before - after >= 0.9 * (before - hand) - negligible
    assert farthest(found, exact) < (3e-2 if narrow else 1e-5)  # T5's own GELU rounds eight times
    assert {c.refused for c in report.refused} <= {NO_SAVING, NO_PRODUCT, KEPT_ANYWAY, conversion.AS_LARGE}
    assert memory.revert(converted) >= len(report.taken)
    with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
        assert kept(converted, batch) == before


@pytest.mark.parametrize(("name", "more", "layers"), [
    ("Bert", {}, 2), ("GPT2", {}, 2), ("T5", {}, 6), ("Llama", {"num_key_value_heads": 1, "attention_dropout": 0.1}, 2),
])  # fmt: skip
def test_attention_that_writes_its_scores_computes_its_dropout_again(name, more, layers):
    """On a processor dropout keeps a mask of full width, and the product its input: seven bytes of an entry go."""
    sizes, others = MODELS[name]
    plain, converted = (made(name, sizes | EAGER | more) for _ in range(2))
    batch = {"input_ids": WORDS, **others}
    report = memory.convert(converted, AGAIN, batch)
    assert (len(report.taken), report.refused) == (layers, [])
    assert {choice.saved_bytes for choice in report.taken} == {2 * 2 * 16 * 16 * 7}
    assert kept(converted, batch) == report.after_bytes
    assert farthest(gradients(converted, batch), gradients(plain, batch)) < 1e-5
    assert memory.revert(converted) == layers
    assert kept(converted, batch) == report.before_bytes


def test_attention_that_cannot_be_exchanged_is_told_why(monkeypatch):
    sizes, _ = MODELS["GPT2"]
    batch = {"input_ids": WORDS}
    caching = made("GPT2", sizes | EAGER | {"use_cache": True})
    assert {c.refused for c in memory.convert(caching, AGAIN, batch).refused} == {CACHED}
    without = made("GPT2", sizes | EAGER | {"attn_pdrop": 0.0})
    assert {c.refused for c in memory.convert(without, AGAIN, batch).refused} == {conversion.FUSED}
    file = sys.modules[type(without).__module__]
    eager = file.eager_attention_forward
    monkeypatch.setattr(file, "eager_attention_forward", lambda *given, **named: (2 * eager(*given, **named)[0], None))
    other = made("GPT2", sizes | EAGER)
    assert {c.refused for c in memory.convert(other, AGAIN, batch).refused} == {OTHERS}
    assert memory.convert(made("GPT2", sizes | {"use_cache": False}), AGAIN, batch).refused == []  # fused


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")  # those of torch's own tracer
def test_a_compiled_one_is_one_graph_and_keeps_as_little():
    sizes, _ = MODELS["Llama"]
    model, batch = made("Llama", sizes).eval(), {"input_ids": WORDS}
    memory.convert(model, memory.Policy(), batch)
    torch.compiler.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    assert farthest(gradients(compiled, batch), gradients(model, batch)) < 1e-5
    excluded = [*model.parameters(), *model.buffers()]
    assert memory.stash_bytes(partial(compiled, **batch), exclude=excluded).bytes <= 1.02 * kept(model, batch)
    assert copy.deepcopy(model)(**batch).last_hidden_state.equal(model(**batch).last_hidden_state)
