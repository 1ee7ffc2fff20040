"""Every function of `import amped`: its help is whole, its example runs, and its answer is short, a table and a page of a notebook."""

import doctest
import inspect
import json

import pytest

import amped
from amped.base.errors import AmpedError
from amped.estimation.comparison import as_json
from amped.library.results import Shown
from amped.library.words import in_python

FUNCTIONS = [name for name in amped.__all__ if inspect.isfunction(getattr(amped, name))]
SECTIONS = ("Args:", "Returns:", "Raises:", "Examples:")
RUNS = """source,model,accelerator,system,number_of_accelerators,tensor_parallel_degree,microbatch_size,batch_size,context,software,measured_step_time
ours,Llama 3 8B,H100 SXM,DGX H100,8,1,1,128,8192,Megatron-Bridge,11.5 s
ours,Llama 3 8B,H100 SXM,DGX H100,16,2,1,128,8192,Megatron-Bridge,6.6 s
"""
LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 32, "hidden_size": 4096,
    "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 8192, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "hidden_act": "silu",
    "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
}  # fmt: skip


def test_tab_shows_the_functions_and_nothing_else() -> None:
    assert dir(amped) == sorted([*amped.__all__, "__version__"])
    assert {"estimate", "explore", "why", "whatif", "compare", "recommend", "sensitivity", "validate", "calibrate", "tune", "support",
            "import_config", "export", "write_report", "plot"} <= {*FUNCTIONS}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_help_has_a_summary_parameters_units_returns_errors_and_an_example(name: str) -> None:
    function = getattr(amped, name)
    text = inspect.getdoc(function) or ""
    assert text.splitlines()[0].endswith((".", ";"))
    assert [section for section in SECTIONS if f"\n{section}\n" not in text] == []
    described = text.partition("Args:")[2].partition("Returns:")[0]
    parameters = inspect.signature(function).parameters
    assert [p for p in parameters if f"    {p}: " not in described] == []
    assert all(p.annotation is not inspect.Parameter.empty for p in parameters.values())


# Their examples take several seconds each: they run with --on-request, and tests of the verbs run the same code.
SLOW = ("calibrate", "write_report")


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.on_request if name in SLOW else ()) for name in FUNCTIONS]
)
def test_the_example_runs(name: str, tmp_path, monkeypatch) -> None:
    if name == "calibrate":
        pytest.importorskip("scipy")
    if name == "write_report":
        pytest.importorskip("jinja2")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs.csv").write_text(RUNS)
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    example = doctest.DocTestParser().get_doctest(inspect.getdoc(getattr(amped, name)), {"amped": amped}, name, None, 0)
    told: list[str] = []
    results = doctest.DocTestRunner().run(example, out=told.append)
    assert results.attempted > 0
    assert told == []


@pytest.fixture(scope="module")
def e() -> amped.Estimate:
    return amped.estimate("minimal")


def test_results_are_read_by_name_by_word_and_as_attributes(e) -> None:
    assert e.mfu == e["MFU"] == e.model_flops_utilization
    assert e.step_time == e["step_time"]
    assert isinstance(e.number_of_accelerators, int)
    assert isinstance(e["fits_in_memory"], bool)
    assert isinstance(e.to_dict()["batch_size"], int)
    assert {"step_time", "model_flops_utilization", "breakdown"} <= {*dir(e)}
    with pytest.raises(AttributeError, match="has no 'stepp_time'"):
        _ = e.stepp_time


def answers() -> list[Shown]:
    small = {"model": "Llama 3 8B", "number_of_accelerators": 8}
    return [
        amped.estimate("minimal"), amped.sensitivity("minimal", kinds=["accelerator"]), amped.support("minimal"),
        amped.why("minimal", measured_mfu=0.05), amped.whatif("minimal", change={"microbatch_size": 1}),
        amped.compare("minimal", "minimal"), amped.compare("DGX A100", "DGX H100", **small),
        amped.explore("minimal", space="degrees", top=2),
    ]  # fmt: skip


@pytest.mark.thorough
def test_answers_are_short_in_a_prompt_a_table_and_a_page_of_a_notebook() -> None:
    pandas = pytest.importorskip("pandas")
    for answer in answers():
        assert len(repr(answer)) < 200, repr(answer)
        assert answer._repr_html_().startswith("<pre"), answer
        frame = answer.to_frame()
        assert isinstance(frame, pandas.DataFrame)
        assert len(frame) > 0
        json.dumps(answer.to_dict())


def test_a_comparison_is_what_the_command_line_prints() -> None:
    found = amped.whatif("minimal", change={"microbatch_size": 2})
    one, other = (amped.estimate("minimal", **change).bare for change in ({}, {"microbatch_size": 2}))
    assert found.to_dict() == as_json(one, other)
    assert all(d["one"] is None or isinstance(d["one"], float | str | bool) for d in found.to_dict()["results"])


@pytest.mark.thorough
def test_plots_are_figures_of_matplotlib(e) -> None:
    found = amped.explore("minimal", space="degrees", top=2, each=["tensor_parallel_degree"])
    figures = [
        amped.plot(e),
        amped.plot(found, kind="histogram"),
        amped.plot(found),
        found.plot("parts", ["tensor_parallel_degree"]),
    ]
    assert {type(figure).__name__ for figure in figures} == {"Figure"}
    with pytest.raises(AmpedError, match=r"explore\(each="):
        found.plot("parts", ["pipeline_parallel_degree"])


def test_errors_speak_python() -> None:
    with pytest.raises(
        AmpedError, match=r"tensor_parallel_degree=3 does not divide .* take tensor_parallel_degree=2 or 4"
    ):
        amped.estimate(model="Llama 3 8B", system="DGX H100", number_of_accelerators=64, tensor_parallel_degree=3)
    with pytest.raises(AmpedError, match='deadline="30 days"'):
        amped.recommend("DGX H100", model="Llama 3 8B")


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("take --gbs 1533 or 1540", "take batch_size=1533 or 1540"),
        ("one list has all of them: --cloud oci", 'one list has all of them: cloud="oci"'),
        ('or: --vary system="DGX H100,DGX B200"', "or: vary={'system': ['DGX H100', 'DGX B200']}"),
        ("sweep it: amped explore --vary batch_size=1,2", "sweep it: amped explore --vary batch_size=1,2"),
        ("with --set zero_stage=3", "with zero_stage=3"),
        ("--anyway estimates without it", "anyway=True estimates without it"),
    ],
)
def test_an_option_becomes_an_argument_and_a_command_stays(said: str, meant: str) -> None:
    assert in_python(said) == meant
