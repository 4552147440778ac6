"""The options of learned matching: plain numbers and words, checked once."""

from __future__ import annotations

from dataclasses import dataclass, fields

from onebasin.errors import OnebasinError

GROUPS = ("residual", "qk", "ov", "heads", "units", "scale", "gains")
CHOICES = {
    "loss": ("task", "agreement"),
    "permutations": ("frozen", "straight-through", "soft"),
    "path": ("factor", "circuit"),
    "rotation": ("cayley", "exponential", "polar"),
    "invertible": ("polar", "plain"),
    "law": ("auto", "middle", "half", "full", "normal", "near-a", "near-b", "small-end", "highest", "dirichlet"),
    "turns": ("together", "in-turn"),
    "optimizer": ("adamw", "adam", "muon"),
    "schedule": ("cosine", "constant"),
    "dtype": ("auto", "bfloat16", "float32", "float64"),
    "compile": ("auto", "off", "default", "reduce-overhead", "max-autotune"),
}
AT_LEAST = {
    "steps": 1, "batch": 1, "accumulate": 1, "eval_every": 1, "log_every": 1, "save_every": 1, "assign_every": 1,
    "sinkhorn": 1, "patience": 0, "recentre_every": 0, "seed": 0, "lr": 0, "weight_decay": 0, "warmup": 0, "clip": 0,
    "noise": 0,
}  # fmt: skip


@dataclass(frozen=True)
class LearnedMatching:
    """What is learned, against which loss, and how.

    What moves:
        learn: the groups of spaces that have latents: residual, qk, ov (their continuous parts); heads, units (their
            scales, and their permutations where these are not frozen); scale (one positive number on what writes the
            residual stream); gains (how every norm and what reads it share their product: one positive number per
            coordinate).
        permutations: "frozen", "straight-through" (P1, algorithm 1) or "soft" (P1, appendix C.2: doubly stochastic, so
            the end point is not B any more).
        two_sided: latents for A and for B (P3), reduced to one alignment of B at the end; with gains both stay in the
            basis that was found.  Of several models the first stands still, or all move.
        turns: each step moves all latents ("together"), or one model's after the other's ("in-turn").
        rotation, invertible: the charts of orthogonal and of invertible maps; every `recentre_every` steps they move
            along, with the maps reached as their origin and latents of zero (0 for never).
    The loss:
        loss: "task", the cross entropy with the task's labels, or "agreement", with what the end points themselves say,
            (1−λ) p_A + λ p_B or Σ λ_m p_m, which needs no labels.
        path: "factor" (stock models) or "circuit" (P1).
        law: where λ, the share of B, is drawn: "middle" uniform on [0.4, 0.6], "half" 0.5, "full" uniform on [0, 1],
            "normal" N(0.5, 0.1) cut off at 0 and 1, "near-a" uniform on [0.2, 0.5], "near-b" on [0.5, 0.8], "small-end"
            the one of these two that is nearer to the smaller model; "highest" mostly where the last validation found
            the path highest, for the lowest barrier; "dirichlet" Dirichlet(`alpha`·1), the one for several models.
            "auto" is "middle" for two models and "dirichlet" for more.
        augment: random crops and flips of images.  dropout: the models' own dropout rates instead of none.
    The optimiser: "adamw", "adam", or "muon", whose steps turn all directions of a matrix at one speed (its rates are
        some three times Adam's); `accumulate` batches of `batch` samples a step; linear warm-up over the share `warmup`
        of the steps; gradients clipped to norm `clip` (0 for not at all).
    The course: validation every `eval_every` steps, stopping after `patience` of them without a better midpoint (of
        several models: centre; by the law "highest": highest place; 0 for never); the state is saved every
        `save_every` steps, the loss read every `log_every`.
    Speed: `dtype` of the forward pass ("auto" is bfloat16 on a GPU, float32 elsewhere), `tf32` in the transport,
        `compile` mode of torch ("auto" is "default" on a GPU, "off" elsewhere), `checkpointing` of activations.
    Permutations: the assignment is solved again every `assign_every` steps, beside the run; `sinkhorn` iterations and
        the `noise` coefficient ε of the soft start.
    """

    learn: tuple[str, ...] = ("residual", "qk", "ov")
    permutations: str = "frozen"
    two_sided: bool = False
    turns: str = "together"
    rotation: str = "cayley"
    invertible: str = "polar"
    recentre_every: int = 0
    loss: str = "task"
    path: str = "factor"
    law: str = "auto"
    alpha: float = 0.1
    augment: bool = False
    dropout: bool = False
    steps: int = 1000
    batch: int = 64
    accumulate: int = 1
    optimizer: str = "adamw"
    lr: float = 3e-3
    weight_decay: float = 0.0
    schedule: str = "cosine"
    warmup: float = 0.05
    clip: float = 1.0
    eval_every: int = 100
    patience: int = 0
    log_every: int = 10
    save_every: int = 100
    dtype: str = "auto"
    tf32: bool = True
    compile: str = "auto"
    checkpointing: bool = False
    assign_every: int = 10
    sinkhorn: int = 20
    noise: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise _refused(name, ", ".join(choices), getattr(self, name))
        for name, least in AT_LEAST.items():
            if not getattr(self, name) >= least:
                raise _refused(name, f"{least} or more", getattr(self, name))
        odd = [group for group in self.learn if group not in GROUPS]
        if odd or not self.learn or len(set(self.learn)) < len(self.learn):
            raise _refused("learn", f"some of {', '.join(GROUPS)}, each once", ", ".join(self.learn) or "nothing")
        if self.two_sided and self.permutations == "soft":
            raise _refused(
                "permutations", "frozen or straight-through, for soft ones have no inverse", "soft, two-sided"
            )
        if self.path == "circuit" and "gains" in self.learn:
            raise _refused("learn", "no gains, for the circuit path runs between canonical forms", "path circuit")
        if not self.alpha > 0:
            raise _refused("alpha", "a positive number", self.alpha)
        if self.warmup > 1:
            raise _refused("warmup", "a share of the steps, from 0 to 1", self.warmup)

    def as_dict(self) -> dict[str, object]:
        """Everything, as plain data."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**values, "learn": list(self.learn)}


def _refused(name: str, expected: str, found: object) -> OnebasinError:
    return OnebasinError(
        f"The option {name!r} of learned matching cannot be this",
        expected=expected,
        found=found,
        next_step=f"give {name} one of these values",
    )
