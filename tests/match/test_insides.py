"""Maps inside heads: one batch of all heads is what each space has alone."""

from __future__ import annotations

import pytest
import torch

from onebasin import families as fam
from onebasin.maps import map_of
from onebasin.match.insides import stack


@pytest.mark.parametrize("family", [fam.INVERTIBLE, fam.ORTHOGONAL, fam.ROTARY, fam.SIGNS], ids=str)
def test_maps_that_are_stacked_are_those_that_went_in(family):
    generator = torch.Generator().manual_seed(0)
    maps = [map_of(family).sample(4, generator=generator, fibres=n) for n in (2, 1, 3)]
    whole, first = stack(maps), 0
    assert type(whole) is type(maps[0])
    for g, n in zip(maps, (2, 1, 3), strict=True):
        assert torch.equal(whole.take(torch.arange(first, first + n)).dense(), g.dense())
        first += n
    assert len(whole.dense()) == first
