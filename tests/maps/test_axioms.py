"""Algebra and action: what makes a family a group (or at least closed), and `act` against matrices and slices.

Members are drawn with condition number at most 4 and n <= 6, so that three of them composed leave rounding below
n * 4^3 * eps = 1e-13; ATOL is ten times that.
"""

from itertools import permutations, product

import pytest
import torch
from conftest import MakeMap
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from onebasin import families
from onebasin.errors import NotInFamily
from onebasin.families import Rep
from onebasin.maps import MAPS, Map

ATOL = 1e-12
every_map = pytest.mark.parametrize("kind", MAPS.values(), ids=lambda kind: kind.__name__)
every_group = pytest.mark.parametrize(
    "kind", [kind for family, kind in MAPS.items() if family.group], ids=lambda kind: kind.__name__
)
