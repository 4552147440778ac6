"""Break the tables in every small way there is: each mutant must be noticed, or be listed here with the reason.

A mutant is a table with one representation flipped, one axis dropped, one layout, pick, base, operation or relation
changed.  It is *killed* if the table or the library refuses it, or if the model that it canonicalizes and transports no
longer has the function of the original.  It is a *no-op* if it leads to the very same bits, which a rule below must
explain.  Any other mutant is a survivor, and must be explained by a rule of the second list.

`make test` breaks each table in a quarter of these ways; `make test-all` in all of them, and counts them.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from zlib import crc32

import pytest
import torch
import transformers

from helpers.classes import ALL
from helpers.random_models import random_model, rope
from onebasin import Alignment, Checkpoint, canonicalize, transport
from onebasin import families as fam
from onebasin.checkpoint.checks import check_headers
from onebasin.checkpoint.stock import load_weights, outputs, probe_inputs, stock_model
from onebasin.checkpoint.store import Header
from onebasin.checkpoint.views import read_leaf
from onebasin.errors import OnebasinError
from onebasin.families import Rep
from onebasin.spec import Axis, Leaf, ModelSpec
from onebasin.verification.verify import output_drift

EVERY = 4  # one mutant of so many is tried by `make test`
MOVED = 1e-6  # relative to the size of the outputs; the unmutated tables move them by 1e-14

# One configuration per table, with every bias there can be, and as square as possible, so that exchanging the two axes
# of a tensor is not caught by its shape alone.
COMMON = {"num_hidden_layers": 1, "num_labels": 3, "pad_token_id": 0}
SQUARE = {"hidden_size": 12, "intermediate_size": 12, "num_attention_heads": 3, "hidden_act": "relu"}
TEXT = {"vocab_size": 12, "max_position_embeddings": 12}
GPT2 = {
    "n_embd": 12, "n_head": 3, "n_inner": 12, "n_layer": 1, "n_positions": 12, "vocab_size": 12, "num_labels": 3,
    "activation_function": "relu", "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
NEOX = COMMON | SQUARE | TEXT | {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 16}
PARTIAL = rope(100.0, 0.5)
UNTIED = {"tie_word_embeddings": False}
GROUPED = COMMON | TEXT | {
    "hidden_size": 24, "intermediate_size": 24, "vocab_size": 24, "num_attention_heads": 6, "num_key_value_heads": 2,
    "hidden_act": "silu",
}  # fmt: skip
HEAD = {"head_dim": 4}
OPT = COMMON | SQUARE | TEXT | {"ffn_dim": 12, "activation_function": "relu"}
BLOOM = {"hidden_size": 12, "n_head": 3, "n_layer": 1, "vocab_size": 12, "pad_token_id": 0, "seq_length": 12}
FALCON = {"num_kv_heads": 2, "activation": "relu"}
T5 = {
    "d_model": 12, "d_kv": 4, "num_heads": 3, "d_ff": 12, "vocab_size": 12, "relative_attention_num_buckets": 8,
    "num_layers": 1, "decoder_start_token_id": 0,
}  # fmt: skip
MIXTURE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 12, "norm_topk_prob": True}
MODERN = dict.fromkeys(("norm_bias", "attention_bias", "mlp_bias", "decoder_bias", "classifier_bias"), True)
VIT = COMMON | SQUARE | {"image_size": 8, "patch_size": 4, "num_channels": 3, "qkv_bias": True}

TABLES: dict[str, tuple[str, Callable[[], transformers.PreTrainedConfig]]] = {
    "gpt2": ("GPT2LMHeadModel", lambda: transformers.GPT2Config(**GPT2, **UNTIED)),
    "gpt2 tied": ("GPT2LMHeadModel", lambda: transformers.GPT2Config(**GPT2, tie_word_embeddings=True)),
    "gpt2 base": ("GPT2Model", lambda: transformers.GPT2Config(**GPT2)),
    "gpt_neox": (
        "GPTNeoXForCausalLM",
        lambda: transformers.GPTNeoXConfig(**NEOX, **UNTIED, attention_bias=True, **PARTIAL),
    ),
    "llama": (
        "LlamaForCausalLM",
        lambda: transformers.LlamaConfig(**GROUPED, **HEAD, **UNTIED, attention_bias=True, mlp_bias=True),
    ),
    "llama base": ("LlamaModel", lambda: transformers.LlamaConfig(**GROUPED, **HEAD)),
    "mistral": ("MistralForSequenceClassification", lambda: transformers.MistralConfig(**GROUPED, **HEAD)),
    "qwen2": ("Qwen2ForTokenClassification", lambda: transformers.Qwen2Config(**GROUPED)),
    "qwen3": (
        "Qwen3ForCausalLM",
        lambda: transformers.Qwen3Config(**GROUPED, head_dim=6, **UNTIED, attention_bias=True),
    ),
    "gemma3": (
        "Gemma3ForCausalLM",
        lambda: transformers.Gemma3TextConfig(**GROUPED, **HEAD, **UNTIED, attention_bias=True, sliding_window=5),
    ),
    "phi3": ("Phi3ForCausalLM", lambda: transformers.Phi3Config(**GROUPED, **UNTIED, **PARTIAL)),
    "olmo": (
        "OlmoForCausalLM",
        lambda: transformers.OlmoConfig(**GROUPED, **UNTIED, attention_bias=True, clip_qkv=0.7),
    ),
    "olmo2": ("Olmo2ForCausalLM", lambda: transformers.Olmo2Config(**GROUPED, **UNTIED, attention_bias=True)),
    "opt": ("OPTForCausalLM", lambda: transformers.OPTConfig(**OPT, **UNTIED, word_embed_proj_dim=10)),
    "opt post-norm": ("OPTModel", lambda: transformers.OPTConfig(**OPT, do_layer_norm_before=False)),
    "gptj": ("GPTJForCausalLM", lambda: transformers.GPTJConfig(**GPT2, **UNTIED, rotary_dim=4)),
    "bloom": ("BloomForCausalLM", lambda: transformers.BloomConfig(**BLOOM, **UNTIED)),
    "falcon": (
        "FalconForCausalLM",
        lambda: transformers.FalconConfig(
            **{**GROUPED, **FALCON}, **UNTIED, new_decoder_architecture=True, bias=True, ffn_hidden_size=24
        ),
    ),
    "cohere": ("CohereForCausalLM", lambda: transformers.CohereConfig(**GROUPED, **UNTIED, attention_bias=True)),
    "qwen3_moe": (
        "Qwen3MoeForCausalLM",
        lambda: transformers.Qwen3MoeConfig(**GROUPED, **MIXTURE, head_dim=6, **UNTIED, attention_bias=True),
    ),
    "qwen2_moe": (
        "Qwen2MoeForTokenClassification",
        lambda: transformers.Qwen2MoeConfig(**GROUPED, **MIXTURE, shared_expert_intermediate_size=24),
    ),
    "t5": ("T5ForConditionalGeneration", lambda: transformers.T5Config(**T5, tie_word_embeddings=False)),
    "bert": ("BertForMaskedLM", lambda: transformers.BertConfig(**COMMON, **SQUARE, **TEXT, **UNTIED)),
    "bert tied": ("BertForMaskedLM", lambda: transformers.BertConfig(**COMMON, **SQUARE, **TEXT)),
    "bert pooled": ("BertForSequenceClassification", lambda: transformers.BertConfig(**COMMON, **SQUARE, **TEXT)),
    "roberta": ("RobertaForMaskedLM", lambda: transformers.RobertaConfig(**COMMON, **SQUARE, **TEXT, **UNTIED)),
    "distilbert": (
        "DistilBertForSequenceClassification",
        lambda: transformers.DistilBertConfig(dim=12, n_layers=1, n_heads=3, hidden_dim=12, num_labels=3, **TEXT),
    ),
    "modernbert": (
        "ModernBertForMaskedLM",
        lambda: transformers.ModernBertConfig(**{**GROUPED, "num_hidden_layers": 2}, **UNTIED, **MODERN),
    ),
    "albert": (
        "AlbertForMaskedLM",
        lambda: transformers.AlbertConfig(
            **{**COMMON, "num_hidden_layers": 2}, **SQUARE, **TEXT, **UNTIED, embedding_size=12
        ),
    ),
    "roformer": (
        "RoFormerForTokenClassification",
        lambda: transformers.RoFormerConfig(**COMMON, **SQUARE, **TEXT, embedding_size=24),
    ),
    "mpnet": ("MPNetModel", lambda: transformers.MPNetConfig(**{**COMMON, "num_hidden_layers": 2}, **SQUARE, **TEXT)),
    "clip": (
        "CLIPModel",
        lambda: transformers.CLIPConfig(
            text_config={**COMMON, **SQUARE, **TEXT, "eos_token_id": 2},
            vision_config={**COMMON, **SQUARE, "image_size": 8, "patch_size": 4}, projection_dim=12,
        ),
    ),
    "dinov2": ("Dinov2ForImageClassification", lambda: transformers.Dinov2Config(**VIT, mlp_ratio=1)),
    "dinov3": (
        "DINOv3ViTModel",
        lambda: transformers.DINOv3ViTConfig(**VIT, num_register_tokens=3, use_gated_mlp=True, key_bias=True),
    ),
    "deit": ("DeiTForImageClassificationWithTeacher", lambda: transformers.DeiTConfig(**VIT)),
    "vit": ("ViTForImageClassification", lambda: transformers.ViTConfig(**VIT)),
    "vit base": ("ViTModel", lambda: transformers.ViTConfig(**VIT, pooler_output_size=12)),
}  # fmt: skip


Axes = tuple[tuple[str, Axis | None, int, int], ...]


@dataclass(frozen=True)
class Mutant:
    """One change of a table.  `leaf`, `axis`, `rep` and `place` say what was changed, for the rules to read."""

    kind: str
    name: str
    make: Callable[[], ModelSpec]
    leaf: Leaf | None = None
    axis: Axis | None = None
    rep: Rep | None = None
    place: str = ""  # a space, norm or layout


def mutants(spec: ModelSpec) -> Iterator[Mutant]:
    for leaf in spec.leaves.values():
        yield from axis_mutants(spec, leaf)
    for key in spec.keys:
        yield from layout_mutants(spec, key)
        yield from part_mutants(spec, key)
    yield from space_mutants(spec)
    yield from relation_mutants(spec)


def with_leaves(spec: ModelSpec, *leaves: Leaf) -> Callable[[], ModelSpec]:
    return lambda: replace(spec, leaves={**spec.leaves, **{leaf.name: leaf for leaf in leaves}})


def axis_mutants(spec: ModelSpec, leaf: Leaf) -> Iterator[Mutant]:
    """Every other representation of every axis, and none."""
    for i, (letter, axis, start, stop) in enumerate(leaf.axes):
        if axis is None:
            continue
        for rep in (*(rep for rep in Rep if rep is not axis.rep), None):
            place = None if rep is None else replace(axis, rep=rep)
            axes = (*leaf.axes[:i], (letter, place, start, stop), *leaf.axes[i + 1 :])
            name = f"{leaf.name}[{letter}] {axis.rep.name} -> {rep.name if rep else None}"
            kind = "drop axis" if rep is None else "flip representation"
            yield Mutant(kind, name, with_leaves(spec, replace(leaf, axes=axes)), leaf, axis, rep)


def layout_mutants(spec: ModelSpec, key: str) -> Iterator[Mutant]:
    """Every other order inside a stored axis, and of stored axes of equal length."""
    parts = [leaf for leaf in spec.leaves.values() if leaf.key == key]
    for view in dict.fromkeys(leaf.view for leaf in parts):
        leaves, rows = [leaf for leaf in parts if leaf.view == view], f" from row {view.start}" if view.start else ""
        for other in other_layouts(view.stored, view.shape):
            changed = [replace(leaf, view=replace(leaf.view, stored=other)) for leaf in leaves]
            name = f"{key}{rows}: {view.stored} -> {other}"
            yield Mutant("swap layout", name, with_leaves(spec, *changed), leaves[0], place=other)


def other_layouts(stored: str, shape: tuple[int, ...]) -> Iterator[str]:
    groups = re.findall(r"\([^)]*\)|\w+", stored)
    for i, group in enumerate(groups):
        for order in list(itertools.permutations(group.strip("()").split()))[1:]:
            yield " ".join([*groups[:i], f"({' '.join(order)})", *groups[i + 1 :]])
    for i, j in itertools.combinations(range(len(groups)), 2):
        if shape[i] == shape[j] > 1:
            swapped = [groups[{i: j, j: i}.get(k, k)] for k in range(len(groups))]
            yield " ".join(swapped)


def part_mutants(spec: ModelSpec, key: str) -> Iterator[Mutant]:
    """Two parts of a fused tensor exchanged: another slice, or the other half of the same slice."""
    leaves = [leaf for leaf in spec.leaves.values() if leaf.key == key]
    for a, b in itertools.combinations(leaves, 2):
        name = f"{a.name} <-> {b.name}"
        if a.view.start != b.view.start:
            rows = (replace(x, view=replace(x.view, start=y.view.start)) for x, y in ((a, b), (b, a)))
            yield Mutant("swap rows", name, with_leaves(spec, *rows), a)
        elif [x for x, _ in a.picks] != [x for x, _ in b.picks]:
            continue  # one has a slice where the other has more of them
        elif a.picks != b.picks:
            changed = replace(a, picks=b.picks), replace(b, picks=a.picks)
            yield Mutant("swap picks", name, with_leaves(spec, *changed), a)
        else:
            changed = replace(a, axes=in_place_of(a, b)), replace(b, axes=in_place_of(b, a))
            yield Mutant("swap halves", name, with_leaves(spec, *changed), a)


def in_place_of(a: Leaf, b: Leaf) -> Axes:
    """a's axes where b has its own."""
    return tuple((x, axis, start, stop) for (x, axis, *_), (*_, start, stop) in zip(a.axes, b.axes, strict=True))


def space_mutants(spec: ModelSpec) -> Iterator[Mutant]:
    """A fibre without its base; a space without one of its operations."""
    for name, space in spec.spaces.items():
        if space.base is not None:
            loose = {**spec.spaces, name: replace(space, base=None)}
            yield Mutant("drop base", name, lambda loose=loose: replace(spec, spaces=loose), place=name)
        for op in space.ops:
            fewer = {**spec.spaces, name: replace(space, ops=tuple(o for o in space.ops if o != op))}
            label = f"{name}: {op.name}"
            yield Mutant("drop operation", label, lambda fewer=fewer: replace(spec, spaces=fewer), place=name)


def relation_mutants(spec: ModelSpec) -> Iterator[Mutant]:
    """A reader that forgets its norm; norms of the other kind on a space; a gain that is wrongly said to be free."""
    for name, linear in spec.linears.items():
        if linear.norm is not None:
            other = {**spec.linears, name: replace(linear, norm=None)}
            yield Mutant("drop norm", name, lambda other=other: replace(spec, linears=other), place=linear.norm)
    for name in spec.scales:
        fewer = {other: scale for other, scale in spec.scales.items() if other != name}
        yield Mutant("drop scale", name, lambda fewer=fewer: replace(spec, scales=fewer), place=name)
    for space in dict.fromkeys(norm.space for norm in spec.norms.values()):
        kind = {"layer": "rms", "rms": "layer"}
        swapped = {n: replace(x, kind=kind[x.kind]) if x.space == space else x for n, x in spec.norms.items()}
        yield Mutant("swap norm", space, lambda swapped=swapped: replace(spec, norms=swapped), place=space)
    for name, norm in spec.norms.items():
        if norm.blocked:
            free = {**spec.norms, name: replace(norm, blocked=None)}
            yield Mutant("unblock norm", name, lambda free=free: replace(spec, norms=free), place=name)


def alignment_of(spec: ModelSpec) -> Alignment:
    """The first random alignment that uses the global sign where there is one."""
    draws = (Alignment.random(spec, seed) for seed in itertools.count())
    return next(a for a in draws if all(sign < 0 for sign in global_signs(a)))


def global_signs(alignment: Alignment) -> list[float]:
    return [float(g.tensors()["scale"][0]) for g in alignment.maps.values() if g.family == fam.PERMUTATION_SIGN]


class Bench:
    """One checkpoint, its stored tensors and its running model."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint, self.spec = checkpoint, checkpoint.spec
        self.stored = {key: checkpoint.tensor(key) for key in self.spec.keys}
        self.form = self.form_of(self.spec).in_memory()
        self.model, self.inputs = stock_model(checkpoint), probe_inputs(self.spec)
        self.before = outputs(self.model, self.spec, self.inputs)
        self.scale = max(float(x.abs().max()) for x in self.before.values())
        self.moved, self.alignment = self.transported(self.spec)

    def form_of(self, spec: ModelSpec) -> Checkpoint:
        """The canonical form that the table `spec` makes of this checkpoint."""
        headers = {key: Header("F64", tuple(x.shape), "", 0) for key, x in self.stored.items()}
        check_headers(spec, headers, self.checkpoint.store.folder)
        leaves = {leaf.name: self.reader(leaf) for leaf in spec.leaves.values()}
        return canonicalize(replace(self.checkpoint, spec=spec, leaves=leaves), untie=False).checkpoint

    def transported(self, spec: ModelSpec) -> tuple[Checkpoint, Alignment]:
        """That form, moved by a random alignment, and the alignment."""
        form = self.form_of(spec)
        alignment = alignment_of(form.spec)
        return transport(form, alignment).in_memory(), alignment

    def reader(self, leaf: Leaf) -> Callable[[], torch.Tensor]:
        return lambda: read_leaf(self.stored[leaf.key], leaf)

    def drift(self, moved: Checkpoint, alignment: Alignment) -> float:
        load_weights(self.model, moved)
        after = outputs(self.model, self.spec, self.inputs)
        return output_drift(after, self.before, self.spec, alignment) / self.scale

    def verdict(self, mutant: Mutant) -> str:
        try:
            moved, alignment = self.transported(mutant.make())
        except OnebasinError:
            return "refused"
        if all(torch.equal(moved.tensor(key), self.moved.tensor(key)) for key in self.spec.keys):
            return "no-op"
        return "moved" if self.drift(moved, alignment) > MOVED else "survived"


def flips(mutant: Mutant, *reps: Rep) -> bool:
    return mutant.axis is not None and mutant.axis.rep in reps and mutant.rep in reps


def family(bench: Bench, mutant: Mutant) -> fam.Family:
    return bench.form.spec.family(mutant.axis.space) if mutant.axis else fam.INVERTIBLE


def same_family(bench: Bench, mutant: Mutant) -> bool:
    return bench.form_of(mutant.make()).spec.family(mutant.place) == bench.form.spec.family(mutant.place)


def smaller_or_finite(bench: Bench, mutant: Mutant) -> bool:
    """The group that the mutant gives a space has fewer dimensions, or none as before."""
    mutated, original = (spec.dimension(mutant.place) for spec in (bench.form_of(mutant.make()).spec, bench.form.spec))
    return mutated < original or original == 0


def is_folded_gain(bench: Bench, mutant: Mutant) -> bool:
    spec = bench.form.spec
    folded = {x.gain for x in (*spec.norms.values(), *spec.scales.values()) if x.unit}
    return mutant.leaf is not None and mutant.leaf.name in folded


def is_zero(bench: Bench, mutant: Mutant) -> bool:
    return mutant.leaf is not None and not bench.form[mutant.leaf.name].any()


def is_labelled_swap(bench: Bench, mutant: Mutant) -> bool:
    """The letters that live in spaces are where they were."""
    assert mutant.leaf is not None
    placed = {x for x, axis, *_ in mutant.leaf.axes if axis is not None} | {x for x, _ in mutant.leaf.picks}
    before, after = (re.findall(r"\w", layout) for layout in (mutant.leaf.view.stored, mutant.place))
    return all(x == y for x, y in zip(before, after, strict=True) if {x, y} & placed)


def is_writer(bench: Bench, mutant: Mutant) -> bool:
    """A writer of a space that only LayerNorms read."""
    space = mutant.axis.space if mutant.axis else ""
    return any(n.kind == "layer" and n.space == space for n in bench.spec.norms.values()) and mutant.leaf in (
        bench.spec.writers(space)
    )


def is_key_bias(bench: Bench, mutant: Mutant) -> bool:
    keys = [bench.spec.linears[key].bias for attention in bench.spec.attentions for key in attention.keys]
    return mutant.leaf is not None and mutant.leaf.name in keys and is_zero(bench, mutant)


def is_mask_token(bench: Bench, mutant: Mutant) -> bool:
    return mutant.leaf is not None and mutant.leaf.name.endswith("mask_token")


Rule = tuple[str, str, Callable[[Bench, Mutant], bool]]  # kind of mutant, reason, condition

NO_OPS: list[Rule] = [
    ("flip representation", "orthogonal maps: g^-T = g",
     lambda b, m: flips(m, Rep.VEC, Rep.COV) and family(b, m) <= fam.ORTHOGONAL),
    ("flip representation", "permutations have neither signs nor scales: they are their own permutation part",
     lambda b, m: family(b, m) <= fam.PERMUTATION),
    ("flip representation", "a folded gain is all ones, and its axis is labelled from then on", is_folded_gain),
    ("drop axis", "a folded gain is all ones, and its axis is labelled from then on", is_folded_gain),
    ("flip representation", "the tensor is zero in canonical form", is_zero),
    ("drop axis", "the tensor is zero in canonical form", is_zero),
    ("swap layout", "the tensor is zero in canonical form", is_key_bias),
    ("swap layout", "labelled axes never move: they are written back where they were read", is_labelled_swap),
    ("drop operation", "the other operations on the space cut its family as far", lambda b, m: same_family(b, m)),
    ("drop norm", "a gain that cannot be folded never reaches its readers",
     lambda b, m: b.spec.norms[m.place].blocked is not None),
]  # fmt: skip

EQUIVALENT: list[Rule] = [
    ("flip representation", "a writer that is not centred: LayerNorm subtracts the mean anyway, and g^-T = g",
     lambda b, m: flips(m, Rep.VEC, Rep.COV) and is_writer(b, m) and family(b, m) <= fam.ORTHOGONAL_ONES),
    ("flip representation", "the key bias is kept instead of dropped, and moves with its head: softmax cannot see it",
     lambda b, m: is_key_bias(b, m) and family(b, m) <= fam.PERMUTATION),
    ("drop norm", "there is no gain to fold; only centring and projecting are lost",
     lambda b, m: b.spec.norms[m.place].gain is None),
    ("flip representation", "the token of hidden patches is used in pretraining only", is_mask_token),
    ("drop axis", "the token of hidden patches is used in pretraining only", is_mask_token),
    ("drop base", "one map for all heads is a smaller group, exact as well; test_spec counts its dimension",
     lambda b, m: smaller_or_finite(b, m)),
    ("drop norm", "a gain that cannot be folded never reaches its readers; only centring is lost",
     lambda b, m: b.spec.norms[m.place].blocked is not None),
    ("swap norm", "the other operations on the space cut its family as far; only centring is lost",
     lambda b, m: same_family(b, m)),
]  # fmt: skip


LEDGER = {  # killed by a refusal, killed by the function, no-op by rule, equivalent by rule
    "gpt2": (39, 56, 32, 9),
    "gpt2 tied": (27, 66, 37, 3),
    "gpt2 base": (27, 65, 31, 9),
    "gpt_neox": (64, 67, 41, 9),
    "llama": (40, 69, 37, 3),
    "llama base": (26, 54, 22, 3),
    "mistral": (32, 48, 25, 3),
    "qwen2": (38, 62, 33, 3),
    "qwen3": (35, 70, 39, 3),
    "gemma3": (31, 84, 39, 3),
    "phi3": (50, 58, 32, 4),
    "olmo": (32, 62, 27, 12),
    "olmo2": (18, 96, 44, 4),
    "opt": (43, 53, 33, 9),
    "opt post-norm": (18, 64, 31, 3),
    "gptj": (30, 42, 18, 6),
    "bloom": (29, 59, 42, 8),
    "falcon": (39, 60, 37, 8),
    "cohere": (39, 62, 29, 7),
    "qwen3_moe": (42, 72, 47, 4),
    "qwen2_moe": (56, 80, 42, 4),
    "t5": (69, 89, 58, 6),
    "bert": (33, 68, 37, 15),
    "bert tied": (30, 56, 59, 4),
    "bert pooled": (30, 70, 30, 14),
    "vit": (41, 46, 35, 11),
    "vit base": (30, 65, 35, 12),
    "roberta": (33, 68, 37, 15),
    "distilbert": (30, 65, 33, 13),
    "modernbert": (68, 142, 69, 17),
    "albert": (31, 77, 47, 7),
    "roformer": (27, 66, 39, 4),
    "mpnet": (56, 124, 47, 25),
    "clip": (71, 112, 72, 19),
    "dinov2": (52, 43, 41, 9),
    "dinov3": (43, 64, 37, 9),
    "deit": (45, 48, 35, 12),
}


def reason(rules: list[Rule], bench: Bench, mutant: Mutant) -> str | None:
    return next((why for kind, why, applies in rules if kind == mutant.kind and applies(bench, mutant)), None)


@pytest.fixture(scope="module")
def bench(request, tmp_path_factory):
    name, config = TABLES[request.param]
    folder = tmp_path_factory.mktemp("mutation")
    random_model(name, config(), 0).save_pretrained(folder)
    return request.param, Bench(Checkpoint.open(folder))


every_table = pytest.mark.parametrize("bench", TABLES, indirect=True)


@every_table
def test_the_unmutated_table_is_exact(bench):
    _, bench = bench
    assert bench.drift(bench.moved, bench.alignment) < 1e-12


@every_table
def test_every_mutant_is_killed_or_explained(bench):
    table, bench = bench
    counts, unexplained = Counter(), []
    for mutant in islice(mutants(bench.spec), 0 if ALL else crc32(table.encode()) % EVERY, None, 1 if ALL else EVERY):
        verdict = bench.verdict(mutant)
        counts[verdict] += 1
        rules = {"no-op": NO_OPS, "survived": EQUIVALENT}.get(verdict)
        if rules is not None and reason(rules, bench, mutant) is None:
            unexplained.append((verdict, mutant.kind, mutant.name))
    assert unexplained == []
    assert all(counts[verdict] > 0 for verdict in ("refused", "moved", "no-op"))
    if ALL:
        assert tuple(counts[verdict] for verdict in ("refused", "moved", "no-op", "survived")) == LEDGER[table]
