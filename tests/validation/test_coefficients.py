"""Every coefficient and what selects it: an accelerator, a precision, a system, a software stack; never a row or a network."""

import ast
import re

import pytest

from amped.base.errors import plain
from amped.calibration.listing import NAMED_AS_ONE as COEFFICIENT
from amped.configuring.values import read_value
from amped.tables.table_files import ACCELERATORS, KERNELS, MODELS, SOFTWARE, SYSTEMS
from amped.tables.tables import Tables
from amped.theory.language.catalogue import catalogue
from amped.theory.language.quantity import ACCELERATOR, MAPPING, NETWORK, SYSTEM
from amped.validation.measurements import read_measurements
from amped.validation.table import read_table
from tests.helpers.culprits import for_each
from tests.helpers.places import ROOT

KNOWN, TABLES = catalogue(), Tables()
# The list. A coefficient that is new stands here with what selects it, or the test fails.
SELECTED_BY = {
    "accelerator": {
        "gemm_ramp_depth", "medium_tile_efficiency", "small_tile_efficiency",
        "smallest_tile_efficiency",
        "wave_quantization", "grouped_gemm_efficiency", "memory_bandwidth_efficiency",
        "normalization_bandwidth_fraction", "indexed_row_bandwidth_fraction", "bandwidth_ramp_bytes", "kernel_overhead_time", "kernel_launch_time",
        "attention_forward_efficiency", "attention_backward_efficiency", "attention_ramp_length",
        "exposed_softmax_fraction", "overlap_slowdown_fraction", "inter_accelerator_ramp_bytes", "inter_node_ramp_bytes",
        "collective_overhead_time", "chain_step_overhead_time", "training_clock_fraction", "flash_1_attention_fraction",
        "flash_2_attention_fraction", "deterministic_kernel_fraction", "blockwise_fp8_fraction",
        "grouped_gemm_overhead_time", "grouped_weight_gradient_fraction", "attention_tile_rows", "attention_head_ramp",
        "attention_backward_head_ramp", "wide_head_backward_fraction", "flash_2_head_ramp", "flash_2_backward_head_ramp", "attention_backward_ramp_length", "attention_edge_length",
        "clock_spread_fraction", "cache_intensity", "tile_latency", "split_product_time", "exposed_store_fraction",
        "energy_of_operand_byte", "tile_quantization", "exposed_operand_fraction",
    },
    "software": {
        "attention_dropout_fraction", "streaming_traffic_factor", "host_time_per_layer", "host_time_per_step",
        "host_time_per_launch", "tensor_chunk_overlap_fraction", "expert_exchange_processor_fraction",
        "allocator_reserve_fraction", "cross_entropy_copies", "loss_parallel_copies", "prefetched_sharding_fraction", "optimizer_traffic_factor",
        "context_parallel_attention_fraction",
    },
    "accelerator and precision": {
        "gemm_sustained_fraction", "fp8_gemm_sustained_fraction", "tf32_gemm_sustained_fraction",
        "fp32_gemm_sustained_fraction", "fp4_gemm_sustained_fraction",
    },
    "system": {
        "inter_accelerator_latency", "inter_accelerator_efficiency", "inter_node_latency", "inter_node_efficiency",
        "in_switch_efficiency", "tree_bandwidth_fraction", "oversubscription", "reserved_memory_bytes",
        "host_link_efficiency", "host_optimizer_efficiency", "idle_power_fraction", "reconfiguration_time",
        "overlapped_reconfiguration_fraction",
    },
    "all alike": {
        "vector_to_matrix_fraction", "fused_backward_products", "matrix_efficiency",
        "deterministic_attention_fraction", "exposed_bubble_fraction", "flex_attention_fraction", "preconditioner_rate_fraction",
        "decomposition_rate_fraction",
    },
    # What somebody wants of a mapping, or what documents make of it: it describes no machine.
    "the user": {"memory_headroom_fraction", "split_token_fraction", "whole_context_fraction", "data_stall_fraction", "machine_use_fraction", "resale_fraction"},
    # Nothing in the shipped tables; `amped bench fit` writes them in the row of a processor.
    "a processor that was measured": {
        "gemm_ramp_rows", "cached_operand_bytes", "elementary_function_time", "random_number_time",
    },
}  # fmt: skip
# Columns that tell of a row and go into no formula.
ABOUT = {"aliases", "extends", "fitted", "fitted_on", "notes", "sources", "sources_opened", "unverified"}
ROWS = read_table(None, KNOWN)
# Names of networks and rows of measurements; those of one plain word and no digit would be found in any text.
NAMES = {row.texts.get(column, "") for row in ROWS for column in ("id", "network")} | set(TABLES.names(MODELS))
NAMES = {plain(name) for name in NAMES if re.search(r"\d", name) and len(name) > 4}


def kernel_rows():
    return [TABLES.row(KERNELS, name) for name in TABLES.names(KERNELS)]


def software_rows():
    return [TABLES.row(SOFTWARE, name) for name in TABLES.names(SOFTWARE)]


def names_on(page):
    """The names that have a row or a formula on a page of the theory."""
    return {name for name, q in KNOWN.items() if page in {f.page for f in q.formulas}}


def strings_of(path):
    """Every text in a program that is not a docstring."""
    tree = ast.parse(path.read_text("utf-8"))
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        n.value
        for n in ast.walk(tree)
        if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in prose
    ]


def test_every_coefficient_is_listed_with_what_selects_it():
    listed = [name for names in SELECTED_BY.values() for name in names]
    assert len(listed) == len(set(listed))
    columns = {column for row in kernel_rows() for column in row.columns}
    parameters = {
        n
        for n, q in KNOWN.items()  # a coefficient may have another one as its default
        if (q.mark.kind == "parameter" or n in columns) and q.category in (ACCELERATOR, SYSTEM, MAPPING, None)
    }
    assert {name for name in parameters if COEFFICIENT.search(name)} == set(listed)


def test_columns_of_kernel_efficiencies_are_the_accelerator_s():
    page = names_on("inputs/efficiencies")
    columns = {column for row in kernel_rows() for column in row.columns} - ABOUT
    own = SELECTED_BY["accelerator"] | SELECTED_BY["accelerator and precision"]
    assert columns == page - SELECTED_BY["a processor that was measured"] == own
    assert {KNOWN[name].category for name in own} == {ACCELERATOR}
    precise = {name for name in own if re.match(r"(fp\d+_|tf32_|)gemm_sustained", name)}
    assert precise == SELECTED_BY["accelerator and precision"]


@for_each(kernel_rows())
def test_a_row_of_kernel_efficiencies_is_an_accelerator_or_its_generation(row):
    machines = [TABLES.row(ACCELERATORS, name) for name in TABLES.names(ACCELERATORS)]
    generations = [plain(str(machine.columns.get("architecture", ""))) for machine in machines]
    names = {plain(machine.name) for machine in machines}
    fits = plain(row.name) in names or any(g.startswith(plain(row.name)) for g in generations)
    assert fits or row.name in ("default", "TPE constants")


def test_no_table_of_machines_knows_a_network_or_a_measurement():
    for table in (KERNELS, ACCELERATORS, SYSTEMS, SOFTWARE):
        assert [name for name in TABLES.names(table) if plain(name) in NAMES] == []


def test_a_network_s_row_has_no_coefficient():
    columns = {column for name in TABLES.names(MODELS) for column in TABLES.row(MODELS, name).columns}
    assert [column for column in columns if COEFFICIENT.search(column)] == []
    own = [n for n, q in KNOWN.items() if q.category == NETWORK and COEFFICIENT.search(n)]
    assert own == []


def mentions(path):
    plainly = ((text, plain(text)) for text in strings_of(path))
    return [text for text, written in plainly for name in NAMES if name in written]


@pytest.mark.thorough
def test_no_program_mentions_a_network_or_a_measurement():
    for path in sorted((ROOT / "amped").rglob("*.py")):
        assert mentions(path) == [], path


def test_a_program_that_did_would_be_seen(tmp_path):
    page = tmp_path / "page.py"
    page.write_text('"""About GPT-18.4B."""\nFACTORS = {"GPT-18.4B": 0.9}\n', "utf-8")
    assert mentions(page) == ["GPT-18.4B"]


# What a stack does well or badly: parameters on the page of software that its rows have.
HOW_WELL = {n for n in names_on("inputs/software") if KNOWN[n].category} - {
    "deterministic", "deterministic_attention_fraction", "attention_head_ramp", "flex_attention_fraction",
    "expert_assignment",
}  # fmt: skip

# --- software stacks --------------------------------------------------------------------------------------------------


def test_a_row_of_measurements_names_a_row_of_software():
    named = {str(row.settings["software"]) for row in ROWS if "software" in row.settings}
    assert all(TABLES.has(SOFTWARE, name) for name in named)
    assert all("software" in row.settings for row in ROWS)


def test_what_a_stack_has_beside_defaults_are_the_page_of_software():
    columns = {column for row in software_rows() for column in row.columns} - ABOUT
    assert columns >= HOW_WELL
    assert [c for c in columns - HOW_WELL if c in KNOWN and COEFFICIENT.search(c)] == []


def test_the_row_of_no_software_repeats_the_defaults_of_its_parameters():
    row = TABLES.row(SOFTWARE, "all fused")
    assert {c for c in row.columns if c in KNOWN} == set(HOW_WELL)
    for column in HOW_WELL:
        (formula,) = KNOWN[column].formulas
        assert read_value(KNOWN[column], row.columns[column]) == formula.function(), column


# --- fitted numbers ---------------------------------------------------------------------------------------------------


def test_fitted_columns_are_told_with_what_they_were_fitted_on():
    for row in (*kernel_rows(), *software_rows()):
        assert set(row.fitted) <= row.columns.keys() - ABOUT
        assert not set(row.fitted) & set(row.unverified)
        assert bool(row.fitted) == bool(row.columns.get("fitted_on"))


@pytest.mark.parametrize(("rows", "most"), [(kernel_rows(), 12), (software_rows(), 6)], ids=["accelerators", "stacks"])
def test_few_numbers_are_fitted(rows, most):
    assert any(row.fitted for row in rows)
    assert max(len(row.fitted) for row in rows) <= most


@pytest.mark.thorough
def test_a_measurement_gives_no_coefficient_of_its_own():
    allowed = {"attention_kernel", "weight_gradient_accumulation", "dispatcher", "expert_launches", "fused_cross_entropy",
               "recomputation_stops_early", "cuda_graph_scope", "expert_bias_addition", "whole_gradient_accumulation",
               "weights_stay_gathered", "replicated_embedding", "gathered_logits", "each_projection_gathers", "activation_clamping"}  # fmt: skip
    for m in read_measurements():
        given = m.row.settings.keys()
        own = {n for n in given if COEFFICIENT.search(n) or n in HOW_WELL}
        alone = {"host_time_per_step", "training_clock_fraction"} if m.kind == "layer" else set()  # no run, and no heat
        recorded = (
            {"host_time_per_layer"} if m.settings.get("host_time_per_layer") == 0 else set()
        )  # whole steps as graphs
        assert own - allowed - alone - recorded == set(), m.id
