"""All kinds of cases."""

from tests.campaigns.configs import CONFIGS, SETTINGS
from tests.campaigns.explorations import FINDINGS, SEARCHES_BY_HAND
from tests.campaigns.kills import KILLS
from tests.campaigns.lines import LINES
from tests.campaigns.machines import PAIRS, SWITCHED
from tests.campaigns.tables import TABLES_AT_RANDOM

KINDS = {
    kind.name: kind for kind in (CONFIGS, SETTINGS, TABLES_AT_RANDOM, LINES, PAIRS, SWITCHED, SEARCHES_BY_HAND, FINDINGS, KILLS)
}  # fmt: skip
