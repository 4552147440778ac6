"""Describe a checkpoint from its headers: spaces, families and why, group dimension, ties, memory.  Free of torch."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from onebasin.canonical.structure import canonical_spec
from onebasin.checkpoint import Checkpoint
from onebasin.ensemble.compatibility import obstacles
from onebasin.ensemble.memory import MODELS, lacking, memory_of
from onebasin.ensemble.obstacle import Obstacle
from onebasin.ensemble.work import certificate, learning_step, matching, reading, writing
from onebasin.processes.speed import cpu_speed
from onebasin.spec import ModelSpec
from onebasin.spec.model import kind_of

STRANGER = 0.1  # cosine of layers from which on they have a common ancestor (docs/do-i-need-this.md)
SWEEPS, STEP = 15, 1000  # of weight matching, at most; and tokens of a step of learning, to say how long it takes
UNUSED = 1e-6  # a direction or a difference that rounding could have made


@dataclass(frozen=True, repr=False)
class Inspection:
    """What `describe` or `describe_pair` says, and one sentence on what it means."""

    report: dict[str, Any]

    @property
    def ready(self) -> bool:
        """Nothing blocks an alignment: neither the two models nor the memory of this machine."""
        return len(self.models) == 1 or (bool(self.report["alignable"]) and self._lacking() is None)

    def _lacking(self) -> str | None:
        """Which memory an alignment would take that is not here, in words."""
        return lacking(max(model["memory"]["align"] for model in self.models))

    @property
    def models(self) -> list[dict[str, Any]]:
        """The description of each model."""
        if "obstacles" in self.report:
            return [self.report[side] for side in "ab" if side in self.report]
        return [self.report]

    def advice(self, *names: str) -> str:
        """Ready, or what blocks; then what to type next.  `names` are what the models are called."""
        names = tuple(shlex.quote(name) for name in names or (model["model"] for model in self.models))
        if self.verdict == "one basin":
            return f"nothing to align: the two have a common ancestor; next: {self._without_us()}"
        if blocking := [found for found in self.report.get("obstacles", ()) if found["blocks"]]:
            what = ", ".join(dict.fromkeys(found["what"] for found in blocking))
            return f"not ready: these two cannot be aligned as they are ({what}); next: {blocking[0]['next_step']}"
        if (missing := self._lacking()) is not None:
            return f"not ready: {missing}; next: use a larger machine"
        if len(names) == 1:
            return f"ready; next: onebasin verify {names[0]}, or onebasin inspect {names[0]} B with the model to align"
        if self.verdict in ("common ancestor", "between"):
            step = f"onebasin barrier {' '.join(names)} --task ...; align them only if the loss rises"
            return f"ready, if an alignment is needed; next: {step}"
        return f"ready: nothing blocks an alignment; next: onebasin align {' '.join(names)} -o OUT"

    @property
    def verdict(self) -> str | None:
        """What the weights say, where they were compared: see `likeness.Verdict`."""
        return str(self.report["weights"]["verdict"]) if "weights" in self.report else None

    def _without_us(self) -> str:
        """What to do with models that have a common ancestor."""
        if self.report["weights"]["equal_depth"]:
            return "average them as they are, with mergekit or any tool that averages tensors by name"
        return "take the layers paired above from the deeper model (mergekit: passthrough), then average as they are"

    def __repr__(self) -> str:
        lines = []
        for model in self.models:
            lines.append(f"{model['architecture']}  {model['model']}  {model['parameters']:,} parameters")
            lines += [
                f"  {name:<20} {space['size']:>6}  {space['family']}" + (f"  ({count} times)" if count > 1 else "")
                for name, count, space in kinds(model["spaces"])
            ]
        if "weights" in self.report:
            lines.append(say_weights(self.report["weights"]))
        return "\n".join([*lines, self.advice()])


def inspect(a: Checkpoint, b: Checkpoint | None = None) -> Inspection:
    """One model, or two and what stands between them."""
    return Inspection(describe(a) if b is None else describe_pair(a, b))


def describe(checkpoint: Checkpoint) -> dict[str, Any]:
    """Everything `inspect` prints of one model, as plain data."""
    stored, free = checkpoint.spec, canonical_spec(checkpoint)
    spaces = [_space(name, stored, free) for name in free.spaces]
    parameters = sum(math.prod(shape) for shape in stored.keys.values())
    return {
        "model": str(checkpoint.store.folder),
        "model_type": stored.model_type,
        "architecture": stored.architecture,
        "parameters": parameters,
        "bytes": checkpoint.store.nbytes,
        "dtypes": dict(Counter(kind for _, kind in checkpoint.stored.values())),
        "tied": stored.constants.get("tied embedding"),
        "spaces": spaces,
        "dimension": sum(space["dimension"] for space in spaces),
        "attention_dimension": _attention_dimensions(free),
        "kept_gains": {norm.name: norm.blocked for norm in free.norms.values() if norm.blocked},
        "memory": {work: memory_of(free, work) for work in MODELS},
        "seconds": _seconds(checkpoint, free),
    }


def _seconds(checkpoint: Checkpoint, free: ModelSpec) -> dict[str, Any]:
    """About how long it takes on this CPU to align two such models by weights, and a step of learning."""
    store = checkpoint.store
    speed = cpu_speed(store.folder / next(iter(store.headers.values())).file)
    stages = {
        "reading": reading(2 * store.nbytes),
        "matching": matching(free, SWEEPS),
        "certificate": certificate(free),
        "writing": writing(free, store.nbytes),
    }
    step = learning_step(free, STEP)
    return {"align": {name: load.seconds(speed) for name, load in stages.items()}, "step": step.seconds(speed)}


def undescribed(a: str, b: str) -> dict[str, Any]:
    """Two model classes of which no table describes both: nothing but their weights can be compared."""
    step = "add a table for each (CONTRIBUTING.md, 'Add an architecture')"
    return {"obstacles": [asdict(Obstacle("an architecture without a table", a, b, step))], "alignable": False}


def say_weights(weights: dict[str, Any]) -> str:
    """The verdict in a sentence."""
    if weights["verdict"] == "not comparable":
        return "not comparable as stored: no matrix inside a layer has the same name and shape in both models"
    layers, count = weights["layers"], sum(len(layer["tensors"]) for layer in weights["layers"])
    found = f"median cosine {weights['cosine']:.3f} over {count} matrices"
    if weights["verdict"] == "one basin":
        return f"one basin already: the models have a common ancestor and are near to it ({found})"
    if weights["verdict"] == "independent":
        return f"independent: no common ancestor is visible ({found})"
    related = sum(layer["stored"] >= STRANGER for layer in layers)
    seen = f"visible in {related} of {len(layers)} layers"
    if weights["verdict"] == "common ancestor":
        return f"common ancestor: {seen}, but the models have gone far from it ({found})"
    return f"between: a common ancestor is {seen}, and not in the others ({found})"


def say_heads(name: str, heads: dict[str, Any]) -> str:
    """How far the symmetries of attention are those of the table, in a sentence."""
    weakest, closest = heads["weakest"], heads["closest"]
    said = f"heads of {name}: the weakest direction inside is {weakest['weakest']:.2g} of the strongest"
    said += f" ({weakest['heads']})"
    if closest is not None:
        said += f", the two closest differ by {closest['closest']:.2g} ({closest['heads']})"
    unused = weakest["weakest"] < UNUSED
    twins = closest is not None and closest["closest"] < UNUSED
    if unused or twins:
        what = " and ".join(x for x, there in (("unused directions", unused), ("twin heads", twins)) if there)
        said += f"; {what} leave maps open"
    return said


def describe_pair(a: Checkpoint, b: Checkpoint) -> dict[str, Any]:
    """Both models and what stands between them."""
    found = [asdict(obstacle) for obstacle in obstacles(a, b)]
    return {"a": describe(a), "b": describe(b), "obstacles": found, "alignable": not any(o["blocks"] for o in found)}


def _space(name: str, stored: ModelSpec, free: ModelSpec) -> dict[str, Any]:
    space, family = free.spaces[name], free.family(name)
    before = stored.family(name) if name in stored.spaces else None
    return {
        "name": name,
        "size": space.size,
        "fibres": free.fibres(name),
        "base": space.base,
        "family": family.name,
        "members": family.members,
        "as_stored": before.name if before else None,
        "dimension": free.dimension(name),
        "because": [{"operation": op.name, "admits": op.admits.name, "why": op.why} for op in free.ops(name)],
    }


def _attention_dimensions(spec: ModelSpec) -> dict[str, int]:
    """Real dimension of every attention layer's group: all inside-head maps over its heads."""
    inside: Counter[str | None] = Counter()
    for name, space in spec.spaces.items():
        inside[space.base] += spec.dimension(name)
    return {attention.name: inside[_heads(spec, attention.value)] for attention in spec.attentions}


def _heads(spec: ModelSpec, value: str) -> str | None:
    """The space of the heads that the linear map `value` writes into."""
    (heads,) = {spec.spaces[axis.space].base for _, axis in spec.leaves[spec.linears[value].weight].spaces()} - {None}
    return heads


def kinds(spaces: list[dict[str, Any]]) -> list[tuple[str, int, dict[str, Any]]]:
    """Spaces that differ only in their layer, together: (name with the layer range, count, one of them)."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for space in spaces:
        kind = kind_of(space["name"])
        groups.setdefault((kind, space["size"], space["fibres"], space["family"]), []).append(space)
    return [(kind, len(members), members[0]) for (kind, *_), members in groups.items()]
