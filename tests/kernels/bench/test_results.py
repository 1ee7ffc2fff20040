"""The file of a benchmark: read strictly, forward compatible, written whole; other machines and other files are refused."""

import json

import pytest

from amped.base.errors import FileError
from amped.kernels.results import identity, read_result, refuse_other_machine, write_result
from amped.kernels.specs import key_of, spec
from tests.helpers.bench import record, result


def written(folder, content):
    path = folder / "r.json"
    path.write_text(json.dumps(content) if not isinstance(content, str) else content, "utf-8")
    return path


def test_what_is_written_is_read_and_has_its_records_identity(tmp_path):
    content = result([record("gemm", m=4, n=4, k=4)])
    path = write_result(tmp_path / "r.json", content)
    assert read_result(path) == content
    assert content["id"] == identity(content["records"])
    assert len(content["id"]) == 64


def test_unknown_fields_are_let_through(tmp_path):
    content = result([record("copy", rows=4, columns=4)]) | {"mood": "good"}
    content["records"][0]["weather"] = 3
    assert read_result(written(tmp_path, content))["mood"] == "good"


@pytest.mark.parametrize(("spoil", "where"), [
    (lambda c: c.pop("device"), "'device' is a required property"),
    (lambda c: c["records"][0].pop("flop"), r"records\[0\]: 'flop'"),
    (lambda c: c["records"][0]["time_s"].update(min=0), r"records\[0\].time_s.min"),
    (lambda c: c["records"][0]["time_s"].update(n="many"), r"records\[0\].time_s.n"),
    (lambda c: c["settings"].update(statistic="mode"), "settings.statistic"),
])  # fmt: skip
def test_what_is_missing_or_wrong_is_refused_with_its_path(tmp_path, spoil, where):
    content = result([record("gemm", m=4, n=4, k=4)])
    spoil(content)
    with pytest.raises(FileError, match=where):
        read_result(written(tmp_path, content))


@pytest.mark.parametrize(("content", "told"), [
    ('{"schema": "kernel-bench/1", "records": [', "is not valid JSON"),
    ({"rows": {}}, "is not a result of `amped bench run`: its schema is null"),
    ({"schema": "kernel-bench/9"}, "kernel-bench/9"),
    ([1, 2], "is not a result"),
])  # fmt: skip
def test_a_damaged_or_foreign_file_is_refused(tmp_path, content, told):
    with pytest.raises(FileError, match=told):
        read_result(written(tmp_path, content))


def test_records_of_another_machine_are_not_put_beside(tmp_path):
    here, there = result([]), result([], name="another")
    refuse_other_machine(here, result([]), "r.json")
    there["software"]["torch"] = "1.0"
    with pytest.raises(FileError, match=r"(?s)device.name is 'another' there.*software.torch"):
        refuse_other_machine(there, here, "r.json")


def test_a_record_is_known_again_by_what_it_measured():
    own = record("gemm", m=4, n=4, k=4)
    assert key_of(json.loads(json.dumps(own))) == spec("gemm", "float32", m=4, n=4, k=4).key
