"""Further cases of tests that draw many."""

import pytest
from _pytest.mark import ParameterSet


def further(*values: object) -> ParameterSet:
    """A case of a parametrized test that runs with `--on-request` only."""
    return pytest.param(*values, marks=pytest.mark.on_request)
