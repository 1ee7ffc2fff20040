"""Bad input on the command line: a clear message, exit code 2, no traceback, and nothing left behind."""

import json

import pytest

from amped.base.errors import ConfigError
from amped.cli import options
from amped.exploration.sweep_syntax import parse_vary
from amped.library import estimate
from amped.theory.language.quantity import MAPPING, NETWORK
from tests.helpers.cli import amped, apart, config_file
from tests.helpers.config import config


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
            (("estimate", "--set", "overlapped_chunk_fraction=1"), ["is inside chapter layer", "it leads to "]),
            (("explain", "step_tme"), ["there is no quantity 'step_tme'", "did you mean 'step_time'"]),
            (("explore", "--vary", "btch_size=1,2"), ["unknown parameter 'btch_size'", "did you mean 'batch_size'"]),
            (("estmate",), ["No such command 'estmate'", "Did you mean 'estimate'?"]),
            (
                ("validate", "--leave-out", "acelerator"),
                ["'acelerator' is not one of", "did you mean 'accelerator'?"],
            ),
            (("explore", "--top", "abc"), ["Invalid value for '--top'", "`amped explore --help`"]),
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
                config(MAPPING, batch_sze=8, data_parallel_degree=None),
                ["2 problems", f"{MAPPING}.parameters.batch_sze", "is null"],
            ),
            (config(MAPPING, batch_size=[256, 512]), ["two sources"]),
            (config(MAPPING, context=[2048, 4096]), ["'context' is a list", "`amped explore` takes lists"]),
            (
                config() | {"description": "half \ud800 pair", NETWORK: {"parameters": {"layers": {"value": 0}}}},
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
        path = config_file(tmp_path, config() | {"description": "half \ud800 pair"})
        run = amped("estimate", "--config", path, "--output-dir", "out", folder=tmp_path)
        assert run.returncode in (0, 2), run.stderr
        assert "Traceback" not in run.stderr
        if run.returncode:
            assert "description" in run.stderr

    def test_a_full_disk_leaves_no_file_under_its_name(self, tmp_path):
        limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"
        run = apart("estimate", "--config", "minimal", "--json", "--output-dir", "out", folder=tmp_path, before=limit)
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
            ("layer_operators=3", "is a list of records and cannot be given"),
            ("nowhere=3", "unknown parameter 'nowhere'"),
        ],
    )
    def test_a_value_that_cannot_be(self, setting, words):
        with pytest.raises(ConfigError) as caught:
            estimate("minimal", **options.overrides([setting]))
        (problem,) = caught.value.problems
        assert problem.where == setting.partition("=")[0]
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
