"""What models and results are called."""

from __future__ import annotations

import pytest

from onebasin.ensemble.words import describe_gauge, join_words, letter, name_of


def test_the_gauge_is_the_references_unless_there_is_a_reason():
    assert describe_gauge(None) == "the reference's"
    assert describe_gauge("a tied head") == "canonical, all models: a tied head"


@pytest.mark.parametrize(("i", "name"), [(0, "A"), (1, "B"), (25, "Z"), (26, "27")])
def test_models_are_letters_and_then_numbers(i, name):
    assert letter(i) == name


def test_words_are_joined_as_people_do():
    assert [join_words(words) for words in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]


def test_a_folder_is_called_by_its_own_name_and_a_hub_id_as_it_is(tmp_path):
    assert name_of(str(tmp_path)) == tmp_path.name
    assert name_of("someone/model") == "someone/model"
