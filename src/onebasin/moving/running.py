"""A stock model that is run at any place between the frozen models, and its loss there.

A small model is one block: all its layers are moved at once, and on a GPU all of a step is compiled.
`onebasin.moving.in_blocks` runs large ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from onebasin.checkpoint import Checkpoint, transformers_config
from onebasin.checkpoint.stock import stock_model
from onebasin.moving.blocks import Block, Frozen, Where, table_of
from onebasin.moving.head import Taught
from onebasin.paths.circuit import circuit_model
from onebasin.tasks import Measure
from onebasin.tasks.losses import mean, said, scores
from onebasin.tasks.teachers import together

Given = dict[str, Any]


class Running(nn.Module):
    """A model with θ(λ) of any place in its parameters' stead.  `loss` is the task's own, if it has one."""

    def __init__(self, model: nn.Module, loss: Measure | None) -> None:
        super().__init__()
        self.model, self.loss = model.requires_grad_(False), loss

    def forward(self, work: Callable[..., Any], *args: Any) -> Any:
        """Do one of the following: whatever has to happen before and after a run happens around this call."""
        return work(*args)

    def ready(self, where: Where) -> Where:
        """The place with what can be made before any batch."""
        return where

    def said(self, where: Where, given: Given) -> Tensor:
        """What the model says at a place."""
        return said(self._outputs(where, given), given)

    def loss_at(self, where: Where, given: Given, target: Tensor | Taught) -> Tensor:
        """The mean loss there."""
        assert isinstance(target, Tensor)
        return mean(*scores(self._outputs(where, given), given, target, self.loss))

    def taught(self, ends: Sequence[Where], given: Given, share: Tensor, kind: str) -> Tensor | Taught:
        """What is said at several places together: chances in place of logits, or a matrix of cosines."""
        return together([self._outputs(end, given) for end in ends], given, share, kind)

    def theta(self, where: Where) -> dict[str, Tensor]:
        """All of θ(λ), by the model's own parameter names."""
        raise NotImplementedError

    def _outputs(self, where: Where, given: Given) -> Any:
        raise NotImplementedError


@dataclass(frozen=True)
class Ready(Where):
    """A place with all of θ(λ)."""

    theta: Mapping[str, Tensor]


class Whole(Running):
    """A small model as one block; `tokens` is how many of them a batch has: a longer table is not moved as a whole."""

    def __init__(self, frozen: Frozen, loss: Measure | None, tokens: int) -> None:
        super().__init__(model_of(frozen, frozen.dtype), loss)
        self.table = None
        if tokens:
            table = table_of(frozen, self.model, self.model.get_input_embeddings())  # type: ignore[operator]
            self.table = table if table is not None and table.length > tokens else None
        self.block = Block(frozen, self.model, "", without=self.looked_up)
        for p in self.model.parameters():
            p.data = p.data.new_empty(0)  # θ(λ) takes their place; only what names them is needed

    @property
    def looked_up(self) -> str | None:
        """The parameter that holds the token embeddings, if it is cheaper to look tokens up first."""
        return None if self.table is None else f"{self.table.name}.weight"

    def theta(self, where: Where) -> dict[str, Tensor]:
        """All but the table that is looked up first."""
        return self.block.theta(where)

    def ready(self, where: Where) -> Ready:
        return Ready(where.share, where.moves, self.theta(where))

    def _outputs(self, where: Where, given: Given) -> Any:
        place = where if isinstance(where, Ready) else self.ready(where)
        if self.table is not None:
            given = dict(given)
            given["inputs_embeds"] = self.table.rows(where, given.pop("input_ids"))
        return self.block.run(place.theta, **given)


def model_of(
    frozen: Frozen, dtype: torch.dtype, stock: Callable[[Checkpoint, torch.dtype], nn.Module] = stock_model
) -> nn.Module:
    """The module to call: stock, or with circuits; in training mode only where something depends on that."""
    forms = frozen.forms
    if not frozen.dropout:
        rates = transformers_config(forms[0].config).to_dict()
        still = {name: 0.0 for name, x in rates.items() if "drop" in name and isinstance(x, float)}
        forms = [replace(form, config={**form.config, **still}) for form in forms]
    model = circuit_model(forms, dtype) if frozen.circuits else stock(forms[0], dtype)
    for module in model.modules():
        if isinstance(module, PreTrainedModel):
            module.config.use_cache = False  # keys of a first pass would be seen again by one that goes back
        if isinstance(module, nn.Embedding):
            module.padding_idx = None  # it only keeps the gradient from a row that the maps move like any other
    return model.train(frozen.dropout)
