"""Files beside the weights that say what the inputs are: what is the same says nothing, what differs is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.folders import llama
from onebasin import Checkpoint
from onebasin.ensemble.files_beside import file_obstacles

DEFAULTS = {"do_resize": True, "do_center_crop": False, "do_flip_channel_order": False}
OPEN = ("size", "crop_size", "image_mean", "image_std", "do_normalize", "do_rescale", "rescale_factor", "resample")


@pytest.fixture
def found(tmp_path):
    """The obstacles between two folders with these files."""
    folders = [llama(tmp_path / name) for name in "ab"]

    def look(*sides: dict[str, object]) -> list[tuple[str, object, object, bool]]:
        for folder, files in zip(folders, sides, strict=True):
            for name, content in files.items():
                Path(folder, name).write_text(content if isinstance(content, str) else json.dumps(content))
        pair = [Checkpoint.open(folder) for folder in folders]
        return [(x.what, x.a, x.b, x.blocks) for x in file_obstacles(*pair)]

    return look


@pytest.mark.parametrize("file", ["preprocessor_config.json", "processor_config.json"])
def test_other_pixels_block_whatever_they_differ_in(found, file):
    one, two = {key: [1] for key in OPEN}, {key: [2] for key in OPEN}
    assert found({file: one}, {file: one}) == []
    assert found({file: one}, {file: two}) == [(f"preprocessing: {key}", [1], [2], True) for key in OPEN]


def test_newer_folders_say_it_under_the_image_processor(found):
    one, two = ({"processor_config.json": {"image_processor": {"size": size}, "size": 0}} for size in (8, 9))
    assert found(one, two) == [("preprocessing: size", 8, 9, True)]


@pytest.mark.parametrize(("key", "default"), DEFAULTS.items())
def test_not_to_say_it_is_to_say_the_default(found, key, default):
    file = "preprocessor_config.json"
    silent = {file: {"size": 8}}
    assert found(silent, {file: {"size": 8, key: default}}) == []
    assert found({file: {"size": 8, key: default}}, silent) == []
    assert found(silent, {file: {"size": 8, key: not default}}) == [
        (f"preprocessing: {key}", default, not default, True)
    ]
    assert found({file: {}}, {file: {key: not default}}) == []  # who says nothing at all differs in nothing


@pytest.mark.parametrize("name", ["tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "x.tiktoken"])
def test_another_trained_tokenizer_blocks_unless_both_have_one_that_is_read(found, name):
    assert found({name: "x"}, {}) == []
    assert found({name: "x"}, {name: "x"}) == []
    ((what, one, two, blocks),) = found({name: "x"}, {name: "y"})
    assert (what, blocks) == (f"tokenizer file {name}", True)
    assert one != two
    assert found({"tokenizer.json": {}}, {}) == [(what, one, two, True)]
    assert found({}, {"tokenizer.json": {}}) == [(what, one, two, False)]
