"""Where things lie in this repository, wherever the tests lie that ask."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TESTS = ROOT / "tests"
DATA = TESTS / "data"
