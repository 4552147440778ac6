"""Two models of unequal size: what each must become before they can be compared.  Free of torch."""

from __future__ import annotations

from onebasin.checkpoint import Checkpoint
from onebasin.spec import ModelSpec
from onebasin.widening.embeddings import embeddings
from onebasin.widening.target import common_config, fields_of, sizes_of, target_config, target_spec


def one_size(a: ModelSpec, b: ModelSpec) -> bool:
    """Whether every space and every eps is the same in both."""
    spaces = all(space.size == b.spaces[name].size for name, space in a.spaces.items() if name in b.spaces)
    return spaces and all(norm.eps == b.norms[name].eps for name, norm in a.norms.items() if name in b.norms)


def common_tables(pair: tuple[Checkpoint, Checkpoint], forms: tuple[ModelSpec, ModelSpec]) -> list[ModelSpec]:
    """What two models, whose canonical forms have these tables, both widen to; refused where one of them cannot."""
    settings = common_config(*forms)
    tables = [target_spec(form, target_config(end, settings)) for end, form in zip(pair, forms, strict=True)]
    for form, table in zip(forms, tables, strict=True):
        embeddings(form, table)
    return tables


def size_words(spec: ModelSpec) -> dict[str, int]:
    """The sizes under the names people use; key/value heads where the model has a number of its own for them."""
    sizes, grouped = sizes_of(spec), "kv_heads" in fields_of(spec)
    names = {"kv_heads": "key/value heads", "head": "head width", "ffn": "FFN"}
    names |= {"expert_ffn": "expert FFN", "shared_ffn": "shared FFN"}
    return {names.get(role, role): n for role, n in sizes.items() if role != "kv_heads" or grouped}


def growth(small: ModelSpec, large: ModelSpec) -> str:
    """Which sizes and eps differ, in words; empty where none does."""
    before, after = size_words(small), size_words(large)
    words = [f"{name} {n} -> {after[name]}" for name, n in before.items() if n != after[name]]
    eps = {(norm.eps, large.norms[name].eps) for name, norm in small.norms.items()}
    return ", ".join([*words, *(f"eps {x:g} -> {y:g}" for x, y in sorted(eps) if x != y)])
