"""What the site takes from outside of docs/: pages of the repository, and the files that figures come from."""

import html
import re
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
PAGES = ("CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/results/learned.md")


def on_config(config):
    """The decisions are the last part of the menu."""
    decisions = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    config.nav.append({"Decisions": [f"decisions/{file.name}" for file in decisions]})
    return config


def on_files(files, config):
    """Add them under the names that links use."""
    figures = sorted(path for kind in ("json", "svg") for path in (ROOT / "benchmarks" / "results").glob(f"*.{kind}"))
    for path in (*(ROOT / name for name in PAGES), *figures):
        files.append(File.generated(config, str(path.relative_to(ROOT)), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Links that leave docs/, or lead into it, as they are on the site."""
    if page.file.src_uri in PAGES:
        return markdown.replace("](docs/", "](")
    inside = "../" * page.file.src_uri.count("/")
    return markdown.replace(f"]({inside}../", f"]({inside}")


def on_page_content(content, page, config, files):
    """Formulas as MathML, which browsers show by themselves: nothing is fetched, and no script runs."""
    formula = re.compile(r'<div class="arithmatex">\\\[(.*?)\\\]</div>', re.DOTALL)
    return formula.sub(lambda found: convert(html.unescape(found[1]).strip(), display="block"), content)
