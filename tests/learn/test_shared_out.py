"""Several processes share out the frozen models (FSDP2) and split the batch: they learn what one process does."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from helpers.examples import TIMES
from helpers.learning import RUN, Telling, open_pair, tensors
from helpers.several import together
from onebasin.ensemble.ensemble import Ensemble
from onebasin.errors import Lost
from onebasin.learn import learning
from onebasin.learn.learning import learn
from onebasin.learn.options import LearnedMatching
from onebasin.match.many import as_they_are
from onebasin.moving import head
from onebasin.tasks import LANGUAGE, Task

NAME = "LlamaForCausalLM"
STEPS = {"task": 20, "agreement": 5}
OPTIONS = {
    **RUN, "steps": 20, "batch": 4, "eval_every": 20, "save_every": 5, "checkpointing": True, "lr": 1e-2,
    "learn": ("residual", "qk", "ov", "gains"),
}  # fmt: skip


def padded(samples: int = 64) -> Task:
    """Texts of unequal length: the parts of a batch have unequal numbers of labels."""
    g = torch.Generator().manual_seed(3)
    ids, labels = torch.randint(17, (2, samples, 8), generator=g)
    mask = (torch.arange(8) < torch.randint(1, 9, (samples, 1), generator=g)).long()
    inputs = {"input_ids": ids, "attention_mask": mask}
    return Task("padded", LANGUAGE, inputs, labels.masked_fill(mask == 0, -100), {})


def frozen_bytes(objective) -> int:
    """What this process keeps of all models."""
    kept = [p for block in objective.running.blocks for p in block.parameters()]
    return sum((p.to_local() if hasattr(p, "to_local") else p).nbytes for p in kept)


def run(root, folder=None, tick=lambda step: None, **options):
    """(maps, their losses, bytes kept) of one run."""
    seen = []
    own = learning.Run

    class Watched(own):
        def train(self, told=None):
            seen.append(frozen_bytes(self.steps.objective))
            super().train(told)

    learning.Run = Watched
    try:
        start = as_they_are(Ensemble.of(open_pair(root, NAME)))
        chosen = LearnedMatching(**{**OPTIONS, **options})
        found = learn(start, padded(), 8, chosen, folder=folder, told=Telling(tick))
    finally:
        learning.Run = own
    maps = {name: x.numpy() for name, x in tensors(found.alignments[1]).items()}
    return maps, [p["midpoint"] for p in found.course["learning"]["history"]], seen[0]


def far(x, y) -> float:
    return max(float(abs(x[name] - y[name]).max()) for name in x)


@pytest.fixture(scope="module", autouse=True)
def in_chunks():
    """Losses of three tokens at a time."""
    own, head.CHUNK = head.CHUNK, 3 * 17
    yield
    head.CHUNK = own


@pytest.fixture(scope="module")
def alone(root, in_chunks):
    return {loss: run(root, loss=loss, steps=STEPS[loss]) for loss in STEPS}


@pytest.mark.parametrize("loss", STEPS)
@pytest.mark.parametrize("count", [2, 4] if TIMES > 1 else [2])
def test_several_processes_learn_what_one_does_with_a_part_of_the_models_each(root, tmp_path, alone, count, loss):
    maps, losses, whole = alone[loss]
    for found, heights, part in together(count, tmp_path / "run", lambda: run(root, loss=loss, steps=STEPS[loss])):
        assert far(found, maps) < 1e-9
        assert heights == pytest.approx(losses, abs=1e-9)
        assert part < 1.1 * whole / count
    assert far(maps, alone["agreement" if loss == "task" else "task"][0]) > 1e-3  # the control


def test_a_process_that_is_killed_ends_all_and_the_run_goes_on(root, tmp_path, alone):
    def noted(step) -> None:
        if step.step >= 10:
            (tmp_path / "killed" / "now").touch()

    work = partial(run, root, tmp_path / "state", noted)
    first, second = together(2, tmp_path / "killed", work, kill=1)
    assert second is None
    assert isinstance(first, Lost)
    assert "Another process of this run has ended" in str(first)
    for found, *_ in together(2, tmp_path / "again", work):
        assert far(found, alone["task"][0]) < 1e-9
