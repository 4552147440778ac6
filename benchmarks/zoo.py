"""Train the ten models of ../shared/zoo again, from nothing: five pairs, the two of a pair differ in the seed alone.

    python benchmarks/zoo.py                                            all of them, into zoo/
    python benchmarks/zoo.py --only vit-cifar10-l2 --seeds 2,3 --out F  other seeds of one pair
    python benchmarks/zoo.py --tiny                                     a few steps of each, to try the file

Shapes, data, batches, steps, rates and decay are those that the README of the zoo gives.  Other draws make other
weights, so losses are printed beside those of the zoo to compare.  What it does not say was chosen here: 5 % warm-up
before the cosine, gradients cut to norm 1, decay of all tensors alike, crops by up to 4 pixels with edges mirrored,
jitter in the order brightness, contrast, saturation with one factor on [0.6, 1.4] each for every image, windows of text
that begin anywhere, and the Xavier start for the ViTs alone (the others start as transformers does).
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _train import DEVIATION, MEAN, fit, write_preprocessor

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
WINDOW, WORDS, VOCABULARY = 256, 64, 4096
CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
EPOCH = 50_000 // 128
Batch = tuple[dict[str, Any], Any]  # inputs, labels


@dataclass(frozen=True)
class Pair:
    """How a pair was trained, and the test losses of the two models in the zoo."""

    steps: int
    batch: int
    lr: float
    decay: float
    losses: tuple[float, float]
    in_gradient: bool = False  # decay as an L2 term in the gradient of Adam, not decoupled from it


PAIRS = {
    "vit-cifar10-l2": Pair(74 * EPOCH, 128, 3e-4, 1e-3, (0.7135, 0.7116), in_gradient=True),
    "vit-cifar10-adamw": Pair(88 * EPOCH, 128, 3e-4, 1e-3, (0.9070, 0.8937)),
    "gpt2-wikitext2": Pair(5000, 64, 1e-3, 0.1, (1.147, 1.146)),
    "llama-wikitext2": Pair(5000, 64, 1e-3, 0.1, (1.065, 1.064)),
    "bert-agnews": Pair(1500, 64, 5e-4, 0.05, (0.3322, 0.3392)),
}


# ---- the models


def new_model(name: str) -> Any:
    import transformers

    kind = name.split("-")[0]
    if kind == "vit":
        labels = {"id2label": dict(enumerate(CLASSES)), "label2id": {x: i for i, x in enumerate(CLASSES)}}
        model = transformers.ViTForImageClassification(
            transformers.ViTConfig(
                hidden_size=256, num_hidden_layers=6, num_attention_heads=8, intermediate_size=512, image_size=32,
                patch_size=4, layer_norm_eps=1e-12, **labels,
            )
        )  # fmt: skip
        return xavier(model)
    bytes_as_tokens = {"vocab_size": 256, "bos_token_id": 0, "eos_token_id": 0, "tie_word_embeddings": False}
    if kind == "gpt2":
        shape = {"n_embd": 192, "n_layer": 4, "n_head": 6, "n_inner": 768, "n_positions": WINDOW, "attn_pdrop": 0.0}
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape, **bytes_as_tokens))
    if kind == "llama":
        shape = {"hidden_size": 192, "num_hidden_layers": 4, "num_attention_heads": 6, "num_key_value_heads": 2}
        more = {"intermediate_size": 512, "max_position_embeddings": WINDOW, "rms_norm_eps": 1e-6, "pad_token_id": 0}
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(**shape, **more, **bytes_as_tokens))
    shape = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 512}
    config = transformers.BertConfig(**shape, vocab_size=VOCABULARY, max_position_embeddings=WORDS, num_labels=4)
    return transformers.BertForSequenceClassification(config)


def xavier(model: Any) -> Any:
    """Linear maps by Xavier; class token, positions and classifier by a truncated normal of 0.02."""
    from torch import nn

    for part in model.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            nn.init.zeros_(part.bias)
    embeddings = model.vit.embeddings
    for tensor in (embeddings.cls_token, embeddings.position_embeddings, model.classifier.weight):
        nn.init.trunc_normal_(tensor, std=0.02)
    return model


# ---- the data: (batches of a seed without end, the test split)


def shuffled(rows: int, size: int, seed: int) -> Iterator[Any]:
    """Row numbers, epoch after epoch."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    while True:
        yield from torch.randperm(rows, generator=generator)[: rows // size * size].split(size)


def images(size: int, seed: int, device: str, limit: int | None) -> tuple[Iterator[Batch], list[Batch]]:
    import load
    import torch

    from onebasin.reproduce.batches import jitter
    from onebasin.tasks import crop_and_flip

    def split(name: str) -> tuple[Any, Any]:
        pixels, labels = (torch.from_numpy(x).to(device) for x in load.cifar10(name, limit=limit))
        return pixels.permute(0, 3, 1, 2), labels

    def normal(pixels: Any) -> dict[str, Any]:
        mean, deviation = (torch.tensor(x, device=device)[:, None, None] for x in (MEAN, DEVIATION))
        return {"pixel_values": (pixels - mean) / deviation}

    def batches() -> Iterator[Batch]:
        pixels, labels = split("train")
        generator = torch.Generator(device).manual_seed(seed)
        for rows in shuffled(len(labels), size, seed):
            rows = rows.to(device)
            yield normal(jitter(crop_and_flip(pixels[rows] / 255, generator), generator)), labels[rows]

    test = zip(*(x.split(500) for x in split("test")), strict=True)
    return batches(), [(normal(pixels / 255), labels) for pixels, labels in test]


def windows(size: int, seed: int, device: str, limit: int | None) -> tuple[Iterator[Batch], list[Batch]]:
    import load
    import torch

    def split(name: str) -> Any:
        return torch.frombuffer(bytearray(load.wikitext2(name).encode()), dtype=torch.uint8).to(device)

    def cut(text: Any, starts: Any) -> Batch:
        ids = text[starts[:, None].to(device) + torch.arange(WINDOW + 1, device=device)].long()
        return {"input_ids": ids[:, :-1], "use_cache": False}, ids[:, 1:].contiguous()

    def batches() -> Iterator[Batch]:
        text, generator = split("train"), torch.Generator().manual_seed(seed)
        while True:
            yield cut(text, torch.randint(len(text) - WINDOW, (size,), generator=generator))

    valid = split("valid")
    starts = torch.arange(1000) * ((len(valid) - WINDOW - 1) // 1000)
    return batches(), [cut(valid, part) for part in starts[:limit].split(100)]


def texts(size: int, seed: int, device: str, limit: int | None) -> tuple[Iterator[Batch], list[Batch]]:
    import load
    import torch

    words = tokenizer()

    def split(name: str) -> tuple[Any, Any, Any]:
        rows = load.ag_news(name)[:limit]
        read = words([text for _, text in rows], padding="max_length", truncation=True, return_tensors="pt")
        labels = torch.tensor([label for label, _ in rows])
        return tuple(x.to(device) for x in (read["input_ids"], read["attention_mask"], labels))

    def batch(ids: Any, mask: Any, labels: Any) -> Batch:
        return {"input_ids": ids, "attention_mask": mask}, labels

    def batches() -> Iterator[Batch]:
        columns = split("train")
        for rows in shuffled(len(columns[0]), size, seed):
            yield batch(*(x[rows.to(device)] for x in columns))

    test = zip(*(x.split(500) for x in split("test")), strict=True)
    return batches(), [batch(*columns) for columns in test]


def tokenizer() -> Any:
    """The most frequent lower-case words of the training texts."""
    import load
    import tokenizers
    from transformers import PreTrainedTokenizerFast

    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(unk_token="[UNK]"))
    words.normalizer = tokenizers.normalizers.BertNormalizer()
    words.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    trainer = tokenizers.trainers.WordLevelTrainer(
        vocab_size=VOCABULARY, special_tokens=list(names.values()), show_progress=False
    )
    words.train_from_iterator((text for _, text in load.ag_news("train")), trainer)
    words.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    words.enable_truncation(WORDS)
    words.enable_padding(length=WORDS)
    return PreTrainedTokenizerFast(tokenizer_object=words, model_max_length=WORDS, **names)


# ---- training


def train(name: str, seed: int, out: Path, device: str, *, tiny: bool) -> None:
    """Write out/NAME-SEED: bfloat16, with preprocessor or tokenizer, as save_pretrained writes it."""
    import torch

    torch.manual_seed(seed)
    pair, kind, folder = PAIRS[name], name.split("-")[0], out / f"{name}-{seed}"
    model = new_model(name).to(device)
    read = {"vit": images, "bert": texts}.get(kind, windows)
    batches, test = read(8 if tiny else pair.batch, seed, device, 40 if tiny else None)
    made = torch.optim.Adam if pair.in_gradient else torch.optim.AdamW
    optimizer = made(model.parameters(), lr=pair.lr, weight_decay=pair.decay, fused=device == "cuda")
    fit(model, batches, 3 if tiny else pair.steps, optimizer)
    model.to(torch.bfloat16).save_pretrained(folder)
    if kind == "vit":
        write_preprocessor(folder)
    if kind == "bert":
        tokenizer().save_pretrained(folder)
    loss, accuracy = tested(model.float().eval(), test)
    zoo = " and ".join(map(str, pair.losses))
    print(f"{folder}: test loss {loss:.4f} (zoo: {zoo}), accuracy {accuracy:.2%}", file=sys.stderr, flush=True)


def tested(model: Any, test: list[Batch]) -> tuple[float, float]:
    """Loss and accuracy over the test split, in float32."""
    import torch
    from torch.nn.functional import cross_entropy

    total, right, count = 0.0, 0, 0
    with torch.no_grad():
        for inputs, labels in test:
            logits = model(**inputs).logits.flatten(0, -2)
            total += float(cross_entropy(logits, labels.flatten(), reduction="sum"))
            right += int((logits.argmax(-1) == labels.flatten()).sum())
            count += labels.numel()
    return total / count, right / count


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="PAIR", choices=PAIRS, nargs="+", default=list(PAIRS))
    parser.add_argument("--seeds", default="0,1", help="0,1 unless said")
    parser.add_argument("--out", type=Path, default=Path("zoo"), help="a folder, zoo unless said")
    parser.add_argument("--tiny", action="store_true", help="a few steps on few samples")
    given = parser.parse_args()
    if not DATA.exists():
        sys.exit("../shared/data is absent, beside the repository: nothing to train on")
    sys.path.insert(0, str(DATA))
    torch.set_float32_matmul_precision("high")
    for name in given.only:
        for seed in given.seeds.split(","):
            train(name, int(seed), given.out, "cuda" if torch.cuda.is_available() else "cpu", tiny=given.tiny)


if __name__ == "__main__":
    main()
