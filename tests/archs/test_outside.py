"""The families are as large as they are said to be, not larger: an element just outside moves the outputs.

The maps act here through plain matrices and a few lines of this file, not through `onebasin.maps` and `transport`; the
same lines applied to members of the families must leave the outputs alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
import transformers
from torch import Tensor

from helpers.classes import every_class, predicting
from helpers.random_models import CLASSES, config_of, random_model
from onebasin import Checkpoint, canonicalize
from onebasin import families as fam
from onebasin.checkpoint.stock import load_weights, outputs, probe_inputs, stock_model
from onebasin.families import Rep
from onebasin.maps import map_of
from onebasin.spec import Leaf, ModelSpec
from onebasin.spec.ops import angle

EXACT, VISIBLE = 1e-9, 1e-3  # both relative to the size of the outputs

SEEDS = {  # two seeds each: every space has at least two elements, every rotary part two frequencies
    "albert": (2, 5), "bert": (2, 5), "bloom": (0, 7), "camembert": (2, 5), "clip": (3, 6), "clip_text_model": (2, 5),
    "clip_vision_model": (3, 6), "cohere": (0, 7), "deit": (3, 6), "dinov2": (3, 6), "dinov3_vit": (3, 6),
    "distilbert": (2, 5), "electra": (2, 5), "falcon": (1, 7), "gemma": (0, 7), "gemma2": (0, 7),
    "gemma3_text": (0, 7), "gpt2": (2, 5), "gpt_neo": (0, 7), "gpt_neox": (1, 6), "gptj": (0, 9), "granite": (0, 7),
    "llama": (1, 10), "mistral": (0, 5), "mixtral": (0, 1), "modernbert": (2, 5), "mpnet": (2, 5), "olmo": (0, 7),
    "olmo2": (0, 7), "olmoe": (0, 1), "opt": (1, 5), "phi": (22, 33), "phi3": (0, 9), "qwen2": (6, 10),
    "qwen2_moe": (0, 5), "qwen3": (1, 10), "qwen3_moe": (0, 5), "roberta": (2, 5), "roformer": (2, 5),
    "smollm3": (4, 7), "stablelm": (0, 7), "starcoder2": (0, 7), "t5": (1, 10), "vit": (3, 6), "xlm-roberta": (2, 5),
}  # fmt: skip
SETTINGS = (  # the first shape of each is tied and has every bias, the second is untied and has none
    {"is_decoder": False, "tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True, "qkv_bias": True,
     "use_bias": True, "hidden_act": "gelu", "activation": "gelu", "activation_function": "gelu", "pooler_act": "tanh",
     "alibi": True, "clip_qkv": 0.7},
    {"is_decoder": False, "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False, "qkv_bias": False,
     "use_bias": False, "hidden_act": "relu", "activation": "relu", "activation_function": "relu", "pooler_act": "relu",
     "alibi": False, "clip_qkv": None},
)  # fmt: skip


def config_for(model_type: str, variant: int) -> transformers.PreTrainedConfig:
    config = config_of(model_type, SEEDS[model_type][variant])
    for key, value in SETTINGS[variant].items():
        if hasattr(config, key):
            setattr(config, key, value)
    return config


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def in_first_fibre(block: Tensor, fibres: int) -> Tensor:
    """`block` on the first fibre, the identity on the others, as one matrix on the joint (fibre, coordinate) index."""
    return torch.block_diag(block, *[torch.eye(len(block), dtype=torch.float64)] * (fibres - 1))


def scale_first(n: int, scale: float) -> Tensor:
    """Multiply the first coordinate only."""
    g = torch.eye(n, dtype=torch.float64)
    g[0, 0] = scale
    return g


def plane_rotation(n: int, i: int, j: int, angle: float = 1.0) -> Tensor:
    c, s = torch.tensor(angle).cos(), torch.tensor(angle).sin()
    g = torch.eye(n, dtype=torch.float64)
    g[i, i], g[i, j], g[j, i], g[j, j] = c, -s, s, c
    return g


def generic_rotation(n: int) -> Tensor:
    return torch.linalg.qr(normal(n, n)).Q


def generic_invertible(n: int) -> Tensor:
    return torch.eye(n, dtype=torch.float64) + 0.3 * normal(n, n) / n**0.5


def mix_frequencies(n: int) -> Tensor:
    """Rotates frequency 0 into frequency 1, real and imaginary parts alike."""
    return plane_rotation(n, 0, 1) @ plane_rotation(n, n // 2, n // 2 + 1)


def exchange(n: int) -> Tensor:
    """The first two in each other's place."""
    return torch.eye(n, dtype=torch.float64)[[1, 0, *range(2, n)]]


def double_half(n: int) -> Tensor:
    """Not only one: a single unit may be nearly linear on all inputs, and its scale no matter."""
    return torch.diag(torch.tensor([2.0 if i < (n + 1) // 2 else 1.0 for i in range(n)], dtype=torch.float64))


def mix_heads(n: int, fibres: int) -> Tensor:
    """Rotates head 0 into head 1, every coordinate alike."""
    return torch.kron(plane_rotation(fibres, 0, 1), torch.eye(n, dtype=torch.float64))


OUTSIDE: dict[fam.Family, dict[str, Callable[[int], Tensor]]] = {
    fam.ORTHOGONAL_ONES: {"generic rotation": generic_rotation},
    fam.ORTHOGONAL: {"generic invertible": generic_invertible},
    fam.PERMUTATION: {
        "mix two units": lambda n: plane_rotation(n, 0, 1),
        "double half of the units": double_half,
    },
    fam.PERMUTATION_SIGN: {"one sign": lambda n: scale_first(n, -1)},
    fam.SIGNED_PERMUTATION: {
        "small rotation": lambda n: plane_rotation(n, 0, 1, 0.1),
        "double half of the units": double_half,
    },
    fam.MONOMIAL: {"mix two units": lambda n: plane_rotation(n, 0, 1)},
    fam.SCALED_PERMUTATION: {"one negative scale": lambda n: scale_first(n, -1)},
    fam.ROTARY: {
        "reflect one pair": lambda n: scale_first(n, -1),
        "mix frequencies": mix_frequencies,
        "generic invertible": generic_invertible,
    },
    fam.PAIR_SIGNS: {
        "one sign of a pair": lambda n: scale_first(n, -1),
        "rotate one pair": lambda n: plane_rotation(n, 0, n // 2),
    },
    fam.PAIR_SCALING: {"one scale of a pair": lambda n: scale_first(n, 2)},
    fam.TRIVIAL: {"exchange two": exchange},
}


def near_misses(spec: ModelSpec, space: str) -> dict[str, Tensor]:
    """Matrices outside the family of `space`, on the joint index of its fibres."""
    family, n, fibres = spec.family(space), spec.spaces[space].size, spec.fibres(space) or 1
    if family == fam.INVERTIBLE:  # every invertible matrix inside a head is a symmetry: only another head is outside
        return {"mix two heads": mix_heads(n, fibres)} if spec.fibres(space) else {}
    named = dict(OUTSIDE[family])
    if any(op.name in ("sum over heads", "sum over experts") for op in spec.ops(space)):
        named.pop("double half of the units", None)  # the maps inside the head or the expert undo it: not outside
    if spec.spaces[space].base in spec.experts:  # all of them: a token need not be served by the first
        return {name: torch.block_diag(*[make(n)] * fibres) for name, make in named.items()}
    return {name: in_first_fibre(make(n), fibres) for name, make in named.items()}


def member(spec: ModelSpec, space: str) -> Tensor:
    generator = torch.Generator().manual_seed(7)
    size, fibres = spec.spaces[space].size, spec.fibres(space)
    dense = map_of(spec.family(space)).sample(size, generator=generator, fibres=fibres).dense()
    return dense if fibres is None else torch.block_diag(*dense)


def represent(g: Tensor, rep: Rep) -> Tensor:
    """g, g^-T, or the permutation part of g; a matrix that sends no unit to one unit is taken as its own part."""
    if rep is Rep.COV:
        return torch.linalg.inv(g).mT
    units = (g != 0).to(g.dtype)
    return units if rep is Rep.PERM and bool((units.sum(1) == 1).all()) else g


def act(x: Tensor, dims: list[int], g: Tensor) -> Tensor:
    """g on the joint index of these axes."""
    front = x.movedim(dims, list(range(len(dims))))
    shape = front.shape
    return (g @ front.reshape(len(g), -1)).reshape(shape).movedim(list(range(len(dims))), dims)


def moved_leaf(spec: ModelSpec, leaf: Leaf, x: Tensor, space: str, g: Tensor) -> Tensor:
    base = spec.spaces[space].base
    for dim, axis in leaf.spaces():
        if axis.space == space:
            over = [] if base is None else [d for d, other in leaf.spaces() if other.space == base]
            x = act(x, [*over, dim], represent(g, axis.rep))
    return x


def moved(checkpoint: Checkpoint, space: str, g: Tensor) -> Checkpoint:
    leaves = {name: leaf for name, leaf in checkpoint.spec.leaves.items() if leaf.dim(space) is not None}
    return checkpoint.derive({
        name: lambda name=name, leaf=leaf: moved_leaf(checkpoint.spec, leaf, checkpoint[name], space, g)
        for name, leaf in leaves.items()
    })  # fmt: skip


def cosines(answers: Tensor) -> Tensor:
    """Of the angles between all answers."""
    unit = answers / answers.norm(dim=-1, keepdim=True)
    return unit @ unit.mT


@dataclass
class Bench:
    """A checkpoint and its running model, to measure how far changed weights move the outputs."""

    checkpoint: Checkpoint

    def __post_init__(self) -> None:
        self.checkpoint = self.checkpoint.in_memory()
        self.model, self.inputs = stock_model(self.checkpoint), probe_inputs(self.spec, seed=1)
        self.before = outputs(self.model, self.spec, self.inputs)

    @property
    def spec(self) -> ModelSpec:
        return self.checkpoint.spec

    def drift(self, changed: Checkpoint, space: str = "", g: Tensor | None = None) -> float:
        """Largest relative change of an output; an output that lives in `space` is expected to be moved by g."""
        load_weights(self.model, changed)
        after = outputs(self.model, self.spec, self.inputs)
        load_weights(self.model, self.checkpoint)
        worst = 0.0
        for name, axis in self.spec.outputs.items():
            expected = self.before[name]
            if g is not None and axis is not None and axis.space == space:
                expected = act(expected, [expected.ndim - 1], represent(g, axis.rep))
            worst = max(worst, float((after[name] - expected).abs().max() / self.before[name].abs().max()))
            if axis is not None and angle() in self.spec.ops(axis.space):
                worst = max(worst, float((cosines(after[name]) - cosines(self.before[name])).abs().max()))
        return worst

    def move(self, space: str, g: Tensor) -> float:
        return self.drift(moved(self.checkpoint, space, g), space, g)


@pytest.fixture
def make(tmp_path):
    """Open a random model of a class; `change` may set some of its parameters."""

    def build(model_type: str, name: str, variant: int, change: Callable = lambda model: None) -> Checkpoint:
        model = random_model(name, config_for(model_type, variant), seed=variant)
        with torch.no_grad():
            change(model)
        model.save_pretrained(tmp_path / f"{name}-{variant}")
        return Checkpoint.open(tmp_path / f"{name}-{variant}")

    return build


@every_class(variant=(0, 1))
def test_each_family_is_exact_and_nothing_just_outside_is(make, model_type, name, variant):
    bench = Bench(canonicalize(make(model_type, name, variant)).checkpoint)
    assert min(space.size for space in bench.spec.spaces.values()) >= 2
    inside = {space: bench.move(space, member(bench.spec, space)) for space in bench.spec.spaces}
    outside = {
        (space, miss): bench.move(space, g)
        for space in bench.spec.spaces
        for miss, g in near_misses(bench.spec, space).items()
    }
    assert {space: drift for space, drift in inside.items() if not drift < EXACT} == {}
    assert {case: drift for case, drift in outside.items() if not drift > VISIBLE} == {}


def test_the_models_show_every_family_that_an_architecture_can_have(make):
    models = [(kind, predicting(kind), variant) for kind in SEEDS for variant in (0, 1)]
    models += [("bert", "BertForSequenceClassification", variant) for variant in (0, 1)]  # it has a pooler
    specs = [canonicalize(make(*model)).checkpoint.spec for model in models]
    seen = {spec.family(space) for spec in specs for space in spec.spaces}
    assert seen == {*OUTSIDE, fam.INVERTIBLE}


def test_the_near_misses_are_outside_their_families():
    for family, named in OUTSIDE.items():
        for g in (make(8) for make in named.values()):
            assert not map_of(family).contains(g)
            assert map_of(fam.INVERTIBLE).contains(g)


# What section 2 of the papers' notes lists as failing, beside the groups themselves.


def without(checkpoint: Checkpoint, leaf: str) -> Checkpoint:
    return checkpoint.derive({leaf: lambda: torch.zeros_like(checkpoint[leaf])})


def less_mean(checkpoint: Checkpoint, space: str) -> Checkpoint:
    """Every writer of `space` less its mean over the space."""
    recipes = {}
    for leaf in checkpoint.spec.writers(space):
        x, dim = checkpoint[leaf.name], leaf.dim(space, Rep.VEC)
        recipes[leaf.name] = lambda x=x, dim=dim: x - x.mean(dim, keepdim=True)
    return checkpoint.derive(recipes)


@pytest.mark.parametrize(
    ("model_type", "name", "bias", "free"),
    [
        ("llama", "LlamaForCausalLM", "model.layers.0.self_attn.k_proj.bias", False),
        ("qwen2", "Qwen2ForCausalLM", "model.layers.0.self_attn.k_proj.bias", False),
        ("qwen3", "Qwen3ForCausalLM", "model.layers.0.self_attn.k_proj.bias", False),
        ("gpt_neox", "GPTNeoXForCausalLM", "gpt_neox.layers.0.attention.query_key_value.bias:key_rotary", False),
        ("gpt_neox", "GPTNeoXForCausalLM", "gpt_neox.layers.0.attention.query_key_value.bias:key_pass", True),
        ("gpt2", "GPT2LMHeadModel", "transformer.h.0.attn.c_attn.bias:key", True),
        ("bert", "BertForTokenClassification", "bert.encoder.layer.0.attention.self.key.bias", True),
        ("vit", "ViTForImageClassification", "vit.encoder.layer.0.attention.attention.key.bias", True),
    ],
)
def test_the_key_bias_is_free_without_rotary_positions_only(make, model_type, name, bias, free):
    bench = Bench(make(model_type, name, 0))
    drift = bench.drift(without(bench.checkpoint, bias))
    assert drift < EXACT if free else drift > VISIBLE


@pytest.mark.parametrize("name", ["Qwen3MoeForCausalLM", "MixtralForCausalLM", "Qwen2MoeForCausalLM"])
@pytest.mark.parametrize("variant", [0, 1])
def test_a_router_does_not_show_what_all_its_rows_share(make, name, variant):
    model_type = next(model_type for model_type, other in CLASSES if other == name)
    bench = Bench(make(model_type, name, variant))
    router = next(linear.weight for linear in bench.spec.linears.values() if linear.softmax)
    rows = bench.checkpoint[router]
    common, single = normal(rows.shape[1]).expand_as(rows), normal(*rows.shape)
    assert bench.drift(bench.checkpoint.derive({router: lambda: rows + common})) < EXACT
    assert bench.drift(bench.checkpoint.derive({router: lambda: rows + single})) > VISIBLE
    assert canonicalize(bench.checkpoint).checkpoint[router].mean(0).abs().max() < EXACT


@pytest.mark.parametrize(("model_type", "name"), [("llama", "LlamaForCausalLM"), ("gpt2", "GPT2LMHeadModel")])
def test_a_rotation_needs_folded_gains(make, model_type, name):
    original = make(model_type, name, 1)
    folded = canonicalize(original).checkpoint
    g = member(folded.spec, "residual")
    assert Bench(folded).move("residual", g) < EXACT
    norms = {norm.gain for norm in original.spec.norms.values()}
    kept = moved(original, "residual", g).derive({gain: lambda gain=gain: original[gain] for gain in norms})
    assert Bench(original).drift(kept) > VISIBLE


@pytest.mark.parametrize(
    ("model_type", "name", "seen"),
    [
        ("llama", "LlamaForCausalLM", True),
        ("qwen3", "Qwen3ForCausalLM", True),
        ("gpt2", "GPT2LMHeadModel", False),
        ("gpt_neox", "GPTNeoXForCausalLM", False),
        ("vit", "ViTForImageClassification", False),
        ("bert", "BertForTokenClassification", False),
    ],
)
def test_only_a_layer_norm_does_not_see_the_mean_of_the_stream(make, model_type, name, seen):
    bench = Bench(canonicalize(make(model_type, name, 1)).checkpoint)
    bench = Bench(bench.checkpoint.derive({  # undo the centring that canonical form has done
        leaf.name: lambda leaf=leaf: bench.checkpoint[leaf.name] + 0.5 for leaf in bench.spec.writers("residual")
    }))  # fmt: skip
    drift = bench.drift(less_mean(bench.checkpoint, "residual"))
    assert drift > VISIBLE if seen else drift < EXACT


def constant_final_gain(model: torch.nn.Module) -> None:
    final = next(p for n, p in model.named_parameters() if n in ("transformer.ln_f.weight", "model.norm.weight"))
    final.fill_(1.3)


@pytest.mark.parametrize(
    ("model_type", "name", "signs_fail"), [("gpt2", "GPT2LMHeadModel", True), ("llama", "LlamaForCausalLM", False)]
)
def test_a_tied_stream_is_not_rotated(make, model_type, name, signs_fail):
    tied = canonicalize(make(model_type, name, 0), untie=False).checkpoint
    assert tied.spec.tied
    bench, n = Bench(tied), tied.spec.spaces["residual"].size
    permutation = torch.eye(n, dtype=torch.float64)[torch.randperm(n, generator=torch.Generator().manual_seed(0))]
    assert bench.move("residual", permutation) < EXACT
    assert bench.move("residual", -permutation) < EXACT
    signs = bench.move("residual", permutation @ scale_first(n, -1))
    assert signs > VISIBLE if signs_fail else signs < EXACT
    larger = canonicalize(make(model_type, name, 0, constant_final_gain), untie=False).checkpoint
    rotation = member(larger.spec, "residual")
    assert bench.move("residual", rotation) > VISIBLE
    assert Bench(larger).move("residual", rotation) < EXACT


def test_a_post_norm_stream_is_rotated_only_if_every_gain_is_constant(make):
    def constant_gains(model: torch.nn.Module) -> None:
        for i, (name, p) in enumerate(model.named_parameters()):
            if name.endswith("LayerNorm.weight"):
                p.fill_(0.5 + 0.1 * i)

    generic = canonicalize(make("bert", "BertForTokenClassification", 1)).checkpoint
    constant = canonicalize(make("bert", "BertForTokenClassification", 1, constant_gains)).checkpoint
    rotation = member(constant.spec, "residual")
    assert constant.spec.family("residual") == fam.ORTHOGONAL_ONES
    assert Bench(constant).move("residual", rotation) < EXACT
    assert Bench(generic).move("residual", rotation) > VISIBLE
    assert Bench(constant).move("residual", generic_rotation(len(rotation))) > VISIBLE  # does not fix the mean


def test_rotary_and_pass_through_coordinates_do_not_mix(make):
    """One matrix on the whole head, acting on queries and, inverse transposed, on keys."""
    bench = Bench(canonicalize(make("gpt_neox", "GPTNeoXForCausalLM", 0)).checkpoint)
    key, rotary, passed = "gpt_neox.layers.0.attention.query_key_value", "layers.0.qk_rotary", "layers.0.qk_pass"
    r, p = bench.spec.spaces[rotary].size, bench.spec.spaces[passed].size

    def head_map(g: Tensor) -> Checkpoint:
        recipes = {}
        for kind, role in (("weight", "query"), ("weight", "key"), ("bias", "query"), ("bias", "key")):
            names = [f"{key}.{kind}:{role}_{part}" for part in ("rotary", "pass")]
            whole = torch.cat([bench.checkpoint[name] for name in names], 1)
            parts = act(whole, [1], represent(g, Rep.VEC if role == "query" else Rep.COV)).split((r, p), 1)
            recipes |= {name: lambda part=part: part for name, part in zip(names, parts, strict=True)}
        return bench.checkpoint.derive(recipes)

    blocks = torch.block_diag(member(bench.spec, rotary)[:r, :r], generic_invertible(p))
    assert bench.drift(head_map(blocks)) < EXACT
    assert bench.drift(head_map(plane_rotation(r + p, 0, r))) > VISIBLE


def test_the_gate_is_not_scaled(make):
    bench = Bench(canonicalize(make("llama", "LlamaForCausalLM", 0)).checkpoint)
    form, g = bench.checkpoint, scale_first(bench.spec.spaces["layers.0.ffn"].size, 2)
    scaled = moved(form, "layers.0.ffn", g)
    assert bench.drift(scaled) < EXACT
    gate = {f"model.layers.0.mlp.gate_proj.{kind}" for kind in ("weight", "bias")}
    assert bench.drift(scaled.derive({leaf: lambda leaf=leaf: act(form[leaf], [0], g) for leaf in gate})) > VISIBLE


def test_query_heads_do_not_leave_their_group(make):
    bench = Bench(canonicalize(make("llama", "LlamaForCausalLM", 0)).checkpoint)
    form = bench.checkpoint
    groups, queries = bench.spec.spaces["layers.0.kv_heads"].size, bench.spec.spaces["layers.0.queries"].size
    inside, across = list(range(groups * queries)), list(range(groups * queries))
    inside[:2], across[0], across[queries] = [1, 0], queries, 0

    def reordered(order: list[int]) -> Checkpoint:
        g = torch.eye(len(order), dtype=torch.float64)[order]
        leaves = [("q_proj.weight", [0, 1]), ("q_proj.bias", [0, 1]), ("o_proj.weight", [1, 2])]
        placed = {f"model.layers.0.self_attn.{name}": dims for name, dims in leaves}
        return form.derive(
            {name: lambda name=name, dims=dims: act(form[name], dims, g) for name, dims in placed.items()}
        )

    assert bench.drift(reordered(inside)) < EXACT
    assert bench.drift(reordered(across)) > VISIBLE
