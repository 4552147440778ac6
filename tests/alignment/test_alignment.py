"""Alignments as data and as a group: stored, refused, inverted, composed."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from helpers.random_models import config_of, random_folder
from onebasin import Alignment, Checkpoint, canonicalize, transport
from onebasin.archs import declare
from onebasin.errors import BadCheckpoint, Incompatible, NotInFamily
from onebasin.maps import Invertible, Orthogonal, Permutation
from onebasin.spec import ModelSpec

MODELS = [  # plain heads; partial rotary; grouped heads; QK-norm; a post-norm stream; another head width
    ("gpt2", "GPT2LMHeadModel", 2),
    ("gpt_neox", "GPTNeoXForCausalLM", 1),
    ("llama", "LlamaForCausalLM", 4),
    ("qwen3", "Qwen3Model", 1),
    ("bert", "BertForMaskedLM", 5),
    ("vit", "ViTModel", 3),
]
every_model = pytest.mark.parametrize("spec", MODELS, indirect=True, ids=[name for _, name, _ in MODELS])


@pytest.fixture
def spec(request) -> ModelSpec:
    """The canonical table of a model, without its weights."""
    model_type, name, seed = request.param
    config = config_of(model_type, seed)
    config.architectures = [name]
    table = declare(config, tie=False)
    for norm in table.norms.values():
        table = table if norm.blocked else table.with_unit_gains([norm.name])
    return table


@pytest.fixture
def saved(tmp_path):
    """A saved alignment of a small GPT-2."""
    config = config_of("gpt2", 2)
    config.architectures = ["GPT2LMHeadModel"]
    Alignment.random(declare(config), 0).save(tmp_path / "alignment")
    return tmp_path / "alignment"


def same(a: Alignment, b: Alignment, tol: float = 1e-12) -> bool:
    """Equal as maps, space by space and fibre by fibre."""
    assert set(a.maps) == set(b.maps)
    return all(bool(((a[name].dense() - b[name].dense()).abs() <= tol).all()) for name in a)


# ---- a group


@every_model
@pytest.mark.parametrize("seed", range(8))
def test_a_random_alignment_moves_every_space(spec, seed):
    """Also where there are two heads only, which stay where they are in every second draw."""
    assert min(Alignment.random(spec, seed).displacement().values()) > 0.1


@every_model
def test_the_identity_is_neutral(spec):
    one, g = Alignment.identity(spec), Alignment.random(spec, 1)
    assert same(one.compose(g), g, 0)
    assert same(g.compose(one), g, 0)
    assert same(one.inverse(), one, 0)
    assert set(one.displacement().values()) == {0.0}


@every_model
@pytest.mark.parametrize("seed", range(3))
def test_inverses(spec, seed):
    one, g, h = Alignment.identity(spec), Alignment.random(spec, seed), Alignment.random(spec, seed + 50)
    assert same(g.compose(g.inverse()), one)
    assert same(g.inverse().compose(g), one)
    assert same(g.inverse().inverse(), g)
    assert same(g.compose(h).inverse(), h.inverse().compose(g.inverse()))
    assert not same(g.compose(h), h.compose(g))  # the order matters


@every_model
@pytest.mark.parametrize("seed", range(3))
def test_composition_is_associative(spec, seed):
    g, h, k = (Alignment.random(spec, seed + 100 * i) for i in range(3))
    assert same(g.compose(h).compose(k), g.compose(h.compose(k)))


@every_model
def test_fibres_travel_with_their_heads(spec):
    """By hand: composing acts on the inside of a head with the second map of the place where the first one put it."""
    g, h = Alignment.random(spec, 1), Alignment.random(spec, 2)
    both, fibred = g.compose(h), [name for name in spec.spaces if spec.spaces[name].base]
    assert fibred
    for name in fibred:
        arrivals = h[spec.spaces[name].base].tensors()["index"].tolist()  # place i receives head arrivals[i]
        assert arrivals != sorted(arrivals)
        for place, head in enumerate(arrivals):
            expected = g[name].dense()[place] @ h[name].dense()[head]
            assert torch.allclose(both[name].dense()[head], expected, atol=1e-12)


def test_a_part_without_its_base_composes_and_inverts():
    config = config_of("llama", 4)
    config.architectures = ["LlamaForCausalLM"]
    spec = declare(config)
    g, h = (Alignment.random(spec, seed).only("layers.0.ov") for seed in (0, 1))
    assert torch.allclose(g.compose(h)["layers.0.ov"].dense(), g["layers.0.ov"].dense() @ h["layers.0.ov"].dense())
    assert torch.allclose(g.inverse()["layers.0.ov"].dense(), g["layers.0.ov"].dense().inverse())


def test_alignments_of_different_spaces_do_not_compose():
    config = config_of("llama", 4)
    config.architectures = ["LlamaForCausalLM"]
    g = Alignment.random(declare(config), 0)
    with pytest.raises(Incompatible) as caught:
        g.compose(g.only("residual"))
    assert caught.value.space == sorted(set(g) - {"residual"})[0]


# ---- what it does to a checkpoint


@pytest.fixture
def form(tmp_path):
    return canonicalize(Checkpoint.open(random_folder(tmp_path / "m", "llama", "LlamaForCausalLM", 4))).checkpoint


def test_the_identity_does_nothing(form):
    moved = transport(form, Alignment.identity(form.spec))
    assert all(torch.equal(moved[leaf], form[leaf]) for leaf in form)


def test_only_acts_on_the_spaces_it_names(form):
    alignment = Alignment.random(form.spec, 0)
    part = alignment.only("layers.0.ffn", "layers.1.qk")
    assert list(part) == ["layers.0.ffn", "layers.1.qk"]
    moved = transport(form, part)
    changed = {leaf for leaf in form if not torch.equal(moved[leaf], form[leaf])}
    touched = {leaf.name for leaf in form.spec.leaves.values() if any(leaf.dim(space) is not None for space in part)}
    assert changed == touched
    assert alignment.only().maps == {}
    nothing = transport(form, alignment.only())
    assert all(torch.equal(nothing[leaf], form[leaf]) for leaf in form)


def test_it_prints_one_line_per_space(form):
    alignment = Alignment.random(form.spec, 0)
    first, *lines = repr(alignment).splitlines()
    assert first == f"Alignment over {len(form.spec.spaces)} spaces"
    assert [line.split()[0] for line in lines] == list(form.spec.spaces)
    assert "Orthogonal" in lines[0]
    assert "3 x" in next(line for line in lines if "layers.0.ov" in line)


def replaced(alignment: Alignment, **maps) -> Alignment:
    return Alignment({**alignment.maps, **maps}, alignment.bases)


@pytest.mark.parametrize(
    ("change", "error", "space"),
    [
        (lambda a: Alignment({"nowhere": a["residual"]}, {"nowhere": None}), Incompatible, "nowhere"),
        (lambda a: replaced(a, residual=Orthogonal.identity(5)), Incompatible, "residual"),
        (lambda a: replaced(a, residual=Invertible.identity(a["residual"].source)), NotInFamily, "residual"),
        (lambda a: replaced(a, **{"layers.0.ov": Invertible.identity(a["layers.0.ov"].source)}), Incompatible,
         "layers.0.ov"),  # one map, where each head needs its own
        (lambda a: replaced(a, **{"layers.0.ov": Invertible.identity(a["layers.0.ov"].source, fibres=2)}), Incompatible,
         "layers.0.ov"),
        (lambda a: replaced(a, **{"layers.1.qk": Invertible.identity(a["layers.1.qk"].source, fibres=3)}), NotInFamily,
         "layers.1.qk"),
    ],
)  # fmt: skip
def test_maps_that_do_not_fit_are_refused(form, change, error, space):
    alignment = Alignment.random(form.spec, 0)
    alignment.check(form.spec)
    wrong = change(alignment)
    for use in (lambda: wrong.check(form.spec), lambda: transport(form, wrong)):
        with pytest.raises(error) as caught:
            use()
        assert caught.value.space == space
        assert caught.value.next_step


def test_a_smaller_family_is_accepted(form):
    size = form.spec.spaces["residual"].size
    smaller = Permutation.sample(size, generator=torch.Generator().manual_seed(0))
    replaced(Alignment.identity(form.spec), residual=smaller).check(form.spec)


def test_a_rotation_is_refused_on_gains_that_were_not_folded(form, tmp_path):
    stored = Checkpoint.open(tmp_path / "m")
    with pytest.raises(NotInFamily, match="canonicalize the model first") as caught:
        transport(stored, Alignment.random(form.spec, 0))
    assert caught.value.space == "residual"


# ---- on disk


@every_model
def test_saving_loses_nothing(spec, tmp_path):
    alignment = Alignment.random(spec, 3)
    alignment.save(tmp_path / "a" / "b")
    loaded = Alignment.load(tmp_path / "a" / "b")
    assert loaded.bases == alignment.bases
    assert list(loaded) == list(alignment)
    for name in alignment:
        assert type(loaded[name]) is type(alignment[name])
        before, after = alignment[name].tensors(), loaded[name].tensors()
        assert before.keys() == after.keys()
        assert all(torch.equal(before[x], after[x]) and before[x].dtype == after[x].dtype for x in before)


def edited(folder, change) -> None:
    file = folder / "alignment.json"
    data = json.loads(file.read_text())
    change(data)
    file.write_text(json.dumps(data))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda data: data.update(format="onebasin alignment 2"), "onebasin alignment 2"),
        (lambda data: data.pop("format"), "None"),
        (lambda data: data.update(author="me"), "author"),
        (lambda data: data.pop("spaces"), "spaces: None"),
        (lambda data: data.update(spaces=["residual"]), "spaces"),
        (lambda data: data["spaces"]["residual"].update(family="unitary"), "unitary"),
        (lambda data: data["spaces"]["residual"].update(scale=2), "scale"),
        (lambda data: data["spaces"]["residual"].pop("base"), "residual"),
        (lambda data: data["spaces"]["residual"].pop("family"), "residual"),
        (lambda data: data["spaces"].update(residual="orthogonal"), "residual: orthogonal"),
    ],
)
def test_a_description_that_is_not_understood_is_refused(saved, change, found):
    Alignment.load(saved)
    edited(saved, change)
    with pytest.raises(BadCheckpoint, match=r"alignment\.json") as caught:
        Alignment.load(saved)
    assert found in str(caught.value.found)
    assert caught.value.next_step


def rewrite(saved, change) -> None:
    tensors = load_file(saved / "alignment.safetensors")
    change(tensors)
    save_file(tensors, saved / "alignment.safetensors")


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda folder: (folder / "alignment.json").unlink(), r"alignment\.json cannot be read"),
        (lambda folder: (folder / "alignment.json").write_text("{"), r"alignment\.json is not valid JSON"),
        (lambda folder: (folder / "alignment.json").write_text("[]"), r"alignment\.json is not an object"),
        (lambda folder: (folder / "alignment.safetensors").unlink(), r"alignment\.safetensors cannot be read"),
        (
            lambda folder: (folder / "alignment.safetensors").write_bytes(b"abc"),
            r"alignment\.safetensors cannot be read",
        ),
        (lambda folder: rewrite(folder, lambda t: t.pop("residual/index")), "Not a stored"),
        (lambda folder: rewrite(folder, lambda t: t.update({"residual/angle": torch.ones(1)})), "Not a stored"),
        (lambda folder: rewrite(folder, lambda t: t.update({"odd/scale": torch.ones(1)})), "different spaces"),
        (lambda folder: edited(folder, lambda data: data["spaces"].pop("residual")), "different spaces"),
    ],
)
def test_missing_and_damaged_files_are_refused(saved, damage, says):
    Alignment.load(saved)
    damage(saved)
    with pytest.raises(BadCheckpoint, match=says):
        Alignment.load(saved)


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(BadCheckpoint, match="cannot be read") as caught:
        Alignment.load(tmp_path / "absent")
    assert "absent" in str(caught.value)
