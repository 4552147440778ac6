"""The model card of a run: what was made of what, how good it is, under which licence, and how to load it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onebasin.ensemble.words import name_of
from onebasin.recipes.merging import HEALED, MERGED
from onebasin.recipes.plan import Plan
from onebasin.recipes.recipe import Align
from onebasin.report.card import (
    describe_aligned,
    describe_merged,
    describe_merging,
    describe_notes,
    describe_quality,
    eval_results,
    model_card,
    plain_text,
)
from onebasin.report.hub import common_licence, pipeline_of, read_licence, usage
from onebasin.spec import Images


def card_of(plan: Plan, report: Mapping[str, Any], written: Path, part: str) -> str:
    """The model card of a folder that is written up to it; `part` of it is the model that the card loads."""
    recipe, method = plan.alignment
    names = [name_of(model.path) for model in recipe.models]
    spec, out = plan.models[0].spec, Path(str(recipe.write.out))
    loader, pipeline = pipeline_of(spec.architecture, images=isinstance(spec.reads, Images))
    licence, said = common_licence(
        [plain_text(name) for name in names], [read_licence(model.store.folder) for model in plan.models]
    )
    universe = "universe" in report
    code = usage(loader, (Path(out.resolve().name) / part).as_posix(), written / part)
    metadata = {"pipeline_tag": pipeline, **licence}
    if isinstance(recipe, Align):
        text = "\n\n".join([describe_aligned(names, method), *describe_notes(plan.notes), said])
        return model_card("Aligned model", names, text, code, metadata, universe=universe)
    scores = report["scores"]
    parts = [describe_merged(names, recipe.lambdas, method), *describe_merging(report)]
    parts += [describe_quality(scores, report["verdict"]), *describe_notes(plan.notes), said]
    found = [] if scores is None else eval_results(scores, HEALED if recipe.heals else MERGED, pipeline)
    return model_card("Merged model", names, "\n\n".join(parts), code, metadata, found, universe=universe)
