"""The step that docs/theory/a_step_on_paper.md follows: its arithmetic gives its values, and amped gives the same."""

import json
import math
import re
from functools import cache, reduce

import amped
from tests.helpers.culprits import for_each
from tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "theory" / "a_step_on_paper.md").read_text("utf-8")
CONFIG = json.loads(PAGE.split("```json\n")[1].split("```")[0])
ROWS = re.findall(r"^\| (`.+`) \| (.+) \| ([\d.]+)(?: (\S+))? \|$", PAGE, re.M)
UNITS = {
    "µs": 1e-6,
    "ms": 1e-3,
    "MB": 1e6,
    "GFLOP": 1e9,
    "GB/s": 1e9,
    "TB/s": 1e12,
    "TFLOP/s": 1e12,
    "%": 1e-2,
    "": 1.0,
}
UNIT = "|".join(sorted(filter(None, UNITS), key=len, reverse=True))
EXACT = 1e-12  # the same arithmetic in another order


@cache
def results():
    return amped.estimate(CONFIG).results


def calculated(how):
    """What a line of arithmetic gives, in units without prefixes."""
    text = how.replace("×", "*").replace("−", "-")
    text = re.sub(rf"([\d.]+) ({UNIT})(?= |$|,|\))", lambda found: f"({found[1]} * {UNITS[found[2]]})", text)
    text = re.sub(rf"\) ({UNIT})$", lambda found: f") * {UNITS[found[1]]}", text)
    assert re.fullmatch(r"(?:[\d.e+\-*/(), ]|min|max)+", text), text
    return eval(text)


def field_of(found, field):
    """A field of a record, or the record of that name among several."""
    if isinstance(found, tuple):
        return next(record for record in found if record.name == field)
    return getattr(found, field)


def values_of(name, results):
    """What amped has under a name: a quantity, a record's field, or the times of an operator or a message.

    `.part` names the field, or one pass of an operator.
    """
    if name in results:
        return [results.number(name)]
    name, _, part = name.partition(".")
    if name in results.cells:
        (record,) = results.records(name)
        return [reduce(field_of, part.split("."), record)]
    lists = [results.records(key) for key in results.cells if key.endswith("_durations")]
    calls = [call for each in lists for call in each if call.name == name and call.count]
    kinds = [call for call in calls if part in (call.phase, call.kind)]
    return [call.time for call in (kinds if part else (c for c in calls if c.phase != "communication"))]


@for_each(ROWS)
def test_amped_calculates_the_printed_value(names, how, value, unit):
    digits = len(value.partition(".")[2])
    for name in re.findall(r"`([\w.]+)`", names):
        found = values_of(name, results())
        assert found, name
        assert {f"{each / UNITS[unit]:.{digits}f}" for each in found} == {value}


@for_each(ROWS)
def test_the_arithmetic_gives_the_value(names, how, value, unit):
    within = EXACT if unit != "%" else 1e-9
    for name in re.findall(r"`([\w.]+)`", names):
        assert all(math.isclose(calculated(how), each, rel_tol=within) for each in values_of(name, results()))


def test_every_line_of_a_table_is_read_and_the_page_is_short():
    assert len(ROWS) == sum(line.startswith("| `") for line in PAGE.splitlines()) > 40
    assert len(PAGE.splitlines()) <= 120


def test_the_config_gives_nothing_in_vain():
    estimate = amped.estimate(CONFIG)
    assert not [notice for notice in estimate.notices if "nothing here uses it" in notice]
    assert estimate["number_of_accelerators"] == 8


def test_a_wrong_line_would_be_seen():
    assert not math.isclose(calculated("(1 + 2) µs"), 3.1e-6, rel_tol=1e-9)
    assert calculated("2 MB / 2 / 100 GB/s") == 1e-5
    assert values_of("no_such_time", results()) == []
