"""Sections of an alignment: what was learned, where heads went, how streams turned, and the certificate."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from onebasin.ensemble.words import difference
from onebasin.report.html.bars import histogram, paired_bars, permutation_matrix
from onebasin.report.html.charts import line_chart
from onebasin.report.html.facts import Data, aligned_models
from onebasin.report.html.markup import Markup, Section, chart, join, legend, table, tag
from onebasin.report.html.words import describe_exactness

DEGREES = {0.0: "0°", 45.0: "45°", 90.0: "90°", 135.0: "135°", 180.0: "180°"}
LAYERS = "1 is equal up to size, about 0 nothing in common: in canonical form, in the basis of the reference."
HEADS = (
    "A row is a head of the reference, a column one of the other model. The stronger the colour, the more alike is "
    "what the two compute, beside the best of the layer: the cosine of their circuits, 1 for the same and about 0 for "
    "strangers, which the pointer shows. The frame is the head that took the place, the number the mean over frames. "
    "Without shades, likeness was not measured."
)
ANGLES = (
    "Every direction of the stream turns in some plane, by an angle from 0° (it stays) to 180° (it flips). "
    "Angles of all sizes alike are those of a random rotation: as trained, the two bases have nothing in common."
)


def of_alignment(report: Data) -> Iterator[Section]:
    """A section for each thing that is known; where several models were aligned, it speaks of each in turn."""
    models = aligned_models(report)
    if "learning" in report and len(report["learning"]["history"]) > 1:
        yield "learning", "Learning", learning(report["learning"])
    if "healing" in report:
        yield "healing", "Training after merging", healing(report["healing"])
    if any(model.get("layers") for model in models):
        yield "layers", "Similarity by layer", join(each(models, layers), tag("p", LAYERS, class_="note"))
    if any(model["heads"] for model in models):
        yield "heads", "Heads", join(each(models, heads), tag("p", HEADS, class_="note"))
    if any(model["angles"] for model in models):
        yield (
            "rotations",
            "Rotation of the residual stream",
            join(each(models, rotations), tag("p", ANGLES, class_="note")),
        )
    yield "certificate", "Certificate", join(tag("p", f"Method {report['method']}."), each(models, proof))


def each(models: list[Data], show: Callable[[Data], Markup]) -> Markup:
    """The same for every model, under its name where there are more than one."""
    return join(*(join(tag("h3", model["model"]) if "model" in model else None, show(model)) for model in models))


def learning(course: Data) -> Markup:
    history = course["history"]
    series = {"midpoint, samples held back": [(p["step"], p["midpoint"]) for p in history]}
    seen = [(p["step"], p["train_loss"]) for p in history if p["train_loss"] is not None]
    if len(seen) > 1:
        series["training"] = seen
    return join(
        tag("div", chart("Loss while learning", line_chart(series, "step", "loss")), class_="charts"),
        legend(list(series)),
        tag("p", f"The maps of step {course['best_step']:,} are kept, the best on samples held back.", class_="note"),
    )


def healing(course: Data) -> Markup:
    """The training loss of every model that was trained."""
    steps, every = course["options"]["steps"], course["every"]
    series = {
        name: [(min(every * (i + 1), steps), loss) for i, loss in enumerate(losses)]
        for name, losses in course["losses"].items()
    }
    loss = chart("Training loss", line_chart(series, "step", "loss"))
    return join(tag("div", loss, class_="charts"), legend(list(series)))


def layers(model: Data) -> Markup:
    names = list(model["layers"])
    numbers = [name.rpartition(".")[2] for name in names]
    places = numbers if len(set(numbers)) == len(names) else names
    series = dict(zip(("before", "aligned"), zip(*model["layers"].values(), strict=True), strict=True))
    bars = chart("Median cosine of a layer's matrices", paired_bars(places, series, "layer", "cosine"))
    return join(tag("div", bars, class_="charts"), legend(list(series)))


def heads(model: Data) -> Markup:
    scores = model.get("head_scores", {})
    matrices = (permutation_matrix(places, space, scores.get(space)) for space, places in model["heads"].items())
    return tag("div", *matrices, class_="matrices")


def rotations(model: Data) -> Markup:
    x, y = "angle by which a plane turns", "directions"
    charts = [chart(space, histogram(counts, 180.0, x, y, DEGREES)) for space, counts in model["angles"].items()]
    return tag("div", *charts, class_="charts")


def proof(model: Data) -> Markup:
    drifts: list[list[object]] = [
        [kind, difference(drift), difference(model["rounding_alone"][kind])]
        for kind, drift in model["output_drift"].items()
    ]
    more: list[list[object]] = [
        ["gauge", model["gauge"]],
        ["distance from A", f"{model['distance_before']:.4g} → {model['distance_after']:.4g}"],
        ["orthogonality error", f"{model['orthogonality_error']:.1e}"],
    ]
    if "sweeps" in model:
        more.append(["sweeps", f"{model['sweeps']}{'' if model['converged'] else ', not converged'}"])
    return join(
        tag("p", describe_exactness(model)),
        table(["outputs, moved model against original", "largest difference", "rounding alone"], drifts),
        table(["what was done", ""], more),
    )
