"""Two models that name the same things in another order, or know fewer positions: every verb takes them as they are.

B is shuffled here, tensor by tensor, and its files say so; what comes out is what came out before.
"""

from __future__ import annotations

import gc
import json
import shutil
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file

from helpers.folders import certificate, edit_config, edit_weights, same
from helpers.random_models import byte_llama, random_model
from helpers.task_files import WORDS, bert
from onebasin import Checkpoint, align
from onebasin.errors import Incompatible
from onebasin.labels.names import names_of
from onebasin.labels.pairs import in_one_labelling, order_between
from onebasin.labels.rewrites import CLASSES, TOKENS

CLASS_NAMES = ["worst", "fair", "best"]
TOKEN_ORDER, CLASS_ORDER = [3, 0, 4, 1, 5, 2], [2, 0, 1]
WEIGHT = ("--method", "weight", "--set", "weight.sweeps=2", "--dtype", "float64", "--quiet")


@pytest.fixture
def pair(tmp_path) -> tuple[Path, Path]:
    """Two classifiers of texts, with tokenizers and names for their classes."""
    names = {"id2label": dict(enumerate(CLASS_NAMES)), "label2id": {name: i for i, name in enumerate(CLASS_NAMES)}}
    folders = []
    for i, side in enumerate("ab"):
        folders.append(bert(tmp_path / side, num_labels=3, **names))
        edit_weights(
            folders[-1], lambda tensors, i=i: [x.add_(0.3 * i * torch.randn_like(x)) for x in tensors.values()]
        )
    return folders[0], folders[1]


def shuffled(folder: Path, *, say: bool = True) -> Path:
    """The same model with its tokens and classes in another order; its files say so, or do not."""
    out = Path(shutil.copytree(folder, folder.with_name(f"{folder.name}-{say}")))

    def move(tensors):
        for key, order in (("bert.embeddings.word_embeddings.weight", TOKEN_ORDER), ("classifier.weight", CLASS_ORDER),
                           ("classifier.bias", CLASS_ORDER)):  # fmt: skip
            tensors[key] = tensors[key][order].contiguous()

    edit_weights(out, move)
    if say:
        tokenizer = json.loads((out / "tokenizer.json").read_text())
        place = {WORDS[old]: new for new, old in enumerate(TOKEN_ORDER)}
        tokenizer["model"]["vocab"] = place
        for token in tokenizer["added_tokens"]:
            token["id"] = place[token["content"]]
        (out / "tokenizer.json").write_text(json.dumps(tokenizer))
        (out / "tokenizer_config.json").write_text(_renumbered((out / "tokenizer_config.json").read_text(), place))
        classes = {str(new): CLASS_NAMES[old] for new, old in enumerate(CLASS_ORDER)}
        edit_config(
            out, id2label=classes, label2id={x: int(i) for i, x in classes.items()}, pad_token_id=place["[PAD]"]
        )
    return out


def _renumbered(text: str, place: dict[str, int]) -> str:
    settings = json.loads(text)
    decoder = settings.get("added_tokens_decoder", {})
    settings["added_tokens_decoder"] = {str(place[x["content"]]): x for x in decoder.values()}
    return json.dumps(settings)


def texts(folder: Path) -> str:
    rows = ["good very film,best", "bad film,worst", "film,fair", "very bad,worst"] * 3
    file = folder / "texts.csv"
    file.write_text("\n".join(["text,label", *rows]) + "\n")
    return f"labelled:{file}"


def answers(folder: Path, text: str = "very good film") -> dict[str, float]:
    """What the stock model says of a text, by the names of its classes."""
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float64)
    given = transformers.AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    with torch.no_grad():
        logits = model.eval()(**{key: given[key] for key in ("input_ids", "attention_mask")}).logits[0]
    return {model.config.id2label[i]: round(float(x), 9) for i, x in enumerate(logits)}


def test_the_shuffled_model_is_the_model(pair):
    a, b = pair
    assert answers(shuffled(b)) == answers(b) != answers(shuffled(b, say=False))
    assert answers(a) != answers(b)


@pytest.mark.parametrize("verb", ["align", "merge"])
def test_what_is_shuffled_by_name_comes_out_the_same(cli, pair, tmp_path, verb):
    a, b = pair
    outs = {}
    for label, other in {"plain": b, "named": shuffled(b), "unsaid": shuffled(b, say=False)}.items():
        outs[label] = tmp_path / "outs" / label
        outs[label].parent.mkdir(exist_ok=True)
        code, _, err = cli(verb, a, other, "-o", outs[label], *WEIGHT)
        assert code == 0, err
    assert same(outs["plain"], outs["named"])
    assert not same(outs["plain"], outs["unsaid"])  # the control
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (outs["named"] / name).read_bytes() == (a / name).read_bytes()
    config = json.loads((outs["named"] / "config.json").read_text())
    assert list(config["id2label"].values()) == CLASS_NAMES
    assert config["pad_token_id"] == 0
    assert answers(outs["named"]) == answers(outs["plain"])
    if verb == "align":
        assert answers(outs["named"]) == pytest.approx(answers(b), abs=1e-8)
    warnings = certificate(outs["named"])["warnings"]
    assert [x.partition(":")[0] for x in warnings] == ["order of tokens", "order of classes"]
    assert "order of tokens: '[PAD]' at 0 in A, '[PAD]' at 1 in B; nothing to do: 6 tokens of B" in warnings[0]
    card = (outs["named"] / "README.md").read_text()
    assert "order of tokens" in card
    assert "order of classes" in card
    assert "order of" not in (outs["plain"] / "README.md").read_text()


def test_the_plan_says_what_is_reordered(cli, pair, tmp_path):
    a, b = pair
    other = shuffled(b)
    code, out, _ = cli("align", a, other, "-o", tmp_path / "out", "--method", "weight", "--dry-run")
    assert code == 0
    assert "note: order of tokens: '[PAD]' at 0 in A, '[PAD]' at 1 in B" in " ".join(out.split())
    code, out, _ = cli("inspect", a, other)
    assert code == 0
    assert "note: order of classes: A has 'worst' at 0, B has 'worst' at 1" in " ".join(out.split())


def test_barriers_and_ensembles_are_those_of_one_labelling(cli, pair, tmp_path):
    a, b = pair
    other, task = shuffled(b), texts(tmp_path)
    same_for = ("--task", task, "--device", "cpu", "--json", "--quiet", "--length", 6)
    reports = {}
    for label, model in {"plain": b, "named": other}.items():
        code, out, err = cli("barrier", a, model, *same_for, "--points", 3)
        assert code == 0, err
        measured = json.loads(out)
        code, out, err = cli("eval", a, model, "--ensemble", *same_for)
        assert code == 0, err
        rows = [row["loss"] for row in json.loads(out)["rows"]]
        reports[label] = ([point["loss"] for point in measured["points"]], rows)
    assert reports["plain"] == reports["named"]
    assert len(set(reports["plain"][1])) == 3


def test_other_names_are_refused_by_the_first_of_them(cli, pair, tmp_path):
    a, b = pair
    edit_config(b, id2label={"0": "worst", "1": "middling", "2": "best"})
    code, out, err = cli("align", a, b, "-o", tmp_path / "out", *WEIGHT)
    assert (code, out) == (2, "")
    for piece in ("classes differs", "3, here alone 'fair' (1)", "3, here alone 'middling' (1)", "next step:"):
        assert piece in err
    text = (b / "tokenizer.json").read_text()
    (b / "tokenizer.json").write_text(text.replace('"film"', '"novel"').replace('"bad"', '"poor"'))
    code, _, err = cli("align", a, b, "-o", tmp_path / "out", *WEIGHT)
    assert code == 2
    for piece in ("tokens differs", "6, here alone 'bad' (3), 'film' (4)", "'poor' (3), 'novel' (4)", "one tokenizer"):
        assert piece in err
    assert not (tmp_path / "out").exists()


def positions(folder: Path, count: int) -> Path:
    """The folder with a table of more positions, and a tokenizer that takes as many tokens."""
    edit_weights(folder, lambda t: t.update({"bert.embeddings.position_embeddings.weight": torch.randn(count, 8)}))
    edit_config(folder, max_position_embeddings=count)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    own = {"model_max_length": count, "auto_map": {"AutoTokenizer": "own.Tokenizer"}}
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, **own}))
    return folder


@pytest.mark.parametrize("longer", ["a", "b"])
def test_the_longer_table_of_positions_is_cut(cli, pair, tmp_path, longer):
    a, b = pair
    (tmp_path / "private.json").write_text('{"max_length": 1000}')
    (positions({"a": a, "b": b}[longer], 9) / "linked_config.json").symlink_to(tmp_path / "private.json")
    code, out, err = cli("align", a, b, "-o", tmp_path / "plan", *WEIGHT, "--dry-run", "--json")
    assert code == 0, err
    plan = json.loads(out)
    (note,) = [x for x in plan["notes"] if x.startswith("number of positions")]
    assert "the longer table is cut, and all results have 6" in note
    assert list(plan["writes"]) == (["a", "b"] if longer == "a" else [""])
    code, _, err = cli("align", a, b, "-o", tmp_path / "out", *WEIGHT)
    assert code == 0, err
    written = {"a": tmp_path / "out/a", "b": tmp_path / "out/b"} if longer == "a" else {"b": tmp_path / "out"}
    for side, folder in written.items():
        assert json.loads((folder / "config.json").read_text())["max_position_embeddings"] == 6
        assert load_file(folder / "model.safetensors")["bert.embeddings.position_embeddings.weight"].shape == (6, 8)
        assert answers(folder) == pytest.approx(answers({"a": a, "b": b}[side]), abs=1e-8)
        length = json.loads((folder / "tokenizer_config.json").read_text()).get("model_max_length", 0)
        assert length == 6 or longer == "b"
        assert "auto_map" not in (folder / "tokenizer_config.json").read_text()
        assert not (folder / "linked_config.json").exists()
        assert Checkpoint.open(folder).spec.reads.positions == 6
    code, _, err = cli("merge", a, b, "-o", tmp_path / "merged", *WEIGHT)
    assert code == 0, err
    assert Checkpoint.open(tmp_path / "merged").spec.reads.positions == 6
    assert note in certificate(tmp_path / "merged")["warnings"]
    assert "number of positions" in (tmp_path / "merged" / "README.md").read_text()


def test_outputs_speak_as_a_does(cli, pair, tmp_path):
    a, b = pair
    for folder, name in ((a, "a"), (b, "b")):
        (folder / "chat_template.jinja").write_text(f"{{{{ {name} }}}}")
        (folder / "generation_config.json").write_text(json.dumps({"top_k": ord(name), "transformers_version": name}))
        (folder / "LICENSE").write_text(f"licence of {name}")
    edit_config(b, pad_token_id=2)
    code, out, _ = cli("align", a, b, "-o", tmp_path / "out", *WEIGHT, "--dry-run", "--json")
    assert code == 0
    notes = json.loads(out)["notes"]
    assert [note.partition(":")[0] for note in notes] == ["special tokens", "chat template", "settings of generation"]
    assert "pad_token_id '[PAD]' in A, pad_token_id 'good' in B" in notes[0] or "pad_token_id 0 in A" in notes[0]
    assert "top_k 97 in A, top_k 98 in B; nothing to do: the outputs have A's" in notes[2]
    for verb in ("align", "merge"):
        assert cli(verb, a, b, "-o", tmp_path / verb, *WEIGHT)[0] == 0
        for name in ("chat_template.jinja", "generation_config.json"):
            assert (tmp_path / verb / name).read_bytes() == (a / name).read_bytes()
        assert json.loads((tmp_path / verb / "config.json").read_text())["pad_token_id"] == 0
    assert (tmp_path / "align" / "LICENSE").read_text() == "licence of b"  # whose weights these are
    assert (tmp_path / "merge" / "LICENSE").read_text() == "licence of a"


def test_nothing_is_said_of_models_that_agree(cli, pair, tmp_path):
    a, b = pair
    code, out, err = cli("align", a, b, "-o", tmp_path / "out", *WEIGHT, "--dry-run", "--json")
    assert (code, json.loads(out)["notes"], err) == (0, [], "")


def test_a_later_checkpoint_is_moved_in_the_same_order(pair, tmp_path):
    a, b = pair
    later = positions(Path(shutil.copytree(b, tmp_path / "later")), 9)
    with pytest.warns(UserWarning, match="nothing to do"):
        align(a, shuffled(b), method="weight", device="cpu").apply(shuffled(later)).save(tmp_path / "moved")
    assert Checkpoint.open(tmp_path / "moved").spec.reads.positions == 6
    assert answers(tmp_path / "moved") == pytest.approx(answers(later), abs=1e-4)


def test_a_model_with_fewer_positions_does_not_join(pair):
    a, b = pair
    found = align(positions(a, 9), positions(b, 9), method="weight", device="cpu")
    with pytest.warns(UserWarning, match="number of positions"), pytest.raises(Incompatible, match="fewer positions"):
        found.apply(positions(b, 7))


def roberta(folder: Path, pad: int, order: list[str]) -> Checkpoint:
    config = transformers.RobertaConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, vocab_size=len(order),
        max_position_embeddings=10, pad_token_id=pad,
    )  # fmt: skip
    random_model("RobertaForMaskedLM", config, 0).save_pretrained(folder)
    (folder / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(order)}))
    return Checkpoint.open(folder)


def test_a_token_whose_number_counts_must_not_move(tmp_path):
    """RoBERTa counts positions from behind the number of the padding token, over all tokens that are not that."""
    a = roberta(tmp_path / "a", 1, ["<s>", "<pad>", "one", "two"])
    b = roberta(tmp_path / "b", 1, ["<s>", "<pad>", "two", "one"])
    assert order_between(a, b, TOKENS) == [0, 1, 3, 2]
    c = roberta(tmp_path / "c", 1, ["<s>", "one", "<pad>", "two"])
    with pytest.raises(Incompatible, match="computes with its number"):
        order_between(a, c, TOKENS)
    assert in_one_labelling((a, c))[1] is c


@pytest.mark.parametrize(
    ("letter", "mine", "theirs", "says"),
    [
        (TOKENS, {"one": 0, "two": 1}, {"one": 1, "two": 9}, "'two' at 9"),
        (TOKENS, {"one": 0, "two": 1}, {"one": 0, "two": 0}, "'two' at 0, as 'one'"),
        (CLASSES, {"0": "x", "1": "x", "2": "y"}, {"0": "x", "1": "y", "2": "x"}, "'x (1)'"),
    ],
)
def test_names_that_tell_nothing_apart_are_refused(pair, letter, mine, theirs, says):
    for folder, names in zip(pair, (mine, theirs), strict=True):
        if letter == TOKENS:
            (folder / "tokenizer.json").unlink()
            (folder / "tokenizer_config.json").unlink()
            (folder / "vocab.json").write_text(json.dumps(names))
        else:
            edit_config(folder, id2label=names)
    a, b = map(Checkpoint.open, pair)
    with pytest.raises(Incompatible) as caught:
        order_between(a, b, letter)
    assert says in str(caught.value)


def test_rows_without_a_name_keep_their_order(pair):
    for folder, names in zip(pair, ({"one": 0, "two": 4}, {"one": 5, "two": 1}), strict=True):
        (folder / "tokenizer.json").unlink()
        (folder / "tokenizer_config.json").unlink()
        (folder / "vocab.json").write_text(json.dumps(names))
    a, b = map(Checkpoint.open, pair)
    assert names_of(a, TOKENS) == {"one": 0, "two": 4}
    assert order_between(a, b, TOKENS) == [5, 0, 2, 3, 1, 4]


def test_files_of_a_live_reference_are_there_as_long_as_they_are_needed(pair, tmp_path):
    """A live model lies in a folder that goes with it: what was aligned with it takes files from there."""
    a, b = (transformers.BertForSequenceClassification.from_pretrained(folder) for folder in pair)
    found = align(a, b, method="weight", device="cpu").models[1]
    gc.collect()
    found.save(tmp_path / "out")
    assert Checkpoint.open(tmp_path / "out").spec.architecture == "BertForSequenceClassification"


def test_models_that_end_texts_with_other_tokens_are_refused(tmp_path):
    def t5(name: str, end: int) -> Checkpoint:
        config = transformers.T5Config(
            d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, vocab_size=9, eos_token_id=end, num_labels=2,
            relative_attention_num_buckets=4,
        )  # fmt: skip
        random_model("T5ForSequenceClassification", config, 0).save_pretrained(tmp_path / name)
        return Checkpoint.open(tmp_path / name)

    a, b, c = t5("a", 1), t5("b", 1), t5("c", 2)
    assert order_between(a, b, TOKENS) is None
    with pytest.raises(Incompatible, match="another token at the end"):
        order_between(a, c, TOKENS)


def test_rotary_positions_have_no_table_to_cut(cli, tmp_path):
    a, b = byte_llama(tmp_path / "a"), byte_llama(tmp_path / "b", 1, max_position_embeddings=64)
    code, _, err = cli("merge", a, b, "-o", tmp_path / "out", *WEIGHT)
    assert code == 0, err
    assert "32 in A, 64 in B; nothing to do: no stored table depends on it, and a merged model says what A says" in err
    assert json.loads((tmp_path / "out" / "config.json").read_text())["max_position_embeddings"] == 32
    assert all(model.spec.keys == Checkpoint.open(a).spec.keys for model in map(Checkpoint.open, (b, tmp_path / "out")))
