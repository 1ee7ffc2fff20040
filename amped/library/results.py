"""What the functions of amped return: answers that Python reads as numbers, tables and figures, and that notebooks show."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from amped.base.aliases import aliases
from amped.base.errors import ConfigError
from amped.base.files import write_atomically
from amped.base.numbers import digits
from amped.drafting.each_value import Line
from amped.drafting.improvements import Improvement
from amped.drafting.recommendation import Limits, Recommendation, costs_differ_by_list
from amped.drafting.tuning import Way
from amped.estimation.estimation import Estimation
from amped.estimation.manners import Step
from amped.exploration.answer import Exploration
from amped.exploration.results import Row
from amped.interop.records import Imported
from amped.sensitivities.effects import Sensitivity
from amped.sensitivities.suspects import Suspect
from amped.theory.language.catalogue import catalogue

if TYPE_CHECKING:  # what validates is imported only where it is asked for
    from amped.calibration.calibrate import Calibration
    from amped.validation.residuals import Residual
    from amped.validation.support import Support

# The libraries of tables that an answer becomes a table of, in the order in which they are tried.
FRAMES = ("pandas", "polars")


class Shown:
    """What all answers have: Jupyter and rich show them as the command line does, and they become a table."""

    def _screen(self) -> Any:
        """What rich shows."""
        raise NotImplementedError

    def _rows(self) -> Sequence[Mapping[str, Any]]:
        """The answer as rows of a table."""
        raise NotImplementedError

    def __rich__(self) -> Any:
        return self._screen()

    def _repr_html_(self) -> str:
        from amped.report.html import as_html

        return as_html(self._screen())

    def to_frame(self) -> Any:
        """The answer as a table of pandas, or of polars where pandas is not installed; numbers are in SI units.

        Raises:
            ConfigError: if neither is installed.
        """
        for name in FRAMES:
            try:
                frames = importlib.import_module(name)
            except ImportError:
                continue
            return frames.DataFrame([dict(row) for row in self._rows()])
        raise ConfigError("a table needs pandas or polars, and neither is installed", "pip install pandas")


def plain(name: str, value: Any) -> Any:
    """A number as Python has it: a count without a fraction is an int, a switch a bool."""
    if not isinstance(value, float) or name not in catalogue():
        return value
    unit = catalogue()[name].mark.unit
    if unit == "boolean":
        return value > 0
    return int(value) if unit == "count" and math.isfinite(value) and value.is_integer() else value


def plain_row(row: Row) -> Row:
    """A row of results with counts and switches as Python has them."""
    return {name: plain(name, value) for name, value in row.items()}


class Estimate(Shown, Estimation):
    """The results of one configuration.

    `estimate["step_time"]`, `estimate["MFU"]`, `estimate.step_time` and `estimate.mfu` are numbers in SI units; counts are int,
    switches bool. `estimate.breakdown` has the parts of a step.
    """

    def __getitem__(self, name: str) -> float:
        number: float = plain(asked := aliases().asked(name), super().__getitem__(asked))
        return number

    def __getattr__(self, name: str) -> Any:
        asked = aliases().asked(name)
        if name.startswith("_") or name in ("scenario", "results") or not (asked in self or asked in self.choices):
            raise AttributeError(f"an estimate has no {name!r}; dir(estimate) lists what it has")
        return self[asked] if asked in self else self.choices[asked]

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.to_dict()})

    def _screen(self) -> Any:
        from rich.console import Group
        from rich.text import Text

        from amped.report.screen import screen

        return Group(*(Text.assemble(*line) for line in screen(self.bare)))

    def _rows(self) -> Sequence[Mapping[str, Any]]:
        return [self.to_dict()]

    def to_dict(self) -> dict[str, Any]:
        """All results, choices and degrees by name, in SI units; `not_modeled` is a list of objects."""
        return plain_row(super().to_dict())

    def plot(self) -> Any:
        """The parts of a step's time as bars: a matplotlib figure."""
        from amped.report.plots import step_time_figure

        return step_time_figure(self.bare)

    def __repr__(self) -> str:
        named = self.scenario.label if self.scenario.question.config.entries else self.scenario.title
        return f"<Estimate of {named}: step {digits(self['step_time'])} s, training {digits(self['training_time'])} s>"

    @classmethod
    def made_of(cls, e: Estimation) -> Self:
        """The estimate as Python users have it."""
        return cls(e.scenario, e.results)

    @property
    def bare(self) -> Estimation:
        """The estimate as amped has it, whose numbers are all float."""
        return Estimation(self.scenario, self.results)


class Explored(Shown, Exploration):
    """The result of a search: `best` has the best mappings, each with every result by name, in SI units."""

    @classmethod
    def made_of(cls, found: Exploration) -> Self:
        """The exploration as Python users have it."""
        values = {field.name: getattr(found, field.name) for field in fields(found)}
        for name in ("best", "front", "simple"):
            values[name] = [*map(plain_row, values[name])]
        values["groups"] = {group: [*map(plain_row, rows)] for group, rows in found.groups.items()}
        values["nearest"] = found.nearest and plain_row(found.nearest)
        return cls(**values)

    def _screen(self) -> Any:
        from amped.report.ranking import ranking

        return ranking(self)

    def _rows(self) -> Sequence[Mapping[str, Any]]:
        return self.best

    def plot(self, kind: str = "auto", along: Sequence[str] = ()) -> Any:
        """A matplotlib figure: "scaling", "cost", "parts" or "heatmap" of the groups, "pareto" of the front, or "histogram".

        Plots of groups need `each` in the call of `explore`.

        Args:
            kind: which plot; "auto" takes the one that shows what was swept.
            along: the searched names that it is drawn along.

        Raises:
            AmpedError: for a plot that needs another search.
        """
        from amped.report.axes_values import title
        from amped.report.exploring_plots import distribution, figure
        from amped.report.plot_choice import drawing

        by_user = self.search.sweeps.by_user
        heading = title(self.search.scenario, by_user)
        front = self.search.request.options.pareto
        drawn = drawing(kind, [*by_user], along or self.search.request.options.each, front)
        if drawn.kind == "histogram":
            return distribution(self.histogram, self.objective, self.best[0][self.objective], heading)
        if drawn.names and {*drawn.names} != {*self.search.request.options.each}:
            raise ConfigError(
                f"the plot needs the best of each {', '.join(drawn.names)}", f"explore(each={drawn.names})"
            )
        return figure(drawn, self.groups.values(), self.front, self.objective, heading)

    def __repr__(self) -> str:
        best = f"; best {self.objective} {digits(self.best[0][self.objective])}" if self.best else ""
        return f"<Exploration: {self.candidates:,} candidates, {self.feasible:,} feasible{best}>"


class Effects(Shown, Sensitivity):
    """How one result depends on each parameter: `effects`, and the effect of one by its name, as in `found["frequency"]`."""

    @classmethod
    def made_of(cls, found: Sensitivity) -> Self:
        """The sensitivity as Python users have it."""
        return cls(**{field.name: getattr(found, field.name) for field in fields(found)})

    def _screen(self) -> Any:
        from amped.report.elasticities import sensitivity_tables

        return sensitivity_tables(self, 20)

    def _rows(self) -> Sequence[Mapping[str, Any]]:
        names = ("name", "kind", "unit", "value", "varied", "elasticity", "largest_change")
        return [{name: getattr(effect, name) for name in names} for effect in self.effects]

    def plot(self, top: int = 20) -> Any:
        """A tornado plot of the `top` largest effects: a matplotlib figure."""
        from amped.report.tornado import tornado_figure

        return tornado_figure(self, top)

    def __repr__(self) -> str:
        return f"<Sensitivity of {self.of}: {len(self.effects)} parameters>"


@dataclass(frozen=True, repr=False)
class Why(Shown):
    """What a step waits for.

    Attributes:
        estimate: the estimate.
        waterfall: the bars from the peak rate to the step, each with its seconds.
        changes: the single changes that make it faster, the best first; empty if a step was measured.
        recipe: what recipes of the software switch on, step by step.
        measured_step_time: the measured seconds of a step, if one was given.
        suspects: what would explain the measured step, the least surprising first.
    """

    estimate: Estimate
    waterfall: Sequence[Mapping[str, Any]]
    changes: Sequence[Improvement] = ()
    recipe: Sequence[Step] = ()
    measured_step_time: float | None = None
    suspects: Sequence[Suspect] = ()

    def screen(self, top: int = 3) -> Any:
        """What rich shows, with the `top` first changes or suspects."""
        if self.measured_step_time is not None:
            from amped.report.suspecting import suspected

            return suspected(self.estimate.bare, self.measured_step_time, self.suspects[:top])
        from amped.report.why import reasons

        return reasons(self.estimate.bare, self.changes[:top], len(self.changes), self.recipe)

    def _screen(self) -> Any:
        return self.screen()

    def _rows(self) -> Sequence[Mapping[str, Any]]:
        return self.waterfall

    def to_dict(self) -> dict[str, Any]:
        """Step time, waterfall, and changes or suspects, as plain data; notices on preliminary rows, if any."""
        preliminary = self.estimate.scenario.sources.preliminary
        step = {"step_time": self.estimate["step_time"], "waterfall": [*self.waterfall]}
        step |= {"notices": preliminary} if preliminary else {}
        if self.measured_step_time is None:
            lists = {"changes": [asdict(change) for change in self.changes], "recipe": [asdict(s) for s in self.recipe]}
            return step | lists
        told = {"measured_step_time": self.measured_step_time}
        return step | told | {"suspects": [suspect.to_dict() for suspect in self.suspects]}

    def __repr__(self) -> str:
        first = self.suspects or self.changes
        return f"<Why of {self.estimate!r}: {len(first)} {'suspects' if self.suspects else 'changes'}>"


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """Configurations beside one another.

    Attributes:
        estimates: their estimates.
        lines: for rows or values: what each line has, and what it lacks.
        shows_all: whether all results are shown, not only those that most users ask for.
    """

    estimates: Sequence[Estimate]
    lines: Sequence[Line] = ()
    shows_all: bool = True

    def _screen(self) -> Any:
        if self.lines:
            from amped.report.sweeping import sweep

            return sweep(self.lines, "training_time", 0.0)
        from amped.report.comparing import changed, comparison

        one, other = (e.bare for e in self.estimates)
        return comparison(one, other) if self.shows_all else changed(one, other)

    def _rows(self) -> Sequence[Mapping[str, Any]]:
        return [plain_row(line.to_dict()) for line in self.lines] or [e.to_dict() for e in self.estimates]

    def to_dict(self) -> dict[str, Any]:
        """Inputs and results that differ, or the lines; and why costs are not compared, if they are not."""
        from amped.estimation.comparison import as_json
        from amped.estimation.one_list import costs_not_compared

        if not self.lines:
            return as_json(*(e.bare for e in self.estimates))
        reason = costs_not_compared(e.bare for e in self.estimates)
        return {"best": [*self._rows()], **({"costs_not_compared": reason} if reason else {})}

    def __repr__(self) -> str:
        times = ", ".join(f"{digits(e['training_time'])} s" for e in self.estimates)
        return f"<Comparison of {len(self.estimates)}: training {times}>"


@dataclass(frozen=True, repr=False)
class Recommended(Shown, Sequence[Recommendation]):
    """The machine of each system that keeps the limits, the best first; each has `system`, `estimate` and `sizes`.

    Attributes:
        title: what is trained.
        limits: the limits, in seconds and dollars.
        machines: the recommendations.
        words: the words of a command line that ask for the estimate of the first.
    """

    title: str
    limits: Limits
    machines: Sequence[Recommendation]
    words: Sequence[str] = ()

    def __getitem__(self, place: Any) -> Any:
        return self.machines[place]

    def __len__(self) -> int:
        return len(self.machines)

    def _screen(self) -> Any:
        from amped.report.recommending import recommendation

        return recommendation(self.title, self.limits, self.machines, self.words)

    def _rows(self) -> Sequence[Mapping[str, Any]]:
        return [{"system": machine.system, **plain_row(machine.row or {})} for machine in self.machines]

    @property
    def costs_not_compared(self) -> str:
        """Why the costs of the systems are not compared; empty if their prices are of one list."""
        return costs_differ_by_list(self.machines)

    def to_dict(self) -> list[dict[str, Any]]:
        """The recommendations as plain data."""
        return [machine.to_dict() for machine in self.machines]

    def __repr__(self) -> str:
        sizes = (
            f"{m.system} x {digits(m.row['number_of_accelerators'])}" if m.row else m.system for m in self.machines
        )
        return f"<Recommendation: {', '.join(sizes)}>"


@dataclass(frozen=True, repr=False)
class Validation(Shown):
    """Predictions beside measurements: `rows` has each compared quantity, `errors` a summary."""

    rows: Sequence[Residual]

    @property
    def errors(self) -> dict[str, Any]:
        """The numbers of rows and groups, and the errors of time and memory; an error is predicted / measured - 1."""
        from amped.report.accuracy import summary

        return summary(self.rows)

    def _screen(self) -> Any:
        from amped.report.validating import accuracy_screen

        return accuracy_screen(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Every row, and the summary."""
        from amped.report.accuracy import as_json

        return as_json(self.rows)

    def _rows(self) -> Sequence[Mapping[str, Any]]:
        rows: Sequence[Mapping[str, Any]] = self.to_dict()["rows"]
        return rows

    def plot(self) -> Any:
        """Predicted against measured: a matplotlib figure."""
        from amped.report.scatter import scatter_figure

        return scatter_figure(self.rows)

    def __repr__(self) -> str:
        return f"<Validation of {len({r.measurement.id for r in self.rows})} rows>"


@dataclass(frozen=True, repr=False)
class Calibrated(Shown, Sequence["Calibration"]):
    """Coefficients fitted to measurements, one calibration for each accelerator."""

    calibrations: Sequence[Calibration]
    table: Path | None = None

    def __getitem__(self, place: Any) -> Any:
        return self.calibrations[place]

    def __len__(self) -> int:
        return len(self.calibrations)

    def _screen(self) -> Any:
        from rich.console import Group

        from amped.report.calibrating import calibration

        return Group(*map(calibration, self.calibrations))

    def to_table(self) -> str:
        """The fitted rows as the text of a file of lookup tables."""
        from amped.calibration.written import as_table

        return as_table(self.calibrations, self.table)

    def write(self, path: str | Path) -> Path:
        """Writes the fitted rows to a new file, and returns its path; `lookup_tables=path` then takes them."""
        return write_atomically(Path(path), self.to_table())

    def _rows(self) -> Sequence[Mapping[str, Any]]:
        return [{"accelerator": c.accelerator.name, **c.values, "error_before": c.error_before, "error_after": c.error_after}
                for c in self.calibrations]  # fmt: skip

    def __repr__(self) -> str:
        return f"<Calibration of {', '.join(c.accelerator.name for c in self.calibrations)}>"


@dataclass(frozen=True, repr=False)
class Tuned(Shown, Sequence[Way]):
    """Ways to fine-tune, the fastest that fits first; each has `method`, `fits`, `estimate` and `remedy`."""

    ways: Sequence[Way]

    def __getitem__(self, place: Any) -> Any:
        return self.ways[place]

    def __len__(self) -> int:
        return len(self.ways)

    def _screen(self) -> Any:
        from amped.report.tuning import tuning

        return tuning(self.ways, ())

    def to_dict(self) -> list[dict[str, Any]]:
        """The ways as plain data."""
        return [way.to_dict() for way in self.ways]

    def _rows(self) -> Sequence[Mapping[str, Any]]:
        return [
            {"method": way.method, "fits": way.fits, "remedy": way.remedy, **plain_row(way.estimate.to_dict())}
            for way in self.ways
        ]

    def __repr__(self) -> str:
        return f"<Ways to fine-tune: {', '.join(way.method + ('' if way.fits else ' (does not fit)') for way in self.ways)}>"


@dataclass(frozen=True, repr=False)
class Supported(Shown):
    """What of a configuration amped models, and how many measured runs speak for each part: `evidence`."""

    title: str
    evidence: Support

    @property
    def not_modeled(self) -> Sequence[str]:
        """What amped does not model of it."""
        return self.evidence.not_modeled

    def _screen(self) -> Any:
        from amped.report.supporting import support_screen

        return support_screen(self.title, self.evidence)

    def to_dict(self) -> dict[str, Any]:
        """The evidence as plain data."""
        return asdict(self.evidence)

    def _rows(self) -> Sequence[Mapping[str, Any]]:
        return [asdict(aspect) for aspect in self.evidence.aspects]

    def __repr__(self) -> str:
        return f"<Support of {self.title}: {len(self.not_modeled)} parts not modeled>"


@dataclass(frozen=True, repr=False)
class ImportedConfig(Shown, Mapping[str, Any]):
    """A config that was read from another tool's file: a mapping that every function takes as its config.

    Attributes:
        imported: the values by amped's names, and what became of each key (`imported.report`).
        config: the config.
    """

    imported: Imported
    config: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.config[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.config)

    def __len__(self) -> int:
        return len(self.config)

    def _screen(self) -> Any:
        from amped.report.importing import import_report

        return import_report(self.imported)

    def to_dict(self) -> dict[str, Any]:
        """The format, the values and the report as plain data."""
        values = {"from": self.imported.source, "name": self.imported.name, "values": dict(self.imported.values)}
        return {**values, **self.imported.report.to_dict()}

    def _rows(self) -> Sequence[Mapping[str, Any]]:
        return [
            {"name": name, "value": value, "from": self.imported.origins.get(name, "")}
            for name, value in self.imported.values.items()
        ]

    def __repr__(self) -> str:
        return f"<Config of {self.imported.name} ({self.imported.source}): {len(self.imported.values)} values>"
