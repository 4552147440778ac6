"""The size that two models have in common."""

from __future__ import annotations

from dataclasses import replace
from itertools import count, product

import pytest

from helpers.pairs import CLASSES as ONE_EACH
from helpers.pairs import open_random
from helpers.random_models import rope
from onebasin import Checkpoint
from onebasin.canonical.structure import canonical_spec
from onebasin.errors import Incompatible, NotExpressible
from onebasin.spec import ModelSpec
from onebasin.widening.embeddings import embeddings
from onebasin.widening.target import _tied, common_config, fields_of, target_config, target_spec

OWN = "bloom", "gemma3_text", "gptj", "opt"  # labelled heads, or positions or widths with settings of their own
PAIRS = list(product((kind for kind in ONE_EACH if kind not in OWN), [(0, 1), (2, 4), (3, 5)]))


@pytest.mark.parametrize(("model_type", "seeds"), PAIRS)
def test_the_common_size_serves_both_and_no_smaller_one_does(tmp_path, model_type, seeds):
    same = {"num_hidden_layers": 1, "n_layer": 1, **rope(100.0, 1.0), "layer_types": ["full_attention"]}
    same |= {"mlp_only_layers": [], "clip_qkv": None}
    pair = [open_random(tmp_path / str(s), model_type, s, s, **same) for s in seeds]
    a, b = (canonical_spec(c) for c in pair)
    settings = common_config(a, b)
    assert all(serves(c, spec, settings) for c, spec in zip(pair, (a, b), strict=True))
    fields = fields_of(a)
    for role in ("residual", "heads", "kv_heads", "head", "ffn", "expert_ffn", "shared_ffn"):
        if fields.get(role) in settings:
            less = {**settings, fields[role]: settings[fields[role]] - 1}
            assert not all(serves(c, spec, less) for c, spec in zip(pair, (a, b), strict=True))


@pytest.mark.parametrize(("queries", "step", "head_step"), list(product((1, 2), (1, 6), (1, 2))))
def test_a_width_that_heads_share_is_the_smallest_that_is_enough_in_everything(queries, step, head_step):
    """Where the head width is residual width / heads: heads may be more or wider than asked for, never fewer."""
    for width, groups, head in product((6, 12, 18), (1, 2, 3, 5), (2, 4)):
        asked = {"residual": width, "heads": groups * queries, "kv_heads": groups, "head": head}
        found = _tied(asked, queries, step, head_step)
        enough = (
            w for w in count(width, step) for h in range(head, w + 1, head_step)
            if w % (h * queries) == 0 and w // (h * queries) >= groups
        )  # fmt: skip
        assert found["residual"] == next(enough)
        assert found["residual"] == found["heads"] * found["head"]
        assert found["heads"] == found["kv_heads"] * queries
        assert all(found[role] >= size for role, size in asked.items())
        assert (found["head"] - head) % head_step == 0


def serves(c: Checkpoint, spec: ModelSpec, settings: dict[str, int]) -> bool:
    eps = fields_of(spec)["eps"]
    try:
        target = target_spec(spec, target_config(c, {k: v for k, v in settings.items() if k != eps}))
        embeddings(spec, replace(target, constants=spec.constants))
    except (NotExpressible, Incompatible):
        return False
    return True
