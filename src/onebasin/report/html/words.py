"""The summary of a run in plain words, one sentence for each thing that was found."""

from __future__ import annotations

from collections.abc import Sequence

from onebasin.ensemble.words import describe_written, difference, join_words
from onebasin.landscape.evaluate import METRICS
from onebasin.landscape.tables import plus_minus
from onebasin.report.card import describe_merging
from onebasin.report.html.facts import Data, Facts, aligned_models
from onebasin.verification.verify import PROMISE, keeps_promise

PARTS = ("accuracy", "agreement")  # metrics that are parts of a whole


def metric_of(curve: Data) -> str:
    """The metric that says most of those that were measured; the loss where tasks have none in common."""
    found: dict[str, float] = curve["points"][0]["metrics"]
    return next((metric for metric in (*METRICS, *found) if metric in found), "loss")


def value_of(point: Data, metric: str) -> float:
    """A metric, or the loss, of what was measured at a point."""
    value: float = point["metrics"].get(metric, point["loss"])
    return value


def name_barrier(barrier: Data) -> str:
    """The height of a barrier, or that there is none."""
    return f"barrier {barrier['loss']:.3f}" if barrier["loss"] > 0 else "no barrier"


def format_metric(value: float, metric: str) -> str:
    """A metric without its name."""
    return f"{value:.1%}" if metric in PARTS else f"{value:.2f}"


def name_metric(value: float, metric: str) -> str:
    """A metric with its name."""
    return f"{format_metric(value, metric)} {metric.replace('_', ' ')}"


def summary(facts: Facts) -> list[str]:
    """What a reader should know first."""
    if facts.demo is not None:
        return _of_demo(facts.demo)
    said = [_of_curve(curve) for curve in facts.curves.values()] if facts.certificate is None else []
    if facts.certificate is not None:
        said += _of_alignment(facts.verb, facts.names, facts.certificate)
    if facts.surface is not None:
        barrier, averages = facts.surface["barrier"], f"Among all averages of {join_words(facts.names)}"
        said.append(f"{averages} {_rises(barrier, 'the plane through the models themselves')}.")
    return said


def _of_demo(demo: Data) -> list[str]:
    test, seconds = demo["data"]["test"], demo["seconds"]
    return [
        demo["conclusion"],
        f"Merged, by learned alignment: {demo['verdict']}.",
        f"The models are {demo['models']}: trained here for {demo['steps']:,} steps each, from different first weights "
        f"and in a different order of the same data ({demo['data']['train']['data']}).",
        f"All figures are measured on {test['samples']:,} samples of {test['data']}, which no model was trained on. "
        f"Everything took {seconds['all']:.0f} seconds, {seconds['training']:.0f} of them training.",
    ]


def _rises(barrier: Data, above: str) -> str:
    if barrier["loss"] <= 0:
        return f"there is no barrier: nowhere is the loss above {above}"
    return f"the loss rises by up to {plus_minus(barrier['loss'], barrier['standard_error'])} above {above}"


def _of_curve(curve: Data) -> str:
    barrier, metric = curve["barrier"], metric_of(curve)
    a, b = curve["ends"]["a"], curve["ends"]["b"]
    ends = " and ".join(name_metric(value_of(end, metric), metric) for end in (a, b))
    way = _rises(barrier, "the straight line between its ends")
    if barrier["loss"] <= 0:
        verdict = "The models lie in one basin."
    elif barrier["loss"] <= 2 * barrier["standard_error"]:
        verdict = "There is no barrier beyond the error of the measurement: the models lie in one basin."
    elif barrier["loss"] < 0.1 * max(a["loss"], b["loss"]):
        verdict = "The barrier is small beside the losses of the models."
    else:
        verdict = "The models lie in different basins as they are; `onebasin align` looks for a common one."
    where = f", at λ = {barrier['share']:.2g}" if barrier["loss"] > 0 else ""
    task = f", on {curve['on']}," if "on" in curve else ""
    return f"On the way from {curve['a']} to {curve['b']}{task} {way}{where}. The end points reach {ends}. {verdict}"


def _of_alignment(verb: str, names: Sequence[str], report: Data) -> list[str]:
    how = f"by the method {report['method']}"
    if verb == "merge":
        shares = [f"{share:.3g} of {name}" for name, share in zip(names, report["shares"], strict=True)]
        said = [f"{join_words(shares)}, aligned {how} and averaged.", *describe_merging(report)]
        said.append(f"Merged: {report['verdict']}.")
    else:
        said = [f"{join_words(names[1:])} in the basis of {names[0]}, found {how}."]
    said += list(dict.fromkeys(describe_exactness(model) for model in aligned_models(report)))
    said += [f"In the file, {describe_written(own)}." for own in report["written"].values()]
    if "why" in report:
        said.append(f"How it was found: {report['why']}.")
    elif "learning" in report:
        before, after = report["learning"]["history"][0]["midpoint"], report["learning"]["midpoint"]
        said.append(f"Learning took the midpoint's loss from {before:.3g} to {after:.3g}.")
    return said


def describe_exactness(certificate: Data) -> str:
    """Whether the moved model computes what it did, in words."""
    moved = certificate["output_drift"]["float64"]
    drift = difference(moved)
    if keeps_promise(moved, certificate["largest_output"]):
        return f"The moved model computes what it did before: in float64 its outputs differ by {drift}."
    if not certificate.get("learning", {}).get("function_kept", True):
        return f"The moved model is close to the original, not equal: soft permutations moved its outputs by {drift}."
    return f"The outputs of the moved model differ by {drift} in float64, more than {PROMISE:g}: look at it with care."
