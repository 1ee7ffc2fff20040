"""What a candidate lacks to be feasible: memory, and the smallest change that saves it, or a wish that it breaks."""

from __future__ import annotations

from collections.abc import Iterator

from amped.base.errors import AmpedError
from amped.configuring.scenario import asked_again
from amped.estimation.estimation import Estimation, estimated
from amped.estimation.remedies import smallest_change
from amped.exploration.constraints import Wish
from amped.exploration.results import Row
from amped.exploration.search import Search

GIGABYTE = 1e9


def what_it_needs(search: Search, row: Row) -> str:
    """What the candidate of a row would need, in words."""
    return "; ".join([*_memory(search, row), *(_broken(w, row) for w in search.wishes if not _fulfilled(w, row))])


def settings(search: Search, row: Row) -> dict[str, object]:
    """What to set in the config to have the candidate of a row alone."""
    branch = search.branches[0]
    names = (*branch.swept, *search.sweeps.beside, *branch.axes)
    return {name: row[name] for name in dict.fromkeys(names) if name in row}


def _memory(search: Search, row: Row) -> Iterator[str]:
    if row["fits_in_memory"]:
        return
    try:
        e = estimated(asked_again(search.scenario.question, settings(search, row)), Estimation)
    except AmpedError:  # a mapping that only an exploration can say
        yield "needs more memory"
        return
    lacking = e["memory_per_accelerator_bytes"] - e["available_memory_bytes"]
    told = f"{lacking / GIGABYTE:.3g} GB more memory for each accelerator" if lacking > 0 else "more memory on the host"
    yield f"It needs {told}, or {smallest_change(e)}"


def _fulfilled(wish: Wish, row: Row) -> bool:
    if isinstance(wish.value, str):
        return wish.chosen(str(row.get(wish.name, wish.value)))
    return bool(wish.holds(row.__getitem__))


def _broken(wish: Wish, row: Row) -> str:
    told = (f"its {n} is {v if isinstance(v := row[n], str) else f'{v:.6g}'}" for n in wish.quantities or (wish.name,))
    return f"{', '.join(told)}, and {wish.written} was asked for"
