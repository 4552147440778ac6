"""What a model on the path should say: the task's labels, or what the end points say themselves.

Without labels the end points are the teachers.  At λ, a point of the simplex, the target is the mixture

    p(x) = Σ_m λ_m softmax f_m(x)

and its cross entropy is least where the model between agrees with all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import kl_div

from onebasin.checkpoint import Checkpoint
from onebasin.checkpoint.stock import stock_model
from onebasin.errors import BadTask
from onebasin.linalg import mixture, running_shares
from onebasin.tasks import LANGUAGE, Task, Training


class Teacher(nn.Module):
    """The end points, frozen."""

    def __init__(self, ends: Sequence[Checkpoint], kind: str, forward_dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.ends = nn.ModuleList(stock_model(end, torch.float32).requires_grad_(False) for end in ends)
        self.extra = {"use_cache": False} if kind == LANGUAGE else {}
        self.dtype = forward_dtype

    @torch.no_grad()
    def forward(self, inputs: Mapping[str, Tensor], share: Tensor) -> Tensor:
        """The mixture at λ, like the logits with probabilities in their place."""
        device = next(iter(inputs.values())).device.type
        with torch.autocast(device, self.dtype or torch.bfloat16, enabled=self.dtype is not None):
            said = [end(**inputs, **self.extra).logits for end in self.ends]
        return mixture([logits.float().softmax(-1) for logits in said], running_shares(share.float()))


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
    if not task.labelled:
        raise BadTask(
            "The task has no labels to learn from",
            expected="labelled samples",
            found=task.name,
            next_step="learn by agreement (loss: agreement), which needs none, or give a labelled task",
        )


@torch.no_grad()
def disagreement(model: nn.Module, task: Task, teacher: Teacher, share: Tensor, batch: int = 50) -> float:
    """Mean divergence KL(p | q) of what the model says, q, from what the teacher says at λ, p."""
    total, count = 0.0, 0
    for inputs, _ in task.batches(batch):
        said, target = model(**inputs, **teacher.extra).logits, teacher(inputs, share)
        total += float(kl_div(said.float().log_softmax(-1), target, reduction="sum"))
        count += target[..., 0].numel()
    return total / count
