"""What a model on the path should say: the task's labels, or what the end points say themselves.

Without labels the end points are the teachers.  At λ, a point of the simplex, the target is the mixture

    p(x) = Σ_m λ_m softmax f_m(x)

and its cross entropy is least where the model between agrees with all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from onebasin.checkpoint import Checkpoint
from onebasin.errors import BadTask
from onebasin.learn.laws import centre
from onebasin.linalg import mixture, running_shares
from onebasin.stock import stock_model
from onebasin.tasks import LANGUAGE, Task, Training


class Teacher(nn.Module):
    """The end points, frozen."""

    def __init__(self, ends: Sequence[Checkpoint], kind: str, forward_dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.ends = nn.ModuleList(stock_model(end, torch.float32).requires_grad_(False) for end in ends)
        self.extra = {"use_cache": False} if kind == LANGUAGE else {}
        self.dtype = forward_dtype

    @torch.no_grad()
    def forward(self, inputs: Mapping[str, Tensor], weight: Tensor) -> Tensor:
        """The mixture at λ, like the logits with probabilities in their place."""
        device = next(iter(inputs.values())).device.type
        with torch.autocast(device, self.dtype or torch.bfloat16, enabled=self.dtype is not None):
            said = [end(**inputs, **self.extra).logits for end in self.ends]
        return mixture([logits.float().softmax(-1) for logits in said], running_shares(weight.float()))


def check_predicts(checkpoint: Checkpoint) -> None:
    """Learning needs predictions: a model without a head has none."""
    if "logits" not in checkpoint.spec.outputs:
        raise BadTask(
            f"{checkpoint.spec.architecture} has no head, so there is no loss to learn from",
            expected="a model with logits",
            found=", ".join(checkpoint.spec.outputs),
            next_step="use --method weight or activation, or give the models with their heads",
        )


def check_labelled(task: Training) -> None:
    """A task loss needs labels."""
    if isinstance(task, Task) and not task.labelled:
        raise BadTask(
            "The task has no labels to learn from",
            expected="labelled samples",
            found=task.name,
            next_step="learn by agreement (loss: agreement), which needs none, or give a labelled task",
        )


@torch.no_grad()
def disagreement(model: nn.Module, task: Task, teacher: Teacher, device: torch.device, batch: int = 50) -> float:
    """Cross entropy of the model at the centre with what the teacher says there."""
    total, count, weight = 0.0, 0, centre(len(teacher.ends)).to(device)
    for inputs, _ in task.to(device).batches(batch):
        logits = model(**inputs, **teacher.extra).logits.flatten(0, -2)
        total += float(cross_entropy(logits, teacher(inputs, weight).flatten(0, -2))) * len(logits)
        count += len(logits)
    return total / count
