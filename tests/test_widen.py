"""Widening keeps the function of every declared class, in every size it may change; and says what it cannot keep."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch
import transformers
from exactness import EXACT, NOTHING, answers, every_class, relative
from learning import TINY, taught_by
from pairs import CLASSES as ONE_EACH
from pairs import apart, open_random, scrambled
from random_models import config_of, random_folder, random_model, rope

from onebasin import Alignment, Checkpoint, canonicalize, describe_pair, transport, widen
from onebasin.aligning import align
from onebasin.canonical import rewrites
from onebasin.canonical.structure import canonical_spec
from onebasin.errors import Incompatible, NotExpressible, OnebasinError
from onebasin.families import ORTHOGONAL, ORTHOGONAL_ONES
from onebasin.landscape import path_between
from onebasin.learn import LearnedMatching, learn
from onebasin.learn import aligned as aligned_by
from onebasin.learn.laws import draw, of_pair
from onebasin.report.certificate import certificate
from onebasin.spec import ModelSpec
from onebasin.stock import norms_in_float64
from onebasin.verification import drifts
from onebasin.widening import widen as module
from onebasin.widening.embeddings import EXTRA, Embedding, embeddings, repeats
from onebasin.widening.target import common_config, fields_of, sizes_of, target_config, target_spec
from onebasin.widening.widen import to_one_size


def drift(small: Checkpoint, large: Checkpoint) -> float:
    """How far the outputs moved."""
    return relative(drifts(small, large, NOTHING, seed=1)[0]["float64"], answers(small))


def roles(spec: ModelSpec, **sizes: int) -> dict[str, int]:
    """Sizes by role as settings; those that follow from others are completed as transformers wants them."""
    fields, now = fields_of(spec), sizes_of(spec)
    want = {**now, **sizes}
    if "head" not in fields:
        want["residual"] = want["heads"] * want["head"]
    elif want["residual"] % want["heads"]:
        want["residual"] += want["heads"] - want["residual"] % want["heads"]
    return {field: want[role] for role, field in fields.items() if role != "eps"}


def growths(spec: ModelSpec) -> Iterator[dict[str, int]]:
    """Each dimension alone, then all together.  Streams whose coordinates repeat grow by factors."""
    now, rotary = sizes_of(spec), any("rotary" in op.name for s in spec.spaces.values() for op in s.ops)
    factors, tied = repeats(spec, "residual"), "head" not in fields_of(spec)
    queries = now["heads"] // now["kv_heads"]
    more = 2 * now["kv_heads"] if factors and tied else now["kv_heads"] + 1
    wider = (2 if factors and tied else 3) * now["head"] if rotary or (factors and tied) else now["head"] + 1
    every = {"ffn": now["ffn"] + 3, "kv_heads": more, "heads": more * queries, "head": wider}
    yield roles(spec, ffn=every["ffn"])
    yield roles(spec, kv_heads=more, heads=more * queries)
    yield roles(spec, head=wider)
    if not tied:
        yield roles(spec, residual=(2 if factors else 1) * now["residual"] + (0 if factors else now["heads"]))
        yield roles(spec, heads=now["kv_heads"] * (queries + 1), residual=now["residual"] * (queries + 1))
        every["residual"] = 2 * now["residual"] * more
    yield roles(spec, **every)


# ---- every size


@every_class
@pytest.mark.parametrize(("seed", "extra"), list(enumerate(EXTRA)))
def test_every_dimension_alone_and_together(tmp_path, model_type, name, seed, extra):
    small = Checkpoint.open(random_folder(tmp_path / "m", model_type, name, seed))
    before = sizes_of(small.spec)
    for settings in growths(canonical_spec(small)):
        large = widen(small, settings, extra=extra).in_memory()
        after = sizes_of(large.spec)
        assert after != before
        assert all(after[role] >= n for role, n in before.items())
        assert drift(small, large) < EXACT


@every_class
def test_the_result_is_a_stock_model(tmp_path, model_type, name):
    small = Checkpoint.open(random_folder(tmp_path / "m", model_type, name, 1))
    *_, settings = growths(canonical_spec(small))
    widen(small, settings).save(tmp_path / "out", dtype="F64")
    kind = getattr(transformers, name)
    model, report = kind.from_pretrained(tmp_path / "out", output_loading_info=True, dtype=torch.float64)
    assert type(model) is kind
    assert not any(report[problem] for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert all(getattr(model.config, field) == value for field, value in settings.items())
    norms_in_float64(model)
    again = Checkpoint.open(tmp_path / "out")
    assert again.spec.architecture == name
    assert drift(small, again) < EXACT


@every_class
def test_another_eps_stretches_the_stream_where_it_can(tmp_path, model_type, name):
    small = Checkpoint.open(random_folder(tmp_path / "m", model_type, name, 2))
    free, field = canonical_spec(small), fields_of(small.spec)["eps"]
    eps = next(iter(small.spec.norms.values())).eps
    inside = "eps of query/key norms" in free.constants
    families = {free.family(norm.space) for norm in free.norms.values()}
    if not inside and families <= {ORTHOGONAL, ORTHOGONAL_ONES}:
        large = widen(small, {field: 0.01})
        assert drift(small, large) < EXACT
        unstretched = canonicalize(small).checkpoint
        config = {**unstretched.config, field: 0.01}
        assert drift(small, unstretched.derive({}, config=config)) > 1e-6 or eps == 0.01
    else:
        with pytest.raises((NotExpressible, Incompatible), match="eps"):
            widen(small, {field: 0.01})


# ---- controls: each factor and each place is needed


def without_factor(spec: ModelSpec, space: str, e: Embedding) -> Embedding:
    return replace(e, vector=1.0, covector=1.0)


def without_vector(spec: ModelSpec, space: str, e: Embedding) -> Embedding:
    return replace(e, vector=1.0)


def beside(spec: ModelSpec, space: str, e: Embedding) -> Embedding:
    """Coordinates in front, nothing behind."""
    n = spec.spaces[space].size
    return replace(e, source=tuple(i if i < n else -1 for i in range(len(e.source))))


def not_shared(spec: ModelSpec, space: str, e: Embedding) -> Embedding:
    """Every copy speaks in full."""
    return replace(e, copies=None)


WRONG = [
    ("gpt2", "residual", without_factor), ("gpt2", ".qk", without_vector), ("vit", "residual", without_factor),
    ("gpt_neox", ".qk_rotary", beside), ("gpt_neox", ".qk_rotary", without_vector),
    ("llama", "residual", without_factor), ("llama", ".qk", beside), ("llama", ".qk", without_vector),
    ("qwen3", ".qk", without_factor), ("qwen3", ".qk_gain", without_factor), ("qwen3", ".qk_gain", beside),
    ("bert", "residual", beside), ("bert", "mlm", beside), ("bert", ".qk", without_vector),
    ("gpt2", ".heads", not_shared), ("vit", ".ffn", not_shared), ("llama", ".ffn", not_shared),
    ("llama", ".kv_heads", not_shared),
]  # fmt: skip


@pytest.mark.parametrize(("model_type", "space", "spoil"), WRONG)
def test_any_other_embedding_moves_the_outputs(tmp_path, monkeypatch, model_type, space, spoil):
    small = open_random(tmp_path / "m", model_type, 3, 5)
    *_, settings = growths(canonical_spec(small))
    spoilt = set()

    def wrong(a: ModelSpec, b: ModelSpec, extra: str) -> dict[str, Embedding]:
        found = embeddings(a, b, extra)
        spoilt.update(name for name in found if name.endswith(space))
        return {name: spoil(a, name, e) if name in spoilt else e for name, e in found.items()}

    with monkeypatch.context() as patch:
        patch.setattr(module, "embeddings", wrong)
        large = widen(small, settings, extra="split").in_memory()
    assert spoilt
    assert drift(small, large) > 1e-4


def test_a_stream_that_is_not_centred_cannot_be_padded(tmp_path, monkeypatch):
    small = open_random(tmp_path / "m", "gpt2", 3, 5)
    *_, settings = growths(canonical_spec(small))
    monkeypatch.setattr(rewrites, "centre", lambda checkpoint, space: checkpoint)
    assert drift(small, widen(small, settings).in_memory()) > 1e-4


@torch.no_grad()
@pytest.mark.parametrize("model_type", ["bert", "gpt2", "llama"])
def test_constant_gains_that_stay(tmp_path, model_type):
    """They give the stream more symmetries, but a norm's output in it has a mean and a length of its own."""
    name = {"bert": "BertForMaskedLM", "gpt2": "GPT2Model", "llama": "LlamaModel"}[model_type]
    model = random_model(name, config_of(model_type, 3), 5)
    for key, parameter in model.named_parameters():
        if parameter.ndim == 1 and key.endswith("weight"):
            parameter.fill_(1.5)
    model.save_pretrained(tmp_path / "m")
    small = Checkpoint.open(tmp_path / "m")
    form = canonicalize(small).checkpoint
    assert form.spec.family("residual") in (ORTHOGONAL, ORTHOGONAL_ONES)
    for settings in growths(form.spec):
        assert drift(small, widen(small, settings).in_memory()) < EXACT
    with pytest.raises(NotExpressible, match="eps"):
        widen(small, {fields_of(small.spec)["eps"]: 0.01})


# ---- refusals

YARN = rope(rope_type="yarn", factor=2.0, original_max_position_embeddings=24)
REFUSED = {
    "smaller": ("llama", {}, {"intermediate_size": 2}, "smaller"),
    "fewer groups": ("llama", {}, {"num_key_value_heads": 1}, "smaller"),
    "vocabulary": ("llama", {}, {"vocab_size": 500}, "nothing else"),
    "depth": ("vit", {}, {"num_hidden_layers": 7}, "nothing else"),
    "activation": ("bert", {}, {"hidden_act": "tanh"}, "nothing else"),
    "a slip of the pen": ("bert", {}, {"hiden_size": 64}, "hidden_size\\?"),
    "a frequency that is not there": ("llama", {}, {"head_dim": 12}, "rotary frequencies"),
    "frequencies that look at the width": ("llama", YARN, {"head_dim": 16}, "rotary frequencies"),
    "coordinates that do not repeat": ("bert", {}, {"hidden_size": 36}, "repeating every coordinate"),
    "no integer head width": ("vit", {}, {"hidden_size": 26}, "integer head width|multiple"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_exact_is_refused(tmp_path, case):
    model_type, changes, settings, says = REFUSED[case]
    sizes = {"hidden_size": 24, "num_attention_heads": 3, "num_key_value_heads": 3, "head_dim": 8} | changes
    small = open_random(tmp_path / "m", model_type, 3, 5, **sizes)
    with pytest.raises((NotExpressible, Incompatible), match=says) as caught:
        widen(small, settings)
    assert caught.value.next_step


def test_a_configuration_is_a_target_too(tmp_path):
    small = open_random(tmp_path / "m", "gpt2", 3, 5)
    config = transformers.AutoConfig.from_pretrained(tmp_path / "m")
    config.n_inner = 99
    assert drift(small, widen(small, config)) < EXACT
    config.n_positions += 1
    with pytest.raises(Incompatible, match="n_positions"):
        widen(small, config)


# ---- the size that two models have in common

PAIRS = list(product(ONE_EACH, [(0, 1), (2, 4), (3, 5)]))


@pytest.mark.parametrize(("model_type", "seeds"), PAIRS)
def test_the_common_size_serves_both_and_no_smaller_one_does(tmp_path, model_type, seeds):
    same = {"num_hidden_layers": 1, "n_layer": 1, **rope(100.0, 1.0), "layer_types": ["full_attention"]}
    pair = [open_random(tmp_path / str(s), model_type, s, s, **same) for s in seeds]
    a, b = (canonical_spec(c) for c in pair)
    settings = common_config(a, b)
    assert all(serves(c, spec, settings) for c, spec in zip(pair, (a, b), strict=True))
    fields = fields_of(a)
    for role in ("residual", "heads", "kv_heads", "head", "ffn"):
        if role in fields:
            less = {**settings, fields[role]: settings[fields[role]] - 1}
            assert not all(serves(c, spec, less) for c, spec in zip(pair, (a, b), strict=True))


def serves(c: Checkpoint, spec: ModelSpec, settings: dict[str, int]) -> bool:
    eps = fields_of(spec)["eps"]
    try:
        target = target_spec(spec, target_config(c, {k: v for k, v in settings.items() if k != eps}))
        embeddings(spec, replace(target, constants=spec.constants))
    except (NotExpressible, Incompatible):
        return False
    return True


# ---- aligning


@pytest.mark.parametrize("larger_first", [True, False])
@pytest.mark.parametrize("model_type", ONE_EACH)
@pytest.mark.filterwarnings("ignore:size or eps")
def test_a_scrambled_larger_copy_is_found_again(tmp_path, model_type, larger_first):
    small = open_random(tmp_path / "m", model_type, 3, 5)
    *_, settings = growths(canonical_spec(small))
    scrambled(widen(small, settings), 7).save(tmp_path / "large", dtype="F64")
    large = Checkpoint.open(tmp_path / "large")
    a, b = (large, small) if larger_first else (small, large)
    apart_before = apart(small, path_between("factor", a, b).at(0.5))
    aligned = align(a, b)
    assert apart(small, aligned.midpoint()) < 1e-7 < 1e-2 < apart_before
    assert certificate(b, aligned)["output_drift"]["float64"] < 1e-8
    assert (aligned.reason is None) == larger_first
    assert (aligned.a is a) == larger_first
    assert sizes_of(aligned.midpoint().spec) == sizes_of(large.spec)


@pytest.mark.filterwarnings("ignore:size or eps")
def test_hidden_states_are_certified_in_the_larger_space(tmp_path):
    names = {"small": (3, {}), "large": (3, {"n_embd": 24, "n_head": 6})}
    small, large = (open_random(tmp_path / x, "gpt2", seed, 5, name="GPT2Model", **s) for x, (seed, s) in names.items())
    assert certificate(small, align(large, small))["output_drift"]["float64"] < EXACT
    moved = transport(*(lambda form: (form, Alignment.random(form.spec, 1)))(to_one_size(large, small)[1]))
    assert drifts(small, moved, NOTHING)[0]["float64"] > 0.1  # the outputs did move, and were not followed


@pytest.mark.filterwarnings("ignore:size or eps")
def test_sizes_that_cross_widen_both(tmp_path):
    a = open_random(tmp_path / "a", "llama", 3, 5, intermediate_size=9)
    b = open_random(tmp_path / "b", "llama", 3, 6, intermediate_size=5, hidden_size=24, rms_norm_eps=0.02)
    pair = describe_pair(a, b)
    (note,) = pair["obstacles"]
    assert pair["alignable"]
    assert all(words in note["next_step"] for words in ("A: residual 12 -> 24", "FFN 5 -> 9", "eps 0.02 ->"))
    aligned = align(a, b)
    assert aligned.reason is not None
    assert "widened" in aligned.reason
    assert drift(a, aligned.a) < EXACT
    assert certificate(b, aligned)["output_drift"]["float64"] < 1e-8


LARGER = {
    "GPT2LMHeadModel": {"n_embd": 24, "n_head": 3}, "ViTForImageClassification": {"hidden_size": 32},
    "LlamaForCausalLM": {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 8},
    "BertForSequenceClassification": {"hidden_size": 32, "num_attention_heads": 4},
}  # fmt: skip


@pytest.mark.parametrize("larger_first", [True, False])
@pytest.mark.parametrize("name", LARGER)
@pytest.mark.filterwarnings("ignore:size or eps")
def test_learning_between_unequal_sizes(tmp_path, name, larger_first):
    for seed, changes in enumerate(({}, LARGER[name])):
        config = type(TINY[name])(**{**TINY[name].to_dict(), **changes})
        random_model(name, config, seed).save_pretrained(tmp_path / str(seed))
    a, b = (Checkpoint.open(tmp_path / x) for x in ("10" if larger_first else "01"))
    options = LearnedMatching(steps=6, batch=8, eval_every=3, lr=1e-3, dtype="float64", law="small-end")
    start = align(a, b)
    found = learn(a, b, start.matched, taught_by(a, 32), 8, options)
    assert found.options.law == ("near-b" if larger_first else "near-a")
    result = aligned_by(a, b, found)
    assert found.best_step > 0 or found.history[0].midpoint <= min(point.midpoint for point in found.history)
    assert certificate(b, result)["output_drift"]["float64"] < 1e-8
    assert sizes_of(result.midpoint().spec) == sizes_of((a if larger_first else b).spec)


def test_the_law_for_unequal_sizes_stays_near_the_smaller_model(tmp_path):
    small, large = (open_random(tmp_path / str(n), "bert", 3, 5, intermediate_size=n).spec for n in (5, 6))
    for law, low, high in (
        (of_pair("small-end", small, large), 0.2, 0.5),
        (of_pair("small-end", large, small), 0.5, 0.8),
    ):
        shares = draw(law, 1000, 0)  # of B
        assert low <= float(shares.min()) < low + 0.01 < high - 0.01 < float(shares.max()) <= high
    assert of_pair("middle", small, large) == "middle"
    with pytest.raises(OnebasinError, match="a larger and a smaller model"):
        of_pair("small-end", small, small)


@pytest.mark.parametrize("verb", ["align", "merge"])
@pytest.mark.parametrize("larger_first", [True, False])
def test_the_command_line_in_either_order(cli, tmp_path, verb, larger_first):
    for name, settings in (("small", {}), ("large", {"hidden_size": 24, "num_attention_heads": 6})):
        open_random(tmp_path / name, "vit", 3, 5, **settings)
    order = ("large", "small") if larger_first else ("small", "large")
    code, out, err = cli(verb, *(tmp_path / x for x in order), "-o", tmp_path / "out", "--json", "--method", "weight")
    assert code == 0
    assert "widened first, exactly" in err
    assert json.loads(out)["output_drift"]["float64"] < EXACT
    both = verb == "align" and not larger_first
    assert ("reference" in json.loads(out)) == (not larger_first)  # the widened A has its own drift
    assert larger_first or json.loads(out)["reference"]["output_drift"]["float64"] < EXACT
    for folder in [tmp_path / "out" / x for x in "ab"] if both else [tmp_path / "out"]:
        loads(folder, "ViTForImageClassification", hidden_size=24, num_attention_heads=6)


def loads(folder: Path, name: str, **settings: int) -> None:
    kind = getattr(transformers, name)
    model, report = kind.from_pretrained(folder, output_loading_info=True)
    assert not any(report[problem] for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert all(getattr(model.config, field) == value for field, value in settings.items())


@pytest.mark.parametrize("extra", EXTRA)
def test_the_verb(cli, tmp_path, extra):
    open_random(tmp_path / "m", "bert", 3, 5)
    code, out, _ = cli("widen", tmp_path / "m", "--set", "hidden_size=24", "--set", "intermediate_size=77", "-o",
                       tmp_path / "out", "--extra", extra, "--json")  # fmt: skip
    new = Checkpoint.open(tmp_path / "out")["bert.encoder.layer.0.output.dense.weight"][..., -1]
    assert bool(new.any()) == (extra == "split")
    assert code == 0
    assert json.loads(out) == json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert json.loads(out)["output_drift"]["float64"] < EXACT
    loads(tmp_path / "out", "BertForMaskedLM", hidden_size=24, intermediate_size=77)
    for wrong in ("hidden_size=25", "hidden_size", "vocab_size=3"):
        code, out, err = cli("widen", tmp_path / "m", "--set", wrong, "-o", tmp_path / "more")
        assert (code, out) == (2, "")
        assert "next step" in err
        assert not (tmp_path / "more").exists()
    assert cli("widen", tmp_path / "m", "--set", "hidden_size=24", "--extra", "noise", "-o", tmp_path / "more")[0] == 2
