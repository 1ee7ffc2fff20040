"""`amped tune`: what a fine-tuning takes: all weights, adapters, or adapters on weights of 4 bits."""

from __future__ import annotations

from amped.base.errors import ConfigError
from amped.cli import options
from amped.configuring.lengths import LENGTHS
from amped.configuring.not_modeled import ANYWAY
from amped.tables.prices import MARKET


@options.bundled(("named_config", "config", "formulas"))
def tune(
    method: list[str] | None = None,
    data: str | None = None,
    epochs: float = 1.0,
    settings: list[str] | None = None,
    lookup_tables: options.Folders = None,
    anyway: bool = False,
    ideal: bool = False,
    as_json: bool = False,
    **short: float | str | None,
) -> None:
    """Compare ways to fine-tune a network on a machine: does each fit, how long, what it costs, with which micro-batch.

    All ways train on the same tokens in the same batches. Each has the mapping that `amped estimate` chooses for it. Of what
    does not fit, it says what would make it fit.

    Example: amped tune --model "Llama 3.1 8B" --accelerator "RTX 4090" --gpus 1 --set tokens_to_train=1e7

    Options:
        --method WORD: full, lora, dora or qlora; repeatable.
        --data FILE|TEXT: Lengths of documents, one on each line.
        --epochs N: How often the documents are trained on.
    """
    from amped.drafting.tuning import USUAL, tuned

    given = options.changes(settings, **short) | options.flags(anyway, ideal)
    if data is not None:
        if LENGTHS in given:
            raise ConfigError(f"--data and --{LENGTHS} are the same", "keep one")
        given[LENGTHS] = data
    methods = [name for text in method or USUAL for name in options.names(text)]
    asking = options.Asking(None, given, lookup_tables)
    if not asking.leaves_open():
        raise ConfigError("there is no network to fine-tune", "name one: --model NAME; `amped list models` shows names")
    ways = tuned(asking, methods, epochs)
    if as_json:
        options.show_json([way.to_dict() for way in ways])
        return
    from amped.report.tuning import tuning

    options.tell_notices(
        dict.fromkeys(notice for way in ways for notice in way.estimate.scenario.sources.notices[:1] if data)
    )
    options.show(tuning(ways, _words(given, lookup_tables)))


def _words(given: dict[str, object], lookup_tables: options.Folders) -> list[str]:
    """The words of a command line that repeat the question."""
    rows = [word for name in options.ROWS if name in given for word in (f"--{name}", str(given[name]))]
    named = [word for name in (LENGTHS, *MARKET) if name in given for word in (f"--{name}", str(given[name]))]
    rest = {name: value for name, value in given.items() if name not in (*options.ROWS, LENGTHS, *MARKET, ANYWAY)}
    sets = [word for name, value in rest.items() for word in ("--set", f"{name}={value}")]
    return [*rows, *named, *sets, *options.table_words(lookup_tables), *(["--anyway"] if given.get(ANYWAY) else [])]
