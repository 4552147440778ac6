"""The least that a recipe says, verb by verb."""

TASK = {"data": "builtin:python", "samples": 4, "length": 8}
LEAST = {
    "align": {"onebasin": 2, "verb": "align", "models": ["a", "b"]},
    "merge": {"onebasin": 2, "verb": "merge", "models": ["a", "b"]},
    "barrier": {"onebasin": 2, "verb": "barrier", "models": ["a", "b"], "task": TASK},
}
WEIGHT = {**LEAST["align"], "method": "weight"}
