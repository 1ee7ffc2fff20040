"""A file says its format by its content; what is no config is refused, and nothing is executed or written."""

import json
from pathlib import Path

import pytest

from amped.base.errors import FileError
from amped.interop.recognition import read_file
from tests.helpers.cli import amped, refused
from tests.interop.test_huggingface import LLAMA


def written(folder: Path, content: object, name: str = "config.json") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def test_a_folder_stands_for_its_config_json(tmp_path: Path) -> None:
    written(tmp_path, LLAMA)
    assert read_file(tmp_path).values == read_file(tmp_path / "config.json").values


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"a": 1,\n "b": }', "line 2"),
        ("[1, 2]", "not an object"),
        ('{"colors": ["red"]}', "no format that amped knows"),
        ('{"mapping_parameters": {}}', "is a config of amped already"),
        ("", "line 1"),
    ],
)
def test_another_file_is_refused_and_nothing_is_written(tmp_path: Path, content: str, told: str) -> None:
    path = written(tmp_path, content)
    code, said = refused("import", path, "-o", tmp_path / "my.json")
    assert code == 2
    assert told in said
    assert "Traceback" not in said
    assert not (tmp_path / "my.json").exists()


def test_a_file_of_10_megabytes_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, " " * 10_000_000)
    with pytest.raises(FileError, match="larger than 5 MB"):
        read_file(path)


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    code, said = refused("import", written(tmp_path, LLAMA), "--from", "paddle")
    assert (code, "is no format" in said) == (2, True)


def test_import_writes_a_config_that_amped_reads_back(tmp_path: Path) -> None:
    path, mine = written(tmp_path, LLAMA), tmp_path / "my.json"
    done = amped("import", path, "-o", mine, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "not said in the file, and taken" in done.stdout
    again = amped("explain", "number_of_parameters", mine, folder=tmp_path)
    assert "8,030,261,248" in again.stdout or "8.03" in again.stdout, again.stdout + again.stderr


def test_strict_refuses_what_amped_cannot_express(tmp_path: Path) -> None:
    path = written(tmp_path, {**LLAMA, "linear_num_key_heads": 16})
    code, said = refused("import", path, "--strict", "-o", tmp_path / "my.json")
    assert code == 2
    assert "layers with linear attention" in said
    assert not (tmp_path / "my.json").exists()


def test_a_file_may_stand_for_the_name_of_a_model(tmp_path: Path) -> None:
    path = written(tmp_path, LLAMA)
    options = ["--system", "DGX H100", "--gpus", 8, "--seq", 8192, "--set", "tokens_to_train=15000000000000", "--json"]
    own, row = (
        json.loads(amped("estimate", "--model", name, *options, folder=tmp_path).stdout)
        for name in (path, "Llama 3 8B")
    )
    assert own["number_of_parameters"] == row["number_of_parameters"] == 8_030_261_248
    assert own["step_time"] == row["step_time"]


def test_what_amped_cannot_express_is_a_warning_of_the_estimate(tmp_path: Path) -> None:
    written(tmp_path, {**LLAMA, "index_topk": 2048})
    asked = ("estimate", "--model", tmp_path, "--system", "DGX H100", "--gpus", 8)
    code, said = refused(*asked)
    assert (code, "index_topk: sparse attention" in said, "--anyway" in said) == (2, True, True)
    done = amped(*asked, "--anyway", "--json", folder=tmp_path)
    assert "warning: not modeled: index_topk: sparse attention" in done.stderr
    told = json.loads(done.stdout)
    assert (told["grade"], told["not_modeled"][0]["bound_on_time"]) == ("not modelled", None)
    assert told["step_time_error_fraction"].startswith("unknown")
    assert "± unknown" in amped(*asked, "--anyway", folder=tmp_path).stdout


def test_init_writes_the_network_of_a_file_into_the_config(tmp_path: Path) -> None:
    path, options = written(tmp_path, LLAMA), ("--system", "DGX H100", "--nodes", 2, "-o", "my.json")
    for more in ((), ("--full",)):
        done = amped("init", "--model", path, *options, *more, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        estimate = amped("estimate", "my.json", "--json", folder=tmp_path)
        assert json.loads(estimate.stdout)["number_of_parameters"] == 8_030_261_248, estimate.stderr
        (tmp_path / "my.json").unlink()


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    code, said = refused("estimate", "--model", "./nothing/config.json", "--gpus", 8)
    assert (code, "no such file" in said) == (2, True)


def test_the_winners_of_an_exploration_of_a_file_need_it_no_more(tmp_path: Path) -> None:
    path = written(tmp_path, LLAMA)
    found = amped("explore", "--model", path, "--system", "DGX H100", "--gpus", 8, "--set", "batch_size=64",
                  "--set", "tokens_to_train=1e9", "--space", "degrees", "--top", 1, "--save-best", "best", folder=tmp_path)  # fmt: skip
    assert found.returncode == 0, found.stderr
    path.unlink()
    done = amped("estimate", "best/best-01.json", "--json", folder=tmp_path)
    assert json.loads(done.stdout)["number_of_parameters"] == 8_030_261_248
