"""`amped validate` over a table of one's own: odd heads, missing columns, misses, runs out of memory, forms of output."""

import csv
import io
import json

import pytest

from amped.validation.measurements import MEMORY
from tests.helpers.cli import amped
from tests.helpers.validation import ENTRY, RUN, table


def validated(folder, *rows, heads=None, options=()):
    done = amped("validate", "--table", table(folder, *rows, heads=heads), *(options or ["--json"]), folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout if options else json.loads(done.stdout)


def test_heads_as_people_write_them_and_columns_that_are_missing(tmp_path):
    heads = {"dimensionality": "Hidden Size", "number_of_accelerators": " GPUs", "context": "Seq-Len", "id": "ID"}
    plain = validated(tmp_path, RUN)
    assert validated(tmp_path, RUN | {"notes": "on a Monday"}, heads=heads) == plain
    assert plain["rows"][0]["measured"] == 5.0


def test_rows_that_cannot_be_modeled_are_listed_with_why_and_counted(tmp_path):
    rows = (
        RUN,
        RUN | {"id": "unknown", "accelerator": "H100 Ultra", "measured_memory_bytes": "60 GB"},
        RUN | {"id": "indivisible", "data_parallel_degree": 2, "tensor_parallel_degree": 8, "attention_heads": 4},
        RUN | {"id": "needless", "summa_panels": 4},
        RUN | {"id": "adapters", "not_modeled": "adapters=LoRA of rank 16"},
    )
    found = validated(tmp_path, *rows)
    missed = [e for e in found["rows"] if e["predicted"] is None]
    assert [e["id"] for e in missed] == ["unknown", "unknown", "indivisible", "needless", "adapters"]
    assert [e["quantity"] for e in missed[:2]] == ["step_time", MEMORY]
    assert all(e["error_fraction"] is None and e["fits_in_memory"] is None and e["reason"] for e in missed)
    assert "no row 'H100 Ultra'" in missed[0]["reason"]
    assert "--tp 8 does not divide 4 attention heads" in missed[2]["reason"]
    assert "'summa_panels' is given, and no formula" in missed[3]["reason"]
    assert "\n" not in "".join(e["reason"] for e in missed)
    told = found["summary"]
    assert (told["rows"], told["modeled"], told["missed"]) == (5, 1, 4)
    assert (
        told["step_time"]["high_and_medium_confidence"] | {"compared": 1, "missed": 4}
        == told["step_time"]["high_and_medium_confidence"]
    )
    text = validated(tmp_path, *rows, options=["--rows", "--by", "accelerator"])
    assert "Not modeled, and counted as missed:\n  unknown: " in text
    assert "H100 Ultra" in text
    screen = validated(tmp_path, *rows, options=["--output", "screen.txt"]) or (tmp_path / "screen.txt").read_text()
    assert screen.startswith("5 rows, 1 modeled and 4 missed")
    assert "  2 missed for other reasons (--rows lists them)" in screen


def test_runs_out_of_memory_must_be_predicted_not_to_fit(tmp_path):
    ended = RUN | {"measured_step_time": "", "ran_out_of_memory": "true", "flash_attention": 1}
    large = ended | {"id": "large", "layers": 96, "dimensionality": 12288, "zero_stage": 0}
    found = validated(
        tmp_path,
        RUN | {"id": "ran", "flash_attention": 1},
        large,
        ended | {"id": "small"},
        ended | {"id": "odd", "accelerator": "x"},
    )
    ran, no_room, room, odd = found["rows"]
    assert ran["fits_in_memory"] is True
    assert [no_room[n] for n in ENTRY[2:]] == ["fits_in_memory", False, False, None, False, ""]
    assert [room[n] for n in ENTRY[2:-1]] == ["fits_in_memory", False, True, None, True]
    assert room["reason"] == "ran out of memory, and is predicted to fit"
    assert (odd["predicted"], odd["quantity"]) == (None, "fits_in_memory")
    assert found["summary"]["fits_in_memory"] == {
        "ran_out_of_memory": 2, "of_these_predicted_to_fit": 1, "ran": 1, "of_these_predicted_not_to_fit": 0,
    }  # fmt: skip


def test_low_confidence_stands_apart(tmp_path):
    found = validated(tmp_path, RUN, RUN | {"id": "guess", "confidence": "low", "measured_step_time": 500})["summary"]
    trusted, low = found["step_time"].values()
    assert (trusted["compared"], low["compared"]) == (1, 1)
    assert low["mean_absolute_error_fraction"] > 0.9 > trusted["mean_absolute_error_fraction"]
    assert [group["confidence"] for group in found["by_source"]] == ["high_and_medium_confidence", "low_confidence"]


def test_tokens_and_operations_are_compared_where_there_is_no_time(tmp_path):
    (time,) = validated(tmp_path, RUN)["rows"]
    tokens = 64 * 4096 / 16 / 5.0
    found = validated(tmp_path, RUN | {"measured_step_time": "", "measured_tokens_per_second_per_accelerator": tokens})
    (rate,) = found["rows"]
    assert (rate["quantity"], rate["measured"]) == ("tokens_per_second_per_accelerator", tokens)
    assert 1 + rate["error_fraction"] == pytest.approx(1 / (1 + time["error_fraction"]))
    signed = found["summary"]["step_time"]["high_and_medium_confidence"]["mean_signed_error_fraction"]
    assert signed == pytest.approx(time["error_fraction"])


def test_what_was_assumed_and_what_is_not_modeled_are_told(tmp_path):
    row = RUN | {"not_modeled": "logged_norms=true", "software": "Megatron-LM"}
    text = " ".join(validated(tmp_path, row, options=["--assumed"]).split())
    assert "not stated; as amped estimate takes it: flash_attention = True, sequence_parallel = True" in text
    assert "default of Megatron-Core: " in text
    assert "default of amped: matrix_precision = bf16" in text
    assert "NOT MODELED: logged_norms = true" in text
    short = validated(tmp_path, row, options=["--rows"])
    assert "1 rows did something that is not modeled" in short
    assert "logged_norms" not in short


# What somebody logged: no software, no ZeRO, no precision.
LOGGED = {
    "run": "ours",
    "model": "Llama 3 8B",
    "gpu": "H100 SXM",
    "gpus": 64,
    "tp": 1,
    "mbs": 1,
    "gbs": 512,
    "seq_len": 8192,
}


def test_a_row_is_predicted_as_the_same_words_are_estimated(tmp_path):
    (row,) = validated(tmp_path, LOGGED | {"tokens_per_sec_per_gpu": 6826})["rows"]
    words = [option for name in ("model", "gpus", "tp", "mbs", "gbs") for option in (f"--{name}", LOGGED[name])]
    done = amped("estimate", *words, "--accelerator", LOGGED["gpu"], "--seq", 8192, "--json", folder=tmp_path)
    assert row["predicted"] == json.loads(done.stdout)["tokens_per_second_per_accelerator"]
    assert row["error_fraction"] > 0.3  # nobody is told that all is well


@pytest.mark.thorough
@pytest.mark.parametrize("form", [(), ("--json",), ("--csv",), ("--rows",)])
def test_what_is_assumed_is_told_without_a_prediction(tmp_path, form):
    slow, fast = (
        validated(tmp_path, LOGGED | {"step_time": time, "peak_memory": "1 GB"}, options=["--assumed", *form])
        for time in (1, 100)
    )
    assert slow == fast
    assert "Megatron-Bridge" in slow
    assert "zero_stage" in slow
    assert not [
        word for word in ("predicted", "error", "fit in memory") if word in slow.replace("prints predictions", "")
    ]


def test_what_nobody_measures_a_run_without_is_asked_for(tmp_path):
    rows = [
        {"id": name, **{n: v for n, v in LOGGED.items() if n not in (name, "run")}, "step_time": 9}
        for name in ("model", "gpu", "gpus")
    ]
    told = {row["id"]: row["reason"] for row in validated(tmp_path, *rows)["rows"]}
    assert "does not say which network ran" in told["model"]
    assert "does not say on what" in told["gpu"]
    assert "does not say on how many" in told["gpus"]


def test_times_and_rates_of_one_run_agree_or_are_refused(tmp_path):
    own = LOGGED | {"step_time": 9.6}
    rate = 512 * 8192 / 64 / 9.6
    for cells, quantities in (
        ({"tokens_per_sec_per_gpu": f"{rate:.0f}"}, ["step_time"]),
        ({"tokens_per_sec_per_gpu": 100}, None),
    ):
        rows = validated(tmp_path, own | cells)["rows"]
        if quantities:
            assert [row["quantity"] for row in rows] == quantities  # a run counts once
        else:
            assert all(
                row["predicted"] is None and "given more than once, and differs" in row["reason"] for row in rows
            )


def test_the_system_has_as_many_accelerators_a_node_as_the_row_says(tmp_path):
    own = LOGGED | {"gpu": "A100 SXM 40GB", "gpus": 8, "gpus_per_node": 4, "step_time": 9}
    assert "system = Perlmutter GPU node" in validated(tmp_path, own, options=["--assumed"])


def test_seen_by_clocks_is_said_of_sources_in_a_fit_alone(tmp_path):
    rows = [LOGGED | {"run": source, "source": source, "step_time": 9} for source in ("us", "dgxc-25.04")]
    found = validated(tmp_path, *rows)["summary"]["by_fit"]
    assert {name: told["compared"] for name, told in found.items()} == {
        "of_sources_seen_by_clocks_alone": 1, "of_sources_that_no_fit_has_seen": 1,
    }  # fmt: skip


def test_csv_has_every_entry_and_what_was_assumed(tmp_path):
    rows = (RUN | {"software": "PyTorch"}, RUN | {"id": "odd", "accelerator": "x"})
    lines = list(csv.DictReader(io.StringIO(validated(tmp_path, *rows, options=["--csv"]))))
    assert [line["id"] for line in lines] == ["mine", "odd"]
    assert list(lines[0])[: len(ENTRY)] == ENTRY
    assert float(lines[0]["step_time_error_fraction"]) == float(lines[0]["error_fraction"])
    assert "default of PyTorch" in lines[0]["assumed"]
    assert (lines[1]["predicted"], lines[1]["reason"]) == ("", lines[1]["reason"])
    assert "no row 'x'" in lines[1]["reason"]


@pytest.mark.parametrize(
    ("name", "start"), [("a.csv", "id,source"), ("a.json", "{"), ("a.md", "| abs"), ("a.txt", "1 rows")]
)
def test_output_goes_to_a_file_in_the_form_of_its_name(tmp_path, name, start):
    done = amped("validate", "--table", table(tmp_path, RUN), "--output", name, folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / name).read_text("utf-8").startswith(start)
    again = amped("validate", "--table", table(tmp_path, RUN), "--output", name, folder=tmp_path)
    assert again.returncode == 2
    assert "exists and is not overwritten" in again.stderr


def test_the_plot_is_written_even_where_nothing_could_be_compared(tmp_path):
    done = amped("validate", "--table", table(tmp_path, RUN | {"accelerator": "x"}), "--plot", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    (image,) = (tmp_path / "output_files").iterdir()
    assert image.read_bytes().startswith(b"\x89PNG")


def test_a_table_without_rows_is_no_fault(tmp_path):
    empty = tmp_path / "runs.csv"
    empty.write_text(",".join(RUN) + "\n", "utf-8")
    for form in (
        (),
        ("--json",),
        ("--csv",),
        ("--markdown",),
        ("--assumed",),
        ("--rows",),
        ("--by", "model"),
        ("--plot",),
    ):
        assert amped("validate", "--table", empty, *form, folder=tmp_path).returncode == 0


def test_the_template_is_printed_and_can_be_compared_at_once(tmp_path):
    printed = amped("validate", "--template", folder=tmp_path)
    (tmp_path / "mine.csv").write_text(printed.stdout, "utf-8")
    done = amped("validate", "--table", "mine.csv", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "my-run-1" in done.stdout


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "no such file"),
        (b"\xff\xfe\x00", "is not UTF-8"),
        (b"id;layers\n1;2\n", "no column says what was measured"),
        (b"", "the table is empty"),
    ],
)
def test_a_table_that_cannot_be_read_is_the_user_s_mistake(tmp_path, content, told):
    path = tmp_path / "runs.csv"
    if content is not None:
        path.write_bytes(content)
    done = amped("validate", "--table", path, folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_one_form_at_a_time(tmp_path):
    done = amped("validate", "--json", "--csv", folder=tmp_path)
    assert done.returncode == 2
    assert "exclude one another" in done.stderr


@pytest.mark.parametrize(
    ("software", "row", "why"),
    [
        ("Our trainer", "default", "nor one with a word of its name; this one is the middle of all"),
        ("PyTorch FSDP1", "torchtitan", "this one is nearest in the words of its name"),
    ],
)
def test_software_without_a_row_takes_that_of_its_words_else_the_middle_and_says_so(tmp_path, software, row, why):
    own = RUN | {"software": software, "zero_stage": 3, "attention_kernel": "flash_2", "dropout": 0}
    told = " ".join(validated(tmp_path, own, options=["--assumed"]).split())
    assert f"there is no row '{software}'" in told
    assert why in told
    assert validated(tmp_path, own)["rows"] == validated(tmp_path, own | {"software": row})["rows"]
