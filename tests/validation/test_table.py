"""The reader of a table of measurements: what a column and a cell may be, and what is told of those that may not."""

import pytest

from amped.base.errors import AmpedError, ConfigError, FileError
from amped.base.files import shipped_text
from amped.theory.language.catalogue import catalogue
from amped.validation.measurements import MEMORY, read_measurements
from amped.validation.table import FOLDER, TEMPLATE, read_table
from tests.helpers.validation import RUN, table


def read(folder, *rows, heads=None):
    return read_table(table(folder, *rows, heads=heads), catalogue())


@pytest.fixture
def refused(tmp_path):
    """What is told of a table of one row with other cells."""

    def told(**cells):
        with pytest.raises(ConfigError) as error:
            read(tmp_path, RUN | cells)
        return [(p.where, p.what, p.advice) for p in error.value.problems]

    return told


# --- what may stand there ---------------------------------------------------------------------------------------------


def test_a_cell_is_read_as_set_reads_it(tmp_path):
    (row,) = read(tmp_path, RUN | {"inter_node_bandwidth": "25 GB/s", "causal": "FALSE", "gradient_precision": 16})
    assert (row.settings["inter_node_bandwidth"], row.settings["causal"]) == ("25 GB/s", False)
    assert (row.settings["gradient_precision"], row.settings["layers"]) == (16, 32)


def test_rare_parameters_stand_together(tmp_path):
    (row,) = read(tmp_path, RUN | {"set": "dropout=0.1; optimizer = sgd ;"})
    assert (row.settings["dropout"], row.settings["optimizer"]) == (0.1, "sgd")


def test_measured_quantities_have_units(tmp_path):
    (row,) = read(tmp_path, RUN | {"measured_step_time": "5200 ms", "measured_memory_bytes": "60 GB"})
    assert row.measured == {"step_time": 5.2, MEMORY: 60e9}


@pytest.mark.parametrize(
    ("name", "head"),
    [("dimensionality", "Dimensionality"), ("dimensionality", "hidden_size"), ("context", "Seq-Len"), ("id", " ID "),
     ("number_of_accelerators", "gpus"), ("data_parallel_degree", "dp"), ("zero_stage", "Zero Stage")],
)  # fmt: skip
def test_heads_as_people_write_them(tmp_path, name, head):
    assert read(tmp_path, RUN, heads={name: head}) == read(tmp_path, RUN)


def test_a_table_needs_only_what_its_user_has(tmp_path):
    own = {"model": "Llama 3 8B", "system": "DGX H100", "tensor_parallel_degree": 2, "number_of_accelerators": 8,
           "batch_size": 64, "microbatch_size": 1, "measured_step_time": 4}  # fmt: skip
    (m,) = read_measurements(table(tmp_path, own))
    assert (m.id, m.network, m.confidence, m.kind) == ("line 2", "Llama 3 8B", "high", "training_step")


def test_the_template_is_a_table(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text(shipped_text(FOLDER, TEMPLATE), "utf-8")
    (row,) = read_table(path, catalogue())
    assert row.texts["id"] == "my-run-1"


@pytest.mark.parametrize(("head", "cell", "measured"), [
    ("step_time", "9.6", {"step_time": 9.6}), ("Step Time (ms)", "9600", {"step_time": 9.6}),
    ("elapsed time per iteration (ms)", "9600", {"step_time": 9.6}), ("iteration_time", "9.6 s", {"step_time": 9.6}),
    ("tokens_per_sec_per_gpu", "6826", {"tokens_per_second_per_accelerator": 6826}),
    ("tokens/s/GPU", "6826", {"tokens_per_second_per_accelerator": 6826}),
    ("TFLOP/s/GPU", "400", {"model_flop_rate_per_accelerator": 400e12}),
    ("mfu", "0.4", {"model_flops_utilization": 0.4}), ("MFU", "40 %", {"model_flops_utilization": 0.4}),
    ("mfu(%)", "40", {"model_flops_utilization": 0.4}), ("peak_memory_gb", "60", {MEMORY: 60e9}),
    ("memory/max_reserved(GiB)", "1", {}),
])  # fmt: skip
def test_a_column_named_as_a_result_is_what_was_measured(tmp_path, head, cell, measured):
    own = {name: value for name, value in RUN.items() if name != "measured_step_time"}
    if not measured:
        with pytest.raises(ConfigError, match="no column says what was measured"):
            read(tmp_path, own | {head: cell})
        return
    (row,) = read(tmp_path, own | {head: cell})
    assert row.measured == pytest.approx(measured)
    assert row.settings.keys() == read(tmp_path, RUN)[0].settings.keys()


@pytest.mark.parametrize(("head", "name"), [
    ("gpu", "accelerator"), ("gpus", "number_of_accelerators"), ("mbs", "microbatch_size"), ("gbs", "batch_size"),
    ("seq_len", "context"), ("gpus_per_node", "number_of_accelerators_per_node"), ("framework", "software"),
])  # fmt: skip
def test_columns_that_logs_have(tmp_path, head, name):
    own = {each: value for each, value in RUN.items() if each != name}
    cell = {"accelerator": "H100 SXM", "software": "PyTorch"}.get(name, "8")
    (row,) = read(tmp_path, own | {"data_parallel_degree": "", head: cell})
    assert str(row.settings[name]) == cell


def test_words_mean_what_they_mean_in_set(tmp_path):
    (row,) = read(tmp_path, RUN | {"precision": "mxfp8", "set": "optimizer=adamw"})
    assert {"matrix_precision": "fp8", "fp8_scaling": "blocks", "optimizer": "adam"}.items() <= row.settings.items()


def test_two_columns_may_say_one_thing(tmp_path):
    assert read(tmp_path, RUN | {"mbs": 1, "seq_len": "4096"}) == read(tmp_path, RUN)


# --- what may not -----------------------------------------------------------------------------------------------------


def test_an_unknown_column_is_told_with_the_nearest(refused):
    ((where, what, advice),) = refused(tensor_paralel_degree=2)
    assert (where, what) == ("line 1, column 'tensor_paralel_degree'", "unknown column 'tensor_paralel_degree'")
    assert advice.startswith("did you mean 'tensor_parallel_degree'")


@pytest.mark.parametrize(("column", "cell", "told"), [
    ("inter_node_bandwidth", "25 GB", "not a unit of bandwidth"),
    ("layers", "many", "many"),
    ("layers", "=A1+B1", "=A1+B1"),
    ("layers", "1e400", ""),
    ("gated_mlp", "2", "neither true nor false"),
    ("activation_recomputation", "some", "no choice"),
    ("measured_step_time", "5 GB", "not a unit of time"),
    ("confidence", "hihg", "unknown word 'hihg'"),
    ("open", "layers", "unknown parameter that can be open 'layers'"),
    ("set", "dropout", "'dropout' is not NAME=VALUE"),
    ("set", "droput=0", "unknown parameter 'droput'"),
    ("not_modeled", "colour=red", "unknown fact 'colour'"),
])  # fmt: skip
def test_a_wrong_cell_is_told_with_line_and_column(refused, column, cell, told):
    ((where, what, _),) = refused(**{column: cell})
    assert where == f"line 2, column '{column}'"
    assert told in what


def test_what_amped_models_is_a_parameter_and_not_a_fact(refused):
    ((_, what, advice),) = refused(not_modeled="cuda_graphs=full")
    assert what == "unknown fact 'cuda_graphs'"
    assert advice == "did you mean 'cuda_graph_scope'? A parameter belongs into the column 'set'"


def test_all_that_is_wrong_is_told_at_once(tmp_path):
    with pytest.raises(ConfigError) as error:
        read(tmp_path, RUN | {"layers": "x", "context": "y"}, RUN | {"id": "other", "zero_stage": "z"})
    assert [p.where for p in error.value.problems] == [
        "line 2, column 'layers'", "line 2, column 'context'", "line 3, column 'zero_stage'",
    ]  # fmt: skip


@pytest.mark.parametrize(("cells", "told"), [
    ({"training_time": "3 days"}, "'training_time' is a result, and no measurement is compared with it"),
    ({"mfu": "43"}, "a utilization of 43 is above 1"),
    ({"mbs": 2}, "'microbatch_size' is given twice: 1 and 2"),
    ({"set": "cost=5"}, "'cost' is a result, and not what a run is given"),
    ({"measured_step_time": ""}, "nothing was measured"),
    ({"open": "microbatch_size"}, "'microbatch_size' is given and open"),
    ({"zero_stage": 1, "set": "zero_stage=2"}, "'zero_stage' is given twice"),
])  # fmt: skip
def test_what_contradicts_itself_is_told_with_its_line(refused, cells, told):
    ((where, what, advice),) = refused(**cells)
    assert where is not None
    assert where.startswith(("line 1", "line 2"))
    assert told in what
    assert advice


def test_an_id_stands_once(tmp_path):
    with pytest.raises(ConfigError, match="lines 2 and 3, column 'id': the id 'mine' stands 2 times"):
        read(tmp_path, RUN, RUN)


@pytest.mark.parametrize(("content", "told"), [
    (b"", "the table is empty"),
    (b"id,layers\na,1\n", "no column says what was measured"),
    (b"id,measured_step_time\na,1,2\n", "line 2, column 'measured_step_time': has not as many cells as the header: 3, and not 2"),
    (b'id,measured_step_time\n\n"a,1\n', "line 3: is no table of comma-separated values"),
])  # fmt: skip
def test_a_file_that_is_no_table_is_refused(tmp_path, content, told):
    path = tmp_path / "runs.csv"
    path.write_bytes(content)
    with pytest.raises(AmpedError, match=told):
        read_table(path, catalogue())


def test_a_file_that_is_missing_is_told(tmp_path):
    with pytest.raises(FileError, match="no such file"):
        read_table(tmp_path / "none.csv", catalogue())
