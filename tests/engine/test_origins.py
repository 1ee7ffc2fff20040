"""Where each value came from: a value remembers its origin and can tell it."""

import amped
from amped.estimation.explanation import Explanation
from amped.theory.language.catalogue import catalogue
from amped.theory.language.quantity import ACCELERATOR, NETWORK
from tests.helpers.resolver import ALL_OF_IT, on_a100


def explained(name: str, **values: object) -> Explanation:
    return amped.explain(name, on_a100(**values, **ALL_OF_IT))


def test_a_given_value_remembers_where_it_was_written() -> None:
    told = explained("memory_capacity", memory_capacity="40 GB")
    assert (told.origin, told.value, told.unit) == ("given", 40e9, "byte")
    assert told.where == f"{ACCELERATOR}.parameters.memory_capacity: 40 GB"


def test_an_override_remembers_the_option_it_came_by() -> None:
    told = amped.explain("memory_capacity", "default", memory_capacity="40 GB")
    assert (told.origin, told.where) == ("given", "--set memory_capacity: 40 GB")


def test_a_looked_up_value_remembers_its_row() -> None:
    told = explained("memory_capacity")
    assert (told.origin, told.value) == ("table row", 79.25 * 2**30)
    assert told.where == "accelerator_specifications, row 'A100 SXM 80GB': 79.25 GiB"


def test_a_default_remembers_its_source() -> None:
    told = explained("matrix_efficiency")
    assert told.origin == "default"
    assert told.source == catalogue()["matrix_efficiency"].formulas[0].text["source"]


def test_a_calculated_value_remembers_its_formula_its_source_and_its_parts() -> None:
    told = explained("number_of_microbatches_per_minibatch", microbatch_size=1)
    assert told.origin == "calculated"
    assert told.where == "number_of_microbatches_per_minibatch__of_size(minibatch_size, microbatch_size)"
    assert told.because == "microbatch_size given"
    assert told.source == "definition."
    assert [(part.name, part.origin) for part in told.parts] == [
        ("minibatch_size", "calculated"), ("microbatch_size", "given"),
    ]  # fmt: skip


def test_the_tree_of_a_step_reaches_every_kind_of_origin_and_tells_nothing_twice() -> None:
    told = list(explained("step_time", activation_recomputation="selective").walk())
    assert {part.origin for part in told} == {"given", "table row", "calculated", "default", "records"}
    grown = [part.name for part in told if part.parts]
    assert len(grown) == len(set(grown))
    because = {part.name: part.because for part in told}
    assert because["recomputed_attention_core_fraction"] == "activation_recomputation is selective"
    assert because["recomputation_time"] == "performance_model is operators"
    closed = list(explained("step_time", activation_recomputation="selective", performance_model="amped").walk())
    recomputation = next(part for part in closed if part.name == "recomputation_time")
    assert recomputation.because == "performance_model is amped"
    assert recomputation.differs.startswith("AMPeD has no recomputation")


def test_a_choice_remembers_why_it_was_taken() -> None:
    assert explained("matrix_precision").because == "bf16_peak_flop_rate given"
    given = explained("matrix_precision", matrix_precision="tf32")
    assert (given.value, given.origin) == ("tf32", "given")
    assert given.where == f"{NETWORK}.parameters.matrix_precision"


def test_calculated_in_the_config_is_told_as_calculated() -> None:
    told = explained("vector_flop_rate", vector_flop_rate={"calculated": True})
    assert told.origin == "calculated"
    assert {part.name for part in told.parts} == {"matrix_peak_flop_rate", "vector_to_matrix_fraction"}
