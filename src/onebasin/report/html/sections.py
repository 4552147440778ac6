"""The sections of a page, each made from the facts that it needs; a section without facts is left out."""

from __future__ import annotations

from collections.abc import Iterator

from onebasin.report.html.alignments import of_alignment
from onebasin.report.html.facts import Facts
from onebasin.report.html.markup import Markup, Section, join, tag
from onebasin.report.html.paths import curves, methods, simplex
from onebasin.report.html.words import summary


def sections(facts: Facts) -> Iterator[Section]:
    """In the order of the page."""
    yield "summary", "In short", join(*(tag("p", sentence) for sentence in summary(facts)))
    if facts.demo is not None:
        yield "methods", "Methods", methods(facts.demo)
    if facts.curves:
        yield "curves", "Between the models", curves(facts.curves)
    if facts.surface is not None:
        yield "simplex", "Between the models", simplex(facts.surface)
    if facts.certificate is not None:
        yield from of_alignment(facts.certificate)
    if facts.warnings:
        yield "warnings", "Warnings", tag("ul", *(tag("li", warning) for warning in facts.warnings))
    yield "again", "Make it again", again(facts)


def again(facts: Facts) -> Markup:
    """The command, and the recipe where there is one."""
    if facts.demo is not None:
        note = "The folder of each method holds its own recipe.yaml, for onebasin run."
        return join(tag("pre", facts.demo["command"]), tag("p", note, class_="note"))
    return join(tag("pre", "onebasin run recipe.yaml -o AGAIN"), tag("pre", facts.recipe, class_="recipe"))
