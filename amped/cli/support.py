"""`amped support`: what of a configuration amped models, and what of it is validated."""

from __future__ import annotations

import functools
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from amped.base.errors import AmpedError, ConfigError
from amped.base.files import exists
from amped.cli import options
from amped.configuring.not_modeled import NotModeled
from amped.theory.language.quantity import CATEGORIES

if TYPE_CHECKING:
    from amped.interop.records import Imported

WISHES = ("modelled", "modeled")


@dataclass(frozen=True)
class Asked:
    """A configuration, and the file of another tool that it comes from, if it does."""

    scenario: options.Scenario
    imported: Imported | None


@functools.wraps(options.read_or_choose)
def read(**given: Any) -> Asked:
    """The scenario that the options describe; with the imported file, if the config is that of another tool."""
    config = given["named_config"]
    imported = _imported(config) if config is not None else None
    if imported is None:
        return Asked(options.read_or_choose(**{**given, "anyway": True}), None)
    return Asked(_around(imported, given), imported)


def _imported(config: str) -> Imported | None:
    """The imported file of another tool; None for a shipped config, another config of amped, or no file."""
    from amped.configuring.config import shipped_configs
    from amped.interop.recognition import read_file

    path = Path(config).expanduser()
    is_config = config in shipped_configs() or not exists(path)
    if is_config or (
        path.is_file() and any(category in path.read_text("utf-8", "replace")[:100_000] for category in CATEGORIES)
    ):
        return None
    return read_file(path)


def _around(imported: Imported, given: dict[str, Any]) -> options.Scenario:
    """The scenario of an imported file with the values of options; amped chooses all other values."""
    from amped.drafting.chooser import completed
    from amped.interop.models import as_row, with_model

    others = ("named_config", "config", "lookup_tables", "formulas", "anyway", "ideal")
    values = options.changes(**{name: value for name, value in given.items() if name not in others})
    of_file: dict[str, Any] = dict(imported.values)
    if imported.source == "huggingface":
        of_file = {"model": {**as_row(imported), "notices": []}}
    if {"number_of_steps", "batch_size", "context"} <= of_file.keys():  # the chooser counts a training in tokens
        of_file["tokens_to_train"] = of_file.pop("number_of_steps") * of_file["batch_size"] * of_file["context"]
    software = {"software": imported.software} if imported.software else {}
    flags = options.flags(anyway=True, ideal=given["ideal"])
    question = {**software, **of_file, **with_model(values, given["lookup_tables"]), **flags}
    return completed(question, given["lookup_tables"], given["formulas"])


@options.bundled(asked=read)
def support(asked: Asked, must: str | None = None, as_json: bool = False) -> None:
    """Say what of a configuration amped models, and how many measured runs speak for each part of it.

    The config may be amped's own or a file of another tool, as a config.json or a launch script.

    Example: amped support ./config.json --system "DGX H100" --gpus 64 --must modelled

    Options:
        --must modelled: Exit code 3 if something is not modeled.
    """
    from amped.estimation.estimation import estimated
    from amped.estimation.not_modeled import Bound
    from amped.validation.support import support as supported

    if must not in (None, *WISHES):
        raise ConfigError(f"--must {must!r} is no wish", "--must modelled: exit code 3 where something is not modeled")
    try:
        result = estimated(asked.scenario)
    except AmpedError as error:
        raise type(error)(error.problems, file=asked.scenario.label) from None
    report = asked.imported.report if asked.imported else None
    of_file = [NotModeled(str(line)) for line in report.unsupported] if report else []
    missing = [
        *result.not_modeled,
        *(Bound(part.what, {}) for part in of_file if part not in asked.scenario.sources.not_modeled),
    ]
    evidence = supported(
        result, [str(part) for part in missing], [str(line) for line in report.ignored] if report else []
    )
    if as_json:
        options.show_json(asdict(evidence))
    else:
        from amped.report.supporting import support_screen

        options.show(support_screen(asked.imported.name if asked.imported else asked.scenario.title, evidence))
    if must and evidence.not_modeled:
        raise typer.Exit(options.NOT_MET)
