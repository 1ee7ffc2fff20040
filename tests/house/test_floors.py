"""The house stands: imports point down, rooms are small, and the doors are light."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import median

import pytest

import amped
from amped.cli.app import app
from amped.theory.language.catalogue import CHAPTERS, pages
from tests.helpers.places import ROOT

# The rooms from the ground up, one floor a line: imports point down, and none goes sideways between rooms.
FLOORS = {
    room: floor
    for floor, rooms in enumerate((
        ("base",),
        ("theory",),
        ("measured_kernels", "tables", "quantity"),
        ("configuring",),
        ("engine",),
        ("pipeline_layouts",),
        ("estimation",),
        ("exploration", "interop", "layers", "sensitivities"),
        ("drafting",),
        ("validation",),
        ("calibration",),
        ("report",),
        ("library",),
        ("agents", "web"),
        ("cli",),
        ("__init__", "__main__", "entry_points"),
    ))
    for room in rooms
}  # fmt: skip
FLOORS["kernels"] = FLOORS["library"]  # beside: only the verbs that run it import it
DATA_ROOMS = ("configs", "lookup_tables", "schema")
ANNEXE_MAY_USE = {"base", "measured_kernels", "tables", "theory", "engine"}
HEAVY = {"numpy", "pint", "jsonschema", "matplotlib", "torch", "rich", "pyarrow", "scipy"}
VERBS = [command.name for command in app.registered_commands]
PROMISED = {"estimate", "explain", "explore", "mat-dims", "list"}
DOOR = [
    "AmpedError",
    "Estimate",
    "calibrate",
    "compare",
    "estimate",
    "estimateTrainingTime",
    "explain",
    "explore",
    "export",
    "import_config",
    "load_config",
    "plot",
    "recommend",
    "sensitivity",
    "support",
    "tune",
    "validate",
    "whatif",
    "why",
    "write_report",
]
WIDTH = 120
LONGEST_FUNCTION = 36
MEDIAN_OF_FORMULAS = 6
MOST_ARGUMENTS = 10
# The verbs of the command line have an argument for each option; these are the other ones with many, and why.
WITH_MANY_ARGUMENTS = {
    "explore": "the door for Python: an argument for each option",
    "product_rates": "columns of a table become a record",
    "tile_losses": "columns of a table become a record",
    "network__electrical": "columns of a table become a record",
}

SOURCES = sorted((ROOT / "amped").rglob("*.py"))
KERNELS = sorted((ROOT / "kernels").rglob("*.py"))
ELSEWHERE = [path for folder in ("tests", "benchmarks") for path in sorted((ROOT / folder).rglob("*.py"))]


@cache
def tree_of(path: Path) -> ast.Module:
    """A file as it is parsed, once for all that is asked of it."""
    return ast.parse(path.read_text("utf-8"))


def module_of(path: Path) -> str:
    """`amped.theory.step.cost` for a file; a package is its `__init__`."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def room_of(module: str) -> str:
    """The room a module `amped.room…` is in."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def imports_of(path: Path) -> Iterator[str]:
    """Every module that a file imports, at its top, inside a function or by name; `from amped import graph` is `amped.estimation.graph`."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call):
            yield from imported_by_name(node)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if is_module(inner) else str(node.module)


def imported_by_name(call: ast.Call) -> Iterator[str]:
    """The module that `import_module("a.b")` imports, and all that `import_module(f"a.{name}")` may."""
    if ast.unparse(call.func) not in ("importlib.import_module", "import_module", "__import__") or not call.args:
        return
    name = call.args[0]
    if isinstance(name, ast.Constant):
        yield str(name.value)
    elif isinstance(name, ast.JoinedStr) and isinstance(name.values[0], ast.Constant):
        package, _, start = str(name.values[0].value).rpartition(".")
        yield package
        yield from (f"{package}.{path.stem}" for path in ROOT.joinpath(*package.split(".")).glob(f"{start}*.py"))


def upward(path: Path) -> list[str]:
    """The imports of a file in `amped/` that lead to a higher floor, or to another room of its own."""
    room = room_of(module_of(path))
    found = []
    for name in imports_of(path):
        if name.split(".")[0] != "amped" or room_of(name) in DATA_ROOMS:
            continue
        other = room_of(name)
        if FLOORS[other] > FLOORS[room] or (FLOORS[other] == FLOORS[room] and other != room):
            found.append(name)
    return found


def test_every_room_has_a_floor() -> None:
    rooms = {room_of(module_of(path)) for path in SOURCES} - set(DATA_ROOMS)
    assert rooms <= set(FLOORS)


def test_imports_point_down() -> None:
    found = {module_of(path): upward(path) for path in SOURCES if room_of(module_of(path)) not in DATA_ROOMS}
    assert {module: names for module, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "line",
    [
        "from amped.cli import app",
        "importlib.import_module('amped.cli.app')",
        "__import__('amped.cli.app')",
        "import_module(f'amped.cli.a{rest}')",
    ],
)
def test_an_upward_import_inside_a_function_is_seen(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "amped" / "tables" / "tables.py"
    page.parent.mkdir(parents=True)
    page.write_text(f"def f():\n    {line}\n    from amped.base import errors\n", "utf-8")
    for known in ("cli/app.py", "base/errors.py"):
        (page.parent.parent / known).parent.mkdir(exist_ok=True)
        (page.parent.parent / known).touch()
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    assert set(upward(page)) - {"amped.cli"} == {"amped.cli.app"}


def test_an_import_sideways_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "amped" / "interop" / "rows.py"
    page.parent.mkdir(parents=True)
    page.write_text("from amped.exploration import search\nfrom amped.interop import columns\n", "utf-8")
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    assert upward(page) == ["amped.exploration"]


def test_no_imports_go_round_inside_a_floor() -> None:
    links = {module_of(p).removesuffix(".__init__"): set(imports_of(p)) for p in SOURCES if p.name != "__init__.py"}
    done: set[str] = set()

    def walk(name: str, chain: tuple[str, ...]) -> None:
        assert name not in chain, " → ".join([*chain[chain.index(name) :], name])
        if name in links and name not in done:
            for other in sorted(links[name]):
                walk(other, (*chain, name))
            done.add(name)

    for name in links:
        walk(name, ())


PAGES = [Path(str(page.__file__)) for page in pages()]
NOUNS = {module_of(path) for path in SOURCES if module_of(path).startswith("amped.theory.nouns.")}
MARKS = "amped.theory.language.quantity"


def test_the_theory_is_a_language_nouns_and_chapters() -> None:
    folders = {module_of(path).split(".")[2] for path in SOURCES if module_of(path).startswith("amped.theory.")}
    assert folders == {"__init__", "language", "nouns", *CHAPTERS}


def test_files_of_the_theory_with_one_name_have_one_topic() -> None:
    """Pages of several chapters on one parallelism may have its name; other names say what is there."""
    files = [path for path in SOURCES if module_of(path).startswith("amped.theory.") and path.name != "__init__.py"]
    names = [path.stem for path in files]
    assert {name for name in names if names.count(name) > 1} == {"context", "experts", "pipeline"}


def test_nouns_know_only_nouns_and_the_language_knows_no_chapter() -> None:
    used: dict[str, set[str]] = {"nouns": set(), "language": set()}
    for path in SOURCES:
        folder = module_of(path).removeprefix("amped.theory.").split(".")[0]
        if folder in used:
            used[folder] |= {name for name in imports_of(path) if name.startswith("amped.theory")}
    assert {name for name in used["nouns"] if not name.startswith("amped.theory.nouns")} == set()
    assert {
        name for name in used["language"] if not name.startswith(("amped.theory.language", "amped.theory.nouns"))
    } <= (
        {"amped.theory"}  # the catalogue imports the chapters by name
    )


def test_every_file_of_a_chapter_is_a_page_of_the_book_or_executes_it() -> None:
    chapters = [
        p for p in SOURCES if module_of(p).startswith(tuple(f"amped.theory.{chapter}." for chapter in CHAPTERS))
    ]
    others = {module_of(p) for p in chapters if p not in PAGES and p.name != "__init__.py"}
    executing = {f"amped.theory.schedules.{name}" for name in ("orders", "pass_by_pass", "timeline")}
    assert others == executing | {"amped.theory.memory.stage_bytes"}


def test_formulas_know_numpy_and_the_marks_and_tables_of_their_folder() -> None:
    allowed, found = {"__future__", "numpy", MARKS} | NOUNS, {}
    for path in PAGES:
        folder = module_of(path.parent)
        others = {name for name in imports_of(path) if not name.startswith(f"{folder}.") or folder == "amped.theory"}
        found[module_of(path)] = others - allowed
    assert {page: names for page, names in found.items() if names} == {}


def test_formulas_do_not_ask_what_a_value_is() -> None:
    functions = [(path, n) for path in PAGES for n in tree_of(path).body if isinstance(n, ast.FunctionDef)]
    asking = [
        f"{module_of(path)}, line {node.lineno}"
        for path, f in functions
        if f.returns is None  # the order of a schedule is a list, and no formula
        for node in ast.walk(f)
        if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Try)
    ]
    assert asking == []


def test_the_annexe_uses_the_lowest_floors_only() -> None:
    used = {room_of(name) for path in KERNELS for name in imports_of(path) if name.split(".")[0] == "amped"}
    assert used - {"kernels"} <= ANNEXE_MAY_USE


def test_only_the_verbs_that_run_it_import_the_annexe() -> None:
    using = {module_of(p) for p in SOURCES if any(room_of(name) == "kernels" for name in imports_of(p))}
    verbs = (
        "amped.cli.bench",
        "amped.cli.data_movement",
        "amped.cli.layer_options",
        "amped.cli.tensor_layouts",
        "amped.cli.memory",
    )
    assert {name for name in using if not name.startswith(verbs)} == set()


def test_only_the_annexe_imports_torch() -> None:
    assert [p.name for p in SOURCES if any(name.split(".")[0] == "torch" for name in imports_of(p))] == []


def test_only_the_plots_import_matplotlib() -> None:
    drawing = [module_of(p) for p in SOURCES if any(name.split(".")[0] == "matplotlib" for name in imports_of(p))]
    assert drawing == ["amped.report.plots"]


def lines_of_docstring(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return function.body[0].end_lineno - function.body[0].lineno + 1 if ast.get_docstring(function) else 0


def test_functions_are_small() -> None:
    functions = [
        (path, n)
        for path in (*SOURCES, *KERNELS, *ELSEWHERE)
        for n in ast.walk(tree_of(path))
        if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    sizes = {
        f"{module_of(path)}.{f.name}, line {f.lineno}": f.end_lineno - f.lineno + 1 - lines_of_docstring(f)
        for path, f in functions
    }
    assert {function: lines for function, lines in sizes.items() if lines > LONGEST_FUNCTION} == {}


def test_no_line_of_the_theory_is_wider_than_a_page() -> None:
    pages = sorted((ROOT / "amped" / "theory").rglob("*.py"))
    lines = ((page, n, len(line)) for page in pages for n, line in enumerate(page.read_text("utf-8").splitlines(), 1))
    assert [(page.name, n, width) for page, n, width in lines if width > WIDTH] == []


def test_no_function_of_the_theory_only_returns_its_argument_or_nothing() -> None:
    """Such facts are rows of the table beside the page."""
    functions = [f for path in PAGES for f in tree_of(path).body if isinstance(f, ast.FunctionDef)]
    assert len(functions) > 500
    assert [f.name for f in functions if says_nothing(f)] == []


def says_nothing(function: ast.FunctionDef) -> bool:
    """Whether the only thing that a function does is to return one of its arguments, or an empty tuple."""
    *_, last = function.body
    if len(function.body) > 2 or not isinstance(last, ast.Return):
        return False
    if isinstance(last.value, ast.Name):
        return last.value.id in {argument.arg for argument in function.args.args}
    return isinstance(last.value, ast.Tuple) and not last.value.elts


def lines_of_code(function: ast.FunctionDef) -> int:
    """The lines of a function, from its name to its end, without its docstring."""
    first = function.body[0]
    told = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    own = first.end_lineno - first.lineno + 1 if told else 0
    return int(function.end_lineno - function.lineno + 1 - own)


def test_half_of_the_formulas_have_six_lines_or_fewer() -> None:
    marks = ("quantity", "records", "parameter", "selector")
    functions = [f for path in PAGES for f in tree_of(path).body if isinstance(f, ast.FunctionDef)]
    formulas = [f for f in functions if {ast.unparse(d).partition("(")[0] for d in f.decorator_list} & {*marks}]
    assert len(formulas) > 500
    assert median(map(lines_of_code, formulas)) <= MEDIAN_OF_FORMULAS


def test_more_than_ten_arguments_are_the_exception() -> None:
    functions = [(path, n) for path in SOURCES for n in ast.walk(tree_of(path)) if isinstance(n, ast.FunctionDef)]
    many = {f.name for path, f in functions if "cli" not in path.parts and number_of_arguments(f) > MOST_ARGUMENTS}
    assert many == set(WITH_MANY_ARGUMENTS)


def number_of_arguments(function: ast.FunctionDef) -> int:
    """How many arguments a function has; one that is a tuple or a dictionary counts as one."""
    own = function.args
    return len(own.posonlyargs) + len(own.args) + len(own.kwonlyargs)


# What formats numbers in the theory by hand: a table of tiles.
TABLES_OF_NUMBERS = ["kernels.py"]


def test_only_tables_of_numbers_in_the_theory_are_formatted_by_hand() -> None:
    pages = sorted((ROOT / "amped" / "theory").rglob("*.py"))
    assert [page.name for page in pages if "# fmt: " in page.read_text("utf-8")] == TABLES_OF_NUMBERS


def test_no_assertions_and_no_evaluation_of_text_outside_the_tests() -> None:
    nodes = [(path, node) for path in (*SOURCES, *KERNELS) for node in ast.walk(tree_of(path))]
    asserting = [(path, n) for path, n in nodes if isinstance(n, ast.Assert)]
    named = [(path, n) for path, n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    evaluating = [(path, n) for path, n in named if n.func.id in ("eval", "exec", "compile")]
    assert [f"{module_of(path)}, line {n.lineno}" for path, n in (*asserting, *evaluating)] == []


def test_the_public_door_is_what_it_was() -> None:
    assert amped.__all__ == DOOR
    assert [name for name in DOOR if not callable(getattr(amped, name))] == []


def test_no_room_hides_a_public_function_once_it_is_imported() -> None:
    assert not set(DOOR) & set(FLOORS)
    calls: dict[str, tuple[object, ...]] = {
        "estimate": ("default",), "estimateTrainingTime": ("H100 PCIe",), "explain": ("step_time",),
        "explore": ("minimal",), "load_config": ("minimal",), "sensitivity": ("minimal",),
    }  # fmt: skip
    for name, arguments in calls.items():
        more = {"explore": {"space": "degrees", "top": 1}}.get(name, {})
        one, two = (getattr(amped, name)(*arguments, **more) for _ in range(2))
        assert type(one) is type(two)


# --- light doors ----------------------------------------------------------------------------------------------------


def loaded_by(*arguments: str) -> set[str]:
    """Top-level packages that a fresh Python loads."""
    return {name.split(".")[0] for name in modules_loaded_by(*arguments)}


def modules_loaded_by(*arguments: str) -> set[str]:
    """Modules that a fresh Python loads."""
    command = [sys.executable, "-X", "importtime", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8", cwd=ROOT)
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}


def test_asking_for_help_loads_no_heavy_package() -> None:
    loaded = loaded_by("-m", "amped", "--help")
    assert "amped" in loaded
    assert loaded & HEAVY == set()


def test_importing_amped_loads_no_heavy_package() -> None:
    loaded = loaded_by("-c", "import amped")
    assert "amped" in loaded
    assert loaded & HEAVY == set()


def test_an_estimate_of_shipped_tables_loads_only_what_it_uses() -> None:
    loaded = modules_loaded_by("-m", "amped", "estimate")
    assert "numpy" in loaded
    assert not {"pint", "pydantic", "jsonschema", "importlib.metadata"} & loaded
    assert not [name for name in loaded if name.startswith(("amped.exploration", "amped.interop"))]


def test_the_promised_verbs_are_there() -> None:
    assert set(VERBS) >= PROMISED
