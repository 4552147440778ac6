"""Recipes: everything a run depends on, as data that can be written, read and run again."""

from onebasin.recipes.document import load, parse, plain
from onebasin.recipes.merging import Merging, complete
from onebasin.recipes.plan import Plan, prepare
from onebasin.recipes.recipe import VERBS, Align, Barrier, Merge, Recipe
from onebasin.recipes.running import align, certify, landscape, run, with_files, write

__all__ = [
    "VERBS", "Align", "Barrier", "Merge", "Merging", "Plan", "Recipe", "align", "certify", "complete", "landscape",
    "load", "parse", "plain", "prepare", "run", "with_files", "write",
]  # fmt: skip
