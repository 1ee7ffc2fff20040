"""Chooses which modules of a model keep less, by measured bytes saved per microsecond, until it fits (AutoTempo)."""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from amped.base.errors import ConfigError
from amped.kernels.memory.in_place_norm import why_unsafe
from amped.kernels.memory.sites import TECHNIQUES, Alone, Seen, Site, restore, sites
from amped.kernels.memory.stash import forward_and_backward, stash_bytes
from amped.kernels.refusals import refuse_unknown
from amped.kernels.timers import timer_for

NO_SAVING = "saves nothing: what is kept behind it is another tensor (a cast, a dropout or a copy lies between)"
FUSED = "saves nothing: the attention is fused, or draws no dropout"
# What `amped memory bench` finds not to pay is done only if a policy names it: recomputation saves as much as an activation
# function in place and takes less time, and fused attention keeps less than one whose dropout is computed again.
NOT_PAYING = ("in_place_activation", "dropout_recomputation")
PAYING = tuple(name for name in TECHNIQUES if name not in NOT_PAYING)
NOT_TRIED = "by `amped memory bench` it does not pay; a policy that names it tries it"
# Savings below this share of a site's input (such as a norm's mean) count as nothing.
_NOTHING = 0.1
# The seconds for timing one kind of site, plain and converted.
_CAP = 0.3


@dataclass(frozen=True)
class Policy:
    """What the conversion may do.

    Attributes:
        techniques: in_place_norm, in_place_activation, dropout_recomputation (for `nn.MultiheadAttention` that writes
            its scores and for `SoftmaxDropoutMatmul`), activation_function_recomputation; the names of the performance
            model. By default, those that pay.
        target_bytes: the most bytes that may be kept for the backward pass; without it, all that saves is converted.
    """

    techniques: tuple[str, ...] = PAYING
    target_bytes: float | None = None

    def __post_init__(self) -> None:
        for name in self.techniques:
            refuse_unknown(name, TECHNIQUES, f"the technique {name!r} is not known")
        if self.target_bytes is not None and not self.target_bytes > 0:
            raise ConfigError(f"a target of {self.target_bytes} bytes is none", "give more than zero bytes")


@dataclass(frozen=True)
class Choice:
    """A site, the bytes that it saves and the seconds that it adds to a step; or the reason why it was not taken."""

    name: str
    technique: str
    saved_bytes: int
    added_time: float
    refused: str = ""


@dataclass(frozen=True)
class Report:
    """What was converted, with measurements before and after it.

    Attributes:
        fits: whether the target is met; true without a target.
    """

    before_bytes: int
    after_bytes: int
    target_bytes: float | None
    taken: list[Choice]
    refused: list[Choice]

    @property
    def fits(self) -> bool:
        """Whether the kept bytes are within the target."""
        return self.target_bytes is None or self.after_bytes <= self.target_bytes

    def __str__(self) -> str:
        lines = [f"{self.before_bytes:,} bytes kept before, {self.after_bytes:,} now"]
        if self.target_bytes is not None:
            lines[0] += f"; the target of {self.target_bytes:,.0f} is {'met' if self.fits else 'NOT met'}"
        lines += [f"{c.name}: {c.technique}, {c.saved_bytes:,} bytes, {c.added_time * 1e6:+.0f} µs" for c in self.taken]
        lines += [f"{c.name}: not {c.technique}: {c.refused}" for c in self.refused]
        return "\n".join(lines)


def convert(model: nn.Module, policy: Policy, *inputs: Any) -> Report:
    """Converts modules of a model, those first that save the most bytes per microsecond, until the target is met.

    It converts attention in modules: `nn.MultiheadAttention` with dropout that is not fused (its weights are needed, or
    no fused kernel takes the call), and `SoftmaxDropoutMatmul`. Attention that a model writes with functions stays.

    It runs the model forward on the inputs, once for each kind of site and once for each site that is taken; all
    reported numbers are measured. Parameters, hooks and names stay; `revert` undoes it.

    Raises:
        ConfigError: if there are no inputs to measure with.
    """
    if not inputs:
        raise ConfigError("bytes are measured, and there is no input to measure with", "convert(model, policy, batch)")
    revert(model)
    found = list(sites(model, policy.techniques))
    before = kept = _kept(model, inputs)
    seen = _inputs_of(model, found, inputs)
    measured = _measured(model, found, inputs, seen, before)
    refused = [choice for _, choice in measured if choice.refused]
    saving = [(site, choice) for site, choice in measured if not choice.refused]
    taken: dict[nn.Module, Choice] = {}
    for site, choice in sorted(saving, key=lambda pair: -_worth(pair[1])):
        if policy.target_bytes is not None and kept <= policy.target_bytes:
            break
        if site.module in taken:
            continue
        site.apply()
        saved = kept - _kept(model, inputs)
        reason = _no_saving(site, saved, seen[site.module])  # if another site already saves these bytes
        if reason:
            site.undo()
            refused.append(replace(choice, saved_bytes=saved, refused=reason))
        else:
            taken[site.module] = replace(choice, saved_bytes=saved)
            kept -= saved
    if policy.techniques == PAYING:
        left_out = (site for site in sites(model, NOT_PAYING) if site.module not in taken)
        refused += [Choice(site.name, site.technique, 0, math.nan, NOT_TRIED) for site in left_out]
    return Report(before, kept, policy.target_bytes, list(taken.values()), refused)


def revert(model: nn.Module) -> int:
    """Gives every converted module its earlier class back; the result is their number."""
    return sum(restore(module) for module in model.modules())


def _worth(choice: Choice) -> float:
    """Bytes saved per microsecond; infinite if no time is added, then more bytes first."""
    return choice.saved_bytes / max(choice.added_time * 1e6, 1e-3)


def _kept(model: nn.Module, inputs: tuple[Any, ...]) -> int:
    """The bytes kept for the backward pass; random numbers come from a copy of the generators' state."""
    with torch.random.fork_rng():
        return stash_bytes(model, *inputs).bytes


def _inputs_of(model: nn.Module, found: list[Site], inputs: tuple[Any, ...]) -> dict[nn.Module, Seen]:
    """The first call of each site's module in a forward pass (under no_grad, so that no gradient leads out)."""
    seen: dict[nn.Module, Seen] = {}

    def note(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if call := Seen.of(args, kwargs):
            seen.setdefault(module, call)

    with ExitStack() as hooks, torch.random.fork_rng(), torch.no_grad():
        for module in {site.module for site in found}:
            hooks.enter_context(module.register_forward_pre_hook(note, with_kwargs=True))
        model(*inputs)
    return seen


def _measured(
    model: nn.Module, found: list[Site], inputs: tuple[Any, ...], seen: dict[nn.Module, Seen], before: int
) -> list[tuple[Site, Choice]]:
    """The sites with what they save and cost, or why they are refused.

    Each kind of site (technique, shape) is timed once.
    """
    known: dict[tuple[Any, ...], tuple[int, float]] = {}
    measured = []
    for site in found:
        call, (saved, added) = seen.get(site.module), (0, math.nan)
        reason = "is not run" if call is None else _unsafe(site, call)
        if call is not None and not reason:
            kind = (site.technique, type(site.module), call.kind, site.product and site.product.weight.shape)
            if kind not in known:
                with site.applied():
                    saved = before - _kept(model, inputs)
                known[kind] = saved, _added(site, call)
            saved, added = known[kind]
            reason = _no_saving(site, saved, call)
        measured.append((site, Choice(site.name, site.technique, saved, added, reason)))
    return measured


def _unsafe(site: Site, call: Seen) -> str:
    """The reason why a norm must keep its input; empty for a safe one, and for other techniques."""
    if site.technique != "in_place_norm":
        return ""
    return why_unsafe(site.module.weight, getattr(site.module, "bias", None), call.first.dtype)


def _no_saving(site: Site, saved: int, call: Seen) -> str:
    """The reason why a site saves next to nothing; empty if it saves more."""
    if saved > _NOTHING * call.first.nbytes:
        return ""
    return FUSED if site.technique == "dropout_recomputation" else NO_SAVING


def _added(site: Site, call: Seen) -> float:
    """The seconds that the technique adds to a forward and backward pass of the site alone."""
    leaf, alone = call.first.detach().clone().requires_grad_(), Alone(site, call)
    with torch.random.fork_rng():
        plain = _seconds(alone, leaf)
        with site.applied():
            return _seconds(alone, leaf) - plain


def _seconds(alone: nn.Module, x: Tensor) -> float:
    device = x.device.type
    call = forward_and_backward(alone, x, alone.parameters())
    return timer_for(device).together([call], _CAP)[0].best(device)
