"""The objective: the task loss of the model at λ among the moved models, as a function of the latents.

    θ(λ) = Σ_m λ_m g_m θ_m        loss(latents) = E over λ and batches of  CE(f_θ(λ)(x), y)

λ lies on the simplex; between A and B it is (1−λ, λ).  The weights are frozen; g_1 is the identity unless all sides
learn (third paper).  The first paper's J = E[L(θ(λ)) − Σ_m λ_m L(g_m θ_m)] has the same gradient, for symmetries keep
each L(g_m θ_m) what it is.  (Soft permutations do not; there J would reward worse end points, so L(θ(λ)) alone is
minimised.)  The model is the first one's stock class, called with θ(λ) as its parameters, so nothing here knows what it
computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from onebasin.checkpoint import Checkpoint, transformers_config
from onebasin.checkpoint.stock import source_key, stock_model
from onebasin.errors import BadTask
from onebasin.landscape.teacher import Teacher
from onebasin.learn.coordinates import STILL, Coordinates, Moves
from onebasin.learn.options import LearnedMatching
from onebasin.learn.stacks import OURS, Variation, free_gains, latents_of
from onebasin.learn.weights import Group, Weights, groups
from onebasin.linalg import mixture, running_shares
from onebasin.paths.circuit import Apart, Joined, circuit_model
from onebasin.spec import ModelSpec
from onebasin.tasks import LANGUAGE, Measure
from onebasin.tasks.losses import mean, options_of, said, scores

Inputs = Mapping[str, Tensor]
BETWEEN = -1  # in place of the number of a model


class Objective(nn.Module):
    """θ(λ) and its loss among canonical forms (moved by their bases already); λ is a `share` (M,)."""

    def __init__(
        self,
        forms: Sequence[Checkpoint],
        options: LearnedMatching,
        kind: str,
        variation: Variation = OURS,
        *,
        dtype: torch.dtype = torch.float32,
        forward_dtype: torch.dtype | None = None,
        tokens: int = 0,
        loss: Measure | None = None,
    ) -> None:
        """`tokens` is how many of them a batch has: smaller vocabularies are rotated as tables, larger after lookup.

        `loss` is the task's own, if it has one; agreement has no use for it.
        """
        super().__init__()
        self.kind, self.dtype = kind, dtype
        spec, scaled, still = forms[0].spec, variation.scale, 0 if options.two_sided else 1
        gained = free_gains(spec) if "gains" in options.learn else []
        latents = latents_of(spec, options, variation)
        found = groups(spec, latents, gained, scaled=scaled)
        self.sides = nn.ModuleList(
            Coordinates(latents, gained if m else (), scaled=scaled, dtype=dtype) for m in range(still, len(forms))
        )
        self.ends = nn.ModuleList(Weights(form, found, dtype, frozen=m < still) for m, form in enumerate(forms))
        taught = options.loss == "agreement"
        model = model_of(forms, options, dtype).requires_grad_(False)
        self.scored = Scored(model, forward_dtype, None if taught else loss)
        self.shares = [f"{name}.share" for name, x in self.model.named_modules() if isinstance(x, Joined)]
        self.places = places(self.model, spec, found)
        self.teacher = Teacher(forms, kind, forward_dtype) if taught else None
        self.looked_up = self._looked_up(tokens) if kind == LANGUAGE else None
        for p in self.model.parameters():
            p.data = p.data.new_empty(0)  # θ(λ) takes their place; only what names them is needed

    @property
    def model(self) -> nn.Module:
        return self.scored.model

    @property
    def by_label(self) -> bool:
        """Whether the loss of a batch is the mean over its labels, and not over its samples."""
        return self.teacher is None and self.scored.loss is None

    def learned(self) -> list[nn.Parameter]:
        return list(self.sides.parameters())

    def each_side(self, name: str) -> None:
        """Call a method of the coordinates of every side: "settle" or "recentre"."""
        for side in self.sides:
            getattr(side, name)()

    def _looked_up(self, tokens: int) -> str | None:
        """The parameter that holds the token embeddings, if it is cheaper to look tokens up first."""
        table = self.model.get_input_embeddings().weight  # type: ignore[operator]
        name = next(name for name, p in self.model.named_parameters() if p is table)
        _, group, _ = self.places[name]
        return name if len(table) > tokens > 0 and self.ends[0].by_rows(group) else None  # type: ignore[operator]

    def target(self, inputs: Inputs, labels: Tensor, share: Tensor) -> Tensor:
        """What the model at λ should say: the labels, or what the end points say."""
        return labels if self.teacher is None else self.teacher(inputs, share)

    def moves(self) -> list[Moves]:
        """What moves each model: nothing the first, unless all sides learn."""
        return [STILL] * (len(self.ends) - len(self.sides)) + [side() for side in self.sides]

    def theta(self, share: Tensor, moves: list[Moves] | None = None) -> dict[str, Tensor]:
        """θ(λ) by the model's own parameter names, with what else of the model depends on λ."""
        skip = {self.places[self.looked_up][1]} if self.looked_up else set()
        ends = [end(move, skip) for end, move in zip(self.ends, moves or self.moves(), strict=True)]
        shares = running_shares(share)
        between = {i: mixture([end[i] for end in ends], shares) for i in ends[0]}
        rows = [{i: x.unbind(0) for i, x in tensors.items()} for tensors in (*ends, between)]
        named = {name: rows[end][i][row] for name, (end, i, row) in self.places.items() if name != self.looked_up}
        return {**named, **dict.fromkeys(self.shares, share)}

    def at(self, share: Tensor, *, still: bool = False) -> Callable[..., Tensor]:
        """The model at λ as a function: (inputs) to what it says, or (inputs, labels) to the mean loss.

        With `still` no model moves: learning has not begun.  With `back` the gradients are taken before the parameters
        stop being θ(λ), as recomputed activations need.
        """
        moves = [STILL] * len(self.ends) if still else self.moves()
        theta = {f"model.{name}": x for name, x in self.theta(share, moves).items()}

        def call(inputs: Inputs, labels: Tensor | None = None, *, back: bool = False) -> Tensor:
            given: dict[str, Any] = dict(inputs)
            if self.looked_up:
                table, ids = self.places[self.looked_up][1], given.pop("input_ids")
                rows = [end.rows(table, ids, move) for end, move in zip(self.ends, moves, strict=True)]  # type: ignore[operator]
                given["inputs_embeds"] = mixture(rows, running_shares(share))
            given |= options_of(self.kind)
            result: Tensor = functional_call(self.scored, theta, (given, labels, back))
            return result

        return call

    def forward(self, inputs: Inputs, labels: Tensor, share: Tensor, back: bool = False) -> Tensor:
        """The loss at λ = `share`, a number on the device."""
        return self.at(share)(inputs, labels, back=back)


class Scored(nn.Module):
    """A model and its loss in one call."""

    def __init__(self, model: nn.Module, dtype: torch.dtype | None, loss: Measure | None) -> None:
        super().__init__()
        self.model, self.dtype, self.loss = model, dtype, loss

    def forward(self, given: dict[str, Any], target: Tensor | None, back: bool) -> Tensor:
        device = next(x.device.type for x in given.values() if isinstance(x, Tensor))
        with torch.autocast(device, self.dtype or torch.bfloat16, enabled=self.dtype is not None):
            outputs = self.model(**given)
        if target is None:
            return said(outputs, given)
        loss = mean(*scores(outputs, given, target, self.loss))
        if not back:
            return loss
        if not loss.requires_grad:
            step = "make it of differentiable operations on the outputs: no argmax, no .detach(), no .item()"
            raise BadTask("The loss has no gradient", expected="a tensor that follows the outputs", next_step=step)
        loss.backward()
        return loss.detach()


def model_of(forms: Sequence[Checkpoint], options: LearnedMatching, dtype: torch.dtype) -> nn.Module:
    """The module to call: stock, or with circuits; in training mode only where something depends on that."""
    if not options.dropout:
        rates = transformers_config(forms[0].config).to_dict()
        still = {name: 0.0 for name, x in rates.items() if "drop" in name and isinstance(x, float)}
        forms = [replace(form, config={**form.config, **still}) for form in forms]
    model = circuit_model(forms, dtype) if options.path == "circuit" else stock_model(forms[0], dtype)
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            module.padding_idx = None  # it only keeps the gradient from a row that the maps move like any other
    if options.checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})  # type: ignore[operator]
    return model.train(options.dropout or options.checkpointing)


def places(model: nn.Module, spec: ModelSpec, groups: Sequence[Group]) -> dict[str, tuple[int, int, int]]:
    """Where each parameter comes from: which model or BETWEEN them, which group, which row of it."""
    row = {key: (i, j) for i, group in enumerate(groups) for j, key in enumerate(group.keys)}
    apart = [name for name, module in model.named_modules() if isinstance(module, Apart)]
    found = {}
    for name, _ in model.named_parameters():
        stock, end = _without_end(name, apart)
        found[name] = (end, *row[source_key(spec, stock)])
    return found


def _without_end(name: str, apart: list[str]) -> tuple[str, int]:
    """(the stock name, the model it belongs to) of a parameter."""
    for module in apart:
        if name.startswith(f"{module}."):
            end, _, rest = name.removeprefix(f"{module}.ends.").partition(".")
            return f"{module}.{rest}", int(end)
    return name, BETWEEN
