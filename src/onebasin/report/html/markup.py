"""Elements of HTML and SVG from plain data.  Text is escaped unless it is markup already."""

from __future__ import annotations

from html import escape

Section = tuple[str, str, "Markup"]  # id, heading, content
EMPTY = {"circle", "line", "path", "rect", "meta"}


class Markup(str):
    """Text that is markup, made by `tag`; any other text is data."""

    __slots__ = ()


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """<name attribute="...">children</name>; `class_` is class, and _ in a name is a hyphen.  None is left out."""
    inside = join(*children)
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_plain(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in EMPTY and not inside:
        return Markup(f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{inside}</{name}>")


def join(*children: object) -> Markup:
    """Children one after the other, what is not markup escaped."""
    return Markup("".join(c if isinstance(c, Markup) else escape(str(c)) for c in children if c is not None))


def prose(text: str) -> Markup:
    """A sentence; what stands between backticks is code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # one is left over: they are part of a name
        return join(text)
    return join(*(tag("code", part) if i % 2 else part for i, part in enumerate(parts)))


def _plain(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def picture(width: float, height: float, label: str, *parts: object) -> Markup:
    """An SVG that scales with its place; `label` says what it shows."""
    return tag("svg", *parts, viewBox=f"0 0 {width:g} {height:g}", role="img", aria_label=label)


def table(columns: list[str], rows: list[list[object]]) -> Markup:
    """A table whose first column names the rows."""
    head = tag("tr", *(tag("th", column, scope="col") for column in columns))
    body = [tag("tr", tag("th", first, scope="row"), *(tag("td", cell) for cell in rest)) for first, *rest in rows]
    return tag("div", tag("table", tag("thead", head), tag("tbody", *body)), class_="wide")


def chart(title: str, svg: Markup) -> Markup:
    """A picture under its title."""
    return tag("figure", tag("figcaption", title), svg)


def legend(names: list[str]) -> Markup:
    """What the colours s0, s1, ... stand for."""
    return tag("ul", *(tag("li", name, class_=f"s{i}") for i, name in enumerate(names)), class_="legend")
