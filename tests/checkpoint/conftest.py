"""Small checkpoint folders to read, and to damage."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

MakeFolder = Callable[..., Path]


@pytest.fixture
def make_folder(tmp_path: Path) -> MakeFolder:
    """make_folder(tensors, ...) -> a folder in one file; make_folder(shard, shard, ...) -> a sharded one."""

    def make(*shards: dict[str, torch.Tensor], name: str = "model", config: object = None) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({"model_type": "toy"} if config is None else config))
        if len(shards) == 1:
            save_file(shards[0], folder / "model.safetensors", metadata={"format": "pt"})
        elif shards:
            files = [f"model-{i + 1:05d}-of-{len(shards):05d}.safetensors" for i in range(len(shards))]
            for file, shard in zip(files, shards, strict=True):
                save_file(shard, folder / file, metadata={"format": "pt"})
            weight_map = {key: file for file, shard in zip(files, shards, strict=True) for key in shard}
            (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
        return folder

    return make
