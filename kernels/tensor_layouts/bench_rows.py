"""The rows of one operator: its tensors in every layout, over one storage of random numbers, and the time of each."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from amped.kernels.layer_shape import Dimensions
from amped.kernels.refusals import first_line
from amped.kernels.tensor_layouts.fused import KERNELS, MASKS, Choices, kernels_on, launch_errors
from amped.kernels.tensor_layouts.gemms import GemmCall, gemm_call, roles, terms
from amped.kernels.tensor_layouts.spec import LETTERS, SLICES, Operator
from amped.kernels.tensor_layouts.table import Row
from amped.kernels.tensor_layouts.tensors import Tensor, contraction, hidden_copies, logical
from amped.kernels.tensor_layouts.workspace import Workspace
from amped.kernels.timers import timer_for
from amped.kernels.timing import Call
from amped.kernels.torch_import import torch

Layouts = dict[str, str]
Tensors = dict[str, Tensor]


class Room:
    """Times operators on a device.

    Args:
        dimensions: sizes of the layer.
        device: `cpu` or `cuda`.
        dtype: the format of the tensors, by its name in torch.
        keep: probability that dropout keeps a value.
        cap: the seconds for a row; each is called at least four times.
    """

    def __init__(self, dimensions: Dimensions, device: str, dtype: str, keep: float, cap: float) -> None:
        self.dimensions, self.device, self.cap = dimensions, device, cap
        self.like = {"dtype": getattr(torch, dtype), "device": device}
        self.choices, self.kernels, self.timer = Choices(keep), kernels_on(device), timer_for(device)
        self.known: dict[GemmCall, Row] = {}

    def remember(self, rows: Iterable[Row]) -> None:
        """Notes the GEMMs of measured rows, so that they are not measured again for any operator."""
        for row in rows:
            if "gemm" in row:
                self.known.setdefault(
                    GemmCall(**row["gemm"]), {key: value for key, value in row.items() if key not in ("op", "layouts")}
                )

    def rows(self, operator: Operator, choices: list[Layouts]) -> Iterator[Row]:
        """A row for each choice of layouts; a GEMM that was measured before is not measured again.

        A kernel that Triton cannot compile, or that needs more than the GPU has, has no row, and a warning says so.
        """
        flat = self._storage(operator)
        row_of = self._known_gemm if operator.einsum else self._fused
        for layouts in choices:
            try:
                row = row_of(operator, layouts, flat)
            except launch_errors() as error:
                _tell(operator, layouts, error)
            else:
                yield {"op": operator.name, "layouts": layouts} | row

    def _storage(self, operator: Operator) -> Tensors:
        """Random numbers for each tensor of an operator, by name; slices of one stacked tensor have one entry, under the stack's name."""
        names: Iterable[str] = operator.arguments or operator.tensors
        if not operator.einsum:
            names = dict.fromkeys(SLICES[name][0] if name in SLICES else name for name in names)
        return {name: self._random(name) for name in names}

    def _random(self, name: str) -> Tensor:
        """Random numbers in one dimension for a tensor: normal deviates, or booleans for a mask of dropout."""
        size = self.dimensions.size(LETTERS[name])
        if name in MASKS.values():
            return torch.empty(size, dtype=torch.bool, device=self.device).bernoulli_(self.choices.keep)
        return torch.empty(size, **self.like).normal_()

    def _laid(self, flat: Tensor, layout: str) -> Tensor:
        """A view of numbers as a tensor with this layout."""
        return flat.view([self.dimensions.sizes[letter] for letter in layout])

    def _known_gemm(self, operator: Operator, layouts: Layouts, flat: Tensors) -> Row:
        """The row of a contraction; its GEMM is timed only if no equal GEMM was timed before."""
        tensor_layouts = [*layouts.values()]
        call = gemm_call(operator.einsum, tensor_layouts, self.dimensions.sizes)
        if call not in self.known:
            self.known[call] = self._gemm(operator, tensor_layouts, flat) | {"gemm": asdict(call)}
        return self.known[call]

    def _gemm(self, operator: Operator, layouts: Sequence[str], flat: Tensors) -> Row:
        """The time of a contraction, and its largest error relative to torch's einsum.

        The output is full of NaN before, so that entries that are not written show as an error.
        """
        tensors = [self._laid(numbers, layout) for numbers, layout in zip(flat.values(), layouts, strict=True)]
        call = contraction(operator, layouts, tensors, self.dimensions.sizes)
        tensors[2].fill_(float("nan"))
        timed = self._timed(call)
        first, second, result = map(logical, tensors, layouts, terms(operator.einsum))
        exact = torch.einsum(operator.einsum, first, second)
        exact *= self.dimensions.sizes["p"] ** -0.5 if operator.scaled else 1.0
        error = float((result - exact).abs().max() / exact.abs().max())
        implementation = {"impl": "bmm" if roles(operator.einsum).batch else "mm", "max_rel_err": error}
        return implementation | timed | {"hidden_copy": bool(hidden_copies(call))}

    def _fused(self, operator: Operator, layouts: Layouts, flat: Tensors) -> Row:
        """The time of a fused kernel, and whether it is torch's or Triton's."""
        chosen = layouts | ({"GAMMA": "bjhp"} if operator.kernel == "sdpa_bwd" else {})
        space = Workspace(self.dimensions.sizes, chosen, self.like, self.choices, self.kernels)
        space.tensors = {name: self._laid(numbers, space.layout(name)) for name, numbers in flat.items()}
        if operator.kernel == "sdpa_bwd":
            space.sdpa()
        is_plain = self.kernels.get(operator.kernel) is KERNELS.get(operator.kernel)
        return {"impl": "torch" if is_plain else "triton"} | self._timed(space.call(operator))

    def _timed(self, call: Call) -> Row:
        # In a layer, the other operators' tensors pass through a GPU's cache before this one runs again. Those of a
        # processor's caches are larger than a layer's tensors at the sizes that it can run.
        """The time of a call in µs, with percentiles and the number of calls."""
        timing = self.timer.measure(call, self.cap, cold=self.device == "cuda")
        micro = {"time_us": timing.best(self.device), "p10": timing.p10, "p90": timing.p90}
        return {key: round(1e6 * value, 3) for key, value in micro.items()} | {"n": timing.n}


def _tell(operator: Operator, layouts: Layouts, error: Exception) -> None:
    """Warns that a row is left out, and why."""
    chosen = ", ".join(f"{name} {layout}" for name, layout in layouts.items())
    warnings.warn(f"{operator.name} with {chosen} is left out: {first_line(error)[:120]}", UserWarning, stacklevel=2)
