"""Bad input from end to end: a clear message, exit code 2, no traceback, nothing lost and nothing run."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from amped.cli import options
from amped.cli.app import app
from amped.errors import AmpedError, ConfigError, EvaluationError, FileError, MappingError, ResolveError, WiringError
from amped.exploration.sweeps import parse_vary
from amped.library import estimate, explain, explore
from amped.quantity import MAPPING, NETWORK, SYSTEM

ROOT = Path(__file__).resolve().parent.parent


def amped(*arguments, folder, before=""):
    """Runs the command in a folder; `before` is code that sets the process up."""
    code = f"{before}\nimport sys\nsys.argv[0] = 'amped'\nfrom amped.cli.app import main\nmain()"
    start = [sys.executable, "-c", code] if before else [sys.executable, "-m", "amped"]
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONWARNINGS": "error",
        "COLUMNS": "200",
    }
    return subprocess.run(
        [*start, *map(str, arguments)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def verb(*arguments):
    """Runs a verb in this process and returns its exit code; errors come through."""
    return app([str(argument) for argument in arguments], standalone_mode=False)


def config_file(folder, content):
    path = folder / "mine.json"
    path.write_bytes(
        content
        if isinstance(content, bytes)
        else (content if isinstance(content, str) else json.dumps(content)).encode()
    )
    return path


def small(**parameters):
    """A config of 64 H100; each parameter's value stands in the category of the mapping."""
    mapping = {"tensor_parallel_degree": 4, "microbatch_size": 1} | parameters
    return {
        NETWORK: {"lookup_config": {"lookup_table_row": "Llama 3 8B"}, "parameters": {"batch_size": {"value": 256}}},
        MAPPING: {"parameters": {name: {"value": value} for name, value in mapping.items()}},
        SYSTEM: {"lookup_config": {"lookup_table_row": "DGX H100"}, "parameters": {"number_of_nodes": {"value": 8}}},
    }


class TestOnTheCommandLine:
    """Each in a process of its own, as a user runs it."""

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (("estimate", "--config", "nowhere.json"), ["nowhere.json", "no such file", "shipped are"]),
            (
                ("estimate", "--set", "memory_capacity=8 parsecs"),
                ["--set memory_capacity", "unknown unit 'parsecs'", '"80 GB"'],
            ),
            (("estimate", "--set", "batch_sze=8"), ["unknown parameter 'batch_sze'", "did you mean 'batch_size'"]),
            (
                ("estimate", "--set", "tensor_parallel_degree=5"),
                ["tensor_parallel_degree = 5", "attention_heads = 96", "nearest tensor_parallel_degree: 4 or 8"],
            ),
            (("estimate", "--set", "tensor_parallel_degree=1e15"), ["tensor_parallel_degree"]),
            (("estimate", "--config", "x" * 5000), ["no such file"]),
            (("estimate", "--model", "GPT-3 176B"), ["no row 'GPT-3 176B'", "did you mean"]),
            (
                ("estimate", "--set", "batch_size=__import__('os').system('touch ran')"),
                ["--set batch_size", "is not a number"],
            ),
            (("explain", "step_tme"), ["there is no quantity 'step_tme'", "did you mean 'step_time'?"]),
            (("explore", "--vary", "btch_size=1,2"), ["unknown parameter 'btch_size'", "did you mean 'batch_size'"]),
            (("estmate",), ["No such command 'estmate'", "Did you mean 'estimate'?"]),
        ],
    )
    def test_it_is_told_and_nothing_is_left_behind(self, tmp_path, arguments, told):
        run = amped(*arguments, folder=tmp_path)
        assert run.returncode == 2, run.stderr
        assert "Traceback" not in run.stderr
        assert run.stdout == ""
        for words in told:
            assert words in run.stderr
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ("content", "told"),
        [
            ('{"a": 1,\n "b" 2}', ["line 2, column 6", "is not valid JSON"]),
            ("[" * 20_000, ["nested too deeply"]),
            (
                small(batch_sze=8, data_parallel_degree=None),
                ["2 problems", f"{MAPPING}.parameters.batch_sze", "is null"],
            ),
            (small(batch_size=[256, 512]), ["two sources"]),
            (small(context=[2048, 4096]), ["'context' is a list", "`amped explore` takes lists"]),
            (
                small() | {"description": "half \ud800 pair", NETWORK: {"parameters": {"layers": {"value": 0}}}},
                ["0 is below 1"],
            ),
        ],
    )
    def test_a_config_is_told_with_its_file_and_what_to_do(self, tmp_path, content, told):
        path = config_file(tmp_path, content)
        run = amped("estimate", "--config", path, folder=tmp_path)
        assert run.returncode == 2, run.stderr
        assert "Traceback" not in run.stderr
        for words in (f"amped: {path}:", *told):
            assert words in run.stderr
        assert list(tmp_path.iterdir()) == [path]

    def test_a_description_that_no_file_can_hold_is_no_crash(self, tmp_path):
        path = config_file(tmp_path, small() | {"description": "half \ud800 pair"})
        run = amped("estimate", "--config", path, "--output-dir", "out", folder=tmp_path)
        assert run.returncode in (0, 2), run.stderr
        assert "Traceback" not in run.stderr
        if run.returncode:
            assert "description" in run.stderr

    def test_a_full_disk_leaves_no_file_under_its_name(self, tmp_path):
        limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"
        run = amped("estimate", "--config", "minimal", "--json", "--output-dir", "out", folder=tmp_path, before=limit)
        assert run.returncode == 2, run.stderr
        assert "Traceback" not in run.stderr
        assert "cannot be written: file too large" in run.stderr
        assert "nothing was left behind" in run.stderr
        assert json.loads(run.stdout)["training_time"] > 0  # the result itself is not lost
        assert list((tmp_path / "out").iterdir()) == []

    def test_an_output_folder_that_is_a_file(self, tmp_path):
        (tmp_path / "out").write_text("keep")
        run = amped("estimate", "--config", "minimal", "--output-dir", "out", folder=tmp_path)
        assert run.returncode == 2, run.stderr
        assert "Traceback" not in run.stderr
        assert "is a file, not a folder" in run.stderr
        assert "choose another --output-dir" in run.stderr
        assert (tmp_path / "out").read_text() == "keep"


class TestFiles:
    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (b"", "line 1, column 1: is not valid JSON"),
            (b"{'a': 1}", "line 1, column 2: is not valid JSON"),
            (b'{"a": "\xff"}', "is not UTF-8 text"),
            (b'{"description": "a", "description": "b"}', "the key 'description' stands twice in one object"),
            (b'{"a": NaN}', "NaN is not a JSON number"),
            (b'{"a": 1e400}', "1e400 is not a JSON number"),
            (b'{"a": ' + b"9" * 5000 + b"}", "an integer of 5000 digits is not a JSON number"),
            (b'{"a":' * 20_000, "nested too deeply"),
            (b"[]", "not an object"),
        ],
    )
    def test_a_config_that_cannot_be_read(self, tmp_path, content, words):
        path = config_file(tmp_path, content)
        with pytest.raises(AmpedError) as caught:
            estimate(path)
        assert caught.value.file == str(path)
        assert words in str(caught.value)

    def test_ten_megabytes_in_a_value(self, tmp_path):
        path = config_file(tmp_path, small(microbatch_size="9" * 10**7))
        with pytest.raises(ConfigError) as caught:
            estimate(path)
        assert caught.value.problems[0].where == f"{MAPPING}.parameters.microbatch_size"
        assert len(str(caught.value)) < 500

    def test_a_folder_as_config(self, tmp_path):
        with pytest.raises(FileError, match="cannot be read: is a directory"):
            estimate(tmp_path)

    @pytest.mark.parametrize("name", ["x" * 300, "x" * 5000, "a/" * 3000, "a\0b", ""])
    def test_a_name_that_no_file_has(self, name):
        with pytest.raises(FileError):
            estimate(name)

    def test_a_config_without_permission(self, tmp_path, monkeypatch):
        def denied(*_, **__):
            raise PermissionError(errno.EACCES, "Permission denied")

        path = config_file(tmp_path, small())
        monkeypatch.setattr(Path, "read_text", denied)
        with pytest.raises(FileError, match="cannot be read: permission denied"):
            estimate(path)

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            ("hello", "is not valid JSON"),
            ("[]", "is not a lookup table"),
            ("{}", "holds no table"),
            ('{"table": "t", "rows": 3}', "is not a table of rows"),
        ],
    )
    def test_a_lookup_file_that_is_none(self, tmp_path, content, words):
        path = config_file(tmp_path, content)
        with pytest.raises(AmpedError, match=words) as caught:
            estimate("minimal", lookup_tables=path)
        assert caught.value.file == str(path)


class TestSettings:
    @pytest.mark.parametrize("setting", ["batch_size", "batch_size=", "=8", "", "=", "batch_size= "])
    def test_what_is_not_name_and_value(self, setting):
        with pytest.raises(ConfigError, match="is not NAME=VALUE") as caught:
            options.overrides([setting])
        assert "for example --set tensor_parallel_degree=4" in str(caught.value)

    def test_a_name_that_is_set_twice(self):
        with pytest.raises(ConfigError, match="--set batch_size is given twice"):
            options.overrides(["batch_size=8", "batch_size=9"])

    @pytest.mark.parametrize(
        ("setting", "words"),
        [
            ("batch_size=nan", "is not a finite number"),
            ("batch_size=inf", "is not a finite number"),
            ("batch_size=1e400", "is not a finite number"),
            ("batch_size=2.5", "2.5 is not a whole number"),
            ("batch_size=0", "is below 1"),
            ("batch_size=-8", "is below 1"),
            ("batch_size=true", "is not a number"),
            ("batch_size=8 GB", "'GB' is not a unit of a plain count"),
            ("batch_size=2**9**9", "'2**9**9' is not a number"),
            ("memory_capacity=8 s", "expected memory (byte)"),
            ("zero_stage=4", "is above 3"),
            ("activation_recomputation=ful", "did you mean 'full'?"),
            ("flash_attention=maybe", "'maybe' is neither true nor false"),
            ("layer_gemms=3", "is a list of records and cannot be given"),
            ("nowhere=3", "unknown parameter 'nowhere'"),
        ],
    )
    def test_a_value_that_cannot_be(self, setting, words):
        with pytest.raises(ConfigError) as caught:
            estimate("minimal", **options.overrides([setting]))
        (problem,) = caught.value.problems
        assert problem.where == f"--set {setting.partition('=')[0]}"
        assert words in f"{problem.what} {problem.advice}"

    @pytest.mark.parametrize("setting", ["batch_size=256,512", "batch_size=[256, 512]", "batch_size=256:1024:x2"])
    def test_a_list_is_refused_with_the_verb_that_takes_it(self, setting):
        with pytest.raises(ConfigError, match="explore"):
            estimate("minimal", **options.overrides([setting]))

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("batch_size", "is not NAME=VALUES"),
            ("batch_size=", "is not NAME=VALUES"),
            ("=1,2", "is not NAME=VALUES"),
            ("batch_size=4:2:1", "is an empty range"),
            ("batch_size=2:4:0", "is an empty range"),
            ("batch_size=2:4:x1", "is an empty range"),
            ("batch_size=0:4:x2", "is an empty range"),
            ("batch_size=1:inf:1", "is an empty range"),
            ("batch_size=nan:4:1", "is an empty range"),
            ("batch_size=1:9**9:1", "a range has numbers"),
            ("batch_size=1:1e9:1", "has more than 100000 values"),
            ("batch_size=1e17:1.1e17:1", "has more than 100000 values"),
        ],
    )
    def test_a_sweep_that_cannot_be(self, text, words):
        with pytest.raises(ConfigError, match=words):
            parse_vary([text])


class TestAbsurdSizes:
    """A count without end is refused or computed; it never takes the machine's memory."""

    @pytest.mark.parametrize("value", [1e15, 1e300])
    @pytest.mark.parametrize(
        "name",
        [
            "tensor_parallel_degree",
            "pipeline_parallel_degree",
            "data_parallel_degree",
            "context_parallel_degree",
            "expert_parallel_degree",
            "intra_node_tensor_parallel_degree",
            "inter_node_data_parallel_degree",
            "microbatch_size",
            "number_of_microbatches_per_minibatch",
            "experts_per_token",
            "number_of_MoE_layers",
            "virtual_pipeline_stages",
        ],
    )
    def test_a_degree_that_breaks_a_rule(self, name, value):
        with pytest.raises(AmpedError) as caught:
            estimate("default", **{name: value})
        assert name in str(caught.value)

    @pytest.mark.parametrize(
        "name",
        [
            "batch_size",
            "layers",
            "dimensionality",
            "attention_heads",
            "vocabulary_size",
            "context",
            "number_of_nodes",
            "number_of_accelerators",
        ],
    )
    def test_a_size_that_overflows(self, name):
        with pytest.raises(AmpedError):
            estimate("default", **{name: 1e300})

    def test_an_integer_of_thousands_of_digits(self):
        with pytest.raises(ConfigError, match="too large"):
            estimate("default", batch_size=10**5000)


class TestMappings:
    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"tensor_parallel_degree": 3}, ["tensor_parallel_degree = 3", "nearest tensor_parallel_degree: 2 or 4"]),
            (
                {"pipeline_parallel_degree": 3},
                ["layers = 32, pipeline_parallel_degree = 3", "nearest pipeline_parallel_degree: 2 or 4"],
            ),
            (
                {"data_parallel_degree": 8},
                ["data_parallel_degree = 8", "number_of_accelerators = 64", "nearest data_parallel_degree: 16"],
            ),
            ({"batch_size": 250}, ["batch_size = 250, data_parallel_degree = 16", "nearest batch_size: 240 or 256"]),
            ({"microbatch_size": 7}, ["minibatch_size = 16, microbatch_size = 7", "nearest microbatch_size: 4 or 8"]),
            (
                {"number_of_microbatches_per_minibatch": 6},
                [
                    "minibatch_size = 16",
                    "number_of_microbatches_per_minibatch = 6",
                    "nearest number_of_microbatches_per_minibatch: 4 or 8",
                ],
            ),
            (
                {"context_parallel_degree": 3},
                ["context = 8192, context_parallel_degree = 3", "nearest context_parallel_degree: 2 or 4"],
            ),
            (
                {
                    "tensor_parallel_degree": 8,
                    "intra_node_tensor_parallel_degree": 3,
                    "inter_node_tensor_parallel_degree": 2,
                },
                ["tensor_parallel_degree"],
            ),
            (
                {"expert_parallel_degree": 2},
                ["number_of_experts = 1, expert_parallel_degree = 2", "nearest expert_parallel_degree: 1"],
            ),
        ],
    )
    def test_degrees_that_do_not_divide_or_multiply(self, changes, words):
        written = small()
        for name, value in changes.items():
            place = NETWORK if name == "batch_size" else MAPPING
            written[place]["parameters"][name] = {"value": value}
        if "number_of_microbatches_per_minibatch" in changes:
            del written[MAPPING]["parameters"]["microbatch_size"]
        with pytest.raises(MappingError) as caught:
            estimate(written)
        for each in words:
            assert each in str(caught.value)

    def test_a_bad_degree_is_told_with_where_it_stands(self):
        with pytest.raises(MappingError) as caught:
            estimate(small(tensor_parallel_degree=3))
        assert caught.value.problems[0].where == f"{MAPPING}.parameters.tensor_parallel_degree"

    def test_more_accelerators_than_the_cluster_has(self):
        written = small()
        written[SYSTEM]["parameters"]["number_of_accelerators"] = {"value": 128}
        with pytest.raises(MappingError) as caught:
            estimate(written)
        told = str(caught.value)
        assert "number_of_accelerators = 128, number_of_nodes = 8, number_of_accelerators_per_node = 8" in told
        assert "nearest number_of_accelerators: 64" in told

    def test_an_input_that_nobody_gives_is_told_with_the_chain_of_who_needs_it(self):
        with pytest.raises(ResolveError) as caught:
            estimate({})
        told = str(caught.value)
        assert "'layers' is missing, needed by " in told
        assert "← training_time" in told
        assert f"give it in {NETWORK}, with --set layers=…" in told
        assert len(caught.value.problems) > 5

    def test_an_unknown_quantity_to_explain(self):
        with pytest.raises(ResolveError, match="did you mean 'step_time'"):
            explain("step_tme")

    @pytest.mark.parametrize("form", ["table", "csv", "json"])
    def test_an_exploration_without_a_valid_mapping_is_a_result_and_no_crash(self, capsys, form):
        verb("explore", "--gpus", 7, "--top", 1, "--format", form)
        told = capsys.readouterr().out
        if form == "json":
            assert json.loads(told)["feasible"] == 0
            assert json.loads(told)["best"] == []

    @pytest.mark.parametrize("values", [[], [256, 256], ["x"], [0], [2.5], [True], [[256]]])
    def test_a_sweep_of_values_that_cannot_be(self, values):
        with pytest.raises(ConfigError, match="--vary batch_size"):
            explore("minimal", vary={"batch_size": values})


class TestFormulasOfTheUser:
    """A cycle, a formula that fails, text where a formula belongs: told by name."""

    @staticmethod
    def module(folder, *functions, name="own"):
        path = folder / f"{name}.py"
        path.write_text("from amped.quantity import parameter, quantity\n\n\n" + "\n\n\n".join(functions) + "\n")
        return path

    @staticmethod
    def formula(name, argument, result):
        return f'@quantity("count")\ndef {name}({argument}):\n    """One. Source: definition."""\n    {result}'

    def test_a_cycle_is_told_as_a_circle(self, tmp_path):
        path = self.module(
            tmp_path,
            self.formula("layers", "dimensionality", "return dimensionality"),
            self.formula("dimensionality", "layers", "return layers"),
        )
        written = small()
        written[NETWORK] = {"parameters": {"batch_size": {"value": 256}}}
        with pytest.raises(ResolveError) as caught:
            estimate(written, formulas=path)
        assert "these need each other: layers ← dimensionality ← layers" in str(caught.value)
        assert "give the value of one of them" in str(caught.value)

    @pytest.mark.parametrize(
        ("result", "words"),
        [
            ("return 1 / 0", "ZeroDivisionError"),
            ("raise KeyError('x')", "KeyError"),
            ("return undefined_name", "NameError"),
            ("return 'text'", "minibatch_size"),
            ("return [1, 2]", "minibatch_size"),
            ("return None", "minibatch_size"),
            ("return batch_size * float('nan')", "minibatch_size"),
            ("return batch_size / 0", "minibatch_size"),
        ],
    )
    def test_a_formula_that_fails_or_gives_no_number_is_named(self, tmp_path, result, words):
        path = self.module(tmp_path, self.formula("minibatch_size", "batch_size", result))
        with pytest.raises(EvaluationError, match="'minibatch_size'") as caught:
            estimate("minimal", formulas=path)
        assert words in str(caught.value)

    def test_a_formula_of_an_input_that_is_not_there(self, tmp_path):
        path = self.module(tmp_path, self.formula("minibatch_size", "batch_sze", "return batch_sze"))
        with pytest.raises(WiringError, match="'minibatch_size' needs 'batch_sze', which nothing gives") as caught:
            estimate("minimal", formulas=path)
        assert "did you mean 'batch_size'" in str(caught.value)

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("x = 1 / 0", "does not run: ZeroDivisionError"),
            ("def f(:", "does not run: SyntaxError"),
            ("import nowhere_at_all", "does not run: ModuleNotFoundError"),
            ("raise SystemExit(5)", "does not run: SystemExit"),
        ],
    )
    def test_a_file_that_does_not_run(self, tmp_path, text, words):
        path = self.module(tmp_path, text)
        with pytest.raises(FileError, match=words):
            estimate("minimal", formulas=path)

    @pytest.mark.parametrize("name", ["nowhere.py", ""])
    def test_a_file_that_is_not_there(self, tmp_path, name):
        with pytest.raises(FileError, match="no such file of formulas"):
            estimate("minimal", formulas=tmp_path / name)

    def test_a_file_that_is_no_python(self, tmp_path):
        path = config_file(tmp_path, "{}")
        with pytest.raises(FileError, match="is not a Python file"):
            estimate("minimal", formulas=path)


class TestWhatIsWritten:
    def names(self, folder):
        return sorted(path.name.partition("_")[2].partition("_")[2] for path in folder.iterdir())

    @pytest.mark.parametrize("step", ["fsync", "link"])
    def test_a_full_disk_at_the_second_file_keeps_the_first_whole_and_no_part_of_the_second(
        self, tmp_path, monkeypatch, capsys, step
    ):
        self.fails_at(monkeypatch, step, 2, OSError(errno.ENOSPC, "No space left on device"))
        with pytest.raises(FileError, match="cannot be written: no space left on device") as caught:
            verb("estimate", "--config", "minimal", "--output-dir", tmp_path, "--gemm")
        assert caught.value.file.endswith("_training_time_breakdown.txt")
        assert self.names(tmp_path) == ["config_summary.txt"]
        assert "step time" in capsys.readouterr().out

    @pytest.mark.parametrize("step", ["fsync", "link"])
    def test_an_interrupt_at_the_second_file_leaves_no_part_of_it(self, tmp_path, monkeypatch, capsys, step):
        self.fails_at(monkeypatch, step, 2, KeyboardInterrupt())
        assert verb("estimate", "--config", "minimal", "--output-dir", tmp_path, "--gemm") == 130
        assert self.names(tmp_path) == ["config_summary.txt"]
        assert "step time" in capsys.readouterr().out

    @pytest.mark.parametrize("name", ["estimate", "mat-dims"])
    def test_an_output_folder_that_cannot_be(self, tmp_path, capsys, name):
        (tmp_path / "file").write_text("keep")
        with pytest.raises(FileError, match="cannot be written") as caught:
            verb(name, "--config", "minimal", "--output-dir", tmp_path / "file" / "out")
        assert "choose another --output-dir" in str(caught.value)
        assert [path.name for path in tmp_path.iterdir()] == ["file"]
        assert capsys.readouterr().out

    def test_an_output_file_that_exists_is_not_overwritten(self, tmp_path):
        path = tmp_path / "ranking.csv"
        path.write_text("keep")
        with pytest.raises(AmpedError, match="exists and is not overwritten"):
            verb("explore", "--config", "minimal", "--top", 1, "--format", "csv", "--output", path)
        assert path.read_text() == "keep"

    def test_names_in_a_config_cannot_leave_the_output_folder(self, tmp_path, monkeypatch, capsys):
        out = tmp_path / "inner" / "out"
        out.parent.mkdir()
        monkeypatch.chdir(out.parent)
        path = config_file(tmp_path, small() | {"description": "../../escaped", "$schema": "/etc/escaped"})
        verb("estimate", "--config", path, "--output-dir", out, "--gemm", "--compute-graph")
        assert sorted(p.name for p in tmp_path.iterdir()) == ["inner", "mine.json"]
        assert [p.name for p in out.parent.iterdir()] == ["out"]
        assert len(self.names(out)) == 6
        assert "escaped" in capsys.readouterr().out

    def test_two_runs_in_one_second_keep_both(self, tmp_path, capsys):
        for _ in range(3):
            verb("estimate", "--config", "minimal", "--output-dir", tmp_path)
        assert len(list(tmp_path.iterdir())) == 6
        assert capsys.readouterr().err == ""

    @staticmethod
    def fails_at(monkeypatch, step, turn, error):
        """The `turn`-th call of an operating-system function raises."""
        calls, real = [], getattr(os, step)

        def sometimes(*arguments, **named):
            calls.append(step)
            if len(calls) == turn:
                raise error
            return real(*arguments, **named)

        monkeypatch.setattr(os, step, sometimes)
