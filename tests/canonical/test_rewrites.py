"""Each exact rewrite on its own keeps the function."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from helpers.classes import one_of_each_type
from helpers.exactness import EXACT, answers, drift_from
from helpers.rewriting import fold_gain
from onebasin import Checkpoint, canonicalize
from onebasin.canonical import biases, rewrites
from onebasin.errors import NotExpressible
from onebasin.families import Rep


def alone(c: Checkpoint) -> Iterator[tuple[str, Callable[[], Checkpoint]]]:
    """Every rewrite of this checkpoint, applied to the checkpoint as it is stored; projecting needs a folded norm."""
    yield "untie", lambda: rewrites.untie(c)
    for name in c.spec.norms:
        yield f"fold {name}", lambda name=name: fold_gain(c, name)
        yield f"project {name}", lambda name=name: rewrites.project(fold_gain(c, name), name)
    for attention in c.spec.attentions:
        for key in attention.keys:
            yield f"drop {key}", lambda key=key: biases.drop_key_bias(c, key)
        yield f"value {attention.name}", lambda a=attention: biases.fold_value_bias(c, a.value, a.output)
    for space in dict.fromkeys(norm.space for norm in c.spec.norms.values()):
        yield f"centre {space}", lambda space=space: rewrites.centre(c, space)


@one_of_each_type(tied=[False, True])
def test_each_rewrite_alone_keeps_the_function(make, model_type, name, tied):
    original, done, drifts = make(model_type, name, tied=tied), [], {}
    before = answers(original)
    for label, rewrite in alone(original):
        try:
            rewritten = rewrite()
        except NotExpressible:
            continue
        done.append(label)
        drifts[label] = drift_from(before, original, rewritten)
    assert {label: d for label, d in drifts.items() if not d < EXACT} == {}
    free = {f"fold {norm.name}" for norm in original.spec.norms.values() if not norm.blocked}
    assert free <= set(done)


def test_folding_sets_gain_and_bias_and_changes_readers_only(make):
    c = make("gpt2", "GPT2LMHeadModel", 5)
    folded = fold_gain(c, "transformer.h.0.ln_1")
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
            dim = c.spec.leaves[reader.weight].place(norm.space, Rep.COV)
            assert float(c[reader.weight].mean(dim).abs().max()) < 1e-14


def test_untying_gives_the_head_a_copy(make):
    tied = make("gpt2", "GPT2LMHeadModel", tied=True)
    loose = rewrites.untie(tied)
    assert (tied.spec.tied, loose.spec.tied) == (True, False)
    assert loose.config["tie_word_embeddings"] is False
    assert torch.equal(loose["lm_head.weight"], tied["transformer.wte.weight"])
    assert rewrites.untie(loose) is loose
