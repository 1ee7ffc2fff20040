"""What nobody gave, chosen as an engineer would who knows the model and the machine.

What is given stays as it is. The mapping around it is the fastest one that fits and leaves the headroom free, else that fits, else
that lacks least memory (`fastest.py`). It is one of the space `quick` (`SPACES` in `exploration/search_space.py`): all degrees of tensor,
pipeline, data and expert parallelism, ZeRO 1 and 3, three kinds of recomputation, micro-batches of 1, 2 and 4 sequences (of short
ones more); the same with a few numbers of chunks of layers on each pipeline stage (`chunks.py`), and with sequences that several
accelerators share (`splits.py`). Where nothing fits, optimizer states and activations are kept on the host. `amped explore` searches more.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from amped.base.aliases import aliases
from amped.base.errors import ConfigError
from amped.configuring.scenario import Scenario, read_scenario
from amped.configuring.sources import CHOSEN, Given
from amped.drafting.chunks import LEAST_GAIN, TRIED, is_held
from amped.drafting.fastest import Fastest
from amped.drafting.splits import CONTEXT, CONTEXT_DEGREES, LEAST_TOKENS, LONG_CONTEXT, degrees_for, fastest_split
from amped.engine.evaluate import Results, run
from amped.engine.resolve import chosen_values, plan
from amped.estimation.estimation import memory_on_top
from amped.estimation.uncertainty import MEMORY_LAW, error_band
from amped.estimation.validated import SIZES, Ground, ground_of, mixer_of, validated, well_known
from amped.exploration.search_space import CHUNKS, HEADROOM, HEADROOM_BYTES, MICROBATCH, SHARED, parts, space_of, wholes
from amped.exploration.sweep_axes import MICROBATCHES
from amped.tables.table_files import ACCELERATORS, SOFTWARE, SYSTEMS, LookupTables
from amped.tables.tables import Row, Tables, system_of_its_form, user_tables
from amped.theory.language.quantity import ACCELERATOR, GIVEN_NETWORK, MAPPING, NETWORK, SYSTEM
from amped.theory.nouns.parallelisms import OF_TOKENS, PLACED

# What is taken where nobody names a machine, or how many accelerators there are.
MACHINE, NUMBER = "DGX H100", 1024
# The tokens of a global batch: arXiv 2005.14165, table 2.1 (GPT-3), and arXiv 2407.21783, section 3.4.1 (Llama 3).
BATCH_TOKENS = 4_000_000
# The same, and the tokens of the whole training, where adapters are trained: those of mlcommons/training, llama2_70b_lora
# (batches of 8, and an epoch of 3,901 sequences of 8,192 tokens; recalled).
ADAPTER_BATCH_TOKENS, ADAPTER_TOKENS = 65_536, 32_000_000
# What else says how much is trained on.
LENGTHS_OF_TRAINING = {"samples", "number_of_steps"}
# The tokens of a micro-batch up to which small networks, images and short sequences are tried: larger ones gain little. Megatron-Bridge's
# recipe of Qwen3 30B-A3B has as many (8 sequences of 4,096). And the sequences of one, where these are long; assumed.
MICROBATCH_TOKENS, LARGEST_OF_LONG = 32_768, 4
# Tokens for each parameter, where the row of the model does not say how many it saw: arXiv 2203.15556, table 3.
TOKENS_PER_PARAMETER = 20
# The longest sequence that is taken where nobody gives one and the row of the model has a longer one: most tokens of a training
# are seen in short sequences, and long ones at its end. arXiv 2407.21783, sections 3.4.1 and 3.4.2 (Llama 3: 8,192, then
# 131,072 for 5 % of the tokens); arXiv 2412.19437, sections 4.2 and 4.3 (DeepSeek-V3: 4,096, then 32,768 and 131,072).
USUAL_CONTEXT = 8_192
# The software that most people train with today, by the maker of the accelerator.
SOFTWARE_BY_VENDOR = {
    "NVIDIA": "Megatron-Bridge",
    "AMD": "Megatron-Core",
    "Google": "MaxText",
    "AWS": "NeuronX Distributed",
    "Huawei": "MindSpeed-LLM",
    "Intel": "Megatron-DeepSpeed",
}
# A cluster that was built once trains with software of up to so many years after it. Products are bought and used for years. Assumed.
YEARS_OF_A_CLUSTER = 1
# Software that came out before fused attention has switches of its own: arXiv 2205.14135 (FlashAttention, May 2022).
FUSED_ATTENTION_SINCE = 2023
# The same for networks of images, which language programs do not train: timm and its like are plain PyTorch. A ViT-L/16 in fp16
# on an RTX 3090 then takes 118.8 images/s; timm's own training table has 117.1.
SOFTWARE_OF_IMAGES = {"NVIDIA": "PyTorch", "AMD": "PyTorch"}
CONTEXT_KIND, DATA = "context", "data_parallel_degree"
# What every search of the space holds: nobody trains without them where they can be had.
TODAY: dict[str, object] = {"flash_attention": True, "sequence_parallel": True, "dropout": 0}
MAPPED = (
    "tensor_parallel_degree", "pipeline_parallel_degree", "expert_parallel_degree",
    "expert_tensor_parallel_degree", "microbatch_size", "virtual_pipeline_stages", "activation_recomputation",
    "zero_stage", "context_parallel_degree",
)  # fmt: skip
# What is offloaded to the host where nothing fits without: shares of the states of the optimizer, and of activations.
OFFLOADED: dict[str, tuple[object, ...]] = {"optimizer_offload": (0.5, 1.0), "activation_offload": (0.0, 0.5, 1.0)}
# The degrees that only a network with experts has, the name of their number, and that of the stages.
OF_EXPERTS = ("expert_parallel_degree", "expert_tensor_parallel_degree")
EXPERTS, STAGES = "number_of_experts", "pipeline_parallel_degree"
# The space of mappings to choose from; and what is not tried, in words.
SPACE = "quick"
NOT_TRIED = (
    f"placement (by its order), overlap, schedule, virtual stages but {', '.join(f'{n:g}' for n in TRIED)}, context degree with "
    f"less than {LEAST_TOKENS:,} tokens each, offload where something fits without, precisions; {SHARED}; micro-batch above 4"
)
SYSTEM_ROW, ACCELERATOR_ROW = "system", "accelerator"
# How large a run is.
OF_SIZE = ("number_of_accelerators", "number_of_parameters")
# The performance model whose errors are known; shares are rounded to thousandths.
VALIDATED_MODEL, THOUSANDTHS = "operators", 1000
# What helps where no system is known.
NO_SYSTEM = (
    "name one (--system ROW, `amped list systems`), or give its server: --set number_of_accelerators_per_node=8, "
    'inter_accelerator_bandwidth="450 GB/s", bandwidth_per_network_card="400 Gbit/s"'
)
Values = Mapping[str, object]


class OpenQuestion:
    """A question with open parts: the given values, the values that the steps have chosen, and notices for the user.

    The scenario is read again only after a step has chosen a value; the sizes are computed once.

    Attributes:
        given: values and rows that the user gave or that a search sweeps, by their canonical names.
        swept: the canonical names that a search sweeps.
        beside: the folder of lookup tables, and the further formulas.
        chosen: the values that the steps have chosen so far, by name.
        notices: sentences for the user about these choices.
        before: the scenario as it was last read, for steps that need none of the later choices.
    """

    def __init__(self, given: Values, swept: Values, lookup_tables: LookupTables, formulas: Any) -> None:
        meant, _ = aliases().all_given({**given, **swept})
        self.given = {aliases().canonical(name): value for name, value in meant.items()}
        self.swept = {aliases().canonical(name) for name in aliases().all_given(swept)[0]}
        self.beside = lookup_tables, formulas
        self.chosen, self.notices = dict[str, object](), list[str]()
        self.before = self.scenario

    @cached_property
    def scenario(self) -> Scenario:
        """The scenario of all values that are given or chosen so far."""
        self.before = read_scenario({}, {**self.given, **self.chosen}, *self.beside)
        return self.before

    @cached_property
    def sizes(self) -> Results:
        """The sizes of the network, its sequences and the machine; no step after `_size` changes them."""
        return _sizes(self.scenario)

    def choose(self, step: Step) -> None:
        """Adds the values that a step chooses to `chosen`, except for names that are given."""
        values = {name: value for name, value in step(self) if name not in self.given}
        if values:
            self.chosen |= values
            vars(self).pop("scenario", None)

    def completed(self) -> Scenario:
        """The scenario with all chosen values and without the swept names; the origin of a chosen value says so."""
        whole = self.scenario
        if self.swept:
            values = {name: v for name, v in {**self.given, **self.chosen}.items() if name not in self.swept}
            whole = read_scenario({}, values, *self.beside)
        about = _about_software(self, whole) if "software" in self.chosen else ()
        origins = dict(whole.sources.origins)
        for name, origin in origins.items():
            if name in self.chosen and isinstance(origin, Given):
                origins[name] = replace(origin, where=CHOSEN)
        sources = replace(whole.sources, origins=origins, notices=[*self.notices, *about, *whole.sources.notices])
        return replace(whole, description=_title(whole), sources=sources)


# What chooses some values of a question, and adds what the user should be told of them.
Step = Callable[[OpenQuestion], Iterator[tuple[str, object]]]


def completed(given: Values, lookup_tables: LookupTables = None, formulas: Any = None) -> Scenario:
    """The scenario of some rows and values, with the rest chosen around them; origins say what was chosen.

    Args:
        given: values by name; rows under "model", "system", "accelerator" and "software".
        lookup_tables: a folder of lookup tables to layer over the shipped ones.
        formulas: a file or module of further formulas.

    Raises:
        AmpedError: with all that is wrong with what is given.
    """
    return _chosen_by((_rows, _size, _training, _room, _mapping), OpenQuestion(given, {}, lookup_tables, formulas))


def without_mapping(given: Values, swept: Values, lookup_tables: LookupTables = None, formulas: Any = None) -> Scenario:
    """The scenario of some rows and values, with all chosen around them but the mapping, which is left to a search.

    Args:
        given: values and rows by name, as for `completed`.
        swept: one value of each name that the search sweeps. The rest is chosen around it, and it is not in the scenario.
        lookup_tables: a folder of lookup tables to layer over the shipped ones.
        formulas: a file or module of further formulas.

    Raises:
        AmpedError: with all that is wrong with what is given.
    """
    rows = partial(_rows, is_swept=bool({SYSTEM_ROW, ACCELERATOR_ROW} & {*swept}))
    return _chosen_by((rows, _size, _training, _room), OpenQuestion(given, swept, lookup_tables, formulas))


def _chosen_by(steps: Sequence[Step], question: OpenQuestion) -> Scenario:
    """The completed scenario of a question, after its steps have chosen values in their order."""
    for step in steps:
        question.choose(step)
    return question.completed()


def _sizes(scenario: Scenario) -> Results:
    """The results for the sizes alone: number of accelerators, parameters, context and the like (`SIZES`)."""
    return run(plan(scenario.catalogue, SIZES, scenario.sources), scenario.sources.given)


def _title(scenario: Scenario) -> str:
    """The title of the results: what is trained, and on which machine."""
    rows = scenario.sources.rows
    return " on ".join(rows[category].name for category in (NETWORK, SYSTEM) if category in rows)


def _rows(question: OpenQuestion, is_swept: bool = False) -> Iterator[tuple[str, object]]:
    """Chooses the model, the system and the software that are not given, each as its kind and the name of its row.

    The software is one with validated runs on the accelerator, and for a cluster one of its time; if systems are swept, the usual one
    of the vendor.

    Raises:
        ConfigError: for an accelerator of which no system is known.
    """
    scenario = question.scenario
    rows, tables = scenario.sources.rows, user_tables(scenario.question.lookup_tables)
    part = rows.get(ACCELERATOR)
    if NETWORK not in rows and not scenario.sources.given.keys() >= GIVEN_NETWORK:
        yield "model", read_scenario("default").sources.rows[NETWORK].name
    machine = _machine(scenario, part, tables) if SYSTEM not in rows else None
    if machine is not None:
        yield "system", machine
        part = part or tables.row(ACCELERATORS, str(tables.row(SYSTEMS, machine).columns["accelerator"]))
    software = _software(question, part, tables, is_swept) if part else None
    if software is not None:
        yield "software", software


def _software(question: OpenQuestion, part: Row, tables: Tables, is_swept: bool) -> str | None:
    """The software to take on accelerators of the row `part`; None if it is given, or if no usual one is known."""
    rows = question.scenario.sources.rows
    usual, system = _usual_software(part, rows.get(NETWORK)), rows.get(SYSTEM)
    if usual is None or is_swept or "software" in question.given:
        return usual
    software = _validated_software(part, usual, tables)
    if system is None or not system.columns.get("is_one_cluster"):
        return software
    software = _software_of_its_time(software, system, tables)
    question.notices.append(f"{system.name} is of {system.columns['year']}: {software} is taken, which was of its time")
    return software


def _machine(scenario: Scenario, part: Row | None, tables: Tables) -> str | None:
    """The name of the system to take for an accelerator (`part`); `MACHINE` if no accelerator is named.

    None if no system is known and the size of a node is given instead.

    Raises:
        ConfigError: for an accelerator of which no system is known.
    """
    given = scenario.sources.given
    node, is_alone = given.get("number_of_accelerators_per_node"), given.get("number_of_accelerators") == 1
    machine = system_of_its_form(part.name, tables, node) if part else MACHINE
    if machine is None and is_alone:
        return MACHINE  # one accelerator sends nothing, so that any server does
    if machine is None and part and node is None:
        raise ConfigError(f"no system is known that is built with '{part.name}'", NO_SYSTEM)
    return machine


def _usual_software(part: Row, network: Row | None) -> str | None:
    """The software that most people use for such a network on accelerators of the vendor of `part`; None if unknown."""
    vendor = str(part.columns.get("vendor"))
    is_of_images = network is not None and "patch_values" in network.columns
    return (SOFTWARE_OF_IMAGES if is_of_images else {}).get(vendor) or SOFTWARE_BY_VENDOR.get(vendor)


def _validated_software(part: Row, usual: str, tables: Tables) -> str:
    """The usual software or, if it has no validated run on the accelerator, the nearest ancestor of its row that has one.

    If none has a run on the accelerator, runs on its generation count; if none has one there, the usual software is taken.
    """
    grounds = _grounds()
    generation = ground_of({ACCELERATOR: part}, "", lambda _: 0.0).generation
    on_accelerator = {ground.software for ground in grounds if ground.accelerator in (part.name, *part.ancestors)}
    on_generation = {ground.software for ground in grounds if ground.generation == generation}
    line = (usual, *tables.row(SOFTWARE, usual).ancestors)
    return next(
        (name for validated_names in (on_accelerator, on_generation) for name in line if name in validated_names), usual
    )


def _software_of_its_time(software: str, system: Row, tables: Tables) -> str:
    """Software, or the newest row that it extends and that was there when a cluster was built; else the oldest of these rows."""
    latest = int(system.columns["year"]) + YEARS_OF_A_CLUSTER
    line = [tables.row(SOFTWARE, name) for name in (software, *tables.row(SOFTWARE, software).ancestors)]
    return next((row.name for row in line if int(row.columns["release_year"]) <= latest), line[-1].name)


def _about_software(question: OpenQuestion, scenario: Scenario) -> Iterator[str]:
    """A notice if runs as large as this one were validated on the accelerator, but only with software that was not chosen.

    Most users train with current software on old machines, too, so that older software is named and not taken.
    """
    rows = scenario.sources.rows
    if not {ACCELERATOR, MAPPING} <= rows.keys():
        return
    this = ground_of(rows, "", (_sizes(scenario) if question.swept else question.sizes).number)
    names = sorted({ground.software for ground in _grounds() if _is_as_large(ground, this)})
    if names and this.software not in names:
        options = " or ".join(f"--software {shlex.quote(name)}" for name in names)
        yield f"on {this.accelerator}, runs as large as this one were validated with other software than {this.software}: {options}"


def _grounds() -> list[Ground]:
    """The properties (`Ground`) of the validated runs whose inputs are known well."""
    return [run.ground for run in well_known(validated())]


def _is_as_large(ground: Ground, other: Ground) -> bool:
    """Whether a validated run (`ground`) has the accelerator and the kind of network of `other`, and at least its sizes."""
    is_alike = ground.accelerator == other.accelerator and ground.experts == other.experts
    return is_alike and all(getattr(ground, name) >= getattr(other, name) for name in OF_SIZE)


def _size(question: OpenQuestion) -> Iterator[tuple[str, object]]:
    """Chooses the length of a sequence, the number of accelerators, and fp16 if the accelerator has no rate for bf16."""
    scenario = question.scenario
    network, given = scenario.sources.rows.get(NETWORK), scenario.sources.given
    longest = given.get("context", 0.0)
    if network and isinstance(longest, float) and longest > USUAL_CONTEXT and "patch_values" not in network.columns:
        yield "context", USUAL_CONTEXT
        if "context" not in scenario.question.overrides:
            question.notices.append(
                f"sequences of {USUAL_CONTEXT:,} tokens are taken; {network.name} takes up to {longest:,.0f}: --seq {longest:.0f}"
            )
    if not {"number_of_accelerators", "number_of_nodes"} & given.keys():
        degrees = [int(given[name]) for name in wholes() if name in given]
        yield "number_of_accelerators", math.prod(degrees) if DATA in given else NUMBER
    part = scenario.sources.rows.get(ACCELERATOR)
    if part and "fp16_peak_flop_rate" in part.columns and "bf16_peak_flop_rate" not in part.columns:
        yield "matrix_precision", "fp16"


def _training(question: OpenQuestion) -> Iterator[tuple[str, object]]:
    """Chooses the usual switches (`TODAY`; on an old cluster those of its time), the batch size and the tokens to train.

    The batch has about `BATCH_TOKENS` tokens (`ADAPTER_BATCH_TOKENS` with adapters), and can be split over the accelerators and into
    the given micro-batch.
    """
    its_own = _switches_of_its_time(question)
    yield from ((name, its_own.get(name, value)) for name, value in TODAY.items())
    if {"batch_size", "tokens_to_train"} <= question.given.keys():
        return
    scenario, sources, sizes = question.scenario, question.scenario.sources, question.sizes
    number, context = int(sizes.number("number_of_accelerators")), sizes.number("context")
    unit = number // _most_that_share(scenario, number, context) * _odd_part(sources.given.get(MICROBATCH, 1.0))
    has_adapters = sources.choices.get("adapters", "none") != "none"
    batch_tokens = ADAPTER_BATCH_TOKENS if has_adapters else BATCH_TOKENS
    yield "batch_size", int(unit * _power_of_two(batch_tokens / context / unit))
    if LENGTHS_OF_TRAINING & question.given.keys():
        return
    if has_adapters:
        yield "tokens_to_train", ADAPTER_TOKENS
        return
    model = sources.rows.get(NETWORK)
    tokens = model.columns.get("training_tokens") if model else None
    yield "tokens_to_train", tokens or TOKENS_PER_PARAMETER * sizes.number("number_of_parameters")


def _room(question: OpenQuestion) -> Iterator[tuple[str, object]]:
    """Chooses the headroom: the share of memory that stays free for the error of the estimate and for parts not modeled."""
    notices, sources = question.notices, question.before.sources
    if {HEADROOM, HEADROOM_BYTES} & sources.given.keys():
        return
    error = _memory_error(question)
    not_modeled = memory_on_top(question.scenario) if sources.not_modeled else 0.0
    if math.isinf(not_modeled):
        notices.append("the headroom holds nothing for what is not modeled and has no bound")
        not_modeled = 0.0
    elif not_modeled > 0:
        of_error = f"{100 * error:.0f} % for the error of the estimate"
        notices.append(f"the headroom of memory is {of_error}, and {100 * not_modeled:.0f} % for what is not modeled")
    yield HEADROOM, math.ceil(((1 + error) * (1 + not_modeled) - 1) * THOUSANDTHS) / THOUSANDTHS


def _memory_error(question: OpenQuestion) -> float:
    """The relative error of predicted memory, as a fraction (0.1 is 10 %).

    It is 0.0 if the performance model is not validated, or if no finite error is known.
    """
    scenario = question.before
    choices = chosen_values(scenario.catalogue, scenario.sources)
    if choices["performance_model"] != VALIDATED_MODEL:
        return 0.0
    mixer = mixer_of(choices, scenario.sources.given)
    ground = ground_of(scenario.sources.rows, choices["matrix_precision"], question.sizes.number, mixer)
    error = error_band(ground, law=MEMORY_LAW).error_fraction
    return error if math.isfinite(error) else 0.0


def _switches_of_its_time(question: OpenQuestion) -> Values:
    """The columns of software that was chosen for the year of a cluster, if attention was not fused yet; else nothing."""
    rows = question.scenario.sources.rows
    software, system = rows.get(MAPPING), rows.get(SYSTEM)
    if (
        software is None
        or system is None
        or "software" not in question.chosen
        or not system.columns.get("is_one_cluster")
    ):
        return {}
    return software.columns if int(software.columns.get("release_year") or 0) < FUSED_ATTENTION_SINCE else {}


def _most_that_share(scenario: Scenario, number: int, context: float) -> int:
    """The number of accelerators that share a sequence at most: the greatest common divisor of `number` and the context degree.

    If none is given, it is the largest degree that is tried for long sequences, and 1 for others.
    """
    given = scenario.sources.given.get(CONTEXT)
    largest = max(CONTEXT_DEGREES) if given is None and context >= LONG_CONTEXT else int(given or 1)
    return math.gcd(number, largest)


def _power_of_two(number: float) -> int:
    """The power of two that is nearest to a number on a logarithmic scale, at least 1."""
    return int(2 ** max(0, round(math.log2(number))))


def _odd_part(number: Any) -> int:
    """The largest odd divisor of a micro-batch size; at least 1."""
    whole = max(1, int(number))
    return whole // (whole & -whole)


def _mapping(question: OpenQuestion) -> Iterator[tuple[str, object]]:
    """Chooses the fastest mapping that fits with headroom, else the fastest that fits, else the one that lacks least memory.

    Nothing is searched if no parameter is open. If a mapping without open parts breaks a rule, the search says what is impossible.
    """
    if {*MAPPED} <= {*question.given, *([MICROBATCH] if MICROBATCHES in question.given else [])}:
        return
    tried = _tried(question)
    if not {*_open(question, tried)} and _keeps_all_rules(question.scenario):
        return
    best = fastest_split(question.scenario, tried, SPACE, _splits(question))
    if not best.fits and not OFFLOADED.keys() & question.given.keys():
        offloaded = fastest_split(question.scenario, {**tried, **OFFLOADED}, SPACE, _splits(question))
        best = offloaded if offloaded.fits else best
    question.notices += _about_headroom(best)
    yield from ((name, best.settings[name]) for name in (*MAPPED, *OFFLOADED) if name in best.settings)


def _open(question: OpenQuestion, tried: Mapping[str, object]) -> Iterator[str]:
    """The names of the mapping's parameters that are not given and may have several values."""
    given, scenario = question.given, question.scenario
    single = {CHUNKS} if is_held(scenario) or scenario.sources.given.get(STAGES) == 1 else set()
    single |= {CONTEXT} - tried.keys() if not _splits(question) else set()
    single |= {MICROBATCH} if MICROBATCHES in given else set()
    for name in MAPPED:
        if name not in given and name not in single and (name not in OF_EXPERTS or question.sizes.number(EXPERTS) > 1):
            yield name


def _keeps_all_rules(scenario: Scenario) -> bool:
    """Whether the mapping of a scenario in which nothing is open keeps all rules."""
    rules = plan(scenario.catalogue, (), scenario.sources, scenario.catalogue.constraints)
    results = run(rules, scenario.sources.given, keep=frozenset(rules.targets))
    return all(results.number(name) for name in rules.targets)


def _about_headroom(best: Fastest) -> Iterator[str]:
    """Notices: that nothing fits without offload or leaves the headroom free, or how much faster one without headroom is."""
    if best.settings.keys() & OFFLOADED.keys():
        yield "nothing that amped tried fits with all states and activations on the accelerators"
    if best.fits and not best.keeps:
        yield "no mapping that amped tried leaves the headroom free; this is the fastest that fits without it"
    gain = 1 - best.shortest_time / best.time
    if best.keeps and gain >= LEAST_GAIN:
        yield f"a mapping that is {100 * gain:.1f} % faster fits without headroom: --headroom 0"


def is_tried(name: str, value: object) -> bool:
    """Whether the chooser tries this value of a parameter if nobody gives one."""
    space = space_of(SPACE)
    if name in space.policies:
        return value in space.policies[name]
    if name == MICROBATCH:
        return float(str(value)) <= space.largest_microbatch
    return name in (*wholes(tuple(kind for kind in PLACED if kind not in OF_TOKENS)), "expert_parallel_degree")


def _tried(question: OpenQuestion) -> dict[str, tuple[object, ...]]:
    """The values to try beyond those of the space, by name: micro-batch sizes and, for long sequences, context degrees.

    Micro-batch sizes are powers of two, and larger ones are tried if sequences are short. Names that are given are left out.
    """
    given, tried = question.scenario.sources.given.keys(), dict[str, tuple[object, ...]]()
    context = question.sizes.number("context")
    if not {MICROBATCH, MICROBATCHES} & given:
        largest = max(LARGEST_OF_LONG, MICROBATCH_TOKENS / context)
        tried[MICROBATCH] = tuple(2**power for power in range(math.floor(math.log2(largest)) + 1))
    if context >= LONG_CONTEXT and not {CONTEXT, *parts((CONTEXT_KIND,))} & given:
        tried[CONTEXT] = CONTEXT_DEGREES
    return tried


def _splits(question: OpenQuestion) -> tuple[int, ...]:
    """The context degrees to try after all else, for sequences that are neither long nor short; empty if any degree is given.

    Who gives the degree of another parallelism and none of this one has a mapping in mind that splits no sequences.
    """
    context, given = question.sizes.number("context"), question.scenario.sources.given.keys()
    is_open = context < LONG_CONTEXT and not {*wholes(), *parts()} & given
    return degrees_for(context)[1:] if is_open else ()
