"""Tables of the errors of the laws of single kernels, by accelerator and library by library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amped.calibration.kernel_errors import EVERY, KernelErrors, by_kind
from amped.report.tables import Part, drawn, table

HEADS = ("accelerator", "library", "kept out", "scale", "fixed", "error", "signed", "law alone")
CONVENTION = (
    "error: mean of |predicted / measured - 1| over the shapes kept out: a fifth, drawn by hash, that neither scale nor fixed "
    "time has seen. law alone: without both. A library in brackets is a fallback, and does not count in the first table."
)
LEFT_OUT = (
    "error: mean of |predicted / measured - 1| over all shapes of an accelerator that no fit has seen. Its peaks are those of "
    "its datasheet; its coefficients, and the scale and fixed time of a library, are those of the other accelerators of its "
    "generation, or of all others if it has none there; numbers of kernels that all accelerators share were fitted on all. law "
    "alone: without scale and fixed time."
)


@drawn
def library_by_library(errors: Sequence[KernelErrors], left_out: bool = False) -> Iterator[Part]:
    """The errors by library, then the kernels that no fit covers, then the errors by accelerator and precision.

    With `left_out`, the errors are those of accelerators that no fit has seen.
    """
    for kind, precision in dict.fromkeys((e.kind, e.precision) for e in errors if not e.reason):
        same_kind = [e for e in errors if not e.reason and (e.kind, e.precision) == (kind, precision)]
        yield f"{kind} {precision}", "bold"
        yield table(HEADS, map(_of_library, same_kind), HEADS[:2], HEADS[:2])
        yield ""
    for e in errors:
        if e.reason:
            library = f" ({e.library.strip()})" if e.library.strip() else ""
            yield f"{e.rows} {e.kind} {e.precision}{library} on {e.accelerator} {_without_fit(e)}\n"
    if lines := [_line(*row) for row in by_kind(errors)]:
        yield table(("kernels", "accelerator", "kept out", "error"), lines, ("accelerator",))
        yield f"\n{LEFT_OUT if left_out else CONVENTION}", "dim"


def _without_fit(e: KernelErrors) -> str:
    """The end of a sentence on kernels without a fit: whether the law alone predicts them, and how well."""
    if e.law_alone_error_fraction is None:
        return f"are not predicted: {e.reason}"
    return f"have no fit, {e.reason}; the law alone is off by {e.law_alone_error_fraction:.1%} on average"


def _line(kind: str, precision: str, accelerator: str, kept_out: int, error: float) -> tuple[str, ...]:
    """The cells of a line by accelerator; the kind of kernel is named only on its first line."""
    name = f"{kind} {precision}" if accelerator == EVERY else ""
    return name, accelerator, str(kept_out), f"{error:.1%}"


def _of_library(e: KernelErrors) -> tuple[str, ...]:
    """The cells of a line by library; a library in brackets is not scored."""
    library = e.library or "unnamed"
    errors = (f"{e.mean_absolute_error_fraction or 0.0:.1%}", f"{e.mean_signed_error_fraction or 0.0:+.1%}",
              f"{e.law_alone_error_fraction or 0.0:.1%}")  # fmt: skip
    fixed_time = f"{'≥' * e.fixed_time_is_least}{e.fixed_time * 1e6:.1f} us"
    name = library if e.scored else f"({library})"
    return e.accelerator, name, str(e.kept_out), f"{e.scale:.2f}", fixed_time, *errors
