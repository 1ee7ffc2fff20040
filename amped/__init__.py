"""amped predicts how long a transformer trains, where the time goes, whether it fits, and which mapping is best.

    >>> import amped
    >>> amped.estimateTrainingTime("H100 PCIe")      # seconds
    >>> amped.estimate("default").breakdown          # parts of a step

Importing amped loads none of numpy, pint, jsonschema, matplotlib or torch; the first call that needs one loads it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from amped.base.version import __version__ as __version__

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parent
__path__.append(str(_HERE / "entry_points"))  # AMPeD's: `python -m amped.main`
if (_ROOT / "pyproject.toml").is_file():
    # In a source checkout, configs/, lookup_tables/ and kernels/ are beside this folder, and become amped.configs etc.
    __path__.append(str(_ROOT))

if TYPE_CHECKING:
    from amped.base.errors import AmpedError
    from amped.library import (
        Estimate,
        calibrate,
        compare,
        estimate,
        estimateTrainingTime,
        explain,
        explore,
        export,
        import_config,
        load_config,
        plot,
        recommend,
        sensitivity,
        support,
        tune,
        validate,
        whatif,
        why,
        write_report,
    )

__all__ = [
    "AmpedError",
    "Estimate",
    "calibrate",
    "compare",
    "estimate",
    "estimateTrainingTime",
    "explain",
    "explore",
    "export",
    "import_config",
    "load_config",
    "plot",
    "recommend",
    "sensitivity",
    "support",
    "tune",
    "validate",
    "whatif",
    "why",
    "write_report",
]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    if name == "AmpedError":
        from amped.base.errors import AmpedError

        return AmpedError
    if name in __all__:
        from amped import library

        return getattr(library, name)
    raise AttributeError(f"module 'amped' has no attribute '{name}'")
