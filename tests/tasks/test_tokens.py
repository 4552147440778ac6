"""Token ids: what is put around a text, what is hidden of it, and how long it may be."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from helpers.task_files import gpt2
from onebasin import Checkpoint
from onebasin.errors import BadTask
from onebasin.tasks.task import IGNORED
from onebasin.tasks.tokens import check_ids, hide, put_around, sequence_length


@pytest.mark.parametrize("begin", [None, 0, 7])
@pytest.mark.parametrize("end", [None, 0, 8])
def test_the_first_and_the_last_of_a_row_are_what_the_tokenizer_puts_there(begin, end):
    rows = torch.arange(10, 22).reshape(2, 6)
    found = put_around(rows.clone(), SimpleNamespace(cls_token_id=begin, sep_token_id=end))
    for row, old in zip(found.tolist(), rows.tolist(), strict=True):
        first, last = (x if new is None else new for x, new in ((old[0], begin), (old[-1], end)))
        assert row == [first, *old[1:-1], last]
    assert put_around(rows.clone(), None).equal(rows)


@pytest.mark.parametrize("share", [0.0, 0.15, 0.6, 1.0])
def test_what_drew_less_than_the_share_is_hidden_and_one_of_each_row_at_least(share):
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 50, (40, 9), generator=generator)
    special = torch.rand(ids.shape, generator=generator) < 0.3
    drawn = torch.rand(ids.shape, generator=generator) + special
    special[0], drawn[0] = True, 1 + drawn[0] % 1  # a row of nothing else
    rows, labels = hide(ids, 3, drawn, share)
    hidden = rows == 3
    assert labels[hidden].equal(ids[hidden])
    assert (labels[~hidden] == IGNORED).all()
    assert rows[~hidden].equal(ids[~hidden])
    assert not hidden[special].any()
    lowest = torch.zeros_like(special).scatter(1, drawn.argmin(1, keepdim=True), True)
    assert hidden.equal((drawn < share) & ~special | lowest & ~special)
    assert hidden[~special.all(1)].any(1).all()


def test_ids_are_below_the_size_of_the_vocabulary():
    check_ids(torch.tensor([0, 6]), 7)
    check_ids(torch.empty(0, dtype=torch.long), 7)
    with pytest.raises(BadTask, match="found: 7") as refused:
        check_ids(torch.tensor([0, 7, 2]), 7)
    assert refused.value.expected == "ids below 7"


def test_a_length_is_one_that_the_positions_allow(tmp_path):
    model = Checkpoint.open(gpt2(tmp_path))
    positions = model.spec.reads.positions
    assert [sequence_length(model, n) for n in (1, positions)] == [1, positions]
    assert [sequence_length(model, None, n) for n in (None, 3, positions + 1)] == [positions, 3, positions]
    assert sequence_length(model, 5, 3) == 5
    for n in (0, positions + 1):
        with pytest.raises(BadTask, match="no such sequence length"):
            sequence_length(model, n)
