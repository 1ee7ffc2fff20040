"""Chooses which modules of a model keep less, by measured bytes saved per microsecond, until it fits (AutoTempo)."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from amped.base.errors import ConfigError
from amped.kernels.memory.in_place_norm import why_unsafe
from amped.kernels.memory.sites import RECOMPUTATION, TECHNIQUES, Alone, Calls, Seen, Site, restore, sites
from amped.kernels.memory.stash import Stash, address_of, forward_and_backward, stash_bytes
from amped.kernels.memory.transformers_attention import why_other
from amped.kernels.refusals import refuse_unknown
from amped.kernels.timers import timer_for

NO_SAVING = "saves nothing: no operator after it keeps its output (a cast, a dropout or a copy lies between)"
KEPT_ANYWAY = "saves nothing: another operator keeps its input, too"
AS_LARGE = "saves nothing: the output is kept anyway, or is no larger than the input that is kept instead"
FUSED = "saves nothing: the attention is fused, or draws no dropout"
# What `amped memory bench` finds not to pay is done only if a policy names it: fused attention keeps less than one whose
# dropout is computed again. An activation function in place saves as much as one that is computed again and takes more
# time, but it needs no product right behind it; where both can be done, bytes a microsecond decide.
NOT_PAYING = ("dropout_recomputation",)
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
    """What a technique does at one site.

    Attributes:
        name: the name of the module.
        saved_bytes: the bytes that it saves for the backward pass.
        added_time: the seconds that it adds to a step.
        refused: the reason why it was not taken; empty if it was taken.
    """

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


def convert(model: nn.Module, policy: Policy, *inputs: Any, **keywords: Any) -> Report:
    """Converts modules of a model so that they keep less for the backward pass, and reports what was converted.

    The modules that save the most bytes per microsecond come first, until the target is met. A site is what a module
    computes: a layer norm, an RMS norm, GELU or SiLU, of torch, of another library or your own; an activation function
    whose very output a linear module takes; attention in modules: `nn.MultiheadAttention` with dropout that is not
    fused (its weights are needed, or no fused kernel takes the call), and `SoftmaxDropoutMatmul`. Attention that a
    model writes with functions stays, and so do modules that were placed by hand.

    The model is run forward on the inputs (a batch that is a dict gives keywords), once or twice for each site; all
    reported numbers are measured. Parameters, hooks and names stay; `revert` undoes the conversion.

    Raises:
        ConfigError: if there are no inputs to measure with.
    """
    if not inputs and not keywords:
        raise ConfigError("bytes are measured, and there is no input to measure with", "convert(model, policy, batch)")
    revert(model)
    work = _Work(model, _run(model, inputs, keywords), policy)
    measured = work.measured()
    taken, refused = work.chosen(measured)
    if policy.techniques == PAYING:
        left_out = (site for site in sites(model, NOT_PAYING) if site.module not in taken)
        refused += [Choice(site.name, site.technique, 0, math.nan, NOT_TRIED) for site in left_out]
    return Report(work.before.bytes, work.kept, policy.target_bytes, list(taken.values()), refused)


def _run(model: nn.Module, inputs: tuple[Any, ...], keywords: Mapping[str, Any]) -> Callable[[], Any]:
    """A function that calls the model. A single dict becomes keywords, if the model takes all its names."""
    if len(inputs) == 1 and not keywords and isinstance(inputs[0], Mapping):
        try:
            inspect.signature(model.forward).bind(**inputs[0])
        except TypeError:
            pass
        else:
            return partial(model, **inputs[0])
    return partial(model, *inputs, **keywords)


def revert(model: nn.Module) -> int:
    """Gives every converted module its earlier class back, and returns the number of these modules."""
    return sum(restore(module) for module in model.modules())


def _worth(choice: Choice) -> float:
    """The bytes that a choice saves per microsecond; a choice that adds no time counts as adding 1 ns."""
    return choice.saved_bytes / max(choice.added_time * 1e6, 1e-3)


class _Work:
    """A model that is being converted.

    Attributes:
        run: calls the model.
        found: all sites of the model.
        before: the bytes that the model kept at first, and `kept` the bytes that it keeps now.
        calls: the calls of the sites in a forward pass.
        useful: the modules whose output an operator after them keeps.
    """

    def __init__(self, model: nn.Module, run: Callable[[], Any], policy: Policy) -> None:
        self.model, self.run, self.policy = model, run, policy
        self.found = list(sites(model, policy.techniques))
        self.calls = Calls(model, self.found, run, RECOMPUTATION in policy.techniques)
        self.found += self.calls.pairs
        self.before, self.useful = self._first()
        self.kept = self.before.bytes

    def _stash(self) -> Stash:
        """The bytes that are kept for the backward pass now; the state of random generators does not change."""
        with torch.random.fork_rng():
            return stash_bytes(self.run, exclude=(*self.model.parameters(), *self.model.buffers()))

    def _first(self) -> tuple[Stash, set[nn.Module]]:
        """The bytes that are kept before any conversion, and the modules of sites whose output is kept."""
        outputs: list[tuple[nn.Module, Tensor]] = []

        def note(module: nn.Module, _: Any, output: Any) -> None:
            if isinstance(output, Tensor):
                outputs.append((module, output))

        with ExitStack() as hooks:
            for module in {site.module for site in self.found}:
                hooks.enter_context(module.register_forward_hook(note))
            before = self._stash()
        return before, {module for module, output in outputs if before.has(output)}

    def measured(self) -> list[tuple[Site, Choice]]:
        """All sites with their choices: saved bytes and added time, or the reason of a refusal.

        Sites that save only together are one site.
        """
        times: dict[tuple[Any, ...], float] = {}
        measured = [(site, self._measured(site, times)) for site in self.found]
        joint = [(site, self._measured(site, times)) for site in self._together(measured)]
        joint = [(site, choice) for site, choice in joint if not choice.refused]
        covered = {part.module for site, _ in joint for part in (site, *site.together)}
        return [pair for pair in measured if not pair[1].refused or pair[0].module not in covered] + joint

    def _measured(self, site: Site, times: dict[tuple[Any, ...], float]) -> Choice:
        """The choice of a site: saved bytes and added time, or the reason of a refusal.

        Each kind of site (technique, class, shapes) is timed once; `times` has the seconds by kind.
        """
        call, (saved, added) = self.calls.first.get(site.module), (0, math.nan)
        reason = "is not run" if call is None else _unsafe(site, call)
        if call is not None and not reason:
            with site.applied():
                saved = self.before.bytes - self._stash().bytes
            reason = self._no_saving(site, saved, call)
            kind = (site.technique, type(site.module), call.kind, site.product and site.product.weight.shape)
            if not reason:
                times[kind] = times[kind] if kind in times else _added(replace(site, together=()), call)
                added = times[kind] * (1 + len(site.together))
        return Choice(site.name, site.technique, saved, added, reason)

    def _together(self, measured: list[tuple[Site, Choice]]) -> Iterator[Site]:
        """A site for each group of sites that have the same input and save nothing alone, because the others keep the input."""
        groups: dict[int, list[Site]] = {}
        for site, choice in measured:
            if choice.refused == KEPT_ANYWAY:
                groups.setdefault(address_of(self.calls.first[site.module].first), []).append(site)
        for first, *others in groups.values():
            if others:
                yield replace(first, name=" + ".join(s.name for s in (first, *others)), together=tuple(others))

    def chosen(self, measured: list[tuple[Site, Choice]]) -> tuple[dict[nn.Module, Choice], list[Choice]]:
        """Converts the best sites until the target is met.

        Returns:
            The choices that were taken, by module, and those that were refused, of modules of which none was taken.
        """
        saving = [(site, choice) for site, choice in measured if not choice.refused]
        refused = [(site.module, choice) for site, choice in measured if choice.refused]
        taken: dict[nn.Module, Choice] = {}
        for site, choice in sorted(saving, key=lambda pair: -_worth(pair[1])):
            if self.policy.target_bytes is not None and self.kept <= self.policy.target_bytes:
                break
            if site.module in taken:
                continue
            site.apply()
            saved = self.kept - self._stash().bytes
            if reason := self._no_saving(site, saved, self.calls.first[site.module]):  # another site saves these bytes
                site.undo()
                refused.append((site.module, replace(choice, saved_bytes=saved, refused=reason)))
            else:
                taken[site.module] = replace(choice, saved_bytes=saved)
                self.kept -= saved
        names = {choice.name for choice in taken.values()}
        paired = [Choice(n, RECOMPUTATION, 0, math.nan, why) for n, why in self.calls.refused.items() if n not in names]
        return taken, [choice for module, choice in refused if module not in taken] + paired

    def _no_saving(self, site: Site, saved: int, call: Seen) -> str:
        """The reason why converting a site does not pay; empty if it saves enough memory.

        Args:
            site: a place where a technique may be used.
            saved: the bytes that it saves.
            call: the observed call of its module, whose first tensor is the measure.
        """
        if saved > _NOTHING * call.first.nbytes:
            return ""
        if site.technique == "dropout_recomputation":
            return FUSED
        if site.technique == RECOMPUTATION:
            return AS_LARGE
        return KEPT_ANYWAY if site.module in self.useful else NO_SAVING


def _unsafe(site: Site, call: Seen) -> str:
    """The reason why a norm must keep its input, or attention must stay as it is; empty if the site may be converted."""
    if "config" in site.own:
        return why_other(site.module, site.own, call)
    if site.technique != "in_place_norm":
        return ""
    return why_unsafe(site.scale, getattr(site.module, "bias", None), call.first.dtype)


def _added(site: Site, call: Seen) -> float:
    """The seconds that the technique adds to a forward and backward pass of the site alone."""
    leaf, alone = call.first.detach().clone().requires_grad_(), Alone(site, call)
    with torch.random.fork_rng():
        plain = _seconds(alone, leaf)
        with site.applied():
            return _seconds(alone, leaf) - plain


def _seconds(alone: nn.Module, x: Tensor) -> float:
    """The seconds of a module's forward and backward pass."""
    device = x.device.type
    call = forward_and_backward(alone, x, alone.parameters())
    return timer_for(device).together([call], _CAP)[0].best(device)
