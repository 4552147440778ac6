"""Tiny pairs, written once: one of every class in `helpers.learning.TINY`."""

import pytest

from helpers.learning import write_pairs


@pytest.fixture(scope="session")
def root(tmp_path_factory):
    return write_pairs(tmp_path_factory.mktemp("pairs"))
