"""Names of files and folders: the longest that there can be, and none longer."""

from __future__ import annotations

import pytest

from onebasin.errors import BadRecipe
from onebasin.names import BESIDE, LONGEST, LONGEST_PART, as_output, as_path

PART = "x" * (LONGEST_PART - 1) + "/"  # as many bytes as a part may have, with the mark behind it


@pytest.mark.parametrize(
    ("name", "read"),
    [("x" * LONGEST_PART, as_path), ("é" * (LONGEST_PART // 2), as_path), (PART * 16 + "x" * (LONGEST % 255), as_path),
     ("x" * (LONGEST_PART - BESIDE), as_output)],
)  # fmt: skip
def test_a_byte_more_is_too_much(name, read):
    assert str(read(name)) == name
    with pytest.raises(BadRecipe, match="cannot be the name of a file or folder"):
        read(name.replace("x", "xx", 1) if "x" in name else name + name[0])
