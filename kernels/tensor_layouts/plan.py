"""A plan: the layout of each tensor, the predicted time, and where it was measured. It is JSON, never a pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from amped.base.errors import ConfigError, FileError, Problem, did_you_mean, quoted
from amped.base.files import parse_json, read_text, shipped_text, write_atomically
from amped.kernels.formats import FORMATS
from amped.kernels.layer_shape import Dimensions
from amped.kernels.refusals import refuse_unknown
from amped.kernels.tensor_layouts.spec import INPUT_ONLY, LAYERS, Layouts
from amped.kernels.tensor_layouts.variables import ROW_MAJOR, layout_of, layout_problems, variables

FORMAT, VERSION = "amped layout plan", 1


@dataclass(frozen=True)
class Plan:
    """The layouts of a layer.

    Attributes:
        layouts: the layout of each tensor that chooses one; other tensors follow these (`variables.FOLLOWS`).
        operators: for each operator, the implementation and the measured time (µs) of its row.
        dimensions: the sizes of the layer that it is for.
        measured: device, dtype, torch version, date, flop/s and byte/s of the device that gave the times, and the layer
            that was timed if it is another; empty without times.
        lower_bound_us: the sum of each operator's fastest row, whether or not they fit together.
    """

    dimensions: Dimensions
    layouts: Layouts
    attention: str = "explicit"
    strategy: str = "row-major"
    operators: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    predicted_us: float | None = None
    lower_bound_us: float | None = None
    measured: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        refuse_unknown(str(self.attention), LAYERS, f"{quoted(self.attention)} is no kind of attention")
        problems = list(layout_problems(self.layouts, self.attention))
        if problems:
            raise ConfigError(problems)

    def layout(self, tensor: str) -> str:
        """The layout of any tensor of the layer."""
        return layout_of(tensor, self.layouts)

    @property
    def gap(self) -> float | None:
        """How far the prediction is above the lower bound, as a fraction of it."""
        return self.predicted_us / self.lower_bound_us - 1 if self.predicted_us and self.lower_bound_us else None

    @property
    def timed(self) -> Dimensions:
        """The sizes of the layer that was timed."""
        return Dimensions(**self.measured.get("dimensions", vars(self.dimensions)))

    @property
    def seconds(self) -> dict[str, float]:
        """The measured seconds of each operator, by its name."""
        return {name: row["time_us"] * 1e-6 for name, row in self.operators.items() if row.get("time_us")}

    @property
    def predicted_without_input_gradient(self) -> float:
        """The prediction (s) if the layer's input needs no gradient, as in `amped layouts run`."""
        return sum(time for name, time in self.seconds.items() if name not in INPUT_ONLY)

    @property
    def ceilings(self) -> tuple[float, float]:
        """The measured flop/s and byte/s of the device.

        Raises:
            ConfigError: if the plan has none.
        """
        try:
            return float(self.measured["flop_rate"]), float(self.measured["bandwidth"])
        except KeyError as error:
            raise ConfigError(f"the plan has no measured {error.args[0]}", "give --accelerator or both peaks") from None

    @property
    def word_bytes(self) -> float:
        """The bytes of a word in the measured dtype."""
        return float(FORMATS[self.measured.get("dtype", "float32")].bytes)


def row_major(dimensions: Dimensions, attention: str = "explicit") -> Plan:
    """A plan without measurements: natural order of axes wherever contractions allow it."""
    return Plan(dimensions, {name: ROW_MAJOR[name] for name in variables(attention)}, attention)


def written(plan: Plan) -> str:
    """The plan as a JSON text."""
    content = {"format": FORMAT, "version": VERSION, **asdict(plan), "gap_fraction": plan.gap}
    return json.dumps(content, indent=1) + "\n"


def write_plan(plan: Plan, path: Path) -> Path:
    """Writes a plan; never overwrites a file."""
    return write_atomically(path, written(plan))


def read_plan(source: str | Path) -> Plan:
    """The plan in a file, or a shipped plan by its name (`b8-l512`).

    Raises:
        FileError: if it cannot be read or is not a plan.
        ConfigError: with all problems of its layouts.
    """
    path = Path(source)
    if path.suffix != ".json" and not path.exists():
        return parsed(_shipped(str(source)), f"amped/kernels/plans/{source}.json")
    return parsed(read_text(path), str(path))


def shipped_plans() -> list[str]:
    """The names of the plans that come with amped."""
    folder = resources.files("amped.kernels").joinpath("plans")
    return sorted(Path(entry.name).stem for entry in folder.iterdir() if entry.name.endswith(".json"))


def _shipped(name: str) -> str:
    """The text of a shipped plan.

    Raises:
        FileError: if there is no plan with this name.
    """
    names = shipped_plans()
    if name not in names:
        advice = did_you_mean(name, names) or f"shipped plans: {', '.join(names)}"
        raise FileError(f"there is neither a plan nor a file {quoted(name)}", advice)
    return shipped_text("kernels", f"plans/{name}.json")


def parsed(text: str, file: str) -> Plan:
    """The plan in a JSON text; `file` is named in errors.

    Raises:
        FileError: if the text is not a plan.
        ConfigError: with all problems of its layouts.
    """
    content = parse_json(text, file)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise FileError("is no layout plan", "make one with `amped layouts select`", file)
    if content.get("version") != VERSION:
        raise FileError(f"is a plan of version {content.get('version')!r}, this amped reads {VERSION}", file=file)
    try:
        fields = {key: content[key] for key in Plan.__dataclass_fields__}
        return Plan(**{**fields, "dimensions": Dimensions(**fields["dimensions"])})
    except KeyError as error:
        raise FileError(Problem(f"{error.args[0]} is missing", advice="make the plan anew"), file=file) from None
    except (TypeError, AttributeError, ValueError):
        raise FileError("has values of a wrong type", "make the plan anew with `amped layouts select`", file) from None
    except ConfigError as error:
        raise ConfigError(error.problems, file=file) from None
