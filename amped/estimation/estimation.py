"""The estimate of one configuration: all its results, and the formulas behind them."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any

from amped.base.aliases import aliases
from amped.base.errors import (
    AmpedError,
    ConfigError,
    EvaluationError,
    MappingError,
    Problem,
    ResolveError,
    did_you_mean,
    quoted,
)
from amped.base.record import dataclass
from amped.configuring.scenario import Scenario, refuse_sweeps
from amped.configuring.sources import Given
from amped.engine.evaluate import Results, check_finite, run, run_each
from amped.engine.resolve import Plan, chosen_values, plan
from amped.estimation.anchored import anchored_size, told_numbers
from amped.estimation.gate import broken_laws, formulas_of_the_user, given_from_inside, pass_gate
from amped.estimation.grade import LAW, MISSING, grade
from amped.estimation.missing_kernels import missing_kernels
from amped.estimation.not_modeled import TOLD_FIRST, Bound, bounds_of, together, with_bound
from amped.estimation.own_runs import own_band, own_runs
from amped.estimation.parts import HIDDEN_PARTS, MEMORY_PARTS, STEP_PARTS
from amped.estimation.placement import refilled
from amped.estimation.rules import broken_rules
from amped.estimation.uncertainty import MEMORY_LAW, TIME_LAW, ErrorBand, ErrorLaw, error_band
from amped.estimation.validated import CAUSAL_UTILIZATION, Ground, best_utilization, ground_of, mapping_of, mixer_of
from amped.pipeline_layouts.laying_out import laid_out
from amped.tables.prices import today
from amped.tables.table_files import KERNELS
from amped.theory.language.catalogue import Formula
from amped.theory.language.quantity import MAPPING
from amped.theory.nouns.conditions import OFFLOADS
from amped.theory.nouns.parallelisms import BESIDE_KERNELS, IN_LAYERS, PARALLELISMS, WRITTEN

RESULTS = (
    "training_time", "step_time", "number_of_steps", "goodput_fraction", *STEP_PARTS,
    *HIDDEN_PARTS, "host_wait_time", "exposed_bucket_time", "data_slowdown_time",
    "tokens_per_second_per_accelerator", "model_flop_rate_per_accelerator", "hardware_flop_rate_per_accelerator",
    "model_flops_utilization", "hardware_flops_utilization",
    *(f"{kind}_flops_utilization_counting_{scores}_scores" for kind in ("model", "hardware") for scores in ("all", "causal")),
    "memory_per_accelerator_bytes", *MEMORY_PARTS, "allocator_reserved_bytes", "host_memory_bytes",
    "fits_in_memory", "fits_in_host_memory", "keeps_memory_headroom", "memory_headroom_fraction", "largest_microbatch_size", "rematerialized_layer_fraction", "number_of_parameters", "active_parameters", "trained_parameters",
)  # fmt: skip
# What says the format of matrix products.
FORMAT = PRECISION, SCALES = "matrix_precision", "fp8_scaling"
IN_BLOCKS = "blockwise fp8"
OPTIONAL_RESULTS = ("energy", "cost", "token_cost", "electricity_cost", "carbon_emissions", "cooling_water")
# Results of who buys a machine, and what says that somebody does.
BOUGHT, OWNING_RESULTS = "purchase_cost", ("owning_price", "owning_cost", "break_even_use_fraction")
# Shares of the peak by a convention that counts scores which nobody computes; with windows they may exceed 1.
COUNTING_ALL_SCORES = tuple(name for name in RESULTS if name.endswith("_counting_all_scores"))
MAPPING_ECHO = (
    "number_of_accelerators", "number_of_nodes", *(f"{kind}_parallel_degree" for kind in WRITTEN), "batch_size", "microbatch_size",
    "number_of_microbatches_per_minibatch", "virtual_pipeline_stages", "context", "tokens_to_train",
    *OFFLOADS,
    *(f"{place}_node_{kind}_parallel_degree" for kind in PARALLELISMS for place in ("intra", "inter")),
    "scale_up_domain_size", "usable_domain_size", "number_of_used_fast_domain_places",
)  # fmt: skip
# Details for reports: lists of operators and collectives, and what they are compared with.
DETAILS = (
    "matrix_peak_flop_rate", "memory_capacity", "memory_bandwidth", "model_flops_per_accelerator",
    "hardware_flops_per_accelerator", *(f"{kind}_collectives" for kind in IN_LAYERS),
    "pipeline_collectives", "deepflow_gemms", "activation_precision", "zero_stage", "weight_precision",
    "layer_operators", "embedding_operators", "output_head_operators", "tower_operators", "tower_parameters", "tower_projector_parameters", "layer_passes", "recomputed_layer_fraction",
    "fullest_stage_index", "fullest_stage_parameters", "layer_kinds", "pipeline_stages", "stage_parameters", "stage_activations", "parameter_groups", "parameter_classes", "stage_states",
    "tied_embedding_parameters", "layer_working_bytes", "stage_working", "weight_buffer_bytes",
    "multi_token_prediction_layers", "stage_ends", "available_memory_bytes", "chunks_per_stage",
    "first_stage_layers", "middle_stage_layers", "last_stage_layers", "kept_activation_bytes_per_layer",
    "embedding_activation_bytes", "output_head_activation_bytes", "communication_rounds", "layers", "kind_activations",
    "microbatches_per_flush", "pipeline_flushes_per_step", "peak_time", "product_loss_time",
)  # fmt: skip
# What takes days from a training; the closed form knows none of it.
CALENDAR = (
    "interruption_factor",
    "time_between_failures",
    "checkpoint_bytes",
    "checkpoint_interval_time",
    "evaluation_fraction",
)
# Details that only one performance model has.
MODEL_DETAILS = {
    "operators": ("layer_durations", "embedding_durations", "output_head_durations", "tower_durations", "tower_forward_time", "tower_backward_time", "optimizer_operators",
                  "optimizer_durations", "bottleneck_stage_layer_passes", "bottleneck_stage_embedding_passes", "bottleneck_stage_output_head_passes",
                  *(f"{kind}_durations" for kind in (*BESIDE_KERNELS, "pipeline")), "pass_times", "whole_pass_times", "bottleneck_stage", "stage_send_time",
                  "overlap_pipeline_communication", "layer_time", "layer_activation_bytes", *CALENDAR,
                  "uncounted_work_time", "clock_loss_time", "attention_loss_time", "other_kernel_time", "kernel_wait_time"),
    "amped": ("matrix_efficiency", "intra_node_tensor_communication_time", "inter_node_tensor_communication_time",
              "intra_node_gradient_communication_time", "inter_node_gradient_communication_time",
              "weight_gathering_time", "multiply_accumulate_time", "layer_products", "layer_durations",
              "embedding_durations", "output_head_durations", "tower_durations"),
}  # fmt: skip


@dataclass(frozen=True)
class Estimation:
    """The results of one configuration."""

    scenario: Scenario
    results: Results

    @property
    def plan(self) -> Plan:
        """The formulas that were used."""
        return self.results.plan

    @property
    def choices(self) -> Mapping[str, str]:
        """The value of each selector, and each other text that is given, such as a layout; by name."""
        texts = {name: text for name, text in self.scenario.sources.choices.items() if name not in self.plan.choices}
        return {**texts, **self.plan.choices}

    def __getitem__(self, name: str) -> float:
        """The number of one quantity, in its canonical unit.

        Raises:
            ResolveError: for a name that was not computed.
        """
        if name not in self.results:
            advice = did_you_mean(str(name), [*self.results, *self.choices])
            raise ResolveError(f"there is no result {quoted(name)}", advice)
        return self.results.number(name)

    def __contains__(self, name: object) -> bool:
        return name in self.results.cells

    @property
    def precision(self) -> str:
        """The format of matrix products, by the name under which a user asks for it."""
        return str(aliases().in_words({n: self.choices[n] for n in FORMAT if n in self.choices})[PRECISION])

    @property
    def computed_precision(self) -> str:
        """The format of matrix products, as the accelerator has it.

        Matrix units that read scales of blocks also multiply in fp4; on others, fp8 with scales of blocks is not mxfp8.
        """
        in_blocks = (self.choices.get(PRECISION), self.choices.get(SCALES)) == ("fp8", "blocks")
        reads_scales = self.scenario.sources.given.get("fp4_peak_flop_rate")
        return IN_BLOCKS if in_blocks and not reads_scales else self.precision

    @property
    def breakdown(self) -> dict[str, float]:
        """The parts of a step's time in seconds; their plain sum is `step_time`."""
        return {name: self[name] for name in STEP_PARTS}

    @property
    def notices(self) -> list[str]:
        """Sentences for the user about the config and its results, each once."""
        sources, given = self.scenario.sources, given_from_inside(self.scenario, self.results)
        notices = [f"warning: not modeled: {bound}" for bound in self.not_modeled] + sources.notices
        notices += sources.doubts.values() if self.uses_kernels else ()
        notices += [f"{name} is given, not calculated: what it is made of need not agree with it" for name in given]
        notices += broken_laws(self.results) if given or formulas_of_the_user(self.scenario, self.results) else ()
        notices += [f"{name} is given, and nothing here uses it" for name in self.unread]
        notices += missing_kernels(self.results)
        return list(dict.fromkeys(notices))

    @property
    def unread(self) -> Iterator[str]:
        """The names of the values that the user gave with --set and that no formula of this plan reads."""
        origins, cells = self.scenario.sources.origins, self.results.cells
        others = {name: o for name, o in origins.items() if name not in cells and name not in self.choices}
        given_now = [name for name, o in others.items() if isinstance(o, Given) and o.where.startswith("--set")]
        marks = [f.mark for f in self.plan.by_name.values()] if given_now else []
        conditions = {name for mark in marks for name in (*mark.when_given, *mark.when_any_given)}
        yield from (name for name in given_now if name not in conditions)

    @property
    def uses_kernels(self) -> bool:
        """Whether times come from kernels, and therefore from a row of kernel efficiencies."""
        return "kernel_rates" in self

    @cached_property
    def defaults(self) -> dict[str, Formula]:
        """The formulas of the coefficients that have their default values, without those that are defaults by definition."""
        return {
            name: formula
            for name, formula in self.plan.by_name.items()
            if formula.mark.kind == "parameter"
            and formula.mark.category not in (None, MAPPING)
            and formula.mark.unit not in ("boolean", "count")
            and not formula.text["source"].startswith("definition")
        }

    @property
    def given_results(self) -> tuple[str, ...]:
        """The names of the results that the user gave, so that they are not predicted."""
        origins = self.scenario.sources.origins
        given = (name for name in (*RESULTS, *OPTIONAL_RESULTS) if isinstance(origins.get(name), Given))
        return tuple(name for name in given if self.scenario.catalogue[name].mark.kind != "parameter")

    @property
    def ground(self) -> Ground:
        """The properties of the configuration that the error of this estimate depends on."""
        sources = self.scenario.sources
        mixer = mixer_of(self.choices, sources.given)
        ground = ground_of(sources.rows, self.choices["matrix_precision"], self.__getitem__, mixer)
        return replace(ground, mapping=mapping_of(self.__getitem__))

    @cached_property
    def error_band(self) -> ErrorBand | None:
        """The error band of the step's time, widened by parts that are not modeled; None for the closed form (not validated)."""
        return with_bound(self._band(TIME_LAW), self.unmodeled.on_time if self.unmodeled else None)

    @cached_property
    def memory_band(self) -> ErrorBand | None:
        """The error band of an accelerator's memory, widened by parts that are not modeled; None for the closed form."""
        return with_bound(self._band(MEMORY_LAW), self.unmodeled.on_memory if self.unmodeled else None)

    @cached_property
    def not_modeled(self) -> list[Bound]:
        """The bounds on time and memory of each part that is not modeled."""
        return bounds_of(self.results, self.scenario.sources.not_modeled)

    @cached_property
    def unmodeled(self) -> Bound | None:
        """One bound for all parts that are not modeled together; None if everything is modeled."""
        return together(self.not_modeled)

    @property
    def lacks_much(self) -> bool:
        """Whether parts that are not modeled may move time or memory by more than a quarter."""
        return self.unmodeled is not None and max(self.unmodeled.on_time, self.unmodeled.on_memory) > TOLD_FIRST

    @cached_property
    def grade(self) -> str:
        """The grade of the estimate, one of `GRADES` of `estimation/grade.py`: how near the validated runs are."""
        return MISSING if self.lacks_much else grade(self.ground) if self.uses_kernels else LAW

    def _band(self, law: ErrorLaw) -> ErrorBand | None:
        """The error band by a law, without the bounds of parts that are not modeled; None for the closed form.

        For the step's time, the user's own runs are taken if the row of kernel efficiencies was calibrated to them.
        """
        if not self.uses_kernels:
            return None
        band, kernels = error_band(self.ground, law=law), self.scenario.sources.rows[KERNELS]
        if law is not TIME_LAW:
            return band
        if runs := own_runs(kernels):
            return own_band(self.ground, runs, band)
        if told := told_numbers([row for row in (kernels, self.scenario.sources.rows.get(MAPPING)) if row]):
            size = anchored_size(math.log1p(band.error_fraction), self.scenario, told)
            return replace(band, error_fraction=math.expm1(size), beyond=(*band.beyond, *self._beyond_the_best()))
        of_user = [] if kernels.is_shipped else [f"row '{kernels.name}' of {KERNELS} is your own"]
        return replace(band, beyond=(*band.beyond, *of_user, *self._beyond_the_best()))

    def _beyond_the_best(self) -> Iterator[str]:
        """A sentence if the utilization is higher than all that were measured on this accelerator."""
        (best, where), utilization = best_utilization(self.ground), self[CAUSAL_UTILIZATION]
        if utilization > best:
            mfu = f"MFU {100 * utilization:.1f} % (causal scores counted)"
            yield f"{mfu}, measured up to {100 * best:.1f} % on {where}"

    def to_dict(self) -> dict[str, Any]:
        """All results, choices and degrees by name, as numbers in SI units, booleans or texts; `not_modeled` is a list of objects."""
        values: dict[str, float | bool | str] = {name: self._plain(name) for name in RESULTS}
        if "number_of_windowed_layers" in self and self["number_of_windowed_layers"] > 0:
            values |= dict.fromkeys(COUNTING_ALL_SCORES, "unknown: an attention window leaves scores out")
        for name in optional_results(self.scenario.sources.given):
            lacking = self.plan.lacking.get(name)
            values[name] = f"unknown: {', '.join(lacking)} not given" if lacking else self._plain(name)
        return {
            **values, **{name: self._plain(name) for name in MAPPING_ECHO}, **self.choices, **self._uncertainty(), **self._in_words(),
            **(self.scenario.sources.price.to_dict(today()) if self.scenario.sources.price else {}),
            **(self.scenario.sources.grid.to_dict() if self.scenario.sources.grid else {}),
            "grade": self.grade, "not_modeled": [bound.to_dict() for bound in self.not_modeled],
            "missing_kernels": "; ".join(missing_kernels(self.results)),
        }  # fmt: skip

    def _uncertainty(self) -> dict[str, float | bool | str]:
        """The error bands of the step's time and of memory by name, their runs, and the properties that no run has.

        Training time and cost are multiples of the step's time, and have the same relative error.
        """
        band, memory = self.error_band, self.memory_band
        multiples = ("training_time", *(() if self.plan.lacking.get("cost") else ("cost",)))
        shares = [f"{name}_error_fraction" for name in ("step_time", *multiples)]
        if band is None or memory is None:
            names = (*shares, "shortest_step_time", "longest_step_time", "memory_error_fraction")
            return dict.fromkeys(names, "unknown: the closed form is not validated")
        widened = 1 + band.error_fraction
        return {
            **dict.fromkeys(shares, _if_known(band.error_fraction)),
            "shortest_step_time": self["step_time"] / widened, "longest_step_time": _if_known(self["step_time"] * widened),
            "number_of_validated_runs": float(band.runs), "validated_class": band.alike,
            "beyond_validated_runs": "; ".join(band.beyond), "memory_error_fraction": _if_known(memory.error_fraction),
            "number_of_memory_readings": float(memory.runs), "validated_memory_class": memory.alike,
        }  # fmt: skip

    def _in_words(self) -> dict[str, float | bool | str]:
        """Results that are texts, by name: the row of kernel efficiencies, the defaults in use, the fullest stage and so on."""
        words = {KERNELS: self.scenario.sources.rows[KERNELS].name} if self.uses_kernels else {}
        if self.anchored_on:
            words["anchored_on"] = self.anchored_on
        if self.given_results:
            words["given_not_predicted"] = ", ".join(self.given_results)
        return {**words, "defaults_leaned_on": ", ".join(self.defaults), "fullest_stage": self.fullest_stage}

    @property
    def anchored_on(self) -> str:
        """The measured layers that coefficients of this accelerator and of this software come from; empty without any."""
        rows = [self.scenario.sources.rows.get(table) for table in (KERNELS, MAPPING)] if self.uses_kernels else []
        anchors = [row.columns.get("anchored_on") for row in rows if row]
        return "; ".join(dict.fromkeys(str(anchor) for anchor in anchors if anchor))

    @property
    def fullest_stage(self) -> str:
        """The pipeline stage that needs the most memory: first, middle or last."""
        stages, place = len(self.results.records("pipeline_stages")), self["fullest_stage_index"]
        return "last" if place == stages - 1 else "middle" if place else "first"

    def _plain(self, name: str) -> float | bool:
        """A result as plain data: a boolean if that is its unit, else a number."""
        value = self[name]
        return bool(value) if self.scenario.catalogue[name].mark.unit == "boolean" else value


def _if_known(error: float) -> float | str:
    """A relative error; a text if it is infinite."""
    return "unknown: something is not modeled, and has no bound" if error == math.inf else error


def estimated(scenario: Scenario) -> Estimation:
    """Estimates one configuration.

    Raises:
        ConfigError: for a list where one value is needed.
        ResolveError: for missing inputs; MappingError for a mapping that cannot run; EvaluationError for a result that
            is not a finite number.
    """
    with _config_named(scenario):
        scenario = with_layout(scenario)
        chosen = _planned(scenario)
    return _placed(scenario, _checked(scenario, chosen))


def _placed(scenario: Scenario, results: Results) -> Estimation:
    """The estimate with the number of filled places in the fast domain that makes a step fastest."""
    fewer = refilled(scenario, results)
    return Estimation(scenario, results) if fewer is None else Estimation(fewer, _checked(fewer, _planned(fewer)))


def estimated_each(scenarios: Sequence[Scenario]) -> list[Estimation | AmpedError]:
    """The estimate of each scenario, in order, or its error if it is refused; those with one structure are computed together."""
    answers: dict[int, Estimation | AmpedError] = {}
    planned: dict[int, tuple[Scenario, Plan]] = {}
    by_structure: dict[Hashable, list[int]] = {}
    for place, scenario in enumerate(scenarios):
        try:
            with _config_named(scenario):
                laid = with_layout(scenario)
                planned[place] = laid, _planned(laid)
                by_structure.setdefault(planned[place][1].structure_for(laid.sources.given), []).append(place)
        except AmpedError as error:
            answers[place] = error
    for places in by_structure.values():
        for place, results in zip(places, _together([planned[place] for place in places]), strict=True):
            scenario, chosen = planned[place]
            try:
                answers[place] = _placed(scenario, _checked(scenario, chosen, results))
            except AmpedError as error:
                answers[place] = error
    return [answers[place] for place in range(len(scenarios))]


def _together(planned: Sequence[tuple[Scenario, Plan]]) -> Sequence[Results | None]:
    """The results of configurations of one structure; all None if a formula fails for one of them.

    The caller then runs them one by one.
    """
    try:
        return run_each([chosen for _, chosen in planned], [scenario.sources.given for scenario, _ in planned])
    except EvaluationError:
        return [None] * len(planned)


@contextmanager
def _config_named(scenario: Scenario) -> Iterator[None]:
    """Adds the name of the config to an error that is raised inside."""
    try:
        yield
    except AmpedError as error:
        raise type(error)(error.problems, file=scenario.label) from error.__cause__


def with_layout(scenario: Scenario, verb: str = "an estimate") -> Scenario:
    """The scenario with the layout of its pipeline; `verb` is named if the scenario has a list of values.

    Raises:
        ConfigError: for a list where one value is needed; MappingError for a layout that does not add up.
    """
    refuse_sweeps(scenario, verb)
    return replace(scenario, sources=laid_out(scenario.catalogue, scenario.sources))


def memory_on_top(scenario: Scenario) -> float:
    """The largest share of memory that parts not modeled may need in addition to all that is counted; 0.0 if there are none.

    The share hardly depends on the mapping, so that the mapping need not keep the rules.
    """
    if not scenario.sources.not_modeled:
        return 0.0
    laid = with_layout(scenario)
    unmodeled = together(bounds_of(run(_planned(laid), laid.sources.given), laid.sources.not_modeled))
    return unmodeled.memory_on_top if unmodeled else 0.0


def _planned(scenario: Scenario) -> Plan:
    """The plan for all results and details of an estimate."""
    catalogue = scenario.catalogue
    model = chosen_values(catalogue, scenario.sources)["performance_model"]
    names = (*RESULTS, *MAPPING_ECHO, *catalogue.constraints, *DETAILS, *MODEL_DETAILS[model])
    return plan(catalogue, names, scenario.sources, optional_results(scenario.sources.given))


def optional_results(given: Collection[str]) -> tuple[str, ...]:
    """The results that not every configuration has: those of a bought machine only if a purchase cost is given."""
    return OPTIONAL_RESULTS + (OWNING_RESULTS if BOUGHT in given else ())


def _checked(scenario: Scenario, chosen: Plan, results: Results | None = None) -> Results:
    """The results of a plan after all checks; they are computed if `results` is None.

    Raises:
        MappingError: for broken rules.
        EvaluationError: for a result that is not finite.
    """
    with _config_named(scenario):
        results = run(chosen, scenario.sources.given) if results is None else results
        problems = [*broken_rules(scenario, results), *_disagreements(scenario, results)]
        if problems:
            raise MappingError(problems)
        check_finite(results)
    pass_gate(scenario, results)
    return results


def _disagreements(scenario: Scenario, results: Results) -> Iterator[Problem]:
    """A problem for each of AMPeD's older names whose value differs from that of the quantity that it names."""
    for name, (value, where) in scenario.sources.equals.items():
        if name not in results.cells:
            raise ConfigError(f"'{name}' is not computed here", file=scenario.label)
        if results.number(name) != value:
            yield Problem(f"{value:g} differs from {name} = {results.number(name):g}, which it is another name of",
                          where, "give both the same value, or leave this one out")  # fmt: skip
