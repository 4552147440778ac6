"""What the tests of learning share: tiny pairs, tasks that a pair can be taught on, and a run of it as a program."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
import transformers

from helpers.random_models import random_model, rope
from onebasin import Alignment, Checkpoint
from onebasin.checkpoint.stock import outputs, stock_model
from onebasin.ensemble.aligned import Aligned
from onebasin.ensemble.ensemble import Ensemble
from onebasin.events import Callback
from onebasin.learn.learning import learn
from onebasin.learn.objective import Objective
from onebasin.learn.options import LearnedMatching
from onebasin.learn.variation import OURS, Variation
from onebasin.match.many import as_they_are
from onebasin.moving.coordinates import Coordinates
from onebasin.papers.options import PaperLearning
from onebasin.papers.permutations import StraightThrough
from onebasin.papers.strategies import variation_of
from onebasin.tasks import CLASSIFICATION, LANGUAGE, Task

F64 = torch.float64
TINY = {
    "GPT2LMHeadModel": transformers.GPT2Config(
        n_embd=16, n_layer=2, n_head=2, n_inner=12, vocab_size=17, n_positions=12, tie_word_embeddings=False,
        bos_token_id=1, eos_token_id=2,
    ),
    "ViTForImageClassification": transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12, image_size=8, patch_size=4,
        num_labels=3, hidden_act="relu",
    ),
    "LlamaForCausalLM": transformers.LlamaConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=4, vocab_size=17,
        intermediate_size=12, max_position_embeddings=12, tie_word_embeddings=False, attention_dropout=0.1,
    ),
    "BertForSequenceClassification": transformers.BertConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12, vocab_size=17, num_labels=3,
        max_position_embeddings=12,
    ),
    "GPTNeoXForCausalLM": transformers.GPTNeoXConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12, vocab_size=17,
        max_position_embeddings=12, tie_word_embeddings=False,
        **rope(100.0, 0.5),
    ),
}  # fmt: skip
NAMES = pytest.mark.parametrize("name", TINY)
EVERYTHING = {"learn": ("residual", "qk", "ov", "heads", "units"), "paper": {"permutations": "straight-through"}}


def write(root: Path, name: str, models: int) -> list[Checkpoint]:
    for seed in range(models):
        random_model(name, TINY[name], seed).save_pretrained(root / f"{name}-{seed}")
    return [Checkpoint.open(root / f"{name}-{seed}") for seed in range(models)]


def write_pair(root: Path, name: str) -> tuple[Checkpoint, Checkpoint]:
    a, b = write(root, name, 2)
    return a, b


def write_pairs(root: Path) -> Path:
    """A pair of every class."""
    for name in TINY:
        write(root, name, 2)
    return root


def open_pair(root: Path, name: str) -> tuple[Checkpoint, Checkpoint]:
    return Checkpoint.open(root / f"{name}-0"), Checkpoint.open(root / f"{name}-1")


def inputs_of(checkpoint: Checkpoint, samples: int, seed: int = 0) -> dict[str, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    if "vocab_size" in checkpoint.config:
        return {"input_ids": torch.randint(17, (samples, 8), generator=g)}
    return {"pixel_values": torch.randn(samples, 3, 8, 8, generator=g, dtype=torch.float64)}


def taught_by(checkpoint: Checkpoint, samples: int = 128, seed: int = 0) -> Task:
    """Inputs with labels drawn as the checkpoint itself foretells them: no model is better than it."""
    inputs, g = inputs_of(checkpoint, samples, seed), torch.Generator().manual_seed(seed)
    chances = outputs(stock_model(checkpoint), checkpoint.spec, inputs)["logits"].softmax(-1)
    labels = chances.flatten(0, -2).multinomial(1, generator=g).view(chances.shape[:-1])
    return Task("taught", LANGUAGE if labels.ndim > 1 else CLASSIFICATION, inputs, labels, {})


def variation(paper: dict[str, object] | None) -> Variation:
    """What learning does by options of the papers; by none of them, our own."""
    return OURS if paper is None else variation_of(PaperLearning(**paper))


def assignments(side: Coordinates) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """(what is maximised, the permutation taken) of every stack whose permutations are straight-through."""
    found = {stack: side.parts(stack) for stack, x in side.latents.items() if isinstance(x, StraightThrough)}
    return {stack: (side.latents[stack].scores(parts["z"]), parts["index"]) for stack, parts in found.items()}


def objective(
    root: Path, name: str, *, tokens: int = 0, paper: dict[str, object] | None = None, **options: object
) -> tuple[Objective, Checkpoint, Checkpoint]:
    """(objective with random latents, A, B) in float64."""
    a, b = Ensemble.of(open_pair(root, name)).forms
    kind = LANGUAGE if "LM" in name else CLASSIFICATION
    chosen = LearnedMatching(**{"loss": "task", **options})
    made = Objective((a, b), chosen, kind, variation(paper), dtype=F64, tokens=tokens)
    g = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in made.learned():
            p.add_(0.3 * torch.randn(p.shape, generator=g, dtype=F64))
        for side in made.sides:
            for scores, index in assignments(side).values():
                index.copy_(
                    torch.stack([s.argsort(-1)[0] for s in scores.reshape(-1, *scores.shape[-2:])]).view_as(index)
                )
    return made, a, b


def share(of_b: float) -> torch.Tensor:
    """The shares of A and B."""
    return torch.tensor([1 - of_b, of_b], dtype=F64)


RUN = {"steps": 60, "batch": 8, "eval_every": 20, "save_every": 7, "log_every": 5, "dtype": "float64"}


def run(
    root: Path,
    name: str,
    folder: Path | None,
    tick=lambda progress: None,
    paper: dict[str, object] | None = None,
    **options: object,
) -> Aligned:
    """What is learned of a pair from the models as they are; `course["learning"]` tells how it went."""
    a, b = open_pair(root, name)
    start, chosen = as_they_are(Ensemble.of([a, b])), LearnedMatching(**{**RUN, **options})
    return learn(start, taught_by(a), 32, chosen, variation(paper), folder=folder, told=Telling(tick))


class Telling(Callback):
    """A function that is told the steps."""

    def __init__(self, tell) -> None:
        self.on_step = tell


def tensors(alignment: Alignment) -> dict[str, torch.Tensor]:
    return {f"{space}/{part}": x for space, g in alignment.maps.items() for part, x in g.tensors().items()}


if __name__ == "__main__":  # ROOT NAME FOLDER: a run to be killed, printing every step it has taken
    torch.set_num_threads(1)
    run(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), lambda p: print(p.step, flush=True), steps=10_000)  # noqa: T201
