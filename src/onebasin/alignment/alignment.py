"""Alignment: one map per space.  The small thing that matching finds and transport applies.

Inside-head maps are *fibred*: one per head, and they travel with their head.  An alignment acts on the heads' insides
first and moves the heads afterwards, so that composing and inverting follow the wreath product:

    (P, g) (Q, h) = (PQ, g^Q h)        with (g^Q)_s = g_{Q(s)}, the map of the place where head s arrives.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from onebasin.checkpoint.folder import read_json_object
from onebasin.errors import BadCheckpoint, Incompatible, NotInFamily
from onebasin.families import FAMILIES
from onebasin.maps import Map, map_of
from onebasin.spec import ModelSpec

WEIGHTS, SIDECAR = "alignment.safetensors", "alignment.json"
FORMAT = "onebasin alignment 1"


@dataclass(frozen=True, repr=False)
class Alignment:
    """`maps[space]` acts on that space; `bases[space]` names the space whose elements index its fibres."""

    maps: Mapping[str, Map]
    bases: Mapping[str, str | None]

    @classmethod
    def identity(cls, spec: ModelSpec) -> Alignment:
        maps = {n: map_of(spec.family(n)).identity(s.size, fibres=spec.fibres(n)) for n, s in spec.spaces.items()}
        return cls(maps, {n: s.base for n, s in spec.spaces.items()})

    @classmethod
    def random(cls, spec: ModelSpec, seed: int = 0, condition: float = 4.0) -> Alignment:
        """A random symmetry in every space at once, not the identity: that is drawn again (two heads often stay)."""
        generator, maps = torch.Generator().manual_seed(seed), {}
        for name, space in spec.spaces.items():
            kind, fibres = map_of(spec.family(name)), spec.fibres(name)
            for _ in range(20 if space.size > 1 else 1):
                maps[name] = kind.sample(space.size, generator=generator, fibres=fibres, condition=condition)
                if maps[name].distance() > 0:
                    break
        return cls(maps, {name: space.base for name, space in spec.spaces.items()})

    def __getitem__(self, space: str) -> Map:
        return self.maps[space]

    def __iter__(self) -> Iterator[str]:
        return iter(self.maps)

    def only(self, *spaces: str) -> Alignment:
        """The part of the alignment that acts on these spaces; the others stay as they are."""
        return Alignment({name: self.maps[name] for name in spaces}, {name: self.bases[name] for name in spaces})

    def to(self, device: torch.device | str) -> Alignment:
        return Alignment({name: g.to(device=device) for name, g in self.maps.items()}, self.bases)

    def _arrivals(self, space: str) -> torch.Tensor | None:
        """For a fibred space, the index of its base's permutation: place i receives fibre index[i]."""
        base = self.bases[space]
        return None if base is None or base not in self.maps else self.maps[base].tensors()["index"]

    def inverse(self) -> Alignment:
        """The alignment that undoes this one."""
        maps = {}
        for name, g in self.maps.items():
            index = self._arrivals(name)
            maps[name] = g.inverse() if index is None else g.inverse().take(index)
        return Alignment(maps, self.bases)

    def compose(self, first: Alignment) -> Alignment:
        """`first`, then this one."""
        if set(self.maps) != set(first.maps):
            odd = sorted(set(self.maps) ^ set(first.maps))
            raise Incompatible(
                "Two alignments act on different spaces",
                space=odd[0],
                next_step="compose alignments of the same architecture and size",
            )
        maps = {}
        for name, g in self.maps.items():
            index = first._arrivals(name)
            maps[name] = (g if index is None else g.take(index.argsort())).compose(first.maps[name])
        return Alignment(maps, self.bases)

    def check(self, spec: ModelSpec) -> None:
        """Every map fits its space: known, right size, right number of fibres, inside the space's family."""
        for name, g in self.maps.items():
            if name not in spec.spaces:
                raise Incompatible(
                    "The alignment names a space that the model does not have",
                    space=name,
                    expected=", ".join(spec.spaces),
                    next_step="use an alignment made for this model",
                )
            size, family = (spec.spaces[name].size, spec.fibres(name)), spec.family(name)
            if (g.source, g.fibres) != size:
                raise Incompatible(
                    "A map has another size than its space",
                    space=name,
                    expected=size,
                    found=(g.source, g.fibres),
                    next_step="use an alignment made for this model",
                )
            if not g.family <= family:
                raise NotInFamily(
                    "The map is not a symmetry of its space",
                    space=name,
                    expected=family,
                    found=g.family,
                    next_step="canonicalize the model first: folding gains enlarges families",
                )

    def displacement(self) -> dict[str, float]:
        """How far each map is from doing nothing (root mean square over unit vectors)."""
        return {name: g.distance() for name, g in self.maps.items()}

    def save(self, folder: str | Path) -> None:
        """Write `alignment.safetensors` (numbers) and `alignment.json` (which family acts where)."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {f"{n}/{part}": t.contiguous() for n, g in self.maps.items() for part, t in g.tensors().items()}
        spaces = {n: {"family": g.family.name, "base": self.bases[n]} for n, g in self.maps.items()}
        (folder / SIDECAR).write_text(json.dumps({"format": FORMAT, "spaces": spaces}, indent=2) + "\n")
        save_file(tensors, folder / WEIGHTS)
        shutil.copymode(folder / SIDECAR, folder / WEIGHTS)  # save_file makes files that only their owner can read

    @classmethod
    def load(cls, folder: str | Path) -> Alignment:
        """Read what `save` wrote; anything missing, damaged or unknown is an error."""
        folder = Path(folder)
        spaces = _read_sidecar(folder / SIDECAR)
        tensors = _read_tensors(folder / WEIGHTS, spaces)
        maps = {}
        for name, entry in spaces.items():
            parts = {key.rpartition("/")[2]: t for key, t in tensors.items() if key.rpartition("/")[0] == name}
            maps[name] = map_of(FAMILIES[entry["family"]]).from_tensors(parts)
        return cls(maps, {name: entry["base"] for name, entry in spaces.items()})

    def __repr__(self) -> str:
        rows = [f"  {name:<24} {g!r}" for name, g in self.maps.items()]
        return "\n".join([f"Alignment over {len(self.maps)} spaces", *rows])


def _read_sidecar(path: Path) -> dict[str, dict[str, str]]:
    data = read_json_object(path)
    spaces = data.get("spaces")
    entries: dict[str, Any] = spaces if isinstance(spaces, dict) else {"spaces": spaces}
    odd = sorted(set(data) - {"format", "spaces"})
    odd += [f"{name}: {entry}" for name, entry in entries.items() if not _is_entry(entry)]
    if data.get("format") != FORMAT or odd:
        raise BadCheckpoint(
            f"{path} is not an alignment that this version understands",
            expected=FORMAT,
            found=odd[0] if odd else data.get("format"),
            next_step="read it with the release of onebasin that wrote it",
        )
    return entries


def _is_entry(entry: object) -> bool:
    return isinstance(entry, dict) and set(entry) == {"family", "base"} and entry["family"] in FAMILIES


def _read_tensors(path: Path, spaces: Mapping[str, object]) -> dict[str, torch.Tensor]:
    step = "give a folder that `Alignment.save` wrote"
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise BadCheckpoint(f"{path} cannot be read", found=error, next_step=step) from error
    strays = [name for name in tensors if name.rpartition("/")[0] not in spaces]
    if strays:
        raise BadCheckpoint(f"{path} and {SIDECAR} name different spaces", tensor=strays[0], next_step=step)
    return tensors
