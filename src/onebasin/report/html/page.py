"""One self-contained page from what lies in an output folder: no script, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from onebasin.ensemble.words import join_words
from onebasin.report.html.alignments import of_alignment
from onebasin.report.html.facts import Facts, read_facts
from onebasin.report.html.markup import Markup, Section, join, prose, tag
from onebasin.report.html.paths import curves, methods, scores, simplex
from onebasin.report.html.words import summary

TITLES = {
    "align": "{others} in the basis of {first}",
    "merge": "{all}, merged",
    "barrier": "Between {all}",
    "demo": "Two models, one basin",
}


def write_report(folder: Path) -> None:
    """Write report.html from the JSON files that lie in the folder."""
    (folder / "report.html").write_text(page(read_facts(folder)), encoding="utf-8")


def page(facts: Facts) -> str:
    """The whole document."""
    first, *others = facts.names
    title = TITLES[facts.verb].format(first=first, others=join_words(others), all=join_words(facts.names))
    body = [
        tag("section", tag("h2", heading), content, id=name, aria_label=heading)
        for name, heading, content in sections(facts)
    ]
    made = ", ".join(f"{name} {version}" for name, version in facts.versions.items())
    head = join(
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} · onebasin"),
        tag("style", Markup((files(__package__) / "style.css").read_text(encoding="utf-8"))),
    )
    main = tag(
        "main",
        tag("header", tag("p", f"onebasin {facts.verb}"), tag("h1", title)),
        *body,
        tag("footer", "Made with ", made),
    )
    return f"<!doctype html>\n{tag('html', tag('head', head), tag('body', main), lang='en')}\n"


def sections(facts: Facts) -> Iterator[Section]:
    """In the order of the page, each made from the facts that it needs; a section without facts is left out."""
    yield "summary", "In short", join(*(tag("p", prose(sentence)) for sentence in summary(facts)))
    if facts.demo is not None:
        yield "methods", "Methods", methods(facts.demo)
    if facts.scores is not None:
        yield "scores", "Is it better?", scores(facts.scores)
    if facts.curves:
        yield "curves", "Between the models", curves(facts.curves)
    if facts.surface is not None:
        yield "simplex", "Between the models", simplex(facts.surface)
    if facts.certificate is not None:
        yield from of_alignment(facts.certificate)
    if facts.warnings:
        yield "warnings", "Warnings", tag("ul", *(tag("li", prose(warning)) for warning in facts.warnings))
    yield "again", "Make it again", again(facts)


def again(facts: Facts) -> Markup:
    """The command, and the recipe where there is one."""
    if facts.demo is not None:
        note = "The folder of each method holds its own recipe.yaml, for onebasin run."
        return join(tag("pre", facts.demo["command"]), tag("p", note, class_="note"))
    return join(tag("pre", "onebasin run recipe.yaml -o AGAIN"), tag("pre", facts.recipe, class_="recipe"))
