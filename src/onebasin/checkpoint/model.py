"""Checkpoint: a model as data.  Its table, one lazily computed float64 tensor per leaf, and its configuration.

Every exact rewrite is a function from `Checkpoint` to `Checkpoint`: it replaces some leaves by new recipes and computes
nothing.  Tensors are made when they are asked for, and rounded once, when they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onebasin.archs import declare, lookup
from onebasin.checkpoint.beside import Beside
from onebasin.checkpoint.checks import check_headers, check_numbers, check_release, check_runs, transformers_config
from onebasin.checkpoint.dtypes import DTYPES, code_of
from onebasin.checkpoint.elementwise import FromFiles
from onebasin.checkpoint.folder import locate, read_config
from onebasin.checkpoint.pieces import Once, cut, gather
from onebasin.checkpoint.sharing import Shared
from onebasin.checkpoint.store import Progress, Store
from onebasin.checkpoint.write import Planned, write_folder
from onebasin.errors import BadCheckpoint
from onebasin.spec import Leaf, ModelSpec

if TYPE_CHECKING:
    from torch import Tensor

Recipe = Callable[[], "Tensor"]

FLOAT64, SMALL = 8, 2**31  # bytes of a number, and of a model that may be kept whole


@dataclass(frozen=True, repr=False)
class Checkpoint(Shared):
    """`leaves` maps leaf names to recipes; `stored` maps table keys (or pieces of them, where the file has these) to
    (name on disk, dtype on disk).  `beside` says whose files go with it, if not those of its own folder."""

    spec: ModelSpec
    config: Mapping[str, Any]
    leaves: Mapping[str, Recipe]
    stored: Mapping[str, tuple[str, str]]
    store: Store
    beside: Beside | None = None

    @classmethod
    def open(cls, source: str | Path, revision: str | None = None) -> Checkpoint:
        """Read headers and configuration of a local folder or Hub id; check them against the table; read no weights."""
        folder = locate(str(source), revision)
        config = read_config(folder)
        check_release(lookup(config.get("model_type"), config.get("architectures"))[1])
        store = Store.open(folder)
        check_numbers(config, store)
        spec, names = declare(transformers_config(config), stored=store.headers).bind(store.headers)
        check_headers(spec, {key: store.headers[name] for key, name in names.items()}, folder)
        stored = {key: (name, store.headers[name].dtype) for key, name in names.items()}
        leaves = {leaf.name: _reader(spec, store, names, leaf) for leaf in spec.leaves.values()}
        return cls(spec, config, leaves, stored, store)

    def __getitem__(self, leaf: str) -> Tensor:
        return self.leaves[leaf]().to(self.store.device)

    def __iter__(self) -> Iterator[str]:
        return iter(self.leaves)

    def __repr__(self) -> str:
        numbers = sum(prod(shape) for shape in self.spec.keys.values())
        kinds = ", ".join(sorted({kind for _, kind in self.stored.values()}))
        return f"Checkpoint({self.spec.architecture}, {numbers:,} parameters, {kinds}, {self.store.folder})"

    @property
    def folder(self) -> Path:
        """Where the files beside its weights are: its tokenizer above all."""
        return self.beside.folder if self.beside else self.store.folder

    def check_values(self, progress: Progress | None = None) -> None:
        """Read the file once: every number is finite, tied entries are equal, and transformers has such a model."""
        check_runs(self.spec.architecture, self.config)
        self.store.check_finite(progress)
        for mirror in self.spec.mirrors:
            if mirror.tied and mirror.key in self.stored:
                tied, own = self.stored[mirror.of][0], self.stored[mirror.key][0]
                if not self.store.read(tied).equal(self.store.read(own)):
                    raise BadCheckpoint(
                        "config.json ties two tensors that hold different numbers",
                        tensor=own,
                        expected=f"the numbers of {tied}",
                        next_step="set tie_word_embeddings to false in config.json, or remove the tensor",
                    )

    def derive(
        self, changed: Mapping[str, Recipe], *, spec: ModelSpec | None = None, config: Mapping[str, Any] | None = None
    ) -> Checkpoint:
        """The same checkpoint with some leaves computed differently."""
        leaves = {**self.leaves, **changed}
        if spec is not None or len(leaves) > len(self.leaves):
            leaves = {name: leaves[name] for name in (spec or self.spec).leaves}
        return replace(self, spec=spec or self.spec, leaves=leaves, config=config or self.config)

    def in_memory(self) -> Checkpoint:
        """Compute every leaf once and keep it."""
        return self.derive({name: constant(self[name]) for name in self})

    def kept_if_small(self) -> Checkpoint:
        """`in_memory` where that is less than two gigabytes; larger models are computed whenever they are asked for."""
        return self.in_memory() if FLOAT64 * sum(map(prod, self.spec.keys.values())) < SMALL else self

    def tensor(self, key: str) -> Tensor:
        """The stored tensor `key`, or a piece of one, put together from its leaves in float64."""
        import torch

        from onebasin.checkpoint.views import as_stored, write_leaf

        if key in self.spec.pieces:
            piece = self.spec.pieces[key]
            return cut(self.tensor(piece.key), piece)
        first, *others = self.spec.parts[key]
        if not others and first.whole and first.view.shape == self.spec.keys[key]:
            return as_stored(self[first.name], first)
        whole = torch.empty(self.spec.keys[key], dtype=torch.float64, device=self.store.device)
        for leaf in self.spec.parts[key]:
            write_leaf(whole, leaf, self[leaf.name])
        return whole

    def written_as(self, key: str, dtype: str | None = None) -> str:
        """The dtype that the tensor `key` is written in: its stored one unless another is asked for."""
        own = next((name for name in (key, *self._pieces(key)) if name in self.stored), next(iter(self.stored)))
        return dtype or self.stored[own][1]

    def planned(self, dtype: str | None = None) -> list[Planned]:
        """What `save` would write: every stored tensor, in its stored dtype unless another is asked for."""
        sources = {key: key for key in self.spec.keys}
        sources |= {m.key: m.of for m in self.spec.mirrors if m.key in self.stored or not m.tied}
        planned = []
        for key, source in sources.items():
            pieces = self._pieces(key)
            whole = Once(partial(self.tensor, key), len(pieces))
            for own in pieces or [key]:
                name, _ = self.stored.get(own, (own, ""))
                if self.spec.table_name(name) != own:  # in the input, one of two equal entries stood for both
                    name = own
                piece = self.spec.pieces.get(own)
                shape = piece.shape if piece else self.spec.keys[source]
                make = partial(whole.cut, piece) if piece else partial(self._parts, source)
                planned.append(Planned(name, shape, self.written_as(own, dtype), make))
        return planned

    def _parts(self, key: str) -> Tensor | Iterator[Tensor]:
        """The stored tensor `key`; in parts, where its numbers come one by one from those of files."""
        recipes = [self.leaves[leaf.name] for leaf in self.spec.parts[key]]
        first = recipes[0]
        return first.parts() if isinstance(first, FromFiles) and first.fills(recipes) else self.tensor(key)

    def _pieces(self, key: str) -> list[str]:
        """The pieces that the file holds of the tensor `key`, if it holds pieces."""
        return [name for name in self.spec.pieces_of.get(key, ()) if name in self.stored]

    def save(
        self,
        out: str | Path,
        *,
        dtype: str | None = None,
        max_shard_size: str = "5GB",
        extra_files: Mapping[str, str | bytes] | None = None,
        progress: Progress | None = None,
        overwrite: bool = False,
    ) -> None:
        """Write a stock folder, whole or not at all, in the stored dtypes unless another is asked for, like bf16."""
        dtype = code_of(dtype)
        write_folder(
            Path(out),
            self.planned(dtype),
            config=self.config if dtype is None else _with_dtype(self.config, DTYPES[dtype].name),
            carry_from=self.folder,
            licences_from=self.store.folder,
            max_shard_size=max_shard_size,
            extra_files={**dict(self.beside.shortened() if self.beside else ()), **(extra_files or {})},
            progress=progress,
            overwrite=overwrite,
            device=self.store.device,
        )


def constant(tensor: Tensor) -> Recipe:
    """The recipe of a tensor that is there already."""
    return lambda: tensor


def _with_dtype(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The configuration of a model written in another dtype: transformers loads it in the one that is named there."""
    keys = [key for key in ("dtype", "torch_dtype") if key in config] or ["dtype"]
    return {**config, **dict.fromkeys(keys, name)}


def _reader(spec: ModelSpec, store: Store, names: Mapping[str, str], leaf: Leaf) -> Recipe:
    """How a leaf is read from the file: from one tensor, or from the pieces of it."""
    if leaf.key in names:
        return FromFiles(leaf, ((store, names[leaf.key]),))
    return partial(gather, store, {names[name]: spec.pieces[name] for name in spec.pieces_of[leaf.key]}, leaf)
