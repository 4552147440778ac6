"""Several small models of one shape, trained side by side: one program whose tensors have one more axis.

A small model leaves a GPU idle between kernels; with `torch.func.vmap` six of them take hardly longer than one.  On a
CPU they take turns, which is quicker there.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.functional import cross_entropy, linear
from transformers import PreTrainedModel

from onebasin.methods.method import Tick
from onebasin.reproduce.batches import Batch, endless, held_back
from onebasin.reproduce.data import Tensors
from onebasin.reproduce.pausing import OutOfTime, Progress
from onebasin.reproduce.plan import Course

WARM_UP, CLIP = 0.05, 1.0  # share of the steps; largest norm of the gradient


class SideBySide:
    """Models of one shape with their parameters stacked; called with stacked inputs, it gives the loss of each."""

    def __init__(self, models: Sequence[PreTrainedModel], device: torch.device) -> None:
        for model in models:
            nn.Module.to(model, device).train()
            model.set_attn_implementation("eager")  # the others have no rule for one more axis
        _cut_patches(models[0])
        self.models, self.device = list(models), device
        everything, buffers = stack_module_state(self.models)
        parameters = {name: x for name, x in everything.items() if x.requires_grad}
        self.buffers = {**buffers, **{name: x for name, x in everything.items() if name not in parameters}}
        self.parts = {  # kind of parameter -> its names and shapes; all of a kind lie in one tensor (models, numbers)
            kind: {name: x.shape[1:] for name, x in parameters.items() if (x.ndim < 3) == (kind == "vectors")}
            for kind in ("matrices", "vectors")
        }
        self.flat = {
            kind: torch.cat([parameters[name].detach().flatten(1) for name in names], 1).requires_grad_()
            for kind, names in self.parts.items()
        }
        together = vmap(self._loss, randomness="different")
        self._losses: Callable[..., Tensor] = self._in_turn if device.type == "cpu" else together
        self._compiled: Callable[..., Tensor] | None = None
        if device.type == "cuda":
            self._compiled = torch.compile(self._losses)

    def parameters(self, flat: Tensors) -> Tensors:
        """Those of one model by name, from its numbers in a row."""
        found: Tensors = {}
        for kind, shapes in self.parts.items():
            rows = flat[kind].split([shape.numel() for shape in shapes.values()])
            found |= {name: x.view(shape) for (name, shape), x in zip(shapes.items(), rows, strict=True)}
        return found

    def _loss(self, flat: Tensors, buffers: Tensors, inputs: Tensors, labels: Tensor) -> Tensor:
        parameters = self.parameters(flat)
        extra = {"use_cache": False} if self.models[0].can_generate() else {}
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            logits = functional_call(self.models[0], (parameters, buffers), (), {**inputs, **extra}).logits
        return cross_entropy(logits.flatten(0, -2).float(), labels.flatten())

    def _in_turn(self, *stacked: Any) -> Tensor:
        return torch.stack([self._loss(*_nth(stacked, i)) for i in range(len(self.models))])

    def backward(self, inputs: Tensors, labels: Tensor) -> Tensor:
        """The loss of each model, with its gradients; compiled on a GPU, unless the compiler fails."""
        if self._compiled is not None:
            try:
                return self._backward(self._compiled, inputs, labels)
            except Exception as error:  # noqa: BLE001  whatever a compiler raises, the plain way is left
                warnings.warn(f"models train without the compiler: {type(error).__name__}", stacklevel=2)
                self._compiled = None
        return self._backward(self._losses, inputs, labels)

    def _backward(self, losses: Callable[..., Tensor], inputs: Tensors, labels: Tensor) -> Tensor:
        for x in self.flat.values():
            x.grad = None
        found = losses(self.flat, self.buffers, inputs, labels)
        found.sum().backward()
        return found.detach()

    @torch.no_grad()
    def clip(self) -> None:
        """Cut the gradient of every model to norm CLIP, each by itself."""
        grads = [x.grad for x in self.flat.values() if x.grad is not None]
        norms = torch.stack([x.square().sum(1) for x in grads]).sum(0).sqrt()
        for x in grads:
            x.mul_((CLIP / norms.clamp_min(1e-12)).clamp_max(1.0)[:, None])

    @torch.no_grad()
    def validate(self, batches: Sequence[Batch]) -> Tensor:
        """The mean loss of every model, without dropout."""
        self.models[0].eval()
        found = torch.stack([self._losses(self.flat, self.buffers, *batch) for batch in batches]).mean(0)
        self.models[0].train()
        return found

    def copies(self) -> Tensors:
        return {kind: x.detach().clone() for kind, x in self.flat.items()}

    @torch.no_grad()
    def apart(self, flat: Tensors | None = None) -> list[PreTrainedModel]:
        """The models, each with its own parameters again."""
        for conv in self.models[0].modules():
            vars(conv).pop("forward", None)
        for i, model in enumerate(self.models):
            for name, x in self.parameters(_nth(flat or self.flat, i)).items():
                model.get_parameter(name).copy_(x)
            model.cpu().eval().set_attn_implementation("sdpa")
        return self.models


def _nth(stacked: Any, i: int) -> Any:
    """Of everything that is stacked, the part of model i."""
    if isinstance(stacked, Tensor):
        return stacked[i]
    return {key: x[i] for key, x in stacked.items()} if isinstance(stacked, dict) else [_nth(x, i) for x in stacked]


def _cut_patches(model: PreTrainedModel) -> None:
    """Convolutions over patches side by side as the products they are: several at once would be slow otherwise."""
    for conv in model.modules():
        if isinstance(conv, nn.Conv2d) and conv.kernel_size == conv.stride:
            conv.forward = partial(_product, conv)  # type: ignore[method-assign]


def _product(conv: nn.Conv2d, x: Tensor) -> Tensor:
    (n, c, h, w), (p, q) = x.shape, conv.kernel_size
    patches = x.reshape(n, c, h // p, p, w // q, q).permute(0, 2, 4, 1, 3, 5).flatten(3)
    return linear(patches, conv.weight.flatten(1), conv.bias).permute(0, 3, 1, 2)


def train(
    models: Sequence[PreTrainedModel], data: Tensors, length: int, course: Course, seeds: Sequence[int],
    device: torch.device, tick: Tick, progress: Progress | None = None,
) -> list[PreTrainedModel]:  # fmt: skip
    """Train them all; the weights of `models` are where they begin, and each seed orders the data its own way.

    Where `tick` says that the time is up, `progress` keeps what is reached; the next call goes on from there.
    """
    side = SideBySide(models, device)
    optimizer = _optimizer(side, course)
    batches = endless(data, length, course.batch, seeds, device)
    best = Best(side, list(held_back(data, length, len(seeds), device)), course.patience) if course.patience else None
    begin = 0 if progress is None else progress.load(side, optimizer, best)
    for _ in range(begin):
        next(batches)
    for step in range(begin, course.steps):
        for group in optimizer.param_groups:
            group["lr"] = course.lr * rate(step, course.steps)
        losses = side.backward(*next(batches))
        side.clip()
        optimizer.step()
        ended = best is not None and (step + 1) % course.eval_every == 0 and best.ended()
        if step % 50 == 0 or step + 1 == course.steps:
            try:
                tick(f"loss {float(losses.mean()):.3f}", step + 1, course.steps)
            except OutOfTime:
                if progress is not None:
                    progress.save(step + 1, side, optimizer, best)
                raise
        if ended:
            break
    return side.apart(None if best is None else best.kept)


class Best:
    """Every model as it was when it did best on data held back, until so many validations in a row were no better."""

    def __init__(self, side: SideBySide, held: Sequence[Batch], patience: int) -> None:
        self.side, self.held, self.patience, self.kept = side, held, patience, side.copies()
        self.loss = torch.full((len(side.models),), math.inf, device=side.device)
        self.stale = torch.zeros(len(side.models), device=side.device)

    def ended(self) -> bool:
        """Validate; whether all have had their time."""
        now = self.side.validate(self.held)
        better = (now < self.loss) & (self.stale < self.patience)
        for kind, x in self.side.flat.items():
            self.kept[kind] = torch.where(better[:, None], x.detach(), self.kept[kind])
        self.loss, self.stale = torch.where(better, now, self.loss), torch.where(better, 0, self.stale + 1)
        return bool((self.stale >= self.patience).all())


def rate(step: int, steps: int) -> float:
    """Linear warm-up, then a half cosine down to nothing."""
    return min(1.0, (step + 1) / (WARM_UP * steps)) * (1 + math.cos(math.pi * step / steps)) / 2


def _optimizer(side: SideBySide, course: Course) -> torch.optim.Optimizer:
    """Adam with an L2 term spares vectors (norms and biases), which it would pull to nothing."""
    fused = side.device.type == "cuda"
    if course.optimizer == "adamw":
        return torch.optim.AdamW(side.flat.values(), lr=course.lr, weight_decay=course.decay, fused=fused)
    decayed: dict[str, Any] = {"params": [side.flat["matrices"]], "weight_decay": course.decay}
    return torch.optim.Adam([decayed, {"params": [side.flat["vectors"]]}], lr=course.lr, fused=fused)
