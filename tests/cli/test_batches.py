"""However many inputs are asked for at a time: no verb runs more of them at once, and each runs as many."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from helpers.task_files import vit

SIZE = 7
TASK = ("--task", "builtin:shapes", "--samples", "24")
SETTING = ("--set", f"task.batch_size={SIZE}")


@pytest.fixture
def sizes():
    """How many images every convolution has read at once."""
    seen = set()
    hook = nn.modules.module.register_module_forward_pre_hook(
        lambda module, given: seen.add(given[0].shape[0]) if isinstance(module, nn.Conv2d) else None
    )
    yield seen
    hook.remove()


@pytest.mark.parametrize(
    ("verb", "more"),
    [
        ("merge", (*SETTING, "--method", "weight", "-o", "out")),
        ("merge", (*SETTING, "--method", "weight", "--share", "best", "-o", "out")),
        ("align", (*SETTING, "--method", "activation", "-o", "out")),
        ("barrier", ("--batch-size", SIZE, "--points", 3)),
        ("eval", ("--batch-size", SIZE, "--ensemble")),
        ("eval", ("--batch-size", SIZE)),
    ],
    ids=lambda x: x if isinstance(x, str) else str(len(x)),
)
def test_as_many_inputs_run_at_a_time_as_are_asked_for(cli, sizes, tmp_path, monkeypatch, verb, more):
    monkeypatch.chdir(tmp_path)
    models = [vit(tmp_path / name) for name in "ab"]
    torch.manual_seed(0)
    code, _, err = cli(verb, *models, *TASK, *more)
    assert code == 0, err
    assert max(sizes) == SIZE
