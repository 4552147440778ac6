"""The circuit path: queries·keys and outputs·values are interpolated as products, not factor by factor.

For each head the score and the output at weight λ are

    s(λ) = (1−λ) q_Aᵀk_A + λ q_Bᵀk_B = [√(1−λ) q_A, √λ q_B]ᵀ [√(1−λ) k_A, √λ k_B]
    o(λ) = (1−λ) O_A P v_A + λ O_B P v_B          with P = softmax(s(λ)/√d)

exactly a head of width 2d whose scale stays 1/√d.  The batch is doubled where it enters an attention: the first half
meets A's query, key and value maps and the second B's, so that the stock code, rotary positions included, runs as it
is.  Our attention function joins the halves, and the output map ends the doubling.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from onebasin.canonical.form import canonicalize
from onebasin.checkpoint import Checkpoint
from onebasin.errors import Incompatible, NotExpressible
from onebasin.landscape.paths import WeightPath
from onebasin.spec import Attention, ModelSpec
from onebasin.spec.ops import qk_norm
from onebasin.stock import modules_of, stock_model

IMPLEMENTATION = "onebasin_circuit"


class CircuitPath(WeightPath):
    """Interpolates circuits inside attention and every other tensor as the factor path, between canonical forms."""

    name = "circuit"

    def __init__(self, a: Checkpoint, b: Checkpoint) -> None:
        a, b = (canonicalize(end).checkpoint for end in (a, b))
        super().__init__(a, b)
        check_circuits(a.spec, b.spec)

    def _build(self, dtype: torch.dtype) -> nn.Module:
        return circuit_model(self.a, self.b, dtype)

    def _move(self, model: nn.Module, weight: float) -> None:
        for module in model.modules():
            if isinstance(module, Joined):
                module.share.fill_(weight)


def circuit_model(a: Checkpoint, b: Checkpoint, dtype: torch.dtype) -> nn.Module:
    """The model between two canonical forms: maps around attention in halves `a` and `b`, all else A's own.

    What depends on λ is left to the caller: the buffers `share` of the `Joined`, and the tensors outside attention.
    """
    check_circuits(a.spec, b.spec)
    _register()
    model, other = stock_model(a, dtype), stock_model(b, dtype)
    owners = [modules_of(m, a.spec) for m in (model, other)]
    names = {module: name for name, module in model.named_modules()}
    for attention in a.spec.attentions:
        readers, output = _keys(a.spec, attention)
        (inside,) = {names[owners[0][key]].rpartition(".")[0] for key in readers}
        for key in readers:
            model.set_submodule(names[owners[0][key]], Halves(owners[0][key], owners[1][key]))
        join = Joined(owners[0][output], owners[1][output])
        model.set_submodule(names[owners[0][output]], join)
        module = model.get_submodule(inside)
        module.register_forward_pre_hook(_doubled, with_kwargs=True)
        module.circuit = [join]  # type: ignore[assignment]  # for `_attend`; a list, so that it is no submodule
    model.set_attn_implementation(IMPLEMENTATION)  # type: ignore[operator]
    return model


class Halves(nn.Module):
    """[x, y] ↦ [A x, B y] over the halves of the batch."""

    def __init__(self, a: nn.Module, b: nn.Module) -> None:
        super().__init__()
        self.a, self.b = a, b

    def forward(self, x: Tensor) -> Tensor:
        first, second = x.chunk(2)
        return torch.cat([self.a(first), self.b(second)])


class Joined(Halves):
    """[x, y] ↦ (1−λ) A x + λ B y: the batch has its own size again."""

    share: Tensor

    def __init__(self, a: nn.Module, b: nn.Module) -> None:
        super().__init__(a, b)
        self.register_buffer("share", torch.zeros((), dtype=torch.float64), persistent=False)  # λ

    def forward(self, x: Tensor) -> Tensor:
        first, second = x.chunk(2)
        y, z = self.a(first), self.b(second)
        between: Tensor = y + self.share * (z - y)
        return between


def _doubled(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if args:
        return (torch.cat([args[0], args[0]]), *args[1:]), kwargs
    return args, {**kwargs, "hidden_states": torch.cat([kwargs["hidden_states"]] * 2)}


def _attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **settings: Any
) -> tuple[Tensor, None]:
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    weight = module.circuit[0].share  # type: ignore[union-attr, index]
    share = [(1 - weight).sqrt(), weight.sqrt()]
    settings["scaling"] = settings.get("scaling") or query.shape[-1] ** -0.5
    wide_query, wide_key = (
        torch.cat([s * x for s, x in zip(share, t.chunk(2), strict=True)], -1) for t in (query, key)
    )
    wide_value = torch.cat(value.chunk(2), -1)
    mixed, _ = sdpa_attention_forward(module, wide_query, wide_key, wide_value, attention_mask, **settings)
    return torch.cat(mixed.chunk(2, -1)), None


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
    _check_families(a, b)
    _check_no_query_norm(a)


def _check_families(a: ModelSpec, b: ModelSpec) -> None:
    for space in a.spaces:
        if a.family(space) != b.family(space):
            raise Incompatible(
                "The canonical forms of the two models have different symmetries",
                space=space,
                expected=a.family(space),
                found=b.family(space),
                next_step="use the factor path",
            )


def _inner_spaces(spec: ModelSpec) -> Iterator[str]:
    for attention in spec.attentions:
        for linear in (*attention.queries, *attention.keys):
            yield from (axis.space for _, axis in spec.leaves[spec.linears[linear].weight].spaces())


def _check_no_query_norm(spec: ModelSpec) -> None:
    for space in _inner_spaces(spec):
        if qk_norm() in spec.ops(space):
            raise NotExpressible(
                "A model that normalises queries and keys has no circuits: they are not linear in what it reads",
                space=space,
                found=qk_norm().name,
                next_step="use the factor path",
            )
