"""The circuit path: queries·keys and outputs·values are interpolated as products, not factor by factor.

For each head the score and the output of M models at shares λ on the simplex are

    s(λ) = Σ_m λ_m q_mᵀk_m = [√λ_1 q_1, …, √λ_M q_M]ᵀ [√λ_1 k_1, …, √λ_M k_M]
    o(λ) = Σ_m λ_m O_m P v_m                      with P = softmax(s(λ)/√d)

exactly a head of width M·d whose scale stays 1/√d; between A and B the shares are (1−λ, λ).  The batch is repeated M
times where it enters an attention: repetition m meets the query, key and value maps of model m, so that the stock code,
rotary positions included, runs as it is.  Our attention function joins the repetitions, and the output map ends them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from onebasin.canonical.form import canonicalize
from onebasin.checkpoint import Checkpoint
from onebasin.checkpoint.stock import modules_of, stock_model
from onebasin.errors import Incompatible, NotExpressible
from onebasin.paths.factor import FactorPath
from onebasin.paths.points import Point
from onebasin.spec import Attention, ModelSpec
from onebasin.spec.ops import bilinear, head_sum, rope

IMPLEMENTATION = "onebasin_circuit"
PLAIN = bilinear(), head_sum(), rope(), rope(False)  # what leaves a head two products of matrices


class CircuitPath(FactorPath):
    """Interpolates circuits inside attention and every other tensor as the factor path, between canonical forms."""

    name = "circuit"

    def __init__(self, *models: Checkpoint) -> None:
        super().__init__(*(canonicalize(model).checkpoint for model in models))
        for model in self.models[1:]:
            check_circuits(self.models[0].spec, model.spec)

    def _build(self, dtype: torch.dtype) -> nn.Module:
        return circuit_model(self.models, dtype)

    def _move(self, model: nn.Module, place: Point) -> None:
        for module in model.modules():
            if isinstance(module, Joined):
                module.share.copy_(torch.tensor(place, dtype=torch.float64))


def circuit_model(forms: Sequence[Checkpoint], dtype: torch.dtype) -> nn.Module:
    """The model between canonical forms: maps around attention once for every form, all else the first one's own.

    What depends on λ is left to the caller: the buffers `share` of the `Joined`, and the tensors outside attention.
    """
    spec = forms[0].spec
    for form in forms[1:]:
        check_circuits(spec, form.spec)
    _register()
    models = [stock_model(form, dtype) for form in forms]
    model, owners = models[0], [modules_of(m, spec) for m in models]
    names = {module: name for name, module in model.named_modules()}
    for attention in spec.attentions:
        readers, output = _keys(spec, attention)
        (inside,) = {names[owners[0][key]].rpartition(".")[0] for key in readers}
        for key in readers:
            model.set_submodule(names[owners[0][key]], Apart(owner[key] for owner in owners))
        join = Joined(owner[output] for owner in owners)
        model.set_submodule(names[owners[0][output]], join)
        module = model.get_submodule(inside)
        _check_alone(module)
        module.register_forward_pre_hook(partial(_repeated, len(forms)), with_kwargs=True)
        module.circuit = [join]  # type: ignore[assignment]  # for `_attend`; a list, so that it is no submodule
    _use_our_attention(model)
    return model


def _check_alone(module: nn.Module) -> None:
    """What adds and normalises inside its attention would do so with repeated inputs."""
    for name, child in module.named_children():
        if not isinstance(child, Apart) and next(child.parameters(), None) is not None:
            raise NotExpressible(
                f"The attention of {type(module).__name__} does more than attend, and has no circuit path",
                tensor=name,
                next_step="use the factor path",
            )


def _use_our_attention(model: Any) -> None:
    if model._supports_attention_backend:
        model.set_attn_implementation(IMPLEMENTATION)
    if model.config._attn_implementation != IMPLEMENTATION:
        raise NotExpressible(
            f"The transformers that is installed cannot give {type(model).__name__} another attention",
            next_step="use the factor path; some models need transformers 5 for this one",
        )


class Apart(nn.Module):
    """[x_1, …, x_M] ↦ [W_1 x_1, …, W_M x_M] over the M parts of the batch."""

    def __init__(self, ends: Iterable[nn.Module]) -> None:
        super().__init__()
        self.ends = nn.ModuleList(ends)

    def each(self, x: Tensor) -> list[Tensor]:
        return [end(part) for end, part in zip(self.ends, x.chunk(len(self.ends)), strict=True)]

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat(self.each(x))


class Joined(Apart):
    """[x_1, …, x_M] ↦ Σ_m λ_m W_m x_m: the batch has its own size again."""

    share: Tensor

    def __init__(self, ends: Iterable[nn.Module]) -> None:
        super().__init__(ends)
        self.register_buffer("share", torch.zeros(len(self.ends), dtype=torch.float64), persistent=False)  # λ

    def forward(self, x: Tensor) -> Tensor:
        first, *others = (share * y for share, y in zip(self.share, self.each(x), strict=True))
        total: Tensor = sum(others, first)
        return total


def _repeated(
    times: int, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if args:
        return (torch.cat([args[0]] * times), *args[1:]), kwargs
    return args, {**kwargs, "hidden_states": torch.cat([kwargs["hidden_states"]] * times)}


def _attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **settings: Any
) -> tuple[Tensor, None]:
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    roots = module.circuit[0].share.sqrt().unbind()  # type: ignore[union-attr, index]
    ends = len(roots)
    settings["scaling"] = settings.get("scaling") or query.shape[-1] ** -0.5
    wide_query, wide_key = (
        torch.cat([s * x for s, x in zip(roots, t.chunk(ends), strict=True)], -1) for t in (query, key)
    )
    wide_value = torch.cat(value.chunk(ends), -1)
    mixed, _ = sdpa_attention_forward(module, wide_query, wide_key, wide_value, attention_mask, **settings)
    return torch.cat(mixed.chunk(ends, -1)), None


def _register() -> None:
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    AttentionInterface.register(IMPLEMENTATION, _attend)
    AttentionMaskInterface.register(IMPLEMENTATION, sdpa_mask)


def _keys(spec: ModelSpec, attention: Attention) -> tuple[list[str], str]:
    """The stored weights of the maps that enter an attention, each once, and of the one that leaves it."""

    def key(linear: str) -> str:
        return spec.leaves[spec.linears[linear].weight].key

    readers = (*attention.queries, *attention.keys, attention.value)
    return list(dict.fromkeys(key(linear) for linear in readers)), key(attention.output)


def check_circuits(a: ModelSpec, b: ModelSpec) -> None:
    """The two forms have the same symmetries, and circuits at all."""
    for space in a.spaces:
        if a.family(space) != b.family(space):
            raise Incompatible(
                "The canonical forms of the two models have different symmetries",
                space=space,
                expected=a.family(space),
                found=b.family(space),
                next_step="use the factor path",
            )
    for attention in a.attentions:
        query, key = (a.linears[names[0]] for names in (attention.queries, attention.keys))
        if query.norm != key.norm:
            raise NotExpressible(
                "Attention from one stream to another has no circuits here: its keys are not as many as its queries",
                tensor=key.weight,
                next_step="use the factor path",
            )
    linears = [
        a.linears[x] for attention in a.attentions for x in (*attention.queries, *attention.keys, attention.value)
    ]
    spaces = (axis.space for linear in linears for _, axis in a.leaves[linear.weight].spaces())
    for space in (name for name in spaces if name not in a.streams):
        bends = [op.name for op in a.ops(space) if op not in PLAIN]
        if bends:
            raise NotExpressible(
                "A model that normalises or cuts queries, keys or scores has no circuits: they are not linear",
                space=space,
                found=", ".join(bends),
                next_step="use the factor path",
            )
