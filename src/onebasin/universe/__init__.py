"""Any number of models in one common frame."""

from onebasin.universe.matching import match_universe
from onebasin.universe.storage import load_universe, save_universe
from onebasin.universe.universe import Universe, as_they_are, common_forms

__all__ = ["Universe", "as_they_are", "common_forms", "load_universe", "match_universe", "save_universe"]
