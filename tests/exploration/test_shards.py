"""A job array: each shard leaves a file, and `amped merge` makes of all what one run would have told."""

import json
import zlib
from itertools import permutations
from pathlib import Path

import pytest

from amped.base.errors import ConfigError, FileError
from amped.exploration import journal
from amped.exploration.merging import put_together, read_shard
from amped.exploration.results import Finding, merged
from amped.exploration.running import Run, found_in
from tests.helpers.cli import verb
from tests.helpers.executors import alone, answer, arguments, exactly, search, small_parts


@pytest.fixture(autouse=True)
def parts_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    small_parts(monkeypatch)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shards")


@pytest.fixture
def shards(folder: Path, tmp_path: Path) -> list[Path]:
    files = [tmp_path / f"{share}.jsonl" for share in (1, 2, 3)]
    for share, file in enumerate(files, 1):
        found_in(search(folder), Run(findings=file, shard=(share, 3)))
    return files


def formulas(folder: Path) -> Path:
    return folder / "parts.py"


def test_merged_shards_are_one_run_in_any_order(folder: Path, shards: list[Path]) -> None:
    for order in permutations(shards):
        _, found, seconds = put_together(order, formulas(folder))
        assert exactly(found) == exactly(alone(folder))
        assert seconds > 0


@pytest.mark.thorough
def test_the_verbs_do_the_same(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    verb(*arguments(folder))
    whole = answer(capsys.readouterr().out)
    for share in (1, 2):
        verb(*arguments(folder), "--shard", f"{share}/2")
        out, told = capsys.readouterr()
        assert out == ""
        assert f"explore-shard-{share}-of-2.jsonl, for `amped merge`" in told
    files = sorted(tmp_path.glob("explore-shard-*.jsonl"))
    verb("merge", *files, "--formulas", formulas(folder), "--format", "json")
    assert answer(capsys.readouterr().out) == whole
    with pytest.raises(ConfigError, match=r"(?s)exists and is not overwritten.*--resume"):
        verb(*arguments(folder), "--shard", "1/2")
    verb(*arguments(folder), "--shard", "1/2", "--resume", files[0])


def test_findings_merge_in_any_order_and_grouping(folder: Path) -> None:
    asked = search(folder)
    own = [asked.evaluate(part) for part in asked.parts]
    left = Finding(asked.request.options.top)
    for each in own:
        left = merged(left, each)
    right = own[-1]
    for each in reversed(own[:-1]):
        right = merged(each, right)
    while len(own) > 1:  # pairwise, the far ones first
        own = [merged(own[-1 - place], own[place]) for place in range(len(own) // 2)] + own[
            len(own) // 2 : (len(own) + 1) // 2
        ]
    assert exactly(left) == exactly(right) == exactly(own[0])


def test_findings_lose_no_bit_in_a_file(folder: Path) -> None:
    found = alone(folder)
    assert Finding.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_a_missing_part_is_told_and_which_shards_there_are(folder: Path, shards: list[Path]) -> None:
    with pytest.raises(ConfigError, match=r"(?s)3 of 9 parts are in none of the files: 1, 4, 7.*shards 1/3, 3/3"):
        put_together([shards[0], shards[2]], formulas(folder))


def test_more_shards_than_parts_are_empty_and_merge(folder: Path, tmp_path: Path, shards: list[Path]) -> None:
    spare = tmp_path / "spare.jsonl"
    assert found_in(search(folder), Run(findings=spare, shard=(11, 12))).candidates == 0
    assert exactly(put_together([spare, *shards], formulas(folder))[1]) == exactly(alone(folder))


def test_the_same_part_twice_is_counted_once(folder: Path, shards: list[Path]) -> None:
    assert exactly(put_together([*shards, shards[0]], formulas(folder))[1]) == exactly(alone(folder))


def test_parts_that_contradict_one_another_are_refused(folder: Path, tmp_path: Path, shards: list[Path]) -> None:
    lines = shards[0].read_text().splitlines(keepends=True)
    other = tmp_path / "other.jsonl"
    part = json.loads(lines[1])
    part["found"]["candidates"] += 1
    other.write_bytes(lines[0].encode() + journal._written(part, zlib.crc32(lines[0].encode())))
    with pytest.raises(FileError, match=r"(?s)other\.jsonl.*other findings for part 0"):
        put_together([*shards, other], formulas(folder))


def test_shards_of_different_explorations_are_refused_with_the_difference(
    folder: Path, tmp_path: Path, shards: list[Path]
) -> None:
    other = tmp_path / "other.jsonl"
    found_in(search(folder, batch_size=64), Run(findings=other))
    with pytest.raises(FileError, match=r"overrides\.batch_size: 64 there, nothing here"):
        put_together([*shards, other], formulas(folder))


def test_formulas_are_code_which_a_file_of_findings_cannot_have_run(folder: Path, shards: list[Path]) -> None:
    with pytest.raises(ConfigError, match="--formulas FILE"):
        put_together(shards)


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "1/", "/3", "a/b", "1/0", "-1/3", "1/3/5"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not I/N"):
        read_shard(text)


def test_a_shard_has_one_file(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="one file"):
        verb(*arguments(folder), "--shard", "1/2", "--resume", tmp_path / "a", "--output", tmp_path / "b")


def test_what_is_no_file_of_findings_is_refused(tmp_path: Path) -> None:
    for content in ("", "{}\n", "text"):
        (tmp_path / "x").write_text(content)
        with pytest.raises(FileError, match="is not a file of findings"):
            put_together([tmp_path / "x"])
    with pytest.raises(FileError, match="no such file"):
        put_together([tmp_path / "y"])
