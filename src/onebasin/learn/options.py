"""The options of learning.  Free of torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Annotated, Literal, Self

from onebasin.errors import BadRecipe
from onebasin.options import Count, Distinct, Number, Options, Positive, Rate, Seed, Share, Size

if TYPE_CHECKING:
    from onebasin.spec import ModelSpec
    from onebasin.tasks import Training

LARGE = 2**28  # numbers in a model that is run block by block; benchmarks/blocks.py compares
Group = Literal["residual", "qk", "ov", "heads", "units", "gains", "shares"]


@dataclass(frozen=True)
class LearnedMatching(Options):
    """What is learned, against which loss, and how.

    What moves:
        learn: the groups of spaces that have latents: residual, qk, ov (their continuous parts); heads, units (their
            scales); gains (how every norm and what reads it share their product: one positive number per coordinate);
            shares (rows and columns of every stored tensor have shares of their own: for a merge).
        two_sided: latents for A and for B (third paper), reduced to one alignment of B at the end; with gains or shares
            both stay in the basis that was found.  Of several models the first stands still, or all move.
        recentre_every: charts move along every so many steps, with the maps reached as their origin and latents of
            zero; 0 for never.
    The loss:
        loss: "task", the task's own, or the cross entropy with its labels; "agreement", with what the end points
            themselves say, Σ w_m p_m (`onebasin.tasks.teachers`), which needs no labels; "auto" is the first where
            there are labels.  Of several tasks those with labels take the first, the others the second.
        path: "factor" (stock models) or "circuit" (first paper).
        law: where λ, the share of B, is drawn: "middle" uniform on [0.4, 0.6]; "highest" mostly where the last
            validation found the path highest, for the lowest barrier; "dirichlet" Dirichlet(`alpha`·1), the one for
            several models.  "auto" is "middle" for two models and "dirichlet" for more.
        augment: random crops and flips of images.  dropout: the models' own dropout rates instead of none.
    The optimiser: "adamw", or "muon", whose steps turn all directions of a matrix at one speed; `accumulate` batches of
        `batch` samples a step; linear warm-up over the share `warmup` of the steps, then a half cosine to zero;
        gradients clipped to norm `clip` (0 for not at all).
    The course: validation every `eval_every` steps, stopping after `patience` of them without a better midpoint (of
        several models: centre; by the law "highest": highest place; 0 for never); the state is saved every
        `save_every` steps, the loss read every `log_every`.
    Speed: `dtype` of the forward pass ("auto" is bfloat16 on a GPU, float32 elsewhere), `compile` ("auto" on a GPU,
        "off" never), `checkpointing` of activations: the model is run block by block, as large ones always are.
    """

    learn: Annotated[tuple[Group, ...], Distinct()] = ("residual", "qk", "ov")
    two_sided: bool = False
    recentre_every: Number = 0
    loss: Literal["auto", "task", "agreement"] = "auto"
    path: Literal["factor", "circuit"] = "factor"
    law: Literal["auto", "middle", "highest", "dirichlet"] = "auto"
    alpha: Positive = 0.1
    augment: bool = False
    dropout: bool = False
    steps: Count = 1000
    batch: Count = 64
    accumulate: Count = 1
    optimizer: Literal["adamw", "muon"] = "adamw"
    lr: Rate = 3e-3
    weight_decay: Rate = 0.0
    warmup: Share = 0.05
    clip: Size = 1.0
    eval_every: Count = 100
    patience: Number = 0
    log_every: Count = 10
    save_every: Count = 100
    dtype: Literal["auto", "bfloat16", "float32", "float64"] = "auto"
    compile: Literal["auto", "off"] = "auto"
    checkpointing: bool = False
    seed: Seed = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        for group in [x for x in ("gains", "shares") if x in self.learn and self.path == "circuit"]:
            step = f"leave {group} out, or take the factor path"
            raise BadRecipe(f"learn cannot hold {group} on the circuit path", found="path circuit", next_step=step)

    def compiles(self, device: str) -> bool:
        """Whether steps on this kind of device are compiled."""
        return self.compile != "off" and device == "cuda"

    def by_blocks(self, spec: ModelSpec) -> bool:
        """Whether models of this table are run block by block, with activations computed again going back."""
        return self.checkpointing or sum(map(prod, spec.keys.values())) > LARGE

    def for_task(self, task: Training) -> Self:
        """The options with a loss that the task has; of tasks of both kinds each takes its own."""
        from onebasin.tasks import parts_of

        kinds = {one.labelled for _, one, _ in parts_of(task)}
        if self.loss != "auto" or len(kinds) > 1:
            return self
        return replace(self, loss="task" if True in kinds else "agreement")
