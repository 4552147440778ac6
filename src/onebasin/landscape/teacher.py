"""What a model on the path should say: the task's labels, or what the end points say themselves.

Without labels the end points are the teachers.  At λ, a point of the simplex, the target is the mixture

    p(x) = Σ_m w_m softmax f_m(x)

and its cross entropy is least where the model between agrees with all.  w is λ itself, or, of models that write text,
the chance that model m wrote what is before it (`onebasin.tasks.teachers`).  Of models without a head the target is the
mixture of how alike each finds the inputs of a batch (`onebasin.tasks.losses`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from onebasin.checkpoint import Checkpoint
from onebasin.checkpoint.stock import stock_model
from onebasin.errors import BadTask
from onebasin.tasks import Training
from onebasin.tasks.losses import cast, options_of
from onebasin.tasks.teachers import together


class Teacher(nn.Module):
    """The end points, frozen."""

    def __init__(self, ends: Sequence[Checkpoint], kind: str, forward_dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.ends = nn.ModuleList(stock_model(end, torch.float32).requires_grad_(False) for end in ends)
        self.kind, self.extra = kind, options_of(kind)
        self.dtype = forward_dtype

    @torch.no_grad()
    def forward(self, inputs: Mapping[str, Tensor], share: Tensor) -> Tensor:
        """What they say together at λ, like the logits with probabilities in their place; or a matrix of cosines."""
        device = next(iter(inputs.values())).device
        given = cast(inputs, self, device)
        with torch.autocast(device.type, self.dtype, enabled=self.dtype is not None):
            outputs = [end(**given, **self.extra) for end in self.ends]
        return together(outputs, given, share, self.kind)

    def at(self, place: Sequence[float]) -> Callable[[Mapping[str, Tensor]], Tensor]:
        """What the end points say at λ, as a function of the inputs."""
        share = torch.tensor(place, device=next(self.parameters()).device)
        return lambda inputs: self(inputs, share)


def check_labelled(task: Training) -> None:
    """A task loss needs labels."""
    if not task.labelled:
        raise BadTask(
            "The task has no labels to learn from",
            expected="labelled samples",
            found=task.name,
            next_step="learn by agreement (loss: agreement), which needs none, or give a labelled task",
        )
