"""How to cite: BibTeX from CITATION.cff, and the picture that stands first."""

from __future__ import annotations

import re
import runpy
import tomllib

import pytest
import yaml

from helpers.pages import DOCS, README, ROOT, blocks, check_part

CITED = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def entry(kind: str, key: str, fields: dict[str, str]) -> str:
    return "\n".join([f"@{kind}{{{key},", *(f"  {name} = {{{value}}}," for name, value in fields.items()), "}"])


def bibtex() -> str:
    own = {"title": f"{{{CITED['title']}}}: {CITED['abstract'].rstrip('.')}", "version": CITED["version"]}
    entries = [entry("software", CITED["title"], {"author": f"{{{CITED['authors'][0]['name']}}}", **own})]
    for paper in CITED["references"]:
        names = " and ".join(f"{author['family-names']}, {author['given-names']}" for author in paper["authors"])
        number = paper["url"].rpartition("/")[2]
        fields = {"author": names, "title": f"{{{paper['title']}}}", "year": str(paper["year"]),
                  "eprint": number, "archivePrefix": "arXiv", "url": paper["url"]}  # fmt: skip
        entries.append(entry("misc", f"{paper['authors'][0]['family-names'].lower()}{paper['year']}", fields))
    return "\n\n".join(entries)


@pytest.mark.page
def test_the_bibtex_is_that_of_the_citation_file():
    check_part(DOCS / "papers.md", "```bibtex\n", "```\n", bibtex() + "\n")
    (text,) = blocks(DOCS / "papers.md", "bibtex")
    keys = re.findall(r"^@\w+\{(\w+),$", text, re.MULTILINE)
    assert len(keys) == len(set(keys)) == 1 + len(CITED["references"])
    assert text.count("{") == text.count("}")


def test_the_project_links_to_the_papers_it_cites():
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    assert list(urls.values()) == [paper["url"] for paper in CITED["references"]]


def test_the_first_picture_shows_what_was_measured():
    hero = runpy.run_path(str(DOCS / "hero.py"))
    measured = hero["curves"]()
    assert hero["digest"](measured) in (DOCS / "hero.svg").read_text(encoding="utf-8"), "`make hero` draws it anew"
    measured["bert-agnews"]["auto"][1][5] += 0.01
    assert hero["digest"](measured) not in (DOCS / "hero.svg").read_text(encoding="utf-8")


def test_the_readme_stays_short():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 150
