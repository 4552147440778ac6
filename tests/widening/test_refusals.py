"""What widening cannot keep, it refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest
import transformers

from helpers.exactness import EXACT
from helpers.growing import drift
from helpers.pairs import open_random
from helpers.random_models import rope
from onebasin import widen
from onebasin.canonical.structure import canonical_spec
from onebasin.errors import Incompatible, NotExpressible
from onebasin.widening.embeddings import _stretch as stretch

YARN = rope(rope_type="yarn", factor=2.0, original_max_position_embeddings=24)
REFUSED = {
    "smaller": ("llama", {}, {"intermediate_size": 2}, "smaller"),
    "fewer groups": ("llama", {}, {"num_key_value_heads": 1}, "smaller"),
    "vocabulary": ("llama", {}, {"vocab_size": 500}, "nothing else"),
    "depth": ("vit", {}, {"num_hidden_layers": 7}, "nothing else"),
    "activation": ("bert", {}, {"hidden_act": "tanh"}, "nothing else"),
    "a slip of the pen": ("bert", {}, {"hiden_size": 64}, "hidden_size\\?"),
    "a frequency that is not there": ("llama", {}, {"head_dim": 12}, "rotary frequencies"),
    "frequencies that look at the width": ("llama", YARN, {"head_dim": 16}, "rotary frequencies"),
    "coordinates that do not repeat": ("bert", {}, {"hidden_size": 36}, "repeating every coordinate"),
    "slopes of more heads": ("bloom", {"n_head": 3}, {"n_head": 6, "hidden_size": 48}, "slopes of heads"),
    "a head with a part that is not rotated": ("gptj", {"rotary_dim": 8}, {"n_embd": 48}, "other spaces"),
    "no integer head width": ("vit", {}, {"hidden_size": 26}, "integer head width|multiple"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_exact_is_refused(tmp_path, case):
    model_type, changes, settings, says = REFUSED[case]
    sizes = {"hidden_size": 24, "num_attention_heads": 3, "num_key_value_heads": 3, "head_dim": 8} | changes
    small = open_random(tmp_path / "m", model_type, 3, 5, **sizes)
    with pytest.raises((NotExpressible, Incompatible), match=says) as caught:
        widen(small, settings)
    assert caught.value.next_step


def test_copies_of_heads_count_in_a_norm_over_all_heads(tmp_path):
    small = open_random(tmp_path / "m", "olmo2", 3, 5)
    more = {"num_attention_heads": 6, "num_key_value_heads": 6, "head_dim": 4, "hidden_size": 24}
    assert drift(small, widen(small, more)) < EXACT
    with pytest.raises(NotExpressible, match="Copies of heads"):
        widen(small, more, extra="split")


def test_clipped_queries_are_not_scaled(tmp_path):
    for clip in (None, 0.7):
        small = open_random(tmp_path / str(clip), "olmo", 3, 5, "OlmoForCausalLM", clip_qkv=clip)
        if clip is None:
            assert drift(small, widen(small, {"head_dim": 8})) < EXACT
        else:
            with pytest.raises(NotExpressible, match="clipped"):
                widen(small, {"head_dim": 8})


def test_a_configuration_is_a_target_too(tmp_path):
    small = open_random(tmp_path / "m", "gpt2", 3, 5)
    config = transformers.AutoConfig.from_pretrained(tmp_path / "m")
    config.n_inner = 99
    assert drift(small, widen(small, config)) < EXACT
    config.n_positions += 1
    with pytest.raises(Incompatible, match="n_positions"):
        widen(small, config)


@pytest.mark.parametrize(("first", "others"), [(4, 4), (4, 9)])
def test_norms_of_one_stream_are_stretched_alike_or_not_at_all(tmp_path, first, others):
    small = canonical_spec(open_random(tmp_path, "llama", 1, 0))
    factors = dict(zip(small.norms, [first, *[others] * len(small.norms)], strict=False))
    norms = {name: replace(norm, eps=factors[name] * norm.eps) for name, norm in small.norms.items()}
    large = replace(small, norms=norms)
    if first == others:
        assert stretch("residual", small, large) == pytest.approx(2)
    else:
        with pytest.raises(NotExpressible, match="a stream that can be stretched"):
            stretch("residual", small, large)
