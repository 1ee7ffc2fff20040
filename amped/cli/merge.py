"""`amped merge`: the findings of shards, put together and ranked."""

from __future__ import annotations

import time
from pathlib import Path

from amped.cli.explore_output import Format, Outputs


def merge(
    files: list[Path],
    form: Format | None = None,
    as_json: bool = False,
    output: Path | None = None,
    output_dir: Path | None = None,
    formulas: Path | None = None,
) -> None:
    """Put the findings of shards together and rank them, as one run would have.

    The files may come in any order, and from whole or interrupted runs, as long as every part is in one of them. The
    elapsed time is that of all parts together.

    Example: amped merge explore-shard-1-of-2.jsonl explore-shard-2-of-2.jsonl --format json

    Options:
        files FILES...: What `amped explore --shard I/N` wrote.
        form --format: By default as --output ends, or a table.
        as_json --json: The same as --format json.
        --output FILE: Write there instead of printing.
        --formulas FILE: The formulas that were used: a file, run.
    """
    from amped.exploration.answer import answer
    from amped.exploration.merging import put_together

    outputs = Outputs(form, as_json, output=output, output_dir=output_dir)
    outputs.check()
    search, finding, seconds = put_together(files, formulas)
    outputs.tell_ranking(answer(search, finding, time.perf_counter() - seconds))
