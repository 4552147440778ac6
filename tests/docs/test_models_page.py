"""docs/models.md and the README: every model that has a table."""

from __future__ import annotations

import pytest

from helpers.pages import DOCS, README, check_part, rows
from helpers.random_models import config_of
from onebasin.archs import known
from onebasin.archs.registry import declare
from onebasin.spec import ModelSpec

PAGE = DOCS / "models.md"
HEADER = "model class | spaces, their largest families, and why | dimension"


def spec_of(model_type: str, name: str) -> ModelSpec:
    """The table of a random model of the class in canonical form."""
    config = config_of(model_type, 0)
    config.architectures = [name]
    spec = declare(config, tie=False)
    return spec.with_unit_gains([*spec.scales, *(norm.name for norm in spec.norms.values() if not norm.blocked)])


def row(model_type: str, name: str) -> str:
    spec = spec_of(model_type, name)
    spaces = []
    for kind, names in spec.kinds.items():
        why = ", ".join(dict.fromkeys(op.name for op in spec.ops(names[0]))) or "nothing but linear maps"
        spaces.append(f"{kind}: {spec.family(names[0])} ({why})")
    total = sum(spec.dimension(space) for space in spec.spaces)
    return f"| `{name}` | {'; '.join(spaces)} | {total:,} |"


@pytest.mark.page
def test_the_page_of_models_lists_every_class():
    lines = [row(kind, name) for kind, names in known().items() for name in names]
    check_part(PAGE, f"| {HEADER} |\n|---|---|---|\n", "\n\n", "\n".join(lines))
    assert len(rows(PAGE, HEADER)) == sum(map(len, known().values()))


@pytest.mark.page
def test_the_readme_lists_the_known_models():
    types, classes = known(), sum(map(len, known().values()))
    listed = ", ".join(f"`{kind}`" for kind in types)
    check_part(README, "Model types: ", ".\n", f"{listed}: {len(types)} types, {classes} classes")
