"""Models of unequal size, aligned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import transformers

from helpers.classes import HEADS, one_of_each_kind
from helpers.exactness import EXACT, NOTHING
from helpers.growing import drift, growths
from helpers.learning import TINY, taught_by
from helpers.pairs import apart, open_random, scrambled
from helpers.random_models import random_model
from onebasin import Alignment, Checkpoint, describe_pair, transport, widen
from onebasin.canonical.structure import canonical_spec
from onebasin.ensemble.aligned import Aligned
from onebasin.ensemble.ensemble import Ensemble
from onebasin.learn.learning import learn
from onebasin.learn.options import LearnedMatching
from onebasin.methods.method import Job
from onebasin.methods.weight import Weight
from onebasin.paths import path_between
from onebasin.verification.certificate import certificate, exactness
from onebasin.verification.verify import drifts
from onebasin.widening.embeddings import EXTRA
from onebasin.widening.target import sizes_of
from onebasin.widening.widen import to_one_size


def align(a: Checkpoint, b: Checkpoint) -> Aligned:
    return Weight().run(Ensemble.of([a, b]), None, Job(torch.device("cpu")))


@one_of_each_kind(HEADS, larger_first=[True, False])
@pytest.mark.filterwarnings("ignore:size or eps")
def test_a_scrambled_larger_copy_is_found_again(tmp_path, model_type, name, larger_first):
    small = open_random(tmp_path / "m", model_type, 3, 5, name)
    *_, settings = growths(canonical_spec(small))
    scrambled(widen(small, settings), 7).save(tmp_path / "large", dtype="F64")
    large = Checkpoint.open(tmp_path / "large")
    a, b = (large, small) if larger_first else (small, large)
    apart_before = apart(small, path_between("factor", a, b).at(0.5))
    aligned = align(a, b)
    assert apart(small, aligned.merged()) < 1e-7 < 1e-2 < apart_before
    assert certificate(aligned)["output_drift"]["float64"] < 1e-8
    assert (aligned.reason is None) == larger_first
    assert (aligned.models[0] is a) == larger_first
    assert sizes_of(aligned.merged().spec) == sizes_of(large.spec)


@pytest.mark.filterwarnings("ignore:size or eps")
def test_hidden_states_are_certified_in_the_larger_space(tmp_path):
    names = {"small": (3, {}), "large": (3, {"n_embd": 24, "n_head": 6})}
    small, large = (open_random(tmp_path / x, "gpt2", seed, 5, name="GPT2Model", **s) for x, (seed, s) in names.items())
    assert certificate(align(large, small))["output_drift"]["float64"] < EXACT
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
    assert drift(a, aligned.models[0]) < EXACT
    assert exactness(aligned, 0)["output_drift"]["float64"] < 1e-8
    assert certificate(aligned)["output_drift"]["float64"] < 1e-8


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
    options = LearnedMatching(steps=6, batch=8, eval_every=3, lr=1e-3, dtype="float64")
    found = learn(align(a, b), taught_by(a, 32), 8, options)
    course = found.course["learning"]
    midpoints = [point["midpoint"] for point in course["history"]]
    assert course["best_step"] > 0 or midpoints[0] <= min(midpoints)
    assert certificate(found)["output_drift"]["float64"] < 1e-8
    assert sizes_of(found.merged().spec) == sizes_of((a if larger_first else b).spec)


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
