"""`amped merge`: the findings of shards, put together and ranked."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from amped.cli import options
from amped.cli.explore_output import FileOption, FormatOption, JsonOption, Outputs


def merge(
    files: Annotated[list[Path], Argument(metavar="FILES...", help="What `amped explore --shard I/N` wrote.")],
    form: FormatOption = None,
    as_json: JsonOption = False,
    output: FileOption = None,
    output_dir: options.OutputOption = None,
    formulas: Annotated[
        Path | None,
        Option("--formulas", metavar="FILE", help="The formulas that were used: a file, run."),
    ] = None,
) -> None:
    """Put the findings of shards together and rank them, as one run would have.

    The files may come in any order, and from whole or interrupted runs, as long as every part is in one of them. The
    elapsed time is that of all parts together.

    Example: amped merge explore-shard-1-of-2.jsonl explore-shard-2-of-2.jsonl --format json
    """
    from amped.exploration.answer import answer
    from amped.exploration.merging import put_together

    outputs = Outputs(form, as_json, output=output, output_dir=output_dir)
    outputs.check()
    search, found, seconds = put_together(files, formulas)
    outputs.tell_ranking(answer(search, found, time.perf_counter() - seconds))
