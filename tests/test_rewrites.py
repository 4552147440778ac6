"""Each exact rewrite on its own: it keeps the function, or refuses and says why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch
from random_models import CLASSES, IDS, config_of, random_model

from onebasin import Alignment, Checkpoint, canonicalize, in_gauge_of, transport
from onebasin import families as fam
from onebasin.canonical import rewrites
from onebasin.errors import Incompatible, NotExpressible
from onebasin.stock import outputs, probe_inputs, stock_model
from onebasin.verification import output_drift

EXACT = 1e-9

every_class = pytest.mark.parametrize(("model_type", "name"), CLASSES, ids=IDS)


SETTINGS = {
    "attention_bias": True,
    "mlp_bias": True,
    "qkv_bias": True,
    "hidden_act": "gelu",
    "activation_function": "gelu",
}


@pytest.fixture
def make(tmp_path):
    """Open a random model of a class, with every bias there can be; `change` may set some of its parameters."""
    count = iter(range(100))

    def build(
        model_type: str,
        name: str,
        seed: int = 1,
        change: Callable = lambda model: None,
        *,
        tied: bool = False,
        weights: int = 0,
    ) -> Checkpoint:
        config = config_of(model_type, seed)
        for key, value in {**SETTINGS, "tie_word_embeddings": tied}.items():
            if hasattr(config, key):
                setattr(config, key, value)
        model = random_model(name, config, weights)
        with torch.no_grad():
            change(model)
        folder = tmp_path / str(next(count))
        model.save_pretrained(folder)
        return Checkpoint.open(folder)

    return build


def drift(a: Checkpoint, b: Checkpoint, alignment: Alignment | None = None) -> float:
    inputs = probe_inputs(a.spec, seed=1)
    before, after = (outputs(stock_model(c), a.spec, inputs) for c in (a, b))
    scale = max(1.0, *(float(x.abs().max()) for x in before.values()))
    return output_drift(after, before, a.spec, alignment or Alignment({}, {})) / scale


def setter(**values: Callable[[torch.Tensor], None] | float) -> Callable[[torch.nn.Module], None]:
    """Change parameters by the end of their name, with __ for a dot: `setter(ln_f__weight=1.3)`."""

    def change(model: torch.nn.Module) -> None:
        for ending, value in values.items():
            found = [p for n, p in model.named_parameters() if n.endswith(ending.replace("__", "."))]
            assert found
            for p in found:
                value(p) if callable(value) else p.fill_(value)

    return change


def zero_some(p: torch.Tensor) -> None:
    p[::3] = 0


def refusal(rewrite: Callable[..., Checkpoint], *args) -> NotExpressible:
    with pytest.raises(NotExpressible) as caught:
        rewrite(*args)
    assert caught.value.next_step
    return caught.value


# ---- each rewrite alone


def alone(c: Checkpoint) -> Iterator[tuple[str, Callable[[], Checkpoint]]]:
    """Every rewrite of this checkpoint, applied to the checkpoint as it is stored; projecting needs a folded norm."""
    yield "untie", lambda: rewrites.untie(c)
    for name in c.spec.norms:
        yield f"fold {name}", lambda name=name: rewrites.fold_gain(c, name)
        yield f"project {name}", lambda name=name: rewrites.project(rewrites.fold_gain(c, name), name)
    for attention in c.spec.attentions:
        for key in attention.keys:
            yield f"drop {key}", lambda key=key: rewrites.drop_key_bias(c, key)
        yield f"value {attention.name}", lambda a=attention: rewrites.fold_value_bias(c, a.value, a.output)
    for space in dict.fromkeys(norm.space for norm in c.spec.norms.values()):
        yield f"centre {space}", lambda space=space: rewrites.centre(c, space)


@every_class
@pytest.mark.parametrize("tied", [False, True])
def test_each_rewrite_alone_keeps_the_function(make, model_type, name, tied):
    original, done, drifts = make(model_type, name, tied=tied), [], {}
    for label, rewrite in alone(original):
        try:
            rewritten = rewrite()
        except NotExpressible:
            continue
        done.append(label)
        drifts[label] = drift(original, rewritten)
    assert {label: d for label, d in drifts.items() if not d < EXACT} == {}
    free = {f"fold {norm.name}" for norm in original.spec.norms.values() if not norm.blocked}
    assert free <= set(done)


def test_folding_sets_gain_and_bias_and_changes_readers_only(make):
    c = make("gpt2", "GPT2LMHeadModel", 5)
    folded = rewrites.fold_gain(c, "transformer.h.0.ln_1")
    assert bool((folded["transformer.h.0.ln_1.weight"] == 1).all())
    assert not folded["transformer.h.0.ln_1.bias"].any()
    changed = {leaf.split(":")[0] for leaf in c if not torch.equal(c[leaf], folded[leaf])}
    attention = {f"transformer.h.0.attn.c_attn.{kind}" for kind in ("weight", "bias")}
    assert changed == attention | {f"transformer.h.0.ln_1.{kind}" for kind in ("weight", "bias")}


def test_centring_and_projecting_remove_the_mean(make):
    c = canonicalize(make("vit", "ViTForImageClassification")).checkpoint
    for leaf in c.spec.writers("residual"):
        assert float(c[leaf.name].mean(leaf.dim("residual")).abs().max()) < 1e-14
    for norm in c.spec.norms.values():
        for reader in c.spec.readers(norm.name):
            dim = rewrites.read_dim(c, reader, norm)
            assert float(c[reader.weight].mean(dim).abs().max()) < 1e-14


def test_untying_gives_the_head_a_copy(make):
    tied = make("gpt2", "GPT2LMHeadModel", tied=True)
    loose = rewrites.untie(tied)
    assert (tied.spec.tied, loose.spec.tied) == (True, False)
    assert loose.config["tie_word_embeddings"] is False
    assert torch.equal(loose["lm_head.weight"], tied["transformer.wte.weight"])
    assert rewrites.untie(loose) is loose


# ---- gains that are zero, or constant


@pytest.mark.parametrize(
    ("model_type", "name", "norms"),
    [
        ("gpt2", "GPT2ForTokenClassification", ("ln_1.weight", "ln_2.weight", "ln_f.weight")),
        ("gpt2", "GPT2LMHeadModel", ("ln_1.weight", "ln_2.weight", "ln_f.weight", "ln_f.bias")),
        ("llama", "LlamaForCausalLM", ("layernorm.weight", "model.norm.weight")),
        ("vit", "ViTForImageClassification", ("layernorm_before.weight", "layernorm.weight")),
        ("bert", "BertForTokenClassification", ("layer.1.output.LayerNorm.weight",)),
    ],
)
def test_zero_gains_fold(make, model_type, name, norms):
    """A norm that keeps its bias (a head without one) folds a zero gain where its bias is zero as well."""
    original = make(model_type, name, 5, setter(**{end.replace(".", "__"): zero_some for end in norms}))
    folded = canonicalize(original)
    assert drift(original, folded.checkpoint) < EXACT
    assert all(norm.unit for norm in folded.checkpoint.spec.norms.values() if not norm.blocked)
    alignment = Alignment.random(folded.checkpoint.spec)
    assert drift(original, transport(folded.checkpoint, alignment), alignment) < EXACT


@pytest.mark.parametrize("gain", [0.0, 1e-7])
def test_a_bias_that_must_stay_cannot_be_divided_by_a_zero_gain(make, gain):
    def spoil(p: torch.Tensor) -> None:
        p[3] = gain

    original = make("gpt2", "GPT2LMHeadModel", 5, setter(ln_f__weight=spoil, ln_f__bias=0.5))
    error = refusal(rewrites.fold_gain, original, "transformer.ln_f")
    assert (error.tensor, error.axis, error.space) == ("transformer.ln_f.weight", 3, "residual")
    assert "bias 0.5" in error.found
    canonical = canonicalize(original)
    assert [r.tensor for r in canonical.refused if "too small" in r.what] == ["transformer.ln_f.weight"]
    form = canonical.checkpoint
    assert form.spec.family("residual") == fam.PERMUTATION_SIGN
    assert drift(original, form) < EXACT
    alignment = Alignment.random(form.spec, 1)
    assert drift(original, transport(form, alignment), alignment) < EXACT


@pytest.mark.parametrize(
    ("model_type", "name", "gains", "family"),
    [
        ("gpt2", "GPT2LMHeadModel", {"ln_f__weight": 1.3}, fam.ORTHOGONAL_ONES),
        ("llama", "LlamaForCausalLM", {"model__norm__weight": 0.7}, fam.ORTHOGONAL),
        ("qwen3", "Qwen3ForCausalLM", {"model__norm__weight": -2.0}, fam.ORTHOGONAL),
        ("gpt2", "GPT2Model", {"ln_f__weight": 1.3}, fam.ORTHOGONAL_ONES),
        ("llama", "LlamaModel", {"norm__weight": 0.7}, fam.ORTHOGONAL),
        ("vit", "ViTModel", {"layernorm__weight": -1.0}, fam.ORTHOGONAL_ONES),
        ("bert", "BertForTokenClassification", {"LayerNorm__weight": 0.7}, fam.ORTHOGONAL_ONES),
        ("bert", "BertModel", {"attention__output__LayerNorm__weight": 2.0, "embeddings__LayerNorm__weight": 0.5,
                               ".output__LayerNorm__weight": 1.5}, fam.ORTHOGONAL_ONES),
        ("bert", "BertForMaskedLM", {"LayerNorm__weight": 0.7}, fam.PERMUTATION),  # the tied transform has a GELU
    ],
)  # fmt: skip
def test_constant_gains_that_must_stay_give_the_rotations_back(make, model_type, name, gains, family):
    generic = canonicalize(make(model_type, name, tied=True), untie=False).checkpoint
    assert generic.spec.family("residual") <= fam.SIGNED_PERMUTATION
    original = make(model_type, name, 1, setter(**gains), tied=True)
    form = canonicalize(original, untie=False).checkpoint
    assert form.spec.tied == original.spec.tied
    assert form.spec.family("residual") == family
    alignment = Alignment.random(form.spec, 3)
    assert drift(original, transport(form, alignment), alignment) < EXACT


def test_a_constant_gain_of_zero_is_no_gain_to_rotate_by(make):
    original = make("llama", "LlamaModel", 1, setter(norm__weight=0.0))
    assert "output is the model's output" in refusal(rewrites.fold_gain, original, "norm").found


# ---- refusals


def test_a_gain_that_cannot_move_is_refused_with_the_reason(make):
    for model_type, name, norm, why in (
        ("bert", "BertForTokenClassification", "bert.embeddings.LayerNorm", "skip path"),
        ("gpt2", "GPT2Model", "ln_f", "no linear map follows"),
        ("gpt2", "GPT2LMHeadModel", "transformer.ln_f", "tied to transformer.wte.weight"),
    ):
        error = refusal(rewrites.fold_gain, make(model_type, name, tied=True), norm)
        assert (error.tensor, error.space) == (f"{norm}.weight", "residual")
        assert why in error.found


def test_a_value_bias_without_an_output_bias_stays(make):
    original = make("qwen2", "Qwen2ForCausalLM")
    error = refusal(rewrites.fold_value_bias, original, *value_and_output("model.layers.0.self_attn"))
    assert error.tensor == "model.layers.0.self_attn.v_proj.bias"
    form = canonicalize(original).checkpoint
    assert torch.equal(form["model.layers.0.self_attn.v_proj.bias"], original["model.layers.0.self_attn.v_proj.bias"])


def test_a_value_bias_with_an_output_bias_moves(make):
    original = make("llama", "LlamaForCausalLM")  # grouped heads share it
    folded = rewrites.fold_value_bias(original, *value_and_output("model.layers.0.self_attn"))
    assert not folded["model.layers.0.self_attn.v_proj.bias"].any()
    assert drift(original, folded) < EXACT


def value_and_output(attention: str) -> tuple[str, str]:
    return f"{attention}.v_proj", f"{attention}.o_proj"


@pytest.mark.parametrize(
    ("model_type", "name", "key", "space", "operation"),
    [
        ("llama", "LlamaForCausalLM", "model.layers.0.self_attn.k_proj", "layers.0.qk", "rotary positions"),
        ("qwen2", "Qwen2ForCausalLM", "model.layers.0.self_attn.k_proj", "layers.0.qk", "rotary positions"),
        ("qwen3", "Qwen3ForCausalLM", "model.layers.0.self_attn.k_proj", "layers.0.qk", "rotary positions"),
        ("gpt_neox", "GPTNeoXForCausalLM", "gpt_neox.layers.0.attention.query_key_value:key_rotary",
         "layers.0.qk_rotary", "rotary positions"),
    ],
)  # fmt: skip
def test_the_key_bias_stays_under_rotary_positions(make, model_type, name, key, space, operation):
    error = refusal(rewrites.drop_key_bias, make(model_type, name), key)
    assert error.tensor.startswith(key.split(":")[0])
    assert (error.space, error.found) == (space, operation)


def test_the_key_bias_goes_where_nothing_is_rotated(make):
    original = make("gpt_neox", "GPTNeoXForCausalLM")
    bias = "gpt_neox.layers.0.attention.query_key_value.bias"
    form = canonicalize(original).checkpoint
    assert original[f"{bias}:key_pass"].any()
    assert not form[f"{bias}:key_pass"].any()
    assert form[f"{bias}:key_rotary"].any()


def test_centring_is_refused_where_something_else_sees_the_mean(make):
    assert refusal(rewrites.centre, make("llama", "LlamaForCausalLM"), "residual").found == "no LayerNorm"
    assert "tied" in refusal(rewrites.centre, make("gpt2", "GPT2LMHeadModel", tied=True), "residual").found
    assert "gelu" in refusal(rewrites.centre, make("bert", "BertForMaskedLM", tied=True), "residual").found


def test_projecting_is_refused_unless_the_readers_see_mean_zero(make):
    gpt2, llama = make("gpt2", "GPT2LMHeadModel", 5), make("llama", "LlamaForCausalLM")
    refusal(rewrites.project, gpt2, "transformer.h.0.ln_1")  # not folded
    refusal(rewrites.project, rewrites.fold_gain(gpt2, "transformer.ln_f"), "transformer.ln_f")  # keeps its bias
    refusal(rewrites.project, rewrites.fold_gain(llama, "model.norm"), "model.norm")  # not a LayerNorm
    refusal(rewrites.project, make("bert", "BertModel"), "embeddings.LayerNorm")  # on the skip path


# ---- the way back


@every_class
@pytest.mark.parametrize("tied", [False, True])
def test_a_model_in_its_own_gauge_is_itself(make, model_type, name, tied):
    a = make(model_type, name, 5, tied=tied)
    form = canonicalize(a).checkpoint
    if a.spec.tied:
        assert "ties its head" in refusal(in_gauge_of, a, form).what
        return
    back = in_gauge_of(a, form)
    assert back.spec == a.spec
    assert drift(a, back) < EXACT
    for norm in a.spec.norms.values():
        assert torch.equal(back[norm.gain], a[norm.gain])
        assert norm.bias is None or torch.allclose(back[norm.bias], a[norm.bias], atol=1e-12)
    for attention in a.spec.attentions:  # what every head adds, whatever it attends to
        bias = a.spec.linears[attention.value].bias
        assert bias is None or torch.allclose(folded(back)[bias], folded(a)[bias], atol=1e-12)


@every_class
def test_a_norm_and_its_readers_share_a_gain_in_any_way(make, model_type, name):
    """Any gains leave the function as it is, also in another model's gauge; behind an RMSNorm the midpoint, too."""
    a, b = make(model_type, name, 5, tied=False), make(model_type, name, 5, weights=99, tied=False)
    forms = [canonicalize(x).checkpoint for x in (a, b)]
    free = [norm for norm in forms[1].spec.norms.values() if norm.unit and not norm.blocked]
    g, shared = torch.Generator().manual_seed(3), forms[1]
    for norm in free:
        factor = torch.randn(shared[norm.gain].shape, generator=g, dtype=torch.float64).exp()
        shared = rewrites.split_gain(shared, norm.name, factor)
        assert torch.equal(shared[norm.gain], factor)
    assert drift(b, shared) < EXACT
    written = in_gauge_of(a, shared)
    assert drift(b, written) < EXACT
    if all(norm.kind == "rms" for norm in free):
        assert drift(midpoint(a, written), midpoint(forms[0], shared)) < EXACT
    if free:  # the controls: this is another midpoint, and the readers' half is needed
        assert drift(midpoint(forms[0], shared), midpoint(*forms)) > 1e-4
        half = forms[1].derive({norm.gain: partial(shared.__getitem__, norm.gain) for norm in free})
        assert drift(b, half) > 1e-4


def midpoint(a: Checkpoint, b: Checkpoint) -> Checkpoint:
    return a.derive({leaf: partial(lambda leaf: (a[leaf] + b[leaf]) / 2, leaf) for leaf in a.spec.leaves})


def folded(checkpoint: Checkpoint) -> Checkpoint:
    for norm in checkpoint.spec.norms.values():
        if not norm.blocked:
            checkpoint = rewrites.fold_gain(checkpoint, norm.name)
    return checkpoint


@pytest.mark.parametrize(
    ("model_type", "name", "gain", "tensor"),
    [
        ("gpt2", "GPT2LMHeadModel", "h__0__ln_1__weight", "transformer.h.0.ln_1.weight"),
        ("llama", "LlamaForCausalLM", "layers__0__input_layernorm__weight", "model.layers.0.input_layernorm.weight"),
        ("vit", "ViTForImageClassification", "vit__layernorm__weight", "vit.layernorm.weight"),
    ],
)
@pytest.mark.parametrize("tiny", [0.0, 1e-7])
def test_the_gauge_of_a_model_with_a_tiny_gain_is_refused(make, model_type, name, gain, tensor, tiny):
    def spoil(p: torch.Tensor) -> None:
        p[3] = tiny

    a, b = make(model_type, name, 5, setter(**{gain: spoil})), make(model_type, name, 5, weights=99)
    error = refusal(in_gauge_of, a, canonicalize(b).checkpoint)
    assert (error.tensor, error.axis, error.space) == (tensor, 3, "residual")
    assert in_gauge_of(b, canonicalize(a).checkpoint).spec == a.spec  # the other way round divides by nothing tiny


def test_the_gauge_of_another_architecture_is_refused(make):
    a, b = make("gpt2", "GPT2LMHeadModel", 5), make("gpt2", "GPT2LMHeadModel", 2)
    with pytest.raises(Incompatible) as caught:
        in_gauge_of(a, canonicalize(b).checkpoint)
    assert caught.value.tensor == "transformer.wte.weight"
