"""Values that follow from others which somebody gave: key heads from query heads, and formulas of AMPeD's configs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from amped.base.aliases import aliases
from amped.configuring.config import Entry
from amped.configuring.sources import Sources
from amped.tables.rows import Row
from amped.tables.table_files import FOLLOWERS


def followers_of_entries(config: Mapping[str, Entry], overrides: Mapping[str, Entry]) -> Iterator[tuple[str, str]]:
    """The names of the config that follow an overridden name, because the config has equal values for both; with a notice each."""
    for leader, follower in FOLLOWERS.items():
        if leader in overrides and follower not in overrides and {leader, follower} <= config.keys():
            before, now = config[leader].value, overrides[leader].value
            if config[follower].value == before != now:
                yield follower, f"{follower} follows {leader}, because both are {before} in the config"


def followers_of_a_row(sources: Sources, row: Row | None) -> Iterator[tuple[str, str]]:
    """The columns of a network's row that follow a given value, each with a notice.

    A row of multi-head attention has as many key heads as query heads. A user who changes only the query heads means
    such a network, too. The width of a head stays that of the row.
    """
    if row is None:
        return
    named = sources.named()
    for leader, follower in FOLLOWERS.items():
        of_row = row.columns.get(leader)
        is_changed = leader in sources.sweeps or (leader in named and sources.given.get(leader, of_row) != of_row)
        if is_changed and follower not in named and row.columns.get(follower) == of_row:
            width = row.columns.get("head_dimension")
            stays = f"; head_dimension stays {width}" if width is not None and "head_dimension" not in named else ""
            yield follower, f"{follower} follows {leader}, because both are {of_row} in row '{row.name}'{stays}"


def as_amped_calculates(sources: Sources) -> Iterator[tuple[str, float, str, str]]:
    """The values with which amped's formulas give what AMPeD calculates, for names that a config wants calculated.

    Yields:
        The name to set, its value, the place in the config of the name to be calculated, and a notice.
    """
    for name, how in aliases().calculated.items():
        has_several = how["of"] in sources.sweeps or sources.given.get(how["of"], 1.0) > 1.0
        for setting, value in how["set"].items() if name in sources.calculated and has_several else ():
            if setting not in sources.named():
                notice = f"{name} is calculated as AMPeD does: {how['meaning']}, {setting} = {value}"
                yield setting, value, sources.calculated[name].where, notice
