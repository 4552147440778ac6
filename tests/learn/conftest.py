"""Tiny pairs, written once: one of every class in `helpers.learning.TINY`."""

import pytest

from helpers.learning import TINY, write_pair


@pytest.fixture(scope="session")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    for name in TINY:
        write_pair(folder, name)
    return folder
