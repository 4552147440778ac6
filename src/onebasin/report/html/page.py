"""One self-contained page from what lies in an output folder: no script, nothing from elsewhere."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from onebasin.ensemble.words import join_words
from onebasin.report.html.facts import Facts, read_facts
from onebasin.report.html.markup import Markup, join, tag
from onebasin.report.html.sections import sections

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
