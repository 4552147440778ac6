"""What models and results are called."""

from __future__ import annotations

import pytest

from onebasin.ensemble.words import describe_drift, describe_gauge, describe_written, join_words, letter, name_of


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


def test_figures_are_as_people_write_them():
    assert describe_drift({"float64": 0.0, "float32": 1.23e-7}) == "0 in float64, 1.2e-07 in float32"
    assert describe_drift({"float64": None}) == "not finite in float64"  # as it comes back from JSON
    written = {"dtype": "float16", "drift": 2.4e-4, "largest_output": 6.123}
    assert describe_written(written) == "rounding to float16 moves outputs by up to 2.4e-04, where the largest is 6.12"
    assert describe_written({**written, "largest_output": None}).endswith("the largest is not finite")
