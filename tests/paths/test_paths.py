"""Paths between two models, against brute force and with controls that must fail."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from helpers.classes import one_of_each_type
from helpers.random_models import config_of, needs_circuits, random_folder, random_model
from helpers.tiny import F64, TINY, predicted
from onebasin import Alignment, Checkpoint, canonicalize, transport
from onebasin.archs.rotary import before_5
from onebasin.checkpoint.stock import outputs, probe_inputs, stock_model
from onebasin.errors import Incompatible, NotExpressible, OnebasinError
from onebasin.landscape import measure
from onebasin.paths import CircuitPath, FactorPath, circuit, path_between
from onebasin.processes.devices import pick_device

INSIDE = {  # where the attention modules are
    "GPT2LMHeadModel": "transformer.h.{}.attn",
    "ViTForImageClassification": "vit.layers.{}.attention",
    "LlamaForCausalLM": "model.layers.{}.self_attn",
}


def gap(x: dict[str, torch.Tensor], y: dict[str, torch.Tensor]) -> float:
    return max(float((x[name] - y[name]).abs().max()) for name in x)


def run(model: torch.nn.Module, checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    return outputs(model, checkpoint.spec, probe_inputs(checkpoint.spec, length=9))


def has_circuits(checkpoint: Checkpoint) -> bool:
    """Queries, keys and values meet in two products, in an attention that can be replaced."""
    spec = checkpoint.spec
    apart = any(spec.linears[x.queries[0]].norm != spec.linears[x.keys[0]].norm for x in spec.attentions)
    bent = apart or "eps of query/key norms" in spec.constants
    cut = any(checkpoint.config.get(name) for name in ("clip_qkv", "attn_logit_softcapping", "alibi"))
    own = spec.model_type in ("bloom", "falcon", "gptj", "gpt_neo", "stablelm")
    return not (bent or cut or own)


@one_of_each_type(kind=["factor", "circuit"])
def test_both_ends_are_the_models_themselves(tmp_path, kind, model_type, name):
    a, b = (Checkpoint.open(random_folder(tmp_path / str(i), model_type, name, 6, i)) for i in (0, 1))
    if kind == "circuit" and not has_circuits(a):
        with pytest.raises(NotExpressible, match=r"normalises or cuts|another attention|has no circuits"):
            path_between(kind, a, b).model(0, F64)
        return
    if kind == "circuit" and name.startswith(("Albert", "MPNet", "RoFormer", "T5")):
        with pytest.raises(NotExpressible, match=r"another attention|does more than attend"):
            path_between(kind, a, b).model(0, F64)
        return
    if kind == "circuit":
        needs_circuits(name)
    path = path_between(kind, a, b)
    ends = [run(stock_model(x), x) for x in (a, b)]
    scale = max(float(x.abs().max()) for end in ends for x in end.values())
    for share in (0, 1, 0):  # the same module is used for every point
        assert gap(run(path.model(share, F64), a), ends[share]) < 1e-9 * max(1, scale)
    assert gap(run(path.model(0.5, F64), a), ends[0]) > 1e-3


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("kind", ["factor", "circuit"])
def test_ends_in_float32(tiny, kind, name):
    a, b = tiny(name)
    path = path_between(kind, a, b)
    for share, end in ((0, a), (1, b)):
        assert gap(run(path.model(share), end), run(stock_model(end), end)) < 1e-5


def test_padding_is_not_attended_to(tmp_path):
    a, b = (
        Checkpoint.open(random_folder(tmp_path / str(i), "bert", "BertForSequenceClassification", 6, i)) for i in (0, 1)
    )
    inputs = probe_inputs(a.spec, length=9)
    inputs["attention_mask"][:2, 5:] = 0
    path = CircuitPath(a, b)
    if before_5():  # there this class has its own attention, and no way to give it another
        with pytest.raises(NotExpressible, match="install transformers 5, or use the factor path"):
            path.model(0.5, F64)
        return
    for share, end in ((0, a), (1, b)):
        expected = outputs(stock_model(end), end.spec, inputs)
        assert gap(outputs(path.model(share, F64), end.spec, inputs), expected) < 1e-9
        assert gap(run(stock_model(end), end), expected) > 1e-4  # the mask matters
    padded = outputs(path.model(0.5, F64), a.spec, inputs)
    inputs["input_ids"][:2, 5:] = 3
    assert gap(outputs(path.model(0.5, F64), a.spec, inputs), padded) < 1e-9


def reference_attention(path, of_b, index, scaling, hidden_states, position_embeddings=None, **_):
    """Scores and outputs of both models head by head, averaged as numbers; nothing is doubled or concatenated."""
    a, b = path.models
    record, scores, values = a.spec.attentions[index], 0.0, []
    for share, end in ((1 - of_b, a), (of_b, b)):
        q, k, v = (_project(end, linear, hidden_states) for linear in (*record.queries, *record.keys, record.value))
        k, v = (x if x.ndim == q.ndim else x.unsqueeze(3).expand_as(q) for x in (k, v))  # one key for a group
        q, k, v = (x.flatten(2, -2).transpose(1, 2) for x in (q, k, v))
        if position_embeddings is not None:
            q, k = apply_rotary_pos_emb(q, k, *position_embeddings)
        scores = scores + share * scaling * q @ k.mT
        values.append(v)
    if a.spec.model_type != "vit":
        scores = scores + torch.full_like(scores, -torch.inf).triu(1)
    out = 0.0
    for share, end, v in ((1 - of_b, a, values[0]), (of_b, b, values[1])):
        linear = end.spec.linears[record.output]
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        out = out + share * (mixed @ end[linear.weight].flatten(1).T + end[linear.bias])
    return out, None


def _project(end, name, x):
    linear = end.spec.linears[name]
    y = torch.tensordot(x, end[linear.weight], ([-1], [-1]))
    return y if linear.bias is None else y + end[linear.bias]


def brute_force(path: CircuitPath, share: float, name: str) -> dict[str, torch.Tensor]:
    model = FactorPath(*path.models).model(share, F64)
    for i in range(2):
        module = model.get_submodule(INSIDE[name].format(i))
        module.forward = partial(reference_attention, path, share, i, module.scaling)
    return run(model, path.models[0])


@pytest.mark.skipif(before_5(), reason="the reference takes the place of modules that transformers 4 builds otherwise")
@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("share", [0.5, 0.3])
def test_the_circuit_path_averages_scores_and_outputs(tiny, name, share):
    a, b = tiny(name)
    path = CircuitPath(a, b)
    expected = brute_force(path, share, name)
    assert gap(run(path.model(share, F64), a), expected) < 1e-9
    assert gap(run(FactorPath(*path.models).model(share, F64), a), expected) > 1e-2  # another path
    assert gap(run(path.model(1 - share + 0.1, F64), a), expected) > 1e-3  # another point


@pytest.mark.parametrize("name", TINY)
def test_maps_inside_heads_leave_the_circuit_path_flat(tiny, name):
    a = canonicalize(tiny(name)[0]).checkpoint.in_memory()
    inside = [space for space in a.spec.spaces if space.endswith((".qk", ".ov"))]
    b = transport(a, Alignment.random(a.spec, 3).only(*inside)).in_memory()
    task = predicted(stock_model(a), a)
    flat, bent = (measure(kind(a, b), task, 5, dtype=F64) for kind in (CircuitPath, FactorPath))
    assert flat.barrier < 1e-9
    assert max(abs(e.loss - flat.vertices[0].loss) for e in flat.evaluations) < 1e-9
    assert bent.barrier > 0.02
    moved = transport(a, Alignment.random(a.spec, 3)).in_memory()  # the stream moves too: circuits do not help
    assert measure(CircuitPath(a, moved), task, 5, dtype=F64).barrier > 0.02


def test_the_factor_path_is_made_of_stock_checkpoints(tiny, tmp_path):
    a, b = tiny("LlamaForCausalLM")
    path = FactorPath(a, b)
    path.at(0.3).save(tmp_path / "between")
    back = Checkpoint.open(tmp_path / "between")
    assert gap(run(stock_model(back), a), run(path.model(0.3, F64), a)) < 1e-4  # written in float32
    for name in a:
        torch.testing.assert_close(path.at(0.3)[name], 0.7 * a[name] + 0.3 * b[name])
        assert path.at(0)[name].equal(a[name])
        assert path.at(1)[name].equal(b[name])


def test_half_precision_rounds_once(tiny):
    a, b = tiny("LlamaForCausalLM")
    model, exact = FactorPath(a, b).model(0.3, torch.bfloat16), FactorPath(a, b).model(0.3)
    for (_, p), (_, q) in zip(model.named_parameters(), exact.named_parameters(), strict=True):
        assert p.equal(q.to(torch.bfloat16))


def test_a_tied_and_an_untied_model_have_a_path(tmp_path):
    config = config_of("llama", 6)
    for tie in (True, False):
        config.tie_word_embeddings = tie
        random_model("LlamaForCausalLM", config, int(tie)).save_pretrained(tmp_path / str(tie))
    a, b = (Checkpoint.open(tmp_path / str(tie)) for tie in (True, False))
    path = FactorPath(a, b)
    for share, end in ((0, a), (1, b)):
        assert gap(run(path.model(share, F64), end), run(stock_model(end), end)) < 1e-9


def test_bad_paths_are_refused(tiny):
    a, b = tiny("GPT2LMHeadModel")
    other = tiny("ViTForImageClassification")[0]
    for kind in (FactorPath, CircuitPath):
        with pytest.raises(Incompatible, match="different tensors"):
            kind(a, other)
        with pytest.raises(OnebasinError, match="one share for each"):
            kind(a, b).model(1.5)
    with pytest.raises(OnebasinError, match="no such path"):
        path_between("scenic", a, b)
    with pytest.raises(OnebasinError, match="no such choice"):
        pick_device("tpu")


def test_a_batch_is_repeated_and_nothing_else_of_what_a_module_is_given():
    x, y = torch.arange(6.0).view(2, 3), torch.ones(1)
    (first, second), named = circuit._repeated(2, torch.nn.Identity(), (x, y), {"scale": 3})
    assert first.equal(torch.cat([x, x]))
    assert second is y
    assert named == {"scale": 3}
    args, named = circuit._repeated(3, torch.nn.Identity(), (), {"hidden_states": x, "scale": 3})
    assert args == ()
    assert named["hidden_states"].equal(torch.cat([x] * 3))
    assert named["scale"] == 3
